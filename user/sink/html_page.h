/* SPDX-License-Identifier: BSD-2-Clause */
/* The page around the data of an HTML report, as sink/html/pack.py makes it at build time. */
#pragma once
#include <stddef.h>

extern const struct html_page {
	const unsigned char *packed; /* zstd */
	size_t packed_size, size;
	size_t head_size; /* of the page, what comes before the data */
} html_page;

/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of the targets' processes and of the machine. What takes no lock of a process is read each
 * interval; what does is asked of a prober every --smaps. */
#pragma once
#include <stdint.h>

struct source;

struct memory_options {
	uint64_t smaps_ns; /* 0: smaps is never read */
	/* For tests; NULL: the kernel's own. */
	const char *meminfo, *pressure, *dmabufs, *gpu_map;
};

/* The texts of the options must outlive the source. NULL with errno ENOMEM. */
struct source *memory_source_new(const struct memory_options *options);

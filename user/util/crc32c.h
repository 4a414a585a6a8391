/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* CRC-32C (Castagnoli, RFC 3720 appendix B.4) of length bytes. Start with crc 0; pass the result
 * to go on over further bytes. */
uint32_t crc32c(uint32_t crc, const void *data, size_t length);
/* The same on a CPU without an instruction for it. */
uint32_t crc32c_by_table(uint32_t crc, const void *data, size_t length);

/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/crc32c.h"

#include <string.h>
#ifdef __aarch64__
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#define POLYNOMIAL_REFLECTED 0x82f63b78u

/* A nibble table: 64 bytes of constants instead of 1 KiB. */
static uint32_t step(uint32_t crc)
{
	for (int bit = 0; bit < 4; bit++)
		crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL_REFLECTED : 0);
	return crc;
}

uint32_t crc32c_by_table(uint32_t crc, const void *data, size_t length)
{
	const uint8_t *p = data;
	uint32_t table[16];

	for (uint32_t i = 0; i < 16; i++)
		table[i] = step(i);
	crc = ~crc;
	while (length--) {
		crc ^= *p++;
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return ~crc;
}

/* A record of a block has some KiB, and at 60 of them a second the table takes a twentieth of the
 * recorder's time. Both architectures have an instruction for this very polynomial; not each CPU of
 * them has it. */
#if defined(__x86_64__)
#define HAS_INSTRUCTION      __builtin_cpu_supports("sse4.2")
#define TARGET               __attribute__((target("sse4.2")))
#define CRC_OF_8(crc, words) ((uint32_t)__builtin_ia32_crc32di(crc, words))
#define CRC_OF_1(crc, byte)  __builtin_ia32_crc32qi(crc, byte)
#elif defined(__aarch64__)
#define HAS_INSTRUCTION      (getauxval(AT_HWCAP) & HWCAP_CRC32)
#define TARGET               __attribute__((target("+crc")))
#define CRC_OF_8(crc, words) __crc32cd(crc, words)
#define CRC_OF_1(crc, byte)  __crc32cb(crc, byte)
#endif

TARGET static uint32_t by_instruction(uint32_t crc, const uint8_t *p, size_t length)
{
	uint64_t word;

	crc = ~crc;
	for (; length >= sizeof(word); p += sizeof(word), length -= sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		crc = CRC_OF_8(crc, word);
	}
	while (length--)
		crc = CRC_OF_1(crc, *p++);
	return ~crc;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t length)
{
	return HAS_INSTRUCTION ? by_instruction(crc, data, length)
			       : crc32c_by_table(crc, data, length);
}

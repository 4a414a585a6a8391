/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "crc_reference.h"
#include "util/crc32c.h"

/* RFC 3720, appendix B.4. */
Test(crc32c, vectors_of_the_rfc)
{
	uint8_t bytes[32];

	memset(bytes, 0, sizeof(bytes));
	cr_expect_eq(crc32c(0, bytes, 32), 0x8a9136aa);
	memset(bytes, 0xff, sizeof(bytes));
	cr_expect_eq(crc32c(0, bytes, 32), 0x62a8ab43);
	for (int i = 0; i < 32; i++)
		bytes[i] = (uint8_t)i;
	cr_expect_eq(crc32c(0, bytes, 32), 0x46dd794e);
	for (int i = 0; i < 32; i++)
		bytes[i] = (uint8_t)(31 - i);
	cr_expect_eq(crc32c(0, bytes, 32), 0x113fdb5c);
	cr_expect_eq(crc32c(0, "123456789", 9), 0xe3069283);
	cr_expect_eq(crc32c(0, "", 0), 0);
}

Test(crc32c, any_split_gives_the_same_and_agrees_with_the_reference)
{
	uint8_t bytes[301];

	srand(7);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)rand();
	for (size_t split = 0; split <= sizeof(bytes); split += 7) {
		uint32_t first = crc32c(0, bytes, split);

		cr_expect_eq(crc32c_by_table(0, bytes, split), first);
		cr_expect_eq(first, reference_crc32c(bytes, split));
		cr_expect_eq(crc32c(first, bytes + split, sizeof(bytes) - split),
			     reference_crc32c(bytes, sizeof(bytes)));
	}
}

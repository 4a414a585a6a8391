/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util/pages.h"

static bool is_mapped(void *block, size_t page)
{
	void *at = (void *)((uintptr_t)block & ~(page - 1));

	return !msync(at, page, MS_ASYNC);
}

static bool is_zero(const uint8_t *block, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (block[i])
			return false;
	return true;
}

Test(pages, a_large_block_is_a_mapping_that_goes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *block = pages_new(page), *other = pages_new(3 * page);

	cr_assert(block && other);
	cr_expect_eq(pages_held_bytes(page), 2 * page, "with what is in front of it");
	cr_expect_eq((uintptr_t)block % 16, 0);
	cr_expect(is_zero(block, page) && is_zero(other, 3 * page));
	memset(block, 1, page);
	memset(other, 1, 3 * page);
	cr_expect(is_mapped(block, page) && is_mapped(other + 3 * page - 1, page));
	pages_free(block);
	cr_expect(!is_mapped(block, page) && errno == ENOMEM);
	cr_expect(is_mapped(other, page));
	pages_free(other);
	cr_expect(!is_mapped(other + 3 * page - 1, page));
}

Test(pages, a_small_block_shares_its_page)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *block = pages_new(100), *none = pages_new(0);

	cr_assert(block && none);
	cr_expect_leq(pages_held_bytes(100), 128);
	cr_expect_eq((uintptr_t)block % 16, 0);
	cr_expect(is_zero(block, 100));
	memset(block, 1, 100);
	pages_free(none);
	cr_expect(is_mapped(block, page), "its page is the heap's");
	pages_free(block);
	pages_free(NULL);
}

Test(pages, more_than_there_is_is_none)
{
	cr_expect_null(pages_new(SIZE_MAX));
	cr_expect_eq(errno, ENOMEM);
	cr_expect_null(pages_new(SIZE_MAX - 8));
	cr_expect_null(pages_new(SIZE_MAX / 4));
	cr_expect_eq(errno, ENOMEM);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "kernel/objects.h"

/* Every object that the binary carries comes out whole. */
Test(objects, unpack)
{
	size_t count = 0, size;

	for (const struct bpf_object_packed *packed = bpf_objects_packed; packed->name; packed++) {
		const void *bytes = bpf_object_bytes(packed->name, &size);

		cr_assert_not_null(bytes, "%s", packed->name);
		cr_expect_eq(size, packed->unpacked_size);
		cr_expect_lt(packed->size, size / 2);
		cr_expect_eq(memcmp(bytes, "\177ELF", 4), 0);
		bpf_object_release(bytes);
		count++;
	}
	cr_expect_eq(count, 6);
	errno = 0;
	cr_expect_null(bpf_object_bytes("nothing", &size));
	cr_expect_eq(size, 0);
	cr_expect_eq(errno, ENOENT);
}

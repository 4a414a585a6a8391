/* SPDX-License-Identifier: BSD-2-Clause */
#include "proc/selinux.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char context_file[] = "/tmp/test-selinux-c-XXXXXX";
static char enforce_file[] = "/tmp/test-selinux-e-XXXXXX";

static void make(void)
{
	close(mkstemp(context_file));
	close(mkstemp(enforce_file));
}

static void remove_both(void)
{
	unlink(context_file);
	unlink(enforce_file);
}

TestSuite(selinux, .init = make, .fini = remove_both);

static void put(const char *path, const char *bytes, size_t length)
{
	FILE *file = fopen(path, "w");

	cr_assert_not_null(file);
	cr_assert_eq(fwrite(bytes, 1, length, file), length);
	fclose(file);
}

static struct selinux read_of(const char *context, size_t length, const char *enforce)
{
	struct selinux selinux;

	put(context_file, context, length);
	put(enforce_file, enforce, strlen(enforce));
	selinux_read(&selinux, context_file, enforce_file);
	return selinux;
}

#define READ(context, enforce) read_of(context, sizeof(context) - 1, enforce)

Test(selinux, contexts)
{
	/* The kernel's own ends with a zero byte, some with a line end. */
	cr_expect_str_eq(READ("u:r:su:s0\0", "1").context, "u:r:su:s0");
	cr_expect_str_eq(READ("u:r:magisk:s0\n", "1").context, "u:r:magisk:s0");
	cr_expect_str_eq(READ("u:r:app:s0:c12,c256", "1").context, "u:r:app:s0:c12,c256");
	cr_expect_str_eq(READ("docker-default (enforce)\n", "1").context, "", "AppArmor's");
	cr_expect_str_eq(READ("unconfined\n", "1").context, "");
	cr_expect_str_eq(READ("a:b:\x1b[31m", "1").context, "", "no text");
	cr_expect_str_eq(READ("", "1").context, "");
}

Test(selinux, enforcing)
{
	struct selinux selinux;

	cr_expect(!READ("u:r:su:s0", "1").permissive);
	cr_expect(READ("u:r:su:s0", "0").permissive);
	cr_expect(READ("unconfined", "1").permissive, "no SELinux, nothing to refuse");
	unlink(enforce_file);
	selinux_read(&selinux, context_file, enforce_file);
	cr_expect(selinux.permissive);
	put(context_file, "u:r:su:s0", 9);
	selinux_read(&selinux, context_file, enforce_file);
	cr_expect(!selinux.permissive, "what cannot be read is taken to enforce");
	selinux_read(&selinux, "/nowhere/at/all", "/nowhere/at/all");
	cr_expect_str_eq(selinux.context, "");
}

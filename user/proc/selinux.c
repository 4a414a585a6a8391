/* SPDX-License-Identifier: BSD-2-Clause */
#include "proc/selinux.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>

#include "proc/read.h"

/* The first line; "" where there is none. */
static void first_line(const char *path, char *text, size_t size)
{
	if (proc_read(AT_FDCWD, path, text, size) < 0)
		text[0] = 0;
	text[strcspn(text, "\n")] = 0;
}

static bool is_context(const char *text)
{
	size_t colons = 0;

	for (const char *p = text; *p; p++) {
		if (*p <= ' ' || *p > '~')
			return false;
		colons += *p == ':';
	}
	return colons >= 2;
}

void selinux_read(struct selinux *selinux, const char *context_file, const char *enforce_file)
{
	char enforce[8];

	first_line(context_file, selinux->context, sizeof(selinux->context));
	if (!is_context(selinux->context))
		selinux->context[0] = 0;
	first_line(enforce_file, enforce, sizeof(enforce));
	selinux->permissive = !selinux->context[0] || !strcmp(enforce, "0");
}

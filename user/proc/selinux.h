/* SPDX-License-Identifier: BSD-2-Clause */
/* Which SELinux context this process has, and whether SELinux enforces. */
#pragma once
#include <stdbool.h>

#define SELINUX_CONTEXT_BYTES 128

struct selinux {
	char context[SELINUX_CONTEXT_BYTES]; /* user:role:type:level; "": SELinux is not in use */
	bool permissive;                     /* it is known that nothing is refused */
};

#define SELINUX_CONTEXT_FILE "/proc/self/attr/current"
#define SELINUX_ENFORCE_FILE "/sys/fs/selinux/enforce"

/* Read both from these files. Another security module writes names of its own into the first, which
 * are no contexts. A domain may be kept from reading the second: then it is taken to enforce. */
void selinux_read(struct selinux *selinux, const char *context_file, const char *enforce_file);

/* SPDX-License-Identifier: BSD-2-Clause */
/* Which processes a run has, and with which rights: found by starting each of them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "jankscope/record.h"

struct doctor_process {
	const char *name; /* "recorder", "warden", "prober", "sampler", "unwinder" */
	bool ok;          /* it runs, and the rest is known */
	uid_t uid;
	uint64_t capabilities; /* effective, in bits */
	bool all_capabilities; /* as many as doctor itself has */
	bool no_new_privs;
	int seccomp;                         /* 0 off, 1 strict, 2 filter; -1: not known */
	int nice, nice_lowest;               /* of its first thread, and of the most urgent one */
	struct opt_u64 address_bytes, cpu_s; /* what it may take at the most (RLIMIT_AS, _CPU) */
	char reason[96];                     /* why not ok */
};

/* At most room; their number. The recorder's row is that of `record` without targets and net. */
size_t doctor_processes(struct doctor_process *rows, size_t room);
/* "bpf net_admin", "none", or "all". */
void doctor_capabilities(const struct doctor_process *row, char *text, size_t size);

/* SPDX-License-Identifier: BSD-2-Clause */
/* interval: context, which the device and the targets were in at its end. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum context_state {
	CONTEXT_FOREGROUND = 0, /* shown to the user */
	CONTEXT_BACKGROUND = 1,
	CONTEXT_CACHED = 2, /* kept only to start faster the next time */
	CONTEXT_FROZEN = 3,
	CONTEXT_STATES = 4,
};

struct record_process_context {
	pid_t pid;
	uint64_t start_boot_ns;
	uid_t uid;
	const char *process, *package;
	enum context_state state;
	/* Its state at the beginning of the interval was another one, or is not known. */
	bool changed;
	int64_t oom_score_adj;
};

struct record_context {
	bool present;
	const char *screen;   /* on, off; NULL: not known */
	const char *charging; /* yes, no; NULL: not known */
	struct record_process_context *processes;
	size_t process_count;
};

/* SPDX-License-Identifier: BSD-2-Clause */
/* What the recorder and the process that runs commands say to each other. */
#pragma once
#include <stdint.h>

#include "alert/command.h"

#define RUN_VARIABLES_BYTES 2048

/* Before the words and the variables, each with its NUL. */
struct run_request {
	uint32_t words, variables;           /* how many */
	uint32_t word_bytes, variable_bytes; /* in sum */
};

enum run_end {
	RUN_STARTED = 1,
	RUN_ENDED = 2, /* status: as of waitpid */
	RUN_KILLED = 3,
	RUN_REFUSED = 4, /* too many run, or fork failed */
};

struct run_answer {
	uint32_t end; /* enum run_end; never HELPER_HELLO */
	int32_t status;
};

/* Of a child that could not execute the command; as a shell says it. */
#define RUN_NOT_FOUND 127

/* SPDX-License-Identifier: BSD-2-Clause */
/* A struct stack_files for the unwinder process: it asks the recorder over its socket and waits.
 * When the recorder is gone, or says what makes no sense, the process ends. */
#pragma once
#include "jankscope/stack.h"
#include "stack/unwinder_wire.h"

struct files_remote {
	int socket;
	uint64_t job; /* at work; the recorder knows its process */
	uint64_t number;
	struct stack_file_version reading; /* said last */
	/* questions that came while an answer was waited for, the oldest first; each an allocation
	 */
	struct put_off {
		void *question;
		size_t length;
		int fd; /* -1: none */
	} queue[WIRE_WINDOW];
	size_t queued;
	/* an answer, or a question in its place */
	uint8_t bytes[sizeof(union wire_question)];
};
_Static_assert(sizeof(union wire_question) >= sizeof(struct wire_answer) + WIRE_MEMORY_BYTES,
	       "either fits");

struct remote_question {
	union wire_question question;
	size_t length;
	int fd; /* -1: none */
};

/* remote is borrowed. */
struct stack_files files_remote(struct files_remote *remote);
/* Wait for the next question. Its descriptor is the caller's. Ends the process with the recorder.
 */
void files_remote_next(struct files_remote *remote, struct remote_question *next);
/* A new job begins. */
void files_remote_begin(struct files_remote *remote, uint64_t job);
/* Whether a file may be read: not one that the unwinder hung on before. 0 or -errno. */
int files_remote_may_read(struct files_remote *remote, const struct stack_file_version *file);

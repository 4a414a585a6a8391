/* SPDX-License-Identifier: BSD-2-Clause */
/* Print the stack of a thread the way the library sees it; the oracle test compares it with
 * eu-stack's and gdb's. usage: stack_dump PID[:TID] [auto|perf|ptrace|kernel] [STACK_BYTES] */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stack/files_direct.h"

static const char *const kinds[] = {"snapshot", "perf", "ptrace", "kernel"};
static const char *const methods[] = {"start", "cfi", "signal", "link", "fp", "scan", "quick"};

int main(int argc, char **argv)
{
	struct stack_files files = files_direct("");
	struct stack_unwinder *unwinder;
	struct unwound *unwound;
	enum stack_request request = STACK_PTRACE;
	struct stack_thread thread = {.pidfd = -1};
	struct stack_capturer *capturer;
	struct stack_capture *capture;
	struct stack_trace trace;
	char *colon;
	int err = 0;

	if (argc < 2)
		return 2;
	thread.pid = atoi(argv[1]);
	colon = strchr(argv[1], ':');
	thread.tid = colon ? atoi(colon + 1) : thread.pid;
	if (argc > 2 && !strcmp(argv[2], "auto"))
		request = STACK_AUTO;
	else if (argc > 2 && !strcmp(argv[2], "perf"))
		request = STACK_PERF;
	else if (argc > 2 && !strcmp(argv[2], "kernel"))
		request = STACK_KERNEL;
	capturer = stack_capturer_new(&(struct stack_capture_config){0});
	unwinder = stack_unwinder_new(&(struct stack_unwind_config){.files = &files});
	capture = stack_capture_new(argc > 3 ? strtoul(argv[3], NULL, 0) : 0);
	if (!capturer || !unwinder || !capture || stack_trace_init(&trace)) {
		perror("stack_dump");
		return 1;
	}
	/* A busy machine may give the target no CPU to stop on for 20 ms. */
	for (unsigned i = 0; i < 50 && (err = stack_capture(capturer, &thread, request, capture));
	     i++) {
		if (capture->failure != STACK_DEADLINE && capture->failure != STACK_WORKER_LOST &&
		    capture->failure != STACK_OFF_CPU)
			break;
	}
	if (err) {
		printf("no capture: %s\n", stack_failure_text(capture->failure));
		return 3;
	}
	if (!capture->registers.valid)
		unwound = unwound_from_kernel(capture);
	else
		unwound = stack_unwind(unwinder, capture, &trace) ? NULL
								  : stack_unwound(unwinder, &trace);
	if (!unwound)
		return 1;
	printf("capture %s; %s; %s; %zu bytes; %s\n", kinds[capture->kind],
	       stack_failure_text(capture->failure), stack_end_text(unwound->end),
	       capture->stack_bytes, unwound->complete ? "complete" : "incomplete");
	for (size_t i = 0; i < unwound->count; i++) {
		const struct unwound_frame *frame = &unwound->frames[i];

		printf("#%zu 0x%016" PRIx64 " %s %s %s+0x%" PRIx64 "\n", i, frame->pc,
		       frame->symbol ?: "?", methods[frame->method], frame->module ?: "?",
		       frame->offset);
	}
	free(unwound);
	stack_trace_free(&trace);
	stack_capture_free(capture);
	stack_unwinder_free(unwinder);
	stack_capturer_free(capturer);
	return 0;
}

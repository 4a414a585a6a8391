/* SPDX-License-Identifier: BSD-2-Clause */
/* The last rung: what the kernel tells of a thread whose user stack cannot be had. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stack/capture.h"
#include "util/clock.h"
#include "proc/read.h"

/* Lines of /proc/TID/stack: "[<0>] symbol+0x1b/0x80"; the address is hidden, the symbol is not. */
static void parse_frames(struct stack_capture *capture, char *text)
{
	char *line, *rest = text;

	while ((line = strsep(&rest, "\n")) && capture->kernel_frame_count < STACK_KERNEL_FRAMES) {
		char *name = strstr(line, "] "), *end;

		if (!name)
			continue;
		name += 2;
		end = strpbrk(name, "+ ");
		if (end)
			*end = 0;
		if (*name &&
		    (capture->kernel_frames[capture->kernel_frame_count] = strndup(name, 128)))
			capture->kernel_frame_count++;
	}
}

enum stack_failure capture_kernel(const char *root, const struct stack_thread *thread,
				  struct stack_capture *capture)
{
	struct thread_status status;
	char text[4096];
	enum stack_failure failure = thread_status_read(root, thread->pid, thread->tid, &status);

	if (failure)
		return failure;
	capture->kind = CAPTURE_KERNEL;
	capture->state = status.state;
	capture->registers = (struct stack_registers){.arch = STACK_HOST_ARCH, .syscall_nr = -1};
	capture->stack_bytes = 0;
	capture->t_boot_ns = clock_now_ns(CLOCK_BOOTTIME);
	if (proc_read_of_thread(root, thread->pid, thread->tid, "wchan", text, sizeof(text)) > 0 &&
	    strcmp(text, "0"))
		snprintf(capture->wchan, sizeof(capture->wchan), "%.60s", text);
	if (proc_read_of_thread(root, thread->pid, thread->tid, "syscall", text, sizeof(text)) >
		    0 &&
	    text[0] >= '0' && text[0] <= '9')
		capture->registers.syscall_nr = strtol(text, NULL, 10);
	if (proc_read_of_thread(root, thread->pid, thread->tid, "stack", text, sizeof(text)) > 0)
		parse_frames(capture, text);
	/* Without CONFIG_STACKTRACE or its permission: where it waits is one frame. */
	if (!capture->kernel_frame_count && capture->wchan[0] &&
	    (capture->kernel_frames[0] = strdup(capture->wchan)))
		capture->kernel_frame_count = 1;
	return STACK_OK;
}

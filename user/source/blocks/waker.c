/* SPDX-License-Identifier: BSD-2-Clause */
/* From what the kernel side saw in a wake-up to the waker of a record. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "source/blocks/source.h"
#include "stack/registers.h"

/* The calls that wake others most. NULL: another one. */
static const char *call_name(int64_t number)
{
	switch (number) {
	case SYS_futex:
		return "futex";
	case SYS_write:
	case SYS_writev:
	case SYS_pwrite64:
		return "write";
	case SYS_read:
	case SYS_readv:
		return "read";
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_sendmmsg:
		return "send";
	case SYS_ioctl:
		return "ioctl";
	case SYS_close:
		return "close";
	case SYS_kill:
	case SYS_tkill:
	case SYS_tgkill:
	case SYS_rt_sigqueueinfo:
	case SYS_rt_tgsigqueueinfo:
		return "signal";
	case SYS_exit:
	case SYS_exit_group:
		return "exit";
	case SYS_execve:
	case SYS_execveat:
		return "exec";
	case SYS_splice:
	case SYS_sendfile:
		return "splice";
	case SYS_munmap:
	case SYS_mmap:
	case SYS_mprotect:
	case SYS_madvise:
		return "memory mapping";
	}
	return NULL;
}

static void tell_what(struct block_wake *wake, const struct looper_waker_event *event,
		      const struct stack_registers *registers)
{
	const char *name = NULL;

	if (event->failure == LOOPER_WAKER_IS_KERNEL)
		name = "kernel";
	else if (event->exiting)
		name = "exit";
	else if (registers)
		name = registers->syscall_nr < 0 ? "no system call"
						 : call_name(registers->syscall_nr);
	if (name)
		snprintf(wake->what, sizeof(wake->what), "%s", name);
	else if (registers)
		snprintf(wake->what, sizeof(wake->what), "system call %d",
			 (int)registers->syscall_nr);
}

static const char *why_no_stack(const struct looper_waker_event *event)
{
	switch (event->failure) {
	case LOOPER_WAKER_IS_KERNEL:
		return "it is a thread of the kernel";
	case LOOPER_WAKER_ENDED:
		return "it was ending and had no memory any more";
	case LOOPER_WAKER_UNREADABLE:
		return "its stack was not in memory";
	}
	return NULL;
}

static struct stack_capture *make_capture(const struct looper_waker_stack *from,
					  const struct stack_registers *registers,
					  int64_t boot_minus_mono_ns)
{
	size_t skip = registers_sp(registers) % LOOPER_WAKER_PAGE_BYTES;
	size_t bytes = from->event.stack_bytes;
	struct stack_capture *capture = calloc(1, sizeof(*capture));

	if (!capture)
		return NULL;
	if (bytes > sizeof(from->stack) - skip)
		bytes = sizeof(from->stack) - skip;
	capture->stack = malloc(bytes);
	if (!capture->stack) {
		free(capture);
		return NULL;
	}
	memcpy(capture->stack, from->stack + skip, bytes);
	capture->stack_bytes = capture->stack_room = bytes;
	capture->thread = (struct stack_thread){
		.pid = (pid_t)from->event.tgid,
		.tid = (pid_t)from->event.tid,
		.pidfd = -1,
		.start_boot_ns = from->event.process_start_boot_ns,
	};
	capture->kind = CAPTURE_SNAPSHOT;
	capture->t_boot_ns = from->event.head.end_ns + (uint64_t)boot_minus_mono_ns;
	capture->registers = *registers;
	capture->stack_base = registers_sp(registers);
	return capture;
}

void blocks_on_waker(struct blocks_source *blocks, struct watched *watched,
		     const struct looper_event *head, size_t size)
{
	const struct looper_waker_event *event = (const struct looper_waker_event *)head;
	uint64_t slept_ns = head->end_ns - head->begin_ns;
	struct block_wake *wake = &watched->period.wake;
	struct stack_registers registers, *known = NULL;
	uint64_t words[LOOPER_REGISTER_WORDS];
	struct stack_capture *capture = NULL;
	struct block_sample *sample;

	/* As of a spell: of the period that is followed, or of one that was not met yet. */
	if (watched->period.tracking && watched->period.number > head->period)
		return;
	blocks_begin_period(blocks, watched, head->period, 0);
	if (wake->spell && wake->spell != event->spell && slept_ns < wake->slept_ns)
		return;
	*wake = (struct block_wake){
		.spell = event->spell,
		.slept_ns = slept_ns,
		.tid = (pid_t)event->tid,
		.why = why_no_stack(event),
	};
	if (event->failure == LOOPER_WAKER_TAKEN || event->failure == LOOPER_WAKER_UNREADABLE) {
		memcpy(words, event->words, sizeof(words));
		if (registers_from_kernel(&registers, STACK_HOST_ARCH, words,
					  LOOPER_REGISTER_WORDS))
			wake->why = stack_failure_text(STACK_COMPAT);
		else
			known = &registers;
	}
	tell_what(wake, event, known);
	if (event->failure == LOOPER_WAKER_UNREADABLE)
		blocks->wakers_without_stack++;
	if (wake->why || size < sizeof(struct looper_waker_stack))
		return;
	wake->why = "no stacks were taken then";
	if (!blocks->sampler || blocks->thinned)
		return;
	/* Its process may be gone by the time that the stack is unwound. */
	unwinder_prime(blocks->unwinder, (pid_t)event->tgid,
		       event->process_start_boot_ns / 10000000);
	sample = block_sample_new();
	if (sample)
		capture = make_capture((const struct looper_waker_stack *)head, &registers,
				       watched->period.boot_minus_mono_ns);
	if (!capture) {
		wake->why = "no memory";
		block_sample_put(sample);
		return;
	}
	sample->t_ns = head->end_ns;
	sample->spell = event->spell;
	sample->owner = BLOCK_SAMPLE_WAKER;
	sample->t_boot_ns = capture->t_boot_ns;
	sample->kind = capture->kind;
	blocks_unwind(blocks, sample, capture);
	block_samples_add(&watched->period.samples, sample);
	wake->why = NULL;
}

/* ---- in a record ---- */

static const char *fill_stack(struct block_report *report, struct block_wake_stack *to, int *err)
{
	const struct block_sample *sample = NULL;
	struct unwound *copy;
	size_t count = 0;

	for (size_t i = 0; i < report->sample_count; i++)
		if (report->samples[i]->owner == BLOCK_SAMPLE_WAKER &&
		    report->samples[i]->spell == report->wake.spell)
			sample = report->samples[i];
	if (!sample || sample->state == SAMPLE_LOST)
		return "its stack was lost";
	if (sample->state != SAMPLE_UNWOUND)
		return "its stack was not unwound in time";
	/* Nothing but an address: its process has ended, or runs another program by now. */
	if (!sample->trace->count || !sample->trace->frames[0].module)
		return stack_end_text(sample->trace->end);
	copy = unwound_copy(sample->trace);
	*err = copy ? stack_merge_add(&to->merge, copy, sample->kind, sample->t_boot_ns, 0)
		    : -ENOMEM;
	if (!*err)
		*err = stack_merge_records(&to->merge, &to->stack, &count);
	if (*err || !count)
		return "no memory";
	report->block.waker.stack = to->stack;
	return NULL;
}

int block_waker_fill(struct block_report *report, struct block_wake_stack *to)
{
	struct record_block *block = &report->block;
	const char *why = NULL;
	int err = 0;

	if (!block->waker.present)
		return 0;
	if (report->wake.spell && report->wake.what[0])
		block->waker.what = report->wake.what;
	if (report->no_stacks)
		why = report->no_stacks;
	else if (report->wake.spell)
		why = report->wake.why ?: fill_stack(report, to, &err);
	else if (report->longest_ns < report->block_ns / 2)
		why = "the sleep was shorter than half of the threshold";
	else
		why = "its wake-up was not told: no room, or its loop was not known yet";
	if (why)
		missing_list_set(&block->missing, "waker.stack", why);
	return err;
}

void block_wake_stack_free(struct block_wake_stack *stack)
{
	stack_merge_free(&stack->merge);
	free(stack->stack);
	*stack = (struct block_wake_stack){0};
}

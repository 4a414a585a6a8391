/* SPDX-License-Identifier: BSD-2-Clause */
/* What is told of a watch: its start with what its thread waits in, and what it does without. */
#include <stdio.h>
#include <sys/syscall.h>

#include "source/blocks/source.h"

const char *blocks_loop_name(uint32_t kind)
{
	switch (kind) {
	case LOOPER_WAIT_EPOLL:
		return "epoll";
	case LOOPER_WAIT_POLL:
		return "poll";
	case LOOPER_WAIT_SELECT:
		return "select";
	case LOOPER_WAIT_URING:
		return "io_uring";
	}
	return "none";
}

/* The system calls that threads without a loop sleep in most. NULL: another one. */
static const char *sleep_name(int64_t number)
{
	switch (number) {
	case SYS_futex:
		return "futex";
	case SYS_wait4:
	case SYS_waitid:
		return "wait for a child";
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
		return "nanosleep";
	case SYS_read:
		return "read";
	case SYS_recvfrom:
	case SYS_recvmsg:
		return "recv";
	case SYS_accept:
	case SYS_accept4:
		return "accept";
	case SYS_ioctl:
		return "ioctl";
	case SYS_rt_sigsuspend:
	case SYS_rt_sigtimedwait:
		return "a wait for signals";
	}
	return NULL;
}

/* Why a thread has no loop as far as can be seen. */
static void explain_none(const struct watched *watched, char *text, size_t size)
{
	const struct probe_standing *standing = &watched->start.standing;

	if (blocks_shared_reason(watched))
		snprintf(text, size, "%s", blocks_shared_reason(watched));
	else if (watched->start.stage == WATCHED_REFUSED)
		snprintf(text, size, "%s", watched->probes.refused);
	else if (watched->start.stage != WATCHED_RUNS)
		snprintf(text, size, "the process or the run ended before it could be looked at");
	else if (watched->start.from_birth)
		snprintf(text, size, "the thread has not waited for events since its start");
	else if (sleep_name(standing->syscall_nr))
		snprintf(text, size, "the thread waits in %s, not for events",
			 sleep_name(standing->syscall_nr));
	else if (standing->syscall_nr >= 0)
		snprintf(text, size, "the thread waits in system call %lld, not for events",
			 (long long)standing->syscall_nr);
	else
		snprintf(text, size, "the thread was not seen to wait for events yet");
}

static void add_key(struct record_event *event, const char *name, const char *text, int64_t value)
{
	event->keys[event->key_count++] = (struct event_key){name, text, value};
}

void blocks_tell_loop(struct blocks_source *blocks, struct watched *watched, const char *event_name)
{
	struct record_event event = {.event = event_name};
	struct record record = {.type = RECORD_EVENT, .event = &event};
	char why[128];

	add_key(&event, "pid", NULL, watched->pid);
	if (watched->tid != watched->pid)
		add_key(&event, "tid", NULL, watched->tid);
	if (!watched->start.told) {
		add_key(&event, "uid", NULL, watched->uid);
		add_key(&event, "start_boot_ns", NULL, (int64_t)watched->start_boot_ns);
	}
	add_key(&event, "process", watched->process, 0);
	if (watched->package[0])
		add_key(&event, "package", watched->package, 0);
	add_key(&event, "loop", blocks_loop_name(watched->loop_kind), 0);
	if (watched->loop_kind == LOOPER_WAIT_NONE) {
		explain_none(watched, why, sizeof(why));
		add_key(&event, "why", why, 0);
	}
	blocks->context.emit(blocks->context.emit_ctx, &record);
	watched->start.told = true;
}

void blocks_tell_degraded(struct blocks_source *blocks, const struct watched *watched,
			  const char *why)
{
	struct record_event event = {
		.event = "degraded",
		.keys = {{"pid", NULL, watched->pid},
			 {"source", "blocks", 0},
			 {"detector", blocks_detector_name(blocks, watched->detector), 0},
			 {"reason", why, 0}},
		.key_count = 4,
	};
	struct record record = {.type = RECORD_EVENT, .event = &event};

	blocks->context.emit(blocks->context.emit_ctx, &record);
}

void blocks_tell_news(struct blocks_source *blocks, struct watched *watched)
{
	bool known =
		watched->start.stage == WATCHED_RUNS || watched->start.stage == WATCHED_REFUSED;

	if (!blocks->begun)
		return;
	if (known && !watched->start.told &&
	    !blocks_place_pending(watched, clock_now_ns(CLOCK_MONOTONIC)))
		blocks_tell_loop(blocks, watched, "target_start");
	if (watched->probes.refused[0] && !watched->probes.refused_told) {
		watched->probes.refused_told = true;
		if (blocks->options.detector != LOOPER_BY_SWITCH)
			blocks_tell_degraded(blocks, watched, watched->probes.refused);
	}
}

void blocks_explain_loops(struct blocks_source *blocks, char *text, size_t size)
{
	unsigned others = 0;
	char why[128];
	size_t n = 0;

	text[0] = 0;
	for (uint32_t i = 0; i < blocks_watch_room(blocks->watch); i++) {
		const struct watched *watched = blocks_watch_at(blocks->watch, i);

		if (!watched || watched->start.stage != WATCHED_RUNS ||
		    watched->loop_kind != LOOPER_WAIT_NONE)
			continue;
		if (n) {
			others++;
			continue;
		}
		explain_none(watched, why, sizeof(why));
		n = (size_t)snprintf(text, size, "loop: none in %d: %s", watched->tid, why);
	}
	if (others && n < size)
		snprintf(text + n, size - n, "; and in %u more", others);
}

void blocks_tell_start(struct blocks_source *blocks, struct watched *watched)
{
	if (blocks->begun && !watched->start.told)
		blocks_tell_loop(blocks, watched, "target_start");
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/looper_slot.h"

#include <string.h>
#include <sys/syscall.h>

#include "abi/sched.h"
#include "abi/syscall_reason.h"
#include "util/clock.h"

/* A thread that is not older and began after the recorder did has not waited yet, as far as can be
 * known: its first period began with it. */
#define YOUNG_NS (2 * NSEC_PER_SEC)

#define NR_IO_URING_ENTER 426
#define NR_EPOLL_PWAIT2   441
#define URING_GETEVENTS   1

enum looper_wait looper_wait_of(int64_t nr, const uint64_t arguments[6], int32_t *fd)
{
	*fd = -1;
	switch (nr) {
#ifdef SYS_epoll_wait
	case SYS_epoll_wait:
#endif
	case SYS_epoll_pwait:
	case NR_EPOLL_PWAIT2:
		*fd = (int32_t)arguments[0];
		return LOOPER_WAIT_EPOLL;
#ifdef SYS_poll
	case SYS_poll:
#endif
	case SYS_ppoll:
		return (uint32_t)arguments[1] ? LOOPER_WAIT_POLL : LOOPER_WAIT_NONE;
#ifdef SYS_select
	case SYS_select:
#endif
	case SYS_pselect6:
		return (int32_t)arguments[0] > 0 ? LOOPER_WAIT_SELECT : LOOPER_WAIT_NONE;
	case NR_IO_URING_ENTER:
		if (!(uint32_t)arguments[2] || !(arguments[3] & URING_GETEVENTS))
			return LOOPER_WAIT_NONE;
		*fd = (int32_t)arguments[0];
		return LOOPER_WAIT_URING;
	}
	return LOOPER_WAIT_NONE;
}

static uint32_t off_state_of(char state)
{
	switch (state) {
	case 'R':
		return OFF_CPU_RUNNABLE;
	case 'D':
		return OFF_CPU_UNINTERRUPTIBLE;
	case 'T':
	case 't':
		return OFF_CPU_STOPPED;
	}
	return OFF_CPU_SLEEPING;
}

/* The probe behind the system call will see the end of this wait. */
static bool passes_probe(const struct looper_slot *slot, uint64_t program_counter)
{
	if (slot->detector != LOOPER_BY_UPROBE)
		return false;
	for (int i = 0; i < LOOPER_PROBED_RETURNS; i++)
		if (slot->probed_return[i] && slot->probed_return[i] == program_counter)
			return true;
	return false;
}

static void stand_in_wait(struct looper_slot *slot, enum looper_wait kind, int32_t fd,
			  const struct probe_standing *standing)
{
	slot->waiting_kind = kind;
	slot->waiting_fd = fd;
	slot->waiting_stack[LOOPER_WAY_CALL] = standing->stack_pointer;
	slot->waiting_own = 1;
	slot->waiting_seen_by = passes_probe(slot, standing->program_counter)
					? LOOPER_SEEN_BY_PROBE
					: LOOPER_SEEN_BY_SWITCH;
	slot->loop_kind = kind;
	slot->loop_fd = fd;
	slot->loop_stack[LOOPER_WAY_CALL] = standing->stack_pointer;
	slot->loop_counter = standing->program_counter;
	slot->loop_waits = 1;
	slot->loop_waited_ns = standing->before_mono_ns;
	slot->busy_since_ns = 0;
}

static void start_period(struct looper_slot *slot, const struct looper_slot_start *start,
			 const struct probe_standing *standing)
{
	uint64_t now_ns = standing->after_mono_ns, start_ns = start->thread_start_ns, past_ns;

	slot->busy_since_ns = now_ns;
	slot->periods = 1;
	slot->begin_cpu_ns = standing->cpu_ns;
	slot->begin_delay_ns = standing->delay_ns;
	slot->begin_faults_minor = standing->faults_minor;
	slot->begin_faults_major = standing->faults_major;
	if (start_ns >= now_ns || now_ns - start_ns >= YOUNG_NS ||
	    start_ns < start->watching_since_ns)
		return;
	slot->busy_since_ns = start_ns;
	slot->begin_cpu_ns = slot->begin_delay_ns = slot->begin_faults_minor =
		slot->begin_faults_major = 0;
	slot->sums.runnable_ns = standing->delay_ns;
	past_ns = standing->cpu_ns + standing->delay_ns;
	if (now_ns - start_ns > past_ns) {
		slot->sums.sleeping_ns = now_ns - start_ns - past_ns;
		slot->sums.reason_ns[LOOPER_REASON_UNSEEN] = slot->sums.sleeping_ns;
	}
}

static bool is_running(const struct probe_standing *standing)
{
	return standing->syscall_nr == -2 || standing->state == 'R';
}

void looper_slot_fill(struct looper_slot *slot, const struct looper_slot_start *start,
		      const struct probe_standing *standing)
{
	enum looper_wait kind;
	int32_t fd;

	*slot = (struct looper_slot){
		.tid = start->tid,
		.tgid = start->tgid,
		.detector = start->detector,
		.block_ns = start->block_ns,
		.slot_id = start->slot_id,
		.loop_fd = -1,
		.waiting_fd = -1,
		.nested_fd = -1,
		.last_nr = -1,
		.syscall_nr = standing->syscall_nr >= 0 ? (int32_t)standing->syscall_nr : -1,
		.off_state = off_state_of(standing->state),
		.program_counter = standing->program_counter,
		.stack_pointer = standing->stack_pointer,
		.in_cpu_ns = standing->cpu_ns,
		.out_cpu_ns = standing->cpu_ns,
		.out_delay_ns = standing->delay_ns,
		.out_switches = standing->switches,
		.out_arrivals = standing->arrivals,
	};
	memcpy(slot->arguments, standing->arguments, sizeof(slot->arguments));
	if (start->probed_return)
		memcpy(slot->probed_return, start->probed_return, sizeof(slot->probed_return));
	slot->on_cpu = is_running(standing);
	if (slot->on_cpu)
		slot->in_ns = standing->after_mono_ns;
	else
		slot->off_ns = standing->after_mono_ns;
	if (!slot->on_cpu)
		slot->reason = reason_of_sleep(slot->off_state, slot->syscall_nr,
					       (uint32_t)slot->arguments[1]);
	/* A thread that sleeps is in a spell that samples can be of. */
	slot->spell = !slot->on_cpu;
	kind = looper_wait_of(standing->syscall_nr, standing->arguments, &fd);
	if (kind != LOOPER_WAIT_NONE)
		stand_in_wait(slot, kind, fd, standing);
	else
		start_period(slot, start, standing);
}

bool looper_slot_settle(struct looper_slot *now, const struct looper_slot *filled,
			const struct probe_standing *first, const struct probe_standing *second)
{
	enum looper_wait kind;
	int32_t fd;

	kind = looper_wait_of(second->syscall_nr, second->arguments, &fd);
	/* It is where it was, or the programs have told of it since. */
	if ((kind == (enum looper_wait)filled->waiting_kind && fd == filled->waiting_fd) ||
	    now->periods != filled->periods || now->loop_waits != filled->loop_waits ||
	    now->waiting_kind != filled->waiting_kind)
		return false;
	if (kind != LOOPER_WAIT_NONE) {
		stand_in_wait(now, kind, fd, second);
	} else if (now->waiting_kind != LOOPER_WAIT_NONE) {
		now->waiting_kind = LOOPER_WAIT_NONE;
		now->waiting_fd = -1;
		now->waiting_seen_by = LOOPER_SEEN_NOT;
		now->waiting_own = 0;
		now->periods++;
		now->begin_cpu_ns = first->cpu_ns;
		now->begin_delay_ns = first->delay_ns;
		now->busy_since_ns = first->after_mono_ns;
	}
	return true;
}

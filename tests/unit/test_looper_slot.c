/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/syscall.h>

#include "abi/sched.h"
#include "kernel/looper_slot.h"

#define SECOND 1000000000ull

/* A thread that sleeps in nanosleep, looked at 100 s after boot, 50 s old. */
static struct probe_standing asleep(void)
{
	return (struct probe_standing){
		.syscall_nr = SYS_nanosleep,
		.stack_pointer = 0x7ffd1000,
		.program_counter = 0x401000,
		.before_mono_ns = 100 * SECOND - 1000,
		.after_mono_ns = 100 * SECOND,
		.cpu_ns = 3 * SECOND,
		.delay_ns = 1 * SECOND,
		.arrivals = 40,
		.switches = 50,
		.faults_minor = 7,
		.faults_major = 2,
		.state = 'S',
	};
}

static struct looper_slot_start start_of(uint32_t detector)
{
	return (struct looper_slot_start){
		.tid = 11,
		.tgid = 10,
		.detector = detector,
		.block_ns = 500,
		.slot_id = 77,
		.thread_start_ns = 50 * SECOND,
		.watching_since_ns = 90 * SECOND,
	};
}

Test(looper_slot, waits_are_told_from_sleeps)
{
	const struct {
		int64_t nr;
		uint64_t arguments[6];
		enum looper_wait kind;
		int32_t fd;
	} rows[] = {
		{SYS_epoll_pwait, {9}, LOOPER_WAIT_EPOLL, 9},
		{441, {8}, LOOPER_WAIT_EPOLL, 8},
		{SYS_ppoll, {0x1000, 1}, LOOPER_WAIT_POLL, -1},
		{SYS_ppoll, {0, 0}, LOOPER_WAIT_NONE, -1},
		{SYS_pselect6, {5}, LOOPER_WAIT_SELECT, -1},
		{SYS_pselect6, {0}, LOOPER_WAIT_NONE, -1},
		{SYS_pselect6, {(uint64_t)-1}, LOOPER_WAIT_NONE, -1},
		{426, {4, 0, 1, 1}, LOOPER_WAIT_URING, 4},
		{426, {4, 1, 0, 1}, LOOPER_WAIT_NONE, -1},
		{426, {4, 1, 1, 0}, LOOPER_WAIT_NONE, -1},
#ifdef __x86_64__
		{SYS_epoll_wait, {7}, LOOPER_WAIT_EPOLL, 7},
		{SYS_poll, {0x1000, 2}, LOOPER_WAIT_POLL, -1},
		{SYS_poll, {0x1000, 0}, LOOPER_WAIT_NONE, -1},
		{SYS_select, {1}, LOOPER_WAIT_SELECT, -1},
#endif
		{SYS_read, {3, 0, 1}, LOOPER_WAIT_NONE, -1},
		{-1, {1, 1, 1, 1}, LOOPER_WAIT_NONE, -1},
		{-2, {1, 1, 1, 1}, LOOPER_WAIT_NONE, -1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		int32_t fd = 99;

		cr_expect_eq(looper_wait_of(rows[i].nr, rows[i].arguments, &fd), rows[i].kind,
			     "row %zu", i);
		cr_expect_eq(fd, rows[i].fd, "row %zu", i);
	}
}

Test(looper_slot, in_a_wait_it_is_a_candidate)
{
	struct probe_standing standing = asleep();
	struct looper_slot_start start = start_of(LOOPER_BY_SWITCH);
	struct looper_slot slot;

	standing.syscall_nr = SYS_epoll_pwait;
	standing.arguments[0] = 12;
	looper_slot_fill(&slot, &start, &standing);
	cr_expect_eq(slot.tid, 11);
	cr_expect_eq(slot.tgid, 10);
	cr_expect_eq(slot.slot_id, 77);
	cr_expect_eq(slot.loop_kind, LOOPER_WAIT_EPOLL);
	cr_expect_eq(slot.loop_fd, 12);
	cr_expect_eq(slot.loop_waits, 1);
	cr_expect_eq(slot.loop_stack[LOOPER_WAY_CALL], 0x7ffd1000);
	cr_expect_eq(slot.loop_stack[LOOPER_WAY_PROBE], 0);
	cr_expect_eq(slot.waiting_own, 1);
	cr_expect_eq(slot.waiting_seen_by, LOOPER_SEEN_BY_SWITCH);
	cr_expect(looper_is_idle(&slot));
	cr_expect_not(looper_is_loop(&slot));
	cr_expect_eq(slot.on_cpu, 0);
	cr_expect_eq(slot.off_ns, 100 * SECOND);
	cr_expect_eq(slot.out_switches, 50);
	cr_expect_eq(slot.out_arrivals, 40);
}

/* A thread whose wait is not in the probed stub (a static binary, a copy of libc) passes no probe
 * there, so the switch program has to see that wait end. */
Test(looper_slot, probe_sees_the_end_only_behind_a_probed_call)
{
	uint64_t returns[LOOPER_PROBED_RETURNS] = {0x400000, 0x401000};
	struct probe_standing standing = asleep();
	struct looper_slot_start start = start_of(LOOPER_BY_UPROBE);
	struct looper_slot slot;

	standing.syscall_nr = SYS_epoll_pwait;
	start.probed_return = returns;
	looper_slot_fill(&slot, &start, &standing);
	cr_expect_eq(slot.waiting_seen_by, LOOPER_SEEN_BY_PROBE);
	standing.program_counter = 0x402000;
	looper_slot_fill(&slot, &start, &standing);
	cr_expect_eq(slot.waiting_seen_by, LOOPER_SEEN_BY_SWITCH);
	standing.program_counter = 0;
	looper_slot_fill(&slot, &start, &standing);
	cr_expect_eq(slot.waiting_seen_by, LOOPER_SEEN_BY_SWITCH, "0 is no address");
}

Test(looper_slot, elsewhere_it_is_in_a_period)
{
	struct probe_standing standing = asleep();
	struct looper_slot_start start = start_of(LOOPER_BY_SWITCH);
	struct looper_slot slot;

	looper_slot_fill(&slot, &start, &standing);
	cr_expect_eq(slot.loop_kind, LOOPER_WAIT_NONE);
	cr_expect_eq(slot.loop_fd, -1);
	cr_expect_eq(slot.waiting_fd, -1);
	cr_expect_eq(slot.syscall_nr, SYS_nanosleep);
	cr_expect_eq(slot.busy_since_ns, 100 * SECOND);
	cr_expect_eq(slot.periods, 1);
	cr_expect_eq(slot.begin_cpu_ns, 3 * SECOND);
	cr_expect_eq(slot.sums.sleeping_ns, 0);
	cr_expect_not(looper_is_idle(&slot));
	standing.syscall_nr = -2;
	standing.state = 'R';
	looper_slot_fill(&slot, &start, &standing);
	cr_expect_eq(slot.on_cpu, 1);
	cr_expect_eq(slot.in_ns, 100 * SECOND);
	cr_expect_eq(slot.off_ns, 0);
	cr_expect_eq(slot.syscall_nr, -1);
}

/* One that began 1.5 s ago, while the recorder ran: its first period began with it. */
Test(looper_slot, a_young_one_began_with_its_start)
{
	struct probe_standing standing = asleep();
	struct looper_slot_start start = start_of(LOOPER_BY_SWITCH);
	struct looper_slot slot;

	start.thread_start_ns = 100 * SECOND - 3 * SECOND / 2;
	standing.cpu_ns = SECOND / 2;
	standing.delay_ns = SECOND / 4;
	looper_slot_fill(&slot, &start, &standing);
	cr_expect_eq(slot.busy_since_ns, start.thread_start_ns);
	cr_expect_eq(slot.begin_cpu_ns, 0);
	cr_expect_eq(slot.begin_faults_minor, 0);
	cr_expect_eq(slot.sums.runnable_ns, SECOND / 4);
	cr_expect_eq(slot.sums.sleeping_ns, 3 * SECOND / 4);
	cr_expect_eq(slot.sums.reason_ns[LOOPER_REASON_UNSEEN], 3 * SECOND / 4);
	/* It is older than the recording: what it did is not known. */
	start.watching_since_ns = start.thread_start_ns + 1;
	looper_slot_fill(&slot, &start, &standing);
	cr_expect_eq(slot.busy_since_ns, 100 * SECOND);
}

Test(looper_slot, what_changed_while_the_watch_began_is_settled)
{
	struct probe_standing first = asleep(), second = asleep();
	struct looper_slot_start start = start_of(LOOPER_BY_SWITCH);
	struct looper_slot filled, now;

	/* Nothing did. */
	looper_slot_fill(&filled, &start, &first);
	now = filled;
	cr_expect_not(looper_slot_settle(&now, &filled, &first, &second));
	/* It went to wait. */
	second.syscall_nr = SYS_epoll_pwait;
	second.arguments[0] = 5;
	cr_expect(looper_slot_settle(&now, &filled, &first, &second));
	cr_expect(looper_is_idle(&now));
	cr_expect_eq(now.loop_fd, 5);
	/* A program has told so already. */
	now = filled;
	now.loop_waits = 1;
	cr_expect_not(looper_slot_settle(&now, &filled, &first, &second));
	/* It left its wait. */
	looper_slot_fill(&filled, &start, &second);
	now = filled;
	cr_expect(looper_slot_settle(&now, &filled, &second, &first));
	cr_expect_not(looper_is_idle(&now));
	cr_expect_eq(now.busy_since_ns, second.after_mono_ns);
	cr_expect_eq(now.waiting_kind, LOOPER_WAIT_NONE);
	/* It left it and a program saw that. */
	now = filled;
	now.periods++;
	cr_expect_not(looper_slot_settle(&now, &filled, &second, &first));
}

Test(looper_slot, a_closed_loop_is_idle)
{
	struct looper_slot slot = {.busy_since_ns = 5, .loop_kind = LOOPER_WAIT_EPOLL};

	cr_expect_not(looper_is_idle(&slot));
	slot.loop_closed = 1;
	cr_expect(looper_is_idle(&slot));
	slot.loop_changes = 1;
	cr_expect_not(looper_is_idle(&slot), "that was the loop before");
}

Test(looper_slot, a_shared_epoll_is_no_loop)
{
	struct looper_slot slot = {
		.busy_since_ns = 5, .loop_kind = LOOPER_WAIT_EPOLL, .loop_fd = 7, .loop_waits = 9};

	cr_expect(looper_is_loop(&slot));
	slot.shared = 8; /* descriptor + 1 */
	cr_expect_not(looper_is_loop(&slot));
	cr_expect(looper_is_idle(&slot));
	slot.loop_fd = 8;
	cr_expect(looper_is_loop(&slot), "another epoll is the thread's own");
	slot.loop_kind = LOOPER_WAIT_URING;
	slot.loop_fd = 7;
	cr_expect(looper_is_loop(&slot), "and so is a ring of that number");
}

/* A thread that is found asleep sleeps for the reason that its call tells. */
Test(looper_slot, reason_of_a_sleeper)
{
	const struct {
		int64_t nr;
		uint64_t argument_1;
		char state;
		enum looper_reason reason;
	} rows[] = {
		{SYS_nanosleep, 0, 'S', LOOPER_REASON_SLEEP},
		{SYS_futex, 0, 'S', LOOPER_REASON_FUTEX},
		{SYS_ioctl, 0xc0306201u, 'S', LOOPER_REASON_BINDER},
		{SYS_read, 0, 'S', LOOPER_REASON_READ},
		{SYS_read, 0, 'D', LOOPER_REASON_IO},
		{SYS_wait4, 0, 'S', LOOPER_REASON_CHILD},
		{SYS_nanosleep, 0, 'T', LOOPER_REASON_STOPPED},
		{-1, 0, 'D', LOOPER_REASON_PAGE_FAULT},
		{SYS_rt_sigsuspend, 0, 'S', LOOPER_REASON_OTHER},
	};
	const struct looper_slot_start start = start_of(LOOPER_BY_SWITCH);

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct probe_standing standing = asleep();
		struct looper_slot slot;

		standing.syscall_nr = rows[i].nr;
		standing.arguments[1] = rows[i].argument_1;
		standing.state = rows[i].state;
		looper_slot_fill(&slot, &start, &standing);
		cr_expect_eq(slot.reason, rows[i].reason, "%zu: %u", i, slot.reason);
	}
}

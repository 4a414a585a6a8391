/* SPDX-License-Identifier: BSD-2-Clause */
/* What the programs write while the product's own readers read it: everything that a reader accepts
 * is whole. usage: test_stack_torn [READS [SECONDS]], so many of each kind are accepted, in at most
 * so many seconds for each; the full number is 1000000. With a third argument "snapshots" or
 * "words" only those.
 *  - snapshots: a thread that never stops rewriting its stack
 *  - stash and slot: a thread that goes into a system call with the same number in each register
 *  - state machine: a thread in a loop with uprobes, preempted all the time */
/* Runs beside others (16 s) */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cpu_open.h"
#include "kernel/looper_kernel.h"
#include "kernel/looper_slot.h"
#include "stack/capture.h"
#include "standing.h"
#include "tap.h"
#include "util/clock.h"

#define WORDS 4096
/* On an emulator each copied byte is dear, and 4 KiB are torn as well. */
#define FEW_WORDS     512
#define DEFAULT_READS 20000
#define FULL_READS    1000000
#define LIMIT_SECONDS 900
/* Reads of what does not change prove nothing: so many different states at least. */
#define DIFFERENT(reads) ((reads) / 50)

struct board {
	_Atomic int ready;
	uint64_t *words;
	unsigned word_count;
	_Atomic uint64_t generation, rounds;
};

static struct board *board;

/* ---- threads that are read ---- */

static void rewrite_for_ever(void)
{
	volatile uint64_t words[WORDS];
	struct timespec ts = {0, 30000};

	unsigned count = board->word_count;

	board->words = (uint64_t *)words;
	for (uint64_t generation = 1;; generation++) {
		for (unsigned i = 0; i < count; i++) {
			words[i] = generation;
			/* now and then it sleeps in the middle: one boundary is the truth then */
			if (generation % 5 == 0 && i == generation % count)
				clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
		}
		atomic_store(&board->generation, generation);
		atomic_store(&board->ready, 1);
		clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
	}
}

/* read() of a timer with one number in each register that the call does not need; the buffer is
 * that number of pages, where nothing is, so that the call fails when the timer is due. */
static void call_for_ever(void)
{
	struct itimerspec often = {{0, 20000}, {0, 20000}};
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);

	timerfd_settime(fd, 0, &often, NULL);
	atomic_store(&board->ready, 1);
	for (uint64_t n = 1;; n = n % 4000 + 1) {
#ifdef __x86_64__
		register uint64_t r10 __asm__("r10") = n;
		register uint64_t r8 __asm__("r8") = n;
		register uint64_t r12 __asm__("r12") = n;
		register uint64_t r13 __asm__("r13") = n;
		register uint64_t r14 __asm__("r14") = n;
		register uint64_t r15 __asm__("r15") = n;
		uint64_t result = SYS_read;

		__asm__ volatile("syscall"
				 : "+a"(result)
				 : "D"((uint64_t)fd), "S"(n << 12), "d"(n), "r"(r10), "r"(r8),
				   "r"(r12), "r"(r13), "r"(r14), "r"(r15)
				 : "rcx", "r11", "memory");
#else
		register uint64_t x0 __asm__("x0") = (uint64_t)fd;
		register uint64_t x1 __asm__("x1") = n << 12;
		register uint64_t x2 __asm__("x2") = n;
		register uint64_t x3 __asm__("x3") = n;
		register uint64_t x8 __asm__("x8") = SYS_read;
		register uint64_t x19 __asm__("x19") = n;
		register uint64_t x20 __asm__("x20") = n;
		register uint64_t x27 __asm__("x27") = n;
		register uint64_t x28 __asm__("x28") = n;

		__asm__ volatile("svc #0"
				 : "+r"(x0)
				 : "r"(x1), "r"(x2), "r"(x3), "r"(x8), "r"(x19), "r"(x20), "r"(x27),
				   "r"(x28)
				 : "memory");
#endif
		atomic_store(&board->generation, n);
	}
}

long probed_wait(long, long, long, long, long, long);
extern const char probed_wait_behind[];
#ifdef __x86_64__
__asm__(".text\n.globl probed_wait\nprobed_wait: mov $281, %eax\nmov %rcx, %r10\nsyscall\n"
	".globl probed_wait_behind\nprobed_wait_behind: ret\n");
#else
__asm__(".text\n.globl probed_wait\nprobed_wait: mov x8, #22\nsvc #0\n"
	".globl probed_wait_behind\nprobed_wait_behind: ret\n");
#endif

static void pin(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

/* Two threads of a loop and one that works, all on one CPU: they take it from each other. */
static void loop_for_ever(void)
{
	struct epoll_event event = {.events = EPOLLIN};
	int poll_fd = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	struct itimerspec often = {{0, 50000}, {0, 50000}};
	uint64_t ticks;

	pin(0);
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (volatile uint64_t n = 0;; n++)
			if (!(n % 5000))
				sched_yield();
	}
	timerfd_settime(timer, 0, &often, NULL);
	epoll_ctl(poll_fd, EPOLL_CTL_ADD, timer, &event);
	atomic_store(&board->ready, 1);
	for (uint64_t n = 0;; n++) {
		probed_wait(poll_fd, (long)&event, 1, n % 4 ? -1 : 0, 0, 8);
		atomic_fetch_add(&board->rounds, 1);
		if (read(timer, &ticks, sizeof(ticks)) == sizeof(ticks) && n % 7 == 0)
			sched_yield();
	}
}

/* ---- a watched one ---- */

struct rig {
	struct sched_kernel *sched;
	struct looper_kernel *kernel;
	struct looper_probes *probes;
	pid_t pid, last_pid;
	uint64_t last_read;
	bool unchecked; /* leave the last check out, to see what it is for */
	unsigned reads;
	uint64_t limit_ns; /* for each kind */
	struct proc_kept schedstat;
};

static struct proc_kept *kept(struct rig *rig, pid_t tid)
{
	proc_keep(&rig->schedstat, tid, tid);
	return &rig->schedstat;
}

static int find_load(struct dl_phdr_info *info, size_t size, void *ctx)
{
	uint64_t *offset = ctx;

	for (int n = 0; n < info->dlpi_phnum; n++) {
		const ElfW(Phdr) *load = &info->dlpi_phdr[n];
		uintptr_t begin = info->dlpi_addr + load->p_vaddr;

		if (load->p_type == PT_LOAD && (load->p_flags & PF_X) && *offset >= begin &&
		    *offset - begin < load->p_filesz)
			*offset = *offset - begin + load->p_offset;
	}
	return 1;
}

static uint64_t file_offset(const void *address)
{
	uint64_t offset = (uintptr_t)address;

	dl_iterate_phdr(find_load, &offset);
	return offset;
}

static bool start(struct rig *rig, void (*body)(void), enum looper_detector detector)
{
	const struct looper_place places[] = {
		{file_offset((const void *)probed_wait), LOOPER_PROBE_EPOLL},
		{file_offset(probed_wait_behind), LOOPER_PROBE_LEAVE},
	};
	uint64_t returns[LOOPER_PROBED_RETURNS] = {(uintptr_t)probed_wait_behind};
	struct looper_slot_start begin = {
		.detector = detector,
		.block_ns = 500000000,
		.probed_return = returns,
	};
	struct probe_standing standing;
	struct looper_slot slot;

	memset(board, 0, sizeof(*board));
	board->word_count = tap_is_emulated() ? FEW_WORDS : WORDS;
	rig->pid = fork();
	if (!rig->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		body();
	}
	begin.tid = begin.tgid = (uint32_t)rig->pid;
	while (!atomic_load(&board->ready))
		usleep(1000);
	if (detector == LOOPER_BY_UPROBE)
		rig->probes =
			looper_kernel_probe(rig->kernel, rig->pid, "/proc/self/exe", places, 2);
	if (standing_read(rig->pid, rig->pid, &standing) ||
	    (detector == LOOPER_BY_UPROBE && !rig->probes))
		return false;
	looper_slot_fill(&slot, &begin, &standing);
	return !looper_kernel_watch(rig->kernel, 0, &slot);
}

static void stop(struct rig *rig)
{
	kill(rig->pid, SIGKILL);
	waitpid(rig->pid, NULL, 0);
	looper_kernel_unwatch(rig->kernel, 0, rig->pid);
	looper_probes_free(rig->probes);
	rig->probes = NULL;
}

/* ---- snapshots ---- */

static uint64_t stash_check(void *ctx, pid_t tid)
{
	struct rig *rig = ctx;

	return rig->unchecked
		       ? rig->last_read
		       : looper_stash_sequence(looper_kernel_view(rig->kernel), 0, kept(rig, tid));
}

static int stash_read(void *ctx, pid_t tid, struct looper_registers *out)
{
	struct rig *rig = ctx;
	/* As the sampler does: whether it ran unseen is asked behind the copy. */
	int err = looper_read_stash(looper_kernel_view(rig->kernel), 0, tid, NULL, out);

	rig->last_read = out->sequence;
	return err;
}

/* All words of one generation, or of two that follow each other with one boundary, as they stood
 * between the two looks at the thread's own count: it is in its next generation when that is read.
 */
static bool is_whole(const struct stack_capture *capture, uint64_t before, uint64_t after)
{
	uint64_t at = (uintptr_t)board->words - capture->stack_base;
	const uint64_t *words = (const uint64_t *)(capture->stack + at);
	unsigned boundaries = 0, count = board->word_count;

	if (capture->stack_bytes < count * 8 || at > capture->stack_bytes - count * 8)
		return false;
	if (words[count - 1] < before || words[0] > after + 1)
		return false;
	for (unsigned i = 1; i < count; i++) {
		if (words[i] == words[i - 1])
			continue;
		if (words[i] + 1 != words[i - 1])
			return false;
		boundaries++;
	}
	return boundaries <= 1;
}

static void run_snapshots(struct stack_capturer *service, const struct rig *rig, unsigned reads,
			  unsigned *accepted, unsigned *torn, unsigned *refused)
{
	struct stack_capture *capture = stack_capture_new(board->word_count * 16);
	struct stack_thread thread = {.pid = rig->pid, .tid = rig->pid, .pidfd = -1};
	uint64_t until = clock_now_ns(CLOCK_MONOTONIC) + rig->limit_ns;

	*accepted = *torn = *refused = 0;
	while (*accepted < reads && clock_now_ns(CLOCK_MONOTONIC) < until) {
		uint64_t before = atomic_load(&board->generation);

		if (stack_capture(service, &thread, STACK_SNAPSHOT, capture)) {
			++*refused;
			continue;
		}
		++*accepted;
		*torn += !is_whole(capture, before, atomic_load(&board->generation));
	}
	stack_capture_free(capture);
}

static void test_snapshots(struct rig *rig)
{
	struct stack_stash stash = {stash_read, stash_check, rig};
	struct stack_capturer *service;
	unsigned accepted, torn, refused;
	struct stack_stats stats;

	if (!tap_ok(start(rig, rewrite_for_ever, LOOPER_BY_SWITCH), "snapshots: watched"))
		return;
	usleep(20000);
	service = stack_capturer_new(&(struct stack_capture_config){.stash = &stash});
	run_snapshots(service, rig, rig->reads, &accepted, &torn, &refused);
	tap_ok(accepted >= rig->reads && !torn,
	       "%u snapshots accepted, %u torn, %u refused, of %" PRIu64 " rewrites", accepted,
	       torn, refused, atomic_load(&board->generation));
	stack_capturer_stats(service, &stats);
	tap_ok(!stats.stops, "and no stop");
	rig->unchecked = true;
	run_snapshots(service, rig, rig->reads / 10, &accepted, &torn, &refused);
	tap_note("without the check: %u of %u torn", torn, accepted);
	stack_capturer_free(service);
	stop(rig);
}

/* ---- registers and slot ---- */

static bool words_agree(const struct looper_registers *stash)
{
#ifdef __x86_64__
	static const int same[] = {0, 1, 2, 3, 7, 9, 12};
	uint64_t shifted = stash->words[13];
	bool in_call = stash->words[15] == SYS_read;
#else
	static const int same[] = {2, 3, 19, 20, 27, 28};
	uint64_t shifted = stash->words[1];
	bool in_call = stash->words[35] == SYS_read;
#endif
	uint64_t first = stash->words[same[0]];

	/* Preempted outside of the call: its registers are those of the loop around it. */
	if (!in_call)
		return true;
	for (size_t i = 1; i < sizeof(same) / sizeof(*same); i++)
		if (stash->words[same[i]] != first)
			return false;
	return shifted == first << 12;
}

static void test_registers(struct rig *rig)
{
	struct looper_view *view = looper_kernel_view(rig->kernel);
	uint64_t until = clock_now_ns(CLOCK_MONOTONIC) + rig->limit_ns, last = 0;
	unsigned accepted = 0, torn = 0, slots = 0, torn_slots = 0, refused = 0, different = 0;
	struct looper_registers stash;
	struct looper_slot slot;

	if (!tap_ok(start(rig, call_for_ever, LOOPER_BY_SWITCH), "registers: watched"))
		return;
	while ((accepted < rig->reads || slots < rig->reads || different < DIFFERENT(rig->reads)) &&
	       clock_now_ns(CLOCK_MONOTONIC) < until) {
		if (!looper_read_stash(view, 0, rig->pid, kept(rig, rig->pid), &stash)) {
			accepted++;
			torn += !words_agree(&stash);
			different += stash.sequence != last;
			last = stash.sequence;
		} else {
			refused++;
		}
		if (!looper_read_slot(view, 0, &slot))
			continue;
		slots++;
		if (slot.syscall_nr == SYS_read && !slot.on_cpu)
			torn_slots += slot.arguments[2] != slot.arguments[3] ||
				      slot.arguments[1] != slot.arguments[2] << 12;
	}
	tap_ok(accepted >= rig->reads && different >= DIFFERENT(rig->reads) && !torn,
	       "%u stashes accepted (%u different ones), %u torn, %u refused", accepted, different,
	       torn, refused);
	tap_ok(slots >= rig->reads && !torn_slots, "%u slots accepted, %u torn", slots, torn_slots);
	stop(rig);
}

/* ---- the state machine ---- */

static bool is_sound(const struct looper_slot *slot)
{
	bool idle = !slot->busy_since_ns;

	if (idle != (slot->waiting_kind == LOOPER_WAIT_EPOLL && slot->waiting_own))
		return false;
	/* It was busy when the watch began: that was period 1. Or it waited: that was wait 1. */
	return slot->loop_waits == slot->periods - !idle ||
	       slot->loop_waits == slot->periods + idle;
}

static void print_slot(const char *when, const struct looper_slot *slot)
{
	tap_note("%s: busy since %" PRIu64 ", waits %u, own %u, seen by %u; %" PRIu64
		 " periods, %" PRIu64 " waits in its loop; begun %u",
		 when, (uint64_t)slot->busy_since_ns, slot->waiting_kind, slot->waiting_own,
		 slot->waiting_seen_by, (uint64_t)slot->periods, (uint64_t)slot->loop_waits,
		 slot->begun);
}

static void test_machine(struct rig *rig)
{
	struct looper_view *view = looper_kernel_view(rig->kernel);
	uint64_t until = clock_now_ns(CLOCK_MONOTONIC) + rig->limit_ns, resynced = view->resynced;
	uint64_t rounds, periods;
	unsigned slots = 0, torn = 0, idle = 0, different = 0;
	struct looper_slot slot = {0}, before;
	uint32_t last = 0;

	if (!tap_ok(start(rig, loop_for_ever, LOOPER_BY_UPROBE), "state machine: watched"))
		return;
	usleep(100000);
	while (!looper_read_slot(view, 0, &before))
		;
	rounds = atomic_load(&board->rounds);
	while ((slots < rig->reads || different < DIFFERENT(rig->reads)) &&
	       clock_now_ns(CLOCK_MONOTONIC) < until) {
		if (!looper_read_slot(view, 0, &slot))
			continue;
		slots++;
		if (!is_sound(&slot) && !torn++) {
			print_slot("at first", &before);
			print_slot("torn", &slot);
		}
		idle += !slot.busy_since_ns;
		different += slot.begun != last;
		last = slot.begun;
		if (!(slots % 256))
			usleep(500);
	}
	rounds = atomic_load(&board->rounds) - rounds;
	while (!looper_read_slot(view, 0, &slot))
		;
	periods = slot.periods - before.periods;
	tap_ok(slots >= rig->reads && different >= DIFFERENT(rig->reads) && !torn,
	       "%u slots accepted (%u different ones, %u idle), %u torn", slots, different, idle,
	       torn);
	/* Both are read a moment apart, on both sides. */
	tap_ok(periods + 64 >= rounds && rounds + 64 >= periods,
	       "%" PRIu64 " rounds, %" PRIu64 " periods", rounds, periods);
	tap_ok(view->resynced == resynced, "nothing had to be resynced");
	stop(rig);
}

/* Where no program is amid the slot. */
static bool stop_outside(struct rig *rig)
{
	const struct looper_slot *slot = looper_kernel_slot(rig->kernel, 0);
	struct probe_standing standing;

	for (int i = 0; i < 1000; i++) {
		kill(rig->pid, SIGSTOP);
		do {
			usleep(1000);
			if (standing_read(rig->pid, rig->pid, &standing))
				return false;
		} while (standing.state != 'T');
		if (__atomic_load_n(&slot->begun, __ATOMIC_ACQUIRE) ==
		    __atomic_load_n(&slot->ended, __ATOMIC_ACQUIRE))
			return true;
		kill(rig->pid, SIGCONT);
		usleep(1000);
	}
	return false;
}

/* A lost update, as it could happen: the slot is read again, and that is counted. */
static void test_lost_update(struct rig *rig)
{
	struct looper_view *view = looper_kernel_view(rig->kernel);
	uint64_t until, resynced = view->resynced;
	struct looper_slot slot;
	bool read = false;

	if (!tap_ok(start(rig, loop_for_ever, LOOPER_BY_UPROBE), "lost update: watched"))
		return;
	for (int direction = -1; direction <= 1; direction += 2) {
		if (!tap_ok(stop_outside(rig), "begun %+d: stopped amid no program", direction))
			break;
		__atomic_fetch_add(&looper_kernel_slot(rig->kernel, 0)->begun, direction,
				   __ATOMIC_SEQ_CST);
		until = clock_now_ns(CLOCK_MONOTONIC) + 20 * 1000000000ull;
		/* Nobody writes the slot, as of an app in the background; then somebody does. */
		if (direction > 0)
			kill(rig->pid, SIGCONT);
		read = false;
		while (!read && clock_now_ns(CLOCK_MONOTONIC) < until) {
			read = looper_read_slot(view, 0, &slot);
			usleep(5000);
		}
		kill(rig->pid, SIGCONT);
		tap_ok(read && view->resynced > resynced,
		       "begun %+d: read again, %" PRIu64 " resynced", direction,
		       view->resynced - resynced);
		resynced = view->resynced;
	}
	/* And the slot goes on. */
	usleep(50000);
	read = looper_read_slot(view, 0, &slot);
	for (int i = 0; i < 400 && !read; i++) {
		usleep(5000);
		read = looper_read_slot(view, 0, &slot);
	}
	if (!tap_ok(read && is_sound(&slot), "the slot goes on"))
		print_slot(read ? "torn" : "not read", &slot);
	stop(rig);
}

static bool open_rig(struct rig *rig, bool plain)
{
	struct sched_kernel_options options = {.mode = CPU_MODE_SWITCH,
					       .loopers = true,
					       .max_watched = 4,
					       .test_plain_atomics = plain};
	const struct looper_kernel_options any = {.test_plain_atomics = plain};
	char reason[160] = "";

	rig->sched = sched_kernel_open(&options, reason, sizeof(reason));
	if (rig->sched)
		rig->kernel = looper_kernel_open(rig->sched, &any, reason, sizeof(reason));
	if (!tap_ok(rig->kernel, "the programs load%s%s", *reason ? ": " : "", reason))
		return false;
	/* Without a word the raw twin takes the place of a typed one that does not load. */
	return tap_ok(strstr(sched_kernel_variant(rig->sched), "tp_btf") || !kernel_has("tp_btf"),
		      "and are the typed ones where the kernel has them: %s",
		      sched_kernel_variant(rig->sched));
}

static void close_rig(struct rig *rig)
{
	looper_kernel_close(rig->kernel);
	sched_kernel_close(rig->sched);
}

int main(int argc, char **argv)
{
	const char *only = argc > 3 ? argv[3] : NULL;
	struct rig rig = {.reads = DEFAULT_READS,
			  .limit_ns = LIMIT_SECONDS * 1000000000ull,
			  .schedstat = {.fd = -1}};

	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (geteuid()) {
		tap_skip("torn reads", "needs root");
		return 0;
	}
	if (tap_is_emulated())
		rig.reads = DEFAULT_READS / 10;
	if (argc > 1)
		rig.reads = (unsigned)atoi(argv[1]);
	if (argc > 2)
		rig.limit_ns = strtoull(argv[2], NULL, 10) * 1000000000ull;
	tap_note("%u reads of each kind; the full number is %u", rig.reads, FULL_READS);
	if (!open_rig(&rig, false))
		return tap_done();
	tap_note("the programs' adds %s",
		 looper_kernel_has_fetch(rig.kernel) ? "fetch" : "are plain");
	if (!only || !strcmp(only, "snapshots"))
		test_snapshots(&rig);
	if (!only || strcmp(only, "snapshots")) {
		test_registers(&rig);
		test_machine(&rig);
		test_lost_update(&rig);
	}
	close_rig(&rig);
	if (only && !strcmp(only, "snapshots"))
		return tap_done();
	/* What older kernels get. */
	rig = (struct rig){.reads = rig.reads / 10, .limit_ns = rig.limit_ns};
	if (open_rig(&rig, true)) {
		tap_ok(!looper_kernel_has_fetch(rig.kernel), "the plain programs are in use");
		test_registers(&rig);
		test_machine(&rig);
		close_rig(&rig);
	}
	return tap_done();
}

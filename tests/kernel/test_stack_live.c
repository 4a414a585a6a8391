/* SPDX-License-Identifier: BSD-2-Clause */
/* Captures of live threads by every backend, against return addresses that the target itself wrote
 * down on its way in. Needs no symbols and no tools, so that it runs stripped in a guest; on arm64
 * it is compiled with -mbranch-protection=standard, so that return addresses on its stack are
 * signed. */
/* Runs beside others (2 s) */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <elf.h>
#include <time.h>
#include <unistd.h>

#include "stack/capturer.h"
#include "stack/files_direct.h"
#include "stack/stack_merge.h"
#include "spin.h"
#include "tap.h"

#define NOINLINE   __attribute__((noinline, noclone))
#define NO_POINTER __attribute__((noinline, noclone, optimize("omit-frame-pointer")))

struct board {
	_Atomic uint32_t ready;
	uint32_t depth;
	uint64_t truth[1024]; /* return addresses, outermost first */
};

static struct board *board;
static volatile int sink;

static void nap_ms(unsigned ms)
{
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
}

#define NOTE_RETURN() (board->truth[board->depth++] = (uintptr_t)__builtin_return_address(0))

/* ---- the target ---- */

enum ending { BLOCK, SPIN, VDSO };

static NO_POINTER int innermost(enum ending ending)
{
	struct timespec ts;
	int ends[2];
	char byte;

	NOTE_RETURN();
	if (pipe(ends))
		_exit(1);
	atomic_store(&board->ready, 1);
	while (ending == SPIN) {
		sink++;
		spin_hint();
	}
	while (ending == VDSO) {
		for (int i = 0; i < 100; i++)
			sink += clock_gettime(CLOCK_MONOTONIC, &ts);
		spin_hint();
	}
	return read(ends[0], &byte, 1) + sink;
}

static NO_POINTER int without_pointer(int depth, enum ending ending)
{
	volatile char local[200];
	int result;

	NOTE_RETURN();
	local[depth % 200] = depth;
	result = depth ? without_pointer(depth - 1, ending) : innermost(ending);
	return result + local[depth % 200];
}

static NOINLINE int with_pointer(int depth, enum ending ending)
{
	volatile char local[100];
	int result;

	NOTE_RETURN();
	local[depth % 100] = depth;
	result = without_pointer(depth, ending);
	return result + local[depth % 100];
}

static int wanted_depth;
static enum ending wanted_ending;

static void on_signal(int number)
{
	board->depth = 0; /* what is below the signal frame is not ours to tell */
	sink += with_pointer(wanted_depth, wanted_ending) + 1;
}

static pid_t start(int depth, enum ending ending, bool in_handler)
{
	pid_t pid;

	memset(board, 0, sizeof(*board));
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		wanted_depth = depth;
		wanted_ending = ending;
		if (in_handler) {
			signal(SIGUSR1, on_signal);
			raise(SIGUSR1);
		} else {
			sink += with_pointer(depth, ending) + 1;
		}
		_exit(0);
	}
	while (!atomic_load(&board->ready))
		nap_ms(1);
	nap_ms(20);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- checks ---- */

/* The target's return addresses appear in order, without a gap, somewhere in the trace. */
static bool follows_truth(const struct stack_trace *trace, size_t *at)
{
	size_t depth = board->depth;

	for (size_t first = 1; first + depth <= trace->count && first < 8; first++) {
		size_t i;

		for (i = 0; i < depth && trace->frames[first + i].pc == board->truth[depth - 1 - i];
		     i++)
			;
		if (i == depth) {
			*at = first;
			return true;
		}
	}
	return false;
}

/* How many of the return addresses lie signed on the copied stack. */
static unsigned signed_words(const struct stack_capture *capture)
{
	unsigned count = 0;

	for (size_t at = 0; at + 8 <= capture->stack_bytes; at += 8) {
		uint64_t word;

		memcpy(&word, capture->stack + at, sizeof(word));
		for (size_t i = 0; i < board->depth; i++) {
			if (word != board->truth[i] &&
			    (word & 0x7fffffffffull) == board->truth[i]) {
				count++;
				break;
			}
		}
	}
	return count;
}

static void print_trace(const struct stack_trace *trace)
{
	for (size_t i = 0; i < trace->count && i < 12; i++)
		tap_note("#%zu %#" PRIx64 " method %d", i, trace->frames[i].pc,
			 trace->frames[i].method);
	for (size_t i = 0; i < board->depth && i < 8; i++)
		tap_note("truth %#" PRIx64, board->truth[board->depth - 1 - i]);
}

/* A target that is given no CPU for 20 ms cannot stop, and is let go: ask again. */
static int patient_capture(struct stack_capturer *capturer, const struct stack_thread *thread,
			   enum stack_request request, struct stack_capture *capture)
{
	int err;

	for (unsigned i = 0; i < 200; i++) {
		err = stack_capture(capturer, thread, request, capture);
		if (capture->failure != STACK_DEADLINE && capture->failure != STACK_WORKER_LOST &&
		    capture->failure != STACK_OFF_CPU)
			break;
		nap_ms(5);
	}
	return err;
}

static void check(struct stack_capturer *capturer, struct stack_unwinder *unwinder,
		  struct stack_capture *capture, pid_t pid, enum stack_request request,
		  enum capture_kind kind, const char *name)
{
	struct stack_thread thread = {.pid = pid, .tid = pid, .pidfd = -1};
	struct stack_trace trace;
	size_t at = 0;
	int err;

	stack_trace_init(&trace);
	err = patient_capture(capturer, &thread, request, capture);
	err = err ?: stack_unwind(unwinder, capture, &trace);
	if (err &&
	    (capture->failure == STACK_UNSUPPORTED || capture->failure == STACK_NOT_PERMITTED)) {
		tap_skip(name, stack_failure_text(capture->failure));
	} else if (!tap_ok(!err && capture->kind == kind && follows_truth(&trace, &at) &&
				   trace.complete,
			   "%s: %u of the target's own return addresses, %zu frames, kind %d, %s",
			   name, board->depth, trace.count, capture->kind,
			   err ? stack_failure_text(capture->failure)
			       : stack_end_text(trace.end))) {
		print_trace(&trace);
	}
	stack_trace_free(&trace);
}

/* ---- a stash without BPF: registers by one ptrace stop, the switch count as the sequence ---- */

struct fake_stash {
	struct looper_registers registers;
	uint64_t switches; /* when the thread had gone back to sleep */
	unsigned moves;    /* pretend that it moves this often */
};

static uint64_t switches_of(pid_t pid)
{
	char path[64], text[8192], *p;
	uint64_t sum = 0;
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "r");
	n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	if (file)
		fclose(file);
	text[n] = 0;
	for (p = text; (p = strstr(p, "voluntary_ctxt_switches:")); p++)
		sum += strtoull(p + strlen("voluntary_ctxt_switches:"), NULL, 10);
	return sum;
}

static int fake_read(void *ctx, pid_t tid, struct looper_registers *out)
{
	struct fake_stash *stash = ctx;
	struct thread_status status;

	if (stash->registers.tid != (uint32_t)tid)
		return -ENOENT;
	if (thread_status_read("", tid, tid, &status) || status.state == 'R')
		return -EAGAIN;
	*out = stash->registers;
	return 0;
}

static uint64_t fake_sequence(void *ctx, pid_t tid)
{
	struct fake_stash *stash = ctx;

	if (stash->moves) {
		stash->moves--;
		return stash->registers.sequence + 2;
	}
	return switches_of(tid) == stash->switches ? stash->registers.sequence
						   : stash->registers.sequence + 2;
}

static bool fill_stash(struct fake_stash *stash, pid_t pid)
{
	struct iovec regs = {stash->registers.words, sizeof(stash->registers.words)};
	bool ok;

	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) || ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) ||
	    waitpid(pid, NULL, 0) != pid)
		return false;
	ok = !ptrace(PTRACE_GETREGSET, pid, (void *)NT_PRSTATUS, &regs);
	ptrace(PTRACE_DETACH, pid, NULL, NULL);
	nap_ms(20);
	stash->registers.tid = stash->registers.tgid = pid;
	stash->registers.sequence = 2;
	stash->switches = switches_of(pid);
	return ok;
}

static void test_snapshot(struct stack_unwinder *unwinder, struct stack_capture *capture)
{
	struct fake_stash fake = {0};
	struct stack_stash stash = {fake_read, fake_sequence, &fake};
	struct stack_capturer *capturer =
		stack_capturer_new(&(struct stack_capture_config){.stash = &stash});
	pid_t pid = start(4, BLOCK, false);
	struct stack_thread thread = {.pid = pid, .tid = pid, .pidfd = -1};
	struct stack_trace trace;
	uint64_t before;
	size_t at;
	int err;

	if (!tap_ok(fill_stash(&fake, pid), "registers for the snapshot"))
		return;
	stack_unwinder_prime(unwinder, &(struct stack_process){pid, 0});
	before = switches_of(pid);
	check(capturer, unwinder, capture, pid, STACK_SNAPSHOT, CAPTURE_SNAPSHOT,
	      "snapshot of a blocked thread");
	check(capturer, unwinder, capture, pid, STACK_AUTO, CAPTURE_SNAPSHOT,
	      "auto takes the snapshot");
	tap_ok(switches_of(pid) == before && !capture->stop_ns && capture->sequence == 2,
	       "the thread was not switched meanwhile");
	fake.moves = 2;
	check(capturer, unwinder, capture, pid, STACK_SNAPSHOT, CAPTURE_SNAPSHOT,
	      "a thread that moved is read again");
	fake.moves = 1000;
	err = stack_capture(capturer, &thread, STACK_SNAPSHOT, capture);
	tap_ok(err == -EAGAIN && capture->failure == STACK_MOVED, "one that always moves: %s",
	       stack_failure_text(capture->failure));
	fake.moves = 0;
	fake.registers.sequence = 3;
	err = stack_capture(capturer, &thread, STACK_SNAPSHOT, capture);
	tap_ok(err == -EAGAIN && capture->failure == STACK_ON_CPU, "an odd sequence: %s",
	       stack_failure_text(capture->failure));
	fake.registers.sequence = 2;
	fake.registers.tgid = 1;
	err = stack_capture(capturer, &thread, STACK_SNAPSHOT, capture);
	tap_ok(err == -ESRCH, "another process' registers: %s",
	       stack_failure_text(capture->failure));
	fake.registers.tgid = pid;
	err = stack_capture(capturer, &thread, STACK_SNAPSHOT, capture);
	end(pid);
	stack_trace_init(&trace);
	err = err ?: stack_unwind(unwinder, capture, &trace);
	tap_ok(!err && follows_truth(&trace, &at) && trace.complete,
	       "captured, then dead: unwound all the same");
	stack_trace_free(&trace);
	err = stack_capture(capturer, &thread, STACK_AUTO, capture);
	tap_ok(err == -ESRCH, "dead: %s", stack_failure_text(capture->failure));
	stack_capturer_free(capturer);
}

static void test_merge(struct stack_capturer *capturer, struct stack_unwinder *unwinder,
		       struct stack_capture *capture)
{
	struct stack_merge merge = {0};
	struct record_stack *stacks = NULL;
	struct stack_trace trace;
	size_t count = 0;
	pid_t pid = start(60, BLOCK, false);
	struct stack_thread thread = {.pid = pid, .tid = pid, .pidfd = -1};
	int err = stack_trace_init(&trace);

	for (unsigned i = 0; i < 3 && !err; i++) {
		err = patient_capture(capturer, &thread, STACK_PTRACE, capture);
		err = err ?:
		      stack_unwind(unwinder, capture, &trace) ?:
		      stack_merge_add(&merge, stack_unwound(unwinder, &trace), capture->kind,
				      capture->t_boot_ns, 10000000);
	}
	err = err ?: stack_merge_records(&merge, &stacks, &count);
	tap_ok(!err && count == 1 && stacks[0].weight_ns == 30000000 && trace.count > 60 &&
		       stacks[0].frame_count < 20,
	       "three equal stacks of %zu frames are one path of %zu", trace.count,
	       count ? stacks[0].frame_count : 0);
	free(stacks);
	stack_merge_free(&merge);
	stack_trace_free(&trace);
	end(pid);
}

/* How many perf events this process holds open. */
static unsigned open_events(void)
{
	char path[64], link[64];
	unsigned count = 0;

	for (int fd = 0; fd < 256; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = 0;
		count += !strcmp(link, "anon_inode:[perf_event]");
	}
	return count;
}

/* The event and its ring stay for the next sample of the same thread, and not for ever. */
static void test_perf_is_kept(struct stack_capturer *capturer, struct stack_capture *capture)
{
	pid_t pid = start(4, SPIN, false);
	struct stack_thread thread = {.pid = pid, .tid = pid, .pidfd = -1};
	struct thread_status status;
	unsigned after_one, after_many = 0;
	int err = thread_status_read("", pid, pid, &status);

	thread.start_boot_ns = status.start_ticks * 10000000;
	err = err ?: patient_capture(capturer, &thread, STACK_PERF, capture);
	if (err &&
	    (capture->failure == STACK_UNSUPPORTED || capture->failure == STACK_NOT_PERMITTED)) {
		tap_skip("perf events that are kept", stack_failure_text(capture->failure));
		end(pid);
		return;
	}
	after_one = open_events();
	/* The ring has room for one sample of 64 KiB and a half: they wrap. */
	for (unsigned i = 0; i < 20 && !err; i++) {
		err = patient_capture(capturer, &thread, STACK_PERF, capture);
		err = err ?: capture->stack_bytes < 1024;
		after_many += open_events();
	}
	tap_ok(!err && after_one == 1 && after_many == 20,
	       "21 samples of a thread have one perf event: %u, %u", after_one, after_many);
	nap_ms(2100);
	stack_capturer_rest(capturer);
	tap_ok(!open_events(), "after 2 s without a sample it is closed");
	end(pid);
}

int main(void)
{
	struct stack_capturer *capturer = stack_capturer_new(&(struct stack_capture_config){0});
	struct stack_files files = files_direct("");
	struct stack_unwinder *unwinder =
		stack_unwinder_new(&(struct stack_unwind_config){.files = &files});
	struct stack_capture *capture = stack_capture_new(0);
	pid_t pid;

	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (!tap_ok(capturer && unwinder && capture && board != MAP_FAILED, "service starts"))
		return 1;
	pid = start(4, BLOCK, false);
	check(capturer, unwinder, capture, pid, STACK_PTRACE, CAPTURE_PTRACE, "ptrace, blocked");
#if defined(__aarch64__)
	if (getauxval(AT_HWCAP) & HWCAP_PACA)
		/* With 52-bit addresses (16 KiB pages, LPA2) a signature has three bits: one in
		 * eight is 0 and does not show. */
		tap_ok(signed_words(capture) >= 2, "%u return addresses lie signed on its stack",
		       signed_words(capture));
	else
		tap_skip("signed return addresses", "this CPU has no pointer authentication");
#else
	tap_note("%u signed return addresses", signed_words(capture));
#endif
	end(pid);
	pid = start(4, SPIN, false);
	check(capturer, unwinder, capture, pid, STACK_PTRACE, CAPTURE_PTRACE, "ptrace, running");
	check(capturer, unwinder, capture, pid, STACK_PERF, CAPTURE_PERF, "perf, running");
	end(pid);
	pid = start(4, VDSO, false);
	check(capturer, unwinder, capture, pid, STACK_PTRACE, CAPTURE_PTRACE,
	      "ptrace, in the vdso");
	end(pid);
	pid = start(180, BLOCK, false);
	check(capturer, unwinder, capture, pid, STACK_PTRACE, CAPTURE_PTRACE,
	      "ptrace, 180 frames of recursion");
	end(pid);
	pid = start(3, BLOCK, true);
	check(capturer, unwinder, capture, pid, STACK_PTRACE, CAPTURE_PTRACE,
	      "ptrace, in a signal handler");
	end(pid);
	pid = start(3, SPIN, true);
	check(capturer, unwinder, capture, pid, STACK_PTRACE, CAPTURE_PTRACE,
	      "ptrace, running in a signal handler");
	end(pid);
	test_perf_is_kept(capturer, capture);
	test_merge(capturer, unwinder, capture);
	test_snapshot(unwinder, capture);
	stack_capture_free(capture);
	stack_unwinder_free(unwinder);
	stack_capturer_free(capturer);
	return tap_done();
}

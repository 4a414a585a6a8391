/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots by the real switch program of a thread that never stops rewriting its stack: what is
 * accepted is whole, the thread is never stopped, and the check is what makes it so. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernel/looper_kernel.h"
#include "stack/capturer.h"
#include "tap.h"

#define WORDS 4096

struct board {
	_Atomic int ready;
	uint64_t *words;
	_Atomic uint64_t generation;
};

static struct board *board;

static void rewrite_for_ever(void)
{
	volatile uint64_t words[WORDS];
	struct timespec ts = {0, 30000};

	board->words = (uint64_t *)words;
	for (uint64_t generation = 1;; generation++) {
		for (unsigned i = 0; i < WORDS; i++) {
			words[i] = generation;
			/* now and then it sleeps in the middle: one boundary is the truth then */
			if (generation % 5 == 0 && i == generation % WORDS)
				clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
		}
		atomic_store(&board->generation, generation);
		atomic_store(&board->ready, 1);
		clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
	}
}

/* ---- the stash as the blocks source reads it ---- */

struct stash_of {
	struct looper_kernel *kernel;
	pid_t tid;
	uint64_t last_read;
	bool unchecked; /* leave the last check out, to see what it is for */
};

static bool arrivals_of(pid_t tid, uint64_t *arrivals)
{
	char path[64], text[96];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	return sscanf(text, "%*u %*u %" SCNu64, arrivals) == 1;
}

static uint64_t stash_sequence(void *ctx, pid_t tid)
{
	struct stash_of *stash = ctx;
	uint64_t sequence =
		__atomic_load_n(&looper_kernel_stash(stash->kernel, 0)->sequence, __ATOMIC_ACQUIRE);
	uint64_t arrivals;

	if (!arrivals_of(tid, &arrivals) ||
	    arrivals != __atomic_load_n(&looper_kernel_slot(stash->kernel, 0)->out_arrivals,
					__ATOMIC_ACQUIRE))
		return sequence | 1;
	return sequence;
}

static uint64_t stash_check(void *ctx, pid_t tid)
{
	return ((struct stash_of *)ctx)->unchecked ? ((struct stash_of *)ctx)->last_read
						   : stash_sequence(ctx, tid);
}

static int stash_read(void *ctx, pid_t tid, struct looper_registers *out)
{
	uint64_t sequence = stash_sequence(ctx, tid);

	if (!sequence)
		return -ENOENT;
	if (sequence & 1)
		return -EAGAIN;
	memcpy(out, looper_kernel_stash(((struct stash_of *)ctx)->kernel, 0), sizeof(*out));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (stash_sequence(ctx, tid) != sequence)
		return -EAGAIN;
	out->sequence = ((struct stash_of *)ctx)->last_read = sequence;
	return 0;
}

/* All words of one generation, or of two that follow each other with one boundary. */
static bool is_whole(const struct stack_capture *capture)
{
	uint64_t at = (uintptr_t)board->words - capture->stack_base;
	const uint64_t *words = (const uint64_t *)(capture->stack + at);
	unsigned boundaries = 0;

	if (capture->stack_bytes < WORDS * 8 || at > capture->stack_bytes - WORDS * 8)
		return false;
	for (unsigned i = 1; i < WORDS; i++) {
		if (words[i] == words[i - 1])
			continue;
		if (words[i] + 1 != words[i - 1])
			return false;
		boundaries++;
	}
	return boundaries <= 1;
}

static void run(struct stack_capturer *capturer, pid_t pid, unsigned ms, unsigned *accepted,
		unsigned *torn, unsigned *refused)
{
	struct stack_capture *capture = stack_capture_new(65536);
	struct stack_thread thread = {.pid = pid, .tid = pid, .pidfd = -1};
	uint64_t until = capture_now_mono_ns() + ms * 1000000ull;

	*accepted = *torn = *refused = 0;
	while (capture_now_mono_ns() < until) {
		if (stack_capture(capturer, &thread, STACK_SNAPSHOT, capture)) {
			++*refused;
			continue;
		}
		++*accepted;
		*torn += !is_whole(capture);
	}
	stack_capture_free(capture);
}

int main(void)
{
	struct sched_kernel_options options = {.mode = CPU_MODE_SWITCH, .loopers = true};
	struct looper_slot slot = {.epfd = -1,
				   .polling = -1,
				   .syscall_nr = -1,
				   .other_epfd = -1,
				   .detector = LOOPER_BY_SWITCH,
				   .block_ns = 500000000};
	struct sched_kernel *sched;
	struct stash_of stash_of = {0};
	struct stack_stash stash = {stash_read, stash_check, &stash_of};
	struct stack_capturer *capturer;
	unsigned accepted, torn, refused;
	struct stack_stats stats;
	const struct looper_kernel_options by_switch = {.detector = LOOPER_BY_SWITCH};
	char reason[160] = "";
	pid_t pid;

	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	sched = sched_kernel_open(&options, reason, sizeof(reason));
	if (sched)
		stash_of.kernel = looper_kernel_open(sched, &by_switch, reason, sizeof(reason));
	if (!stash_of.kernel) {
		tap_skip("snapshots by the switch program", reason);
		return 0;
	}
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		rewrite_for_ever();
	}
	while (!atomic_load(&board->ready))
		usleep(1000);
	stash_of.tid = slot.tid = pid;
	*looper_kernel_slot(stash_of.kernel, 0) = slot;
	tap_ok(!looper_kernel_watch(stash_of.kernel, 0, pid), "the thread is watched");
	looper_kernel_mark(stash_of.kernel, 0, pid);
	usleep(20000);
	capturer = stack_capturer_new(&(struct stack_capture_config){.stash = &stash});
	run(capturer, pid, 3000, &accepted, &torn, &refused);
	tap_ok(accepted && !torn,
	       "%u snapshots accepted, %u torn, %u refused, of %" PRIu64 " rewrites", accepted,
	       torn, refused, atomic_load(&board->generation));
	stack_capturer_stats(capturer, &stats);
	tap_ok(!stats.stops, "and no stop");
	stash_of.unchecked = true;
	run(capturer, pid, 1000, &accepted, &torn, &refused);
	tap_note("without the check: %u of %u torn", torn, accepted);
	stack_capturer_free(capturer);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	looper_kernel_close(stash_of.kernel);
	sched_kernel_close(sched);
	return tap_done();
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* A process that changes its uid in its life, as a zygote's child does, and what it ran as each of
 * the two by its own clock. */
#pragma once
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "cpu_run.h"
#include "tap.h"

/* In memory that the children share: what they ran as each uid, at least and at most. A call of
 * setresuid and the end of a process take up to a millisecond on a busy machine, and only a
 * child's own clock on both sides of the call, and its parent's wait4(), know of them. */
struct uid_truth {
	atomic_ulong least_ns[2], most_ns[2], changed_ns;
	unsigned turns;
};

static inline struct uid_truth *uid_truth_new(void)
{
	struct uid_truth *truth = mmap(NULL, sizeof(*truth), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return truth == MAP_FAILED ? NULL : truth;
}

/* sleeps: no hook sees the change, the next switch does. */
static inline void run_turn(struct uid_truth *truth, const uid_t uids[2], const unsigned ms[2],
			    bool sleeps)
{
	uint64_t clock_ns[2][2], end_ns;

	for (int i = 0; i < 2; i++) {
		if (sleeps)
			usleep(1000);
		clock_ns[i][0] = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
		/* Root's rights stay with the first. */
		if (setresuid(uids[i], i ? uids[i] : 0, i ? uids[i] : 0))
			_exit(1);
		if (sleeps)
			usleep(1000);
		clock_ns[i][1] = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
		burn_ms(ms[i]);
	}
	end_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
	atomic_fetch_add(&truth->least_ns[0], clock_ns[1][0] - clock_ns[0][1]);
	atomic_fetch_add(&truth->most_ns[0], clock_ns[1][1] - clock_ns[0][0]);
	atomic_fetch_add(&truth->least_ns[1], end_ns - clock_ns[1][1]);
	atomic_store(&truth->changed_ns, clock_ns[1][0]);
	_exit(0);
}

static inline bool take_turn(struct uid_truth *truth, const uid_t uids[2], const unsigned ms[2],
			     bool sleeps)
{
	struct rusage usage;
	uint64_t all_ns;
	int status;
	pid_t pid = fork();

	if (!pid)
		run_turn(truth, uids, ms, sleeps);
	if (pid < 0 || wait4(pid, &status, 0, &usage) != pid || status)
		return false;
	all_ns = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * NSEC_PER_SEC +
		 (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec + 2) * NSEC_PER_USEC;
	truth->most_ns[1] += all_ns - truth->changed_ns;
	truth->turns++;
	return true;
}

/* Each change may be off by 0.05 ms, and by 30 ms on an emulator. */
static inline void check_split(const char *name, const struct uid_truth *truth, unsigned turns,
			       const uint64_t found_ns[2])
{
	uint64_t slack_ns = turns * (tap_is_emulated() ? 30000 : 50) * NSEC_PER_USEC;
	bool right = truth->turns == turns;

	for (int i = 0; i < 2; i++)
		right &= found_ns[i] + slack_ns > truth->least_ns[i] &&
			 found_ns[i] < truth->most_ns[i] + slack_ns;
	tap_ok(right, "%s: before setuid %.2f of %.2f to %.2f ms, after it %.2f of %.2f to %.2f",
	       name, (double)found_ns[0] / 1e6, (double)truth->least_ns[0] / 1e6,
	       (double)truth->most_ns[0] / 1e6, (double)found_ns[1] / 1e6,
	       (double)truth->least_ns[1] / 1e6, (double)truth->most_ns[1] / 1e6);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* A CPU source that a test opens by itself and reads out when it likes. */
#pragma once
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cpu_open.h"
#include "jankscope/target.h"
#include "source/cpu/cpu.h"
#include "spin.h"
#include "util/clock.h"

/* A way to count, and what it is called. */
struct cpu_variant {
	const char *name;
	struct cpu_options options;
};

#define CPU_TWINS 3
static const struct cpu_variant cpu_twins[CPU_TWINS] = {
	{"switch/tp_btf", {.kernel = {CPU_MODE_SWITCH, VARIANT_TP_BTF}}},
	{"switch/raw_tp", {.kernel = {CPU_MODE_SWITCH, VARIANT_RAW_TP}}},
	{"iter/tp_btf", {.kernel = {CPU_MODE_ITER, VARIANT_TP_BTF}}},
};

struct run {
	const char *name;
	struct source *source;
	struct target_set *targets;
	struct record_interval interval;
	uint64_t begin_ns;  /* CLOCK_MONOTONIC */
	uint64_t sample_ns; /* how long the last read-out took */
	uint64_t open_ns;   /* how long it took to begin */
};

static inline bool begin(struct run *run, const char *name, const struct cpu_options *options)
{
	struct source_context context = {.interval_ns = NSEC_PER_SEC};

	*run = (struct run){.name = name,
			    .source = source_for_test(options),
			    .targets = target_set_new(NULL, 0, "")};
	context.targets = run->targets;
	run->open_ns = clock_now_ns(CLOCK_MONOTONIC);
	if (open_for_test(run->source, &context, &options->kernel, name)) {
		run->begin_ns = clock_now_ns(CLOCK_MONOTONIC);
		run->open_ns = run->begin_ns - run->open_ns;
		return true;
	}
	run->source->ops->close(run->source);
	target_set_free(run->targets);
	return false;
}

static inline void sample(struct run *run)
{
	counter_list_free(&run->interval.lost);
	missing_list_free(&run->interval.missing);
	run->interval = (struct record_interval){0};
	run->sample_ns = clock_now_ns(CLOCK_MONOTONIC);
	run->source->ops->sample(run->source, &run->interval);
	run->sample_ns = clock_now_ns(CLOCK_MONOTONIC) - run->sample_ns;
}

static inline void end(struct run *run)
{
	counter_list_free(&run->interval.lost);
	missing_list_free(&run->interval.missing);
	run->source->ops->close(run->source);
	target_set_free(run->targets);
}

static inline uint64_t uid_ns(const struct run *run, uid_t uid)
{
	for (size_t i = 0; i < run->interval.cpu.uid_count; i++)
		if (run->interval.cpu.uids[i].uid == uid)
			return run->interval.cpu.uids[i].cpu_ns;
	return 0;
}

static inline void burn_ms(unsigned ms)
{
	uint64_t until_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID) + ms * NSEC_PER_MSEC;

	while (clock_now_ns(CLOCK_THREAD_CPUTIME_ID) < until_ns)
		spin_hint();
}

/* The next task gets this tid, unless another program was quicker. */
static inline bool set_next_tid(pid_t tid)
{
	char text[16];
	int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC),
	    n = snprintf(text, sizeof(text), "%d", tid - 1);
	bool ok = fd >= 0 && write(fd, text, (size_t)n) == n;

	if (fd >= 0)
		close(fd);
	return ok;
}

/* Two of these tests may run at a time. */
static inline uid_t own_uid(unsigned n)
{
	return 100000 + (uid_t)getpid() * 16 + n;
}

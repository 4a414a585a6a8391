/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/blocks_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "abi/sched.h"
#include "source/wait_stub.h"
#include "util/clock.h"

#define STANDING_TRIES 3

struct blocks_watch {
	struct watched rows[BLOCKS_MAX_WATCHED];
	uint64_t serial, born_mono_ns;
	struct bounded_calls *calls;
};

struct blocks_watch *blocks_watch_new(struct bounded_calls *calls)
{
	struct blocks_watch *watch = calloc(1, sizeof(*watch));

	if (watch) {
		watch->born_mono_ns = clock_now_ns(CLOCK_MONOTONIC);
		watch->calls = calls;
	}
	return watch;
}

void blocks_watch_free(struct blocks_watch *watch)
{
	free(watch);
}

struct watched *blocks_watch_add(struct blocks_watch *watch, const struct target_process *process)
{
	struct watched *row = NULL;

	for (uint32_t i = 0; i < BLOCKS_MAX_WATCHED; i++) {
		if (watch->rows[i].used)
			continue;
		row = &watch->rows[i];
		*row = (struct watched){.used = true, .index = i};
		break;
	}
	if (!row) {
		errno = ENOSPC;
		return NULL;
	}
	row->pid = process->pid;
	row->start_boot_ns = process->start_boot_ns;
	row->slot_id = ++watch->serial;
	row->pidfd = process->pidfd >= 0 ? fcntl(process->pidfd, F_DUPFD_CLOEXEC, 0) : -1;
	snprintf(row->process, sizeof(row->process), "%s", process->process);
	snprintf(row->package, sizeof(row->package), "%s",
		 process->package ? process->package : "");
	return row;
}

void blocks_watch_remove(struct blocks_watch *watch, struct watched *watched,
			 struct looper_kernel *kernel)
{
	looper_kernel_unwatch(kernel, watched->index, watched->pid);
	looper_probes_free(watched->probes);
	if (watched->pidfd >= 0)
		close(watched->pidfd);
	block_spells_free(&watched->spells);
	free(watched->held);
	watched->held = NULL;
	watched->used = false;
}

struct watched *blocks_watch_at(struct blocks_watch *watch, uint32_t index)
{
	return index < BLOCKS_MAX_WATCHED && watch->rows[index].used ? &watch->rows[index] : NULL;
}

struct watched *blocks_watch_find(struct blocks_watch *watch, pid_t pid)
{
	for (uint32_t i = 0; i < BLOCKS_MAX_WATCHED; i++)
		if (watch->rows[i].used && watch->rows[i].pid == pid)
			return &watch->rows[i];
	return NULL;
}

/* ---- what the thread did before it was watched ---- */

static bool read_text(pid_t pid, const char *name, char *text, size_t size)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, size - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	return n > 0;
}

struct past {
	uint64_t cpu_ns, delay_ns, arrivals, switches, faults_minor, faults_major;
	char state;
};

static int read_past(pid_t pid, struct past *past)
{
	char text[4096], path[64], *p;
	unsigned long long minor = 0, major = 0, voluntary = 0, involuntary = 0;

	*past = (struct past){0};
	snprintf(path, sizeof(path), "task/%d/schedstat", pid);
	if (!read_text(pid, path, text, sizeof(text)) ||
	    sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64, &past->cpu_ns, &past->delay_ns,
		   &past->arrivals) != 3)
		return -ESRCH;
	snprintf(path, sizeof(path), "task/%d/stat", pid);
	if (!read_text(pid, path, text, sizeof(text)) || !(p = strrchr(text, ')')))
		return -ESRCH;
	/* state, then six fields, minflt, cminflt, majflt */
	if (sscanf(p + 1, " %c %*d %*d %*d %*d %*d %*u %llu %*u %llu", &past->state, &minor,
		   &major) != 3)
		return -ESRCH;
	past->faults_minor = minor;
	past->faults_major = major;
	snprintf(path, sizeof(path), "task/%d/status", pid);
	if (read_text(pid, path, text, sizeof(text))) {
		if ((p = strstr(text, "\nvoluntary_ctxt_switches:")))
			sscanf(p, "\nvoluntary_ctxt_switches: %llu", &voluntary);
		if ((p = strstr(text, "\nnonvoluntary_ctxt_switches:")))
			sscanf(p, "\nnonvoluntary_ctxt_switches: %llu", &involuntary);
	}
	past->switches = voluntary + involuntary;
	return 0;
}

/* Where the thread is and what it has behind it, as of *now_ns: read again where that took long,
 * because what it did meanwhile is in some of the numbers only. */
static int read_standing(struct bounded_calls *calls, pid_t pid, struct wait_place *place,
			 struct past *past, uint64_t *now_ns)
{
	for (int i = 0;; i++) {
		uint64_t since_ns = clock_now_ns(CLOCK_MONOTONIC);
		int err = wait_place_read_bounded(calls, pid, place);

		if (!err)
			err = read_past(pid, past);
		*now_ns = clock_now_ns(CLOCK_MONOTONIC);
		if (err || i == STANDING_TRIES || *now_ns - since_ns < NSEC_PER_MSEC)
			return err;
	}
}

static int standing_of(struct bounded_calls *calls, pid_t pid, struct probe_standing *standing)
{
	struct wait_place place;
	struct past past;
	uint64_t before_ns = clock_now_ns(CLOCK_MONOTONIC), now_ns;
	int err = read_standing(calls, pid, &place, &past, &now_ns);

	if (err)
		return err;
	*standing = (struct probe_standing){
		.syscall_nr = place.syscall_nr,
		.stack_pointer = place.stack_pointer,
		.program_counter = place.program_counter,
		.before_mono_ns = before_ns,
		.after_mono_ns = now_ns,
		.cpu_ns = past.cpu_ns,
		.delay_ns = past.delay_ns,
		.arrivals = past.arrivals,
		.switches = past.switches,
		.faults_minor = past.faults_minor,
		.faults_major = past.faults_major,
		.state = past.state,
	};
	memcpy(standing->arguments, place.arguments, sizeof(standing->arguments));
	return 0;
}

int blocks_watch_start(struct blocks_watch *watch, struct watched *watched,
		       struct looper_kernel *kernel, uint64_t block_ns)
{
	uint64_t boot_minus_mono_ns = clock_now_ns(CLOCK_BOOTTIME) - clock_now_ns(CLOCK_MONOTONIC);
	struct looper_slot_start start = {
		.tid = (uint32_t)watched->pid,
		.tgid = (uint32_t)watched->pid,
		.detector = watched->detector,
		.block_ns = block_ns,
		.slot_id = watched->slot_id,
		.thread_start_ns = watched->start_boot_ns > boot_minus_mono_ns
					   ? watched->start_boot_ns - boot_minus_mono_ns
					   : 0,
		.watching_since_ns = watch->born_mono_ns,
	};
	int err = standing_of(watch->calls, watched->pid, &watched->first);

	if (err)
		return err;
	looper_slot_fill(&watched->filled, &start, &watched->first);
	/* Where its probes are is not known here, so an epoll wait is taken for a probed one. */
	if (watched->detector == LOOPER_BY_UPROBE &&
	    watched->filled.waiting_kind == LOOPER_WAIT_EPOLL)
		watched->filled.waiting_seen_by = LOOPER_SEEN_BY_PROBE;
	err = looper_kernel_watch(kernel, watched->index, &watched->filled);
	if (err)
		return err;
	watched->settled = false;
	blocks_watch_settle(watch, watched, kernel);
	return 0;
}

void blocks_watch_settle(struct blocks_watch *watch, struct watched *watched,
			 struct looper_kernel *kernel)
{
	struct probe_standing second;
	struct looper_slot now;
	int err = standing_of(watch->calls, watched->pid, &second);

	watched->settled = err != -ETIMEDOUT && err != -EBUSY;
	if (!err && looper_kernel_read(kernel, watched->index, &now) &&
	    looper_slot_settle(&now, &watched->filled, &watched->first, &second))
		looper_kernel_correct(kernel, watched->index, &now);
}

void blocks_watch_end_period(struct watched *watched)
{
	watched->tracking = false;
	watched->owner.tid = 0;
	watched->frozen_ns = watched->frozen_seen_ns = watched->looked_ns = 0;
	watched->spells.count = 0;
	watched->spells.dropped = 0;
}

void blocks_watch_set_owner(struct watched *watched, pid_t tid)
{
	char path[64], text[64];

	watched->owner.tid = tid;
	watched->owner.thread[0] = 0;
	snprintf(path, sizeof(path), "task/%d/comm", tid);
	if (!read_text(watched->pid, path, text, sizeof(text)))
		return;
	text[strcspn(text, "\n")] = 0;
	snprintf(watched->owner.thread, sizeof(watched->owner.thread), "%.15s", text);
}

struct watched_load blocks_watch_load(const struct watched *watched,
				      const struct sched_kernel *sched)
{
	struct watched_load load = {.mono_ns = clock_now_ns(CLOCK_MONOTONIC)};
	struct timespec ts;
	unsigned long long pages;
	clockid_t clock;
	char text[128];

	load.idle_ns = SOME_U64(sched_kernel_idle_now_ns(sched));
	if (!clock_getcpuclockid(watched->pid, &clock) && !clock_gettime(clock, &ts))
		load.cpu_ns = SOME_U64((uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec);
	if (read_text(watched->pid, "statm", text, sizeof(text)) &&
	    sscanf(text, "%*u %llu", &pages) == 1)
		load.rss_bytes = SOME_U64(pages * (uint64_t)sysconf(_SC_PAGESIZE));
	return load;
}

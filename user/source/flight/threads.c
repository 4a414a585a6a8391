/* SPDX-License-Identifier: BSD-2-Clause */
/* Which threads make frames: by the names that Android gives them. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jankscope/target.h"
#include "kernel/flight_kernel.h"
#include "kernel/sched_kernel.h"
#include "proc/read.h"
#include "source/blocks/frame_samples.h"
#include "source/cpu/cpu.h"
#include "source/flight/private.h"
#include "util/clock.h"

/* Frames come up to half a minute late. */
#define KEEP_DEAD_NS (30 * NSEC_PER_SEC)

/* HWUI makes two hwuiTasks and one RenderThread, and a WebView its own; a program that makes
 * hundreds leaves room for those that others need. */
#define MOST_OF_ROLE 4
/* Blocks of the rings that other threads leave free: three rings of 8,192 spells, for a main
 * thread, a RenderThread and one of the display that are found later. */
#define KEPT_FREE 24u

/* Targets whose threads are counted at one tick. */
#define GLANCES           16
#define LOOKS_AFTER_BIRTH 4
/* A look through so many threads takes half a millisecond: more have to wait for the next one. */
#define MOST_GLANCED 512
/* Without a switch: the list of its process's threads may be older. */
#define RUNS_LONG_NS (20 * NSEC_PER_MSEC)
/* Of each 250 ms, behind the end of a SurfaceFlinger: init starts it anew at once. */
#define DISPLAY_LOOKS 20
/* Processes whose names are asked for at one look. */
#define ASKS 4

/* Rings by what a thread of each role switches: 120 blocks are five apps and the display. */
static const uint8_t blocks_of[] = {
	[FLIGHT_ROLE_OTHER] = 2,         [FLIGHT_ROLE_MAIN] = 8,
	[FLIGHT_ROLE_RENDER] = 8,        [FLIGHT_ROLE_HWUI] = 2,
	[FLIGHT_ROLE_COMPOSER] = 1,      [FLIGHT_ROLE_SURFACEFLINGER] = 8,
	[FLIGHT_ROLE_RENDER_ENGINE] = 8,
};

static struct followed *find(struct flight_source *flight, pid_t tid)
{
	for (size_t i = 0; i < flight->count; i++)
		if (flight->threads[i].tid == tid)
			return &flight->threads[i];
	return NULL;
}

static void let_go(struct flight_source *flight, struct followed *followed)
{
	flight_kernel_unwatch(flight->kernel, followed->index);
	frame_samples_unwatch(flight->blocks, followed->index);
	*followed = flight->threads[--flight->count];
}

/* On these a frame always waits: without them nothing is known of it. */
static bool is_needed(enum flight_role role)
{
	return role == FLIGHT_ROLE_MAIN || role == FLIGHT_ROLE_RENDER ||
	       role == FLIGHT_ROLE_SURFACEFLINGER || role == FLIGHT_ROLE_RENDER_ENGINE;
}

/* For a thread of this role: what needed ones did before they died makes no room for a helper. */
static void let_oldest_dead_go(struct flight_source *flight, enum flight_role role)
{
	struct followed *oldest = NULL;

	for (size_t i = 0; i < flight->count; i++) {
		struct followed *followed = &flight->threads[i];

		if (is_needed(followed->role) && !is_needed(role))
			continue;
		if (followed->dead_ns && (!oldest || followed->dead_ns < oldest->dead_ns))
			oldest = followed;
	}
	if (oldest)
		let_go(flight, oldest);
}

/* The process has as many of them as are recorded. */
static bool has_enough(const struct flight_source *flight, pid_t pid, enum flight_role role)
{
	size_t count = 0;

	if (role != FLIGHT_ROLE_HWUI && role != FLIGHT_ROLE_RENDER)
		return false;
	for (size_t i = 0; i < flight->count; i++)
		count += flight->threads[i].pid == pid && !flight->threads[i].dead_ns &&
			 flight->threads[i].role == role;
	return count >= MOST_OF_ROLE;
}

/* /proc tells threads in the order of their birth: helpers that were born first must not take all
 * the room. */
static bool has_room(const struct flight_source *flight, pid_t pid, enum flight_role role)
{
	if (flight->count == FLIGHT_THREADS || has_enough(flight, pid, role))
		return false;
	return is_needed(role) || role == FLIGHT_ROLE_HWUI ||
	       flight_kernel_free_blocks(flight->kernel) >= KEPT_FREE + blocks_of[role];
}

static void follow(struct flight_source *flight, pid_t pid, pid_t tid, enum flight_role role,
		   const char *comm)
{
	struct followed *followed = find(flight, tid);
	int index;

	/* The tid may be another thread's by now. */
	if (followed &&
	    (followed->pid != pid || flight_kernel_is_dead(flight->kernel, followed->index))) {
		let_go(flight, followed);
		followed = NULL;
	}
	/* Threads are born with the name of who made them, and get their own later. */
	if (followed && followed->role == FLIGHT_ROLE_OTHER && role != FLIGHT_ROLE_OTHER &&
	    has_room(flight, pid, role)) {
		let_go(flight, followed);
		followed = NULL;
	}
	if (followed)
		return;
	index = has_room(flight, pid, role)
			? flight_kernel_watch(flight->kernel, tid, pid, blocks_of[role])
			: -E2BIG;
	if (index < 0) {
		/* Its room is free with the next look. */
		if (role != FLIGHT_ROLE_HWUI && !has_enough(flight, pid, role))
			let_oldest_dead_go(flight, role);
		flight->crowded_now++;
		return;
	}
	followed = &flight->threads[flight->count++];
	*followed = (struct followed){.pid = pid, .tid = tid, .role = role, .seen = flight->looks};
	followed->index = (uint32_t)index;
	snprintf(followed->comm, sizeof(followed->comm), "%s", comm);
	/* What the others do for a frame is no code of the app. */
	if (role == FLIGHT_ROLE_MAIN || role == FLIGHT_ROLE_RENDER)
		frame_samples_watch(flight->blocks,
				    &(struct frame_thread){followed->index, pid, tid,
							   role == FLIGHT_ROLE_MAIN});
}

/* Of a thread that ran since the recorder began. */
static bool has_slot(const struct flight_source *flight, pid_t pid, pid_t tid,
		     char comm[RECORD_COMM_LEN])
{
	struct task_slot slot;

	if (!sched_kernel_slot(cpu_source_kernel(flight->cpu), tid, &slot) ||
	    slot.tgid != (uint32_t)pid)
		return false;
	memcpy(comm, slot.comm, RECORD_COMM_LEN);
	comm[RECORD_COMM_LEN - 1] = 0;
	return true;
}

static bool ask_comm(pid_t pid, pid_t tid, char comm[RECORD_COMM_LEN])
{
	char text[32];

	if (proc_read_of_thread("", pid, tid, "comm", text, sizeof(text)) <= 0)
		return false;
	text[strcspn(text, "\n")] = 0;
	snprintf(comm, RECORD_COMM_LEN, "%.15s", text);
	return true;
}

/* Of a thread that ran since the recorder began it costs no system call. */
static bool read_comm(const struct flight_source *flight, pid_t pid, pid_t tid,
		      char comm[RECORD_COMM_LEN])
{
	return has_slot(flight, pid, tid, comm) || ask_comm(pid, tid, comm);
}

typedef bool (*role_fn)(const struct flight_source *flight, bool leader, const char *comm,
			enum flight_role *role);

static bool role_in_target(const struct flight_source *flight, bool leader, const char *comm,
			   enum flight_role *role)
{
	*role = leader                          ? FLIGHT_ROLE_MAIN
		: !strcmp(comm, "RenderThread") ? FLIGHT_ROLE_RENDER
		: !strncmp(comm, "hwuiTask", 8) ? FLIGHT_ROLE_HWUI
						: FLIGHT_ROLE_OTHER;
	return *role != FLIGHT_ROLE_OTHER || (flight->glob && !fnmatch(flight->glob, comm, 0));
}

static bool role_in_surfaceflinger(const struct flight_source *flight, bool leader,
				   const char *comm, enum flight_role *role)
{
	*role = leader ? FLIGHT_ROLE_SURFACEFLINGER : FLIGHT_ROLE_RENDER_ENGINE;
	return leader || !strcmp(comm, "RenderEngine");
}

static bool role_in_composer(const struct flight_source *flight, bool leader, const char *comm,
			     enum flight_role *role)
{
	*role = FLIGHT_ROLE_COMPOSER;
	return leader || !strncmp(comm, "binder:", 7) || !strncmp(comm, "HwBinder:", 9);
}

static void note_seen(struct flight_source *flight, pid_t tid)
{
	struct followed *followed = find(flight, tid);

	if (followed)
		followed->seen = flight->looks;
}

/* A thread that runs another program (execve) gets the number of the main thread: no switch of its
 * own one says that it is nobody's. A list that threads come to and leave may miss one. */
static void end_if_gone(struct flight_source *flight, const struct followed *followed)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", followed->pid, followed->tid);
	if (access(path, F_OK) && errno == ENOENT)
		flight_kernel_end(flight->kernel, followed->index);
}

void flight_check_runner(struct flight_source *flight, const struct followed *followed)
{
	struct flight_thread thread;

	if (flight_kernel_peek(flight->kernel, followed->index, &thread) && !thread.dead &&
	    thread.state == FLIGHT_ON &&
	    clock_now_ns(CLOCK_MONOTONIC) > thread.in_ns + RUNS_LONG_NS)
		end_if_gone(flight, followed);
}

static void end_those_gone(struct flight_source *flight, pid_t pid, unsigned look)
{
	for (size_t i = 0; i < flight->count; i++) {
		struct followed *followed = &flight->threads[i];

		if (followed->pid == pid && followed->seen != look &&
		    !flight_kernel_is_dead(flight->kernel, followed->index))
			end_if_gone(flight, followed);
	}
}

void flight_forget_idle(struct flight_source *flight)
{
	memset(flight->idle, 0, sizeof(flight->idle));
}

/* The role of the thread, which is the n-th of its process. */
static bool has_role(struct flight_source *flight, pid_t pid, pid_t tid, unsigned n,
		     role_fn role_of, char comm[RECORD_COMM_LEN], enum flight_role *role)
{
	pid_t *idle = role_of == role_in_target && n > MOST_GLANCED
			      ? &flight->idle[(uint32_t)tid % FLIGHT_IDLE]
			      : NULL;

	if (has_slot(flight, pid, tid, comm))
		return role_of(flight, tid == pid, comm, role);
	if ((idle && *idle == tid) || !ask_comm(pid, tid, comm))
		return false;
	if (role_of(flight, tid == pid, comm, role))
		return true;
	if (idle)
		*idle = tid;
	return false;
}

static void find_in(struct flight_source *flight, pid_t pid, role_fn role_of)
{
	char path[64], comm[RECORD_COMM_LEN];
	struct dirent *entry;
	enum flight_role role;
	unsigned look = ++flight->looks, count = 0;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	folder = opendir(path);
	/* It is not gone: no descriptor is left. */
	if (!folder && errno != ENOENT)
		flight->crowded_now++;
	while (folder && (entry = readdir(folder))) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);

		note_seen(flight, tid);
		if (tid > 0 && has_role(flight, pid, tid, ++count, role_of, comm, &role))
			follow(flight, pid, tid, role, comm);
	}
	if (folder)
		closedir(folder);
	end_those_gone(flight, pid, look);
}

void flight_find_threads(struct flight_source *flight, pid_t pid)
{
	find_in(flight, pid, role_in_target);
}

/* The folder of a process's threads has as many links more than two. 0: it is gone. */
static uint64_t count_threads(pid_t pid)
{
	char path[64];
	struct stat folder;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	return stat(path, &folder) ? 0 : (uint64_t)folder.st_nlink;
}

void flight_find_born(struct flight_source *flight)
{
	for (unsigned n = 0; n < GLANCES; n++) {
		const struct target_process *process =
			target_set_at(flight->context.targets, flight->next_glance);
		struct glance *glance;
		uint64_t threads;

		if (!process) {
			flight->next_glance = 0;
			return;
		}
		flight->next_glance++;
		glance = &flight->glances[(uint32_t)process->pid % FLIGHT_GLANCED];
		threads = count_threads(process->pid);
		/* A thread gets its name some time after its birth. */
		if (glance->pid != process->pid || glance->threads != threads)
			*glance = (struct glance){process->pid, LOOKS_AFTER_BIRTH, threads};
		if (!glance->looks || threads > MOST_GLANCED)
			continue;
		glance->looks--;
		flight_find_threads(flight, process->pid);
	}
}

static bool was_asked(const struct flight_source *flight, pid_t pid)
{
	for (size_t i = 0; i < flight->asked_count; i++)
		if (flight->asked[i] == pid)
			return true;
	return false;
}

/* The composer's process has a name that the vendor chose, behind which the interface stands:
 * android.hardware.graphics.composer@2.4-service, android.hardware.composer.hwc3-service.pixel,
 * vendor.qti.hardware.display.composer-service. Its comm is the begin of that, as those of other
 * services are, so the whole names of these are asked for, a few at a time. */
static bool is_composer(struct flight_source *flight, pid_t pid, const char *comm, unsigned *asks)
{
	const char *name;

	if (strncmp(comm, "android.hardwar", 15) && strncmp(comm, "vendor.", 7) &&
	    !strstr(comm, "composer"))
		return false;
	if (was_asked(flight, pid) || ++*asks > ASKS)
		return false;
	name = target_process_name(flight->context.targets, pid, 0);
	if (!name)
		return false;
	if (strstr(name, "composer") && strstr(name, "-service"))
		return true;
	if (flight->asked_count == FLIGHT_ASKED)
		flight->asked_count = 0;
	flight->asked[flight->asked_count++] = pid;
	return false;
}

void flight_find_display(struct flight_source *flight)
{
	DIR *folder = opendir("/proc");
	char comm[RECORD_COMM_LEN];
	struct dirent *entry;
	unsigned asks = 0;

	while (folder && (entry = readdir(folder))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (pid <= 0 || !read_comm(flight, pid, pid, comm))
			continue;
		if (!strcmp(comm, "surfaceflinger"))
			find_in(flight, pid, role_in_surfaceflinger);
		else if (is_composer(flight, pid, comm, &asks))
			find_in(flight, pid, role_in_composer);
	}
	if (folder)
		closedir(folder);
}

/* Another thread may have come for it. */
static void note_death(struct flight_source *flight, struct followed *followed, uint64_t now_ns)
{
	followed->dead_ns = now_ns;
	if (followed->role >= FLIGHT_ROLE_SURFACEFLINGER && followed->tid == followed->pid)
		flight->display_looks = DISPLAY_LOOKS;
	flight->glances[(uint32_t)followed->pid % FLIGHT_GLANCED].pid = 0;
}

void flight_tidy_threads(struct flight_source *flight, uint64_t now_ns)
{
	/* Those of the look before: all programs of then have ended. */
	flight_kernel_tidy(flight->kernel);
	for (size_t i = flight->count; i-- > 0;) {
		struct followed *followed = &flight->threads[i];

		if (!flight_kernel_is_dead(flight->kernel, followed->index))
			flight_kernel_mark(flight->kernel, followed->index);
		else if (!followed->dead_ns)
			note_death(flight, followed, now_ns);
		else if (now_ns - followed->dead_ns > KEEP_DEAD_NS)
			let_go(flight, followed);
	}
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* What late_app's processes share: the list of frames in shared memory, clocks, and the helpers
 * that make a frame late on demand. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MS_NS      1000000ll
#define MAX_FRAMES (1 << 19) /* an hour at 120 Hz */
#define CAUSES     2         /* of one frame at most */

/* What makes a frame late, and how it is done. */
enum way {
	WAY_NONE,
	WAY_MAIN_CPU,     /* the main thread computes in its doFrame */
	WAY_MESSAGE,      /* ... in a message before it, so that it comes to its doFrame late */
	WAY_RENDER_CPU,   /* the RenderThread draws for long */
	WAY_RENDER_SYNC,  /* ... while the main thread waits for it to take the frame over */
	WAY_HOG_MAIN,     /* a process of higher priority has the main thread's CPU */
	WAY_HOG_EARLY,    /* ... since before the vsync */
	WAY_HOG_RENDER,   /* the same on the RenderThread's CPU */
	WAY_LOCK_MAIN,    /* a worker holds a lock */
	WAY_LOCK_RENDER,  /* the same for the RenderThread */
	WAY_PEER_RECEIVE, /* a process answers late: in recv() */
	WAY_PEER_POLL,    /* ... in poll() */
	WAY_DISK,         /* a slow disk: read() */
	WAY_DISK_RENDER,  /* the same on the RenderThread */
	WAY_FAULT_DISK,   /* ... a page of a file that is mapped */
	WAY_FAULT_USER,   /* a page that userfaultfd fills late, as ART's collector does */
	WAY_BINDER,       /* a late answer behind the binder driver */
	WAY_FENCE,        /* the RenderThread polls what the GPU signals late */
	WAY_GPU,          /* the buffer is queued in time, and ready late */
	WAY_SF_CPU,       /* SurfaceFlinger's main thread composes for long */
	WAY_SF_ENGINE,    /* ... its RenderEngine */
	WAY_HWC,          /* the composer HAL */
	WAYS,
};

static const struct {
	const char *name, *cause;
} way_names[WAYS] = {
	[WAY_NONE] = {"none", "none"},
	[WAY_MAIN_CPU] = {"main_cpu", "main_cpu"},
	[WAY_MESSAGE] = {"message", "main_cpu"},
	[WAY_RENDER_CPU] = {"render_cpu", "render_cpu"},
	[WAY_RENDER_SYNC] = {"render_sync", "render_cpu"},
	[WAY_HOG_MAIN] = {"hog_main", "no_cpu"},
	[WAY_HOG_EARLY] = {"hog_early", "no_cpu"},
	[WAY_HOG_RENDER] = {"hog_render", "no_cpu"},
	[WAY_LOCK_MAIN] = {"lock_main", "lock"},
	[WAY_LOCK_RENDER] = {"lock_render", "lock"},
	[WAY_PEER_RECEIVE] = {"peer_receive", "io"},
	[WAY_PEER_POLL] = {"peer_poll", "io"},
	[WAY_DISK] = {"disk", "io"},
	[WAY_DISK_RENDER] = {"disk_render", "io"},
	[WAY_FAULT_DISK] = {"fault_disk", "page_fault"},
	[WAY_FAULT_USER] = {"fault_user", "page_fault"},
	[WAY_BINDER] = {"binder", "binder"},
	[WAY_FENCE] = {"fence", "gpu"},
	[WAY_GPU] = {"gpu", "gpu"},
	[WAY_SF_CPU] = {"sf_cpu", "surfaceflinger"},
	[WAY_SF_ENGINE] = {"sf_engine", "surfaceflinger"},
	[WAY_HWC] = {"hwc", "hwc"},
};

/* One frame: what is planned, and what everybody's own clocks say of it. CLOCK_BOOTTIME. */
struct frame {
	int32_t token, hz;
	uint8_t ways[CAUSES];
	int64_t planned_ns[CAUSES], took_ns[CAUSES];
	int64_t off_ns[CAUSES]; /* of what it took: without a CPU */
	int64_t period_ns;
	int64_t expected_start_ns, expected_end_ns, predicted_ns;
	int64_t begin_ns, asked_ns, end_ns; /* of doFrame; asked: the RenderThread */
	int64_t queued_ns, ready_ns;        /* of the buffer; ready: the GPU is done */
	int64_t marked_ns;                  /* the end of queueBuffer */
	int64_t wake_ns, finish_ns, present_ns;
	/* 0, or where the display took the buffer before it at its time: when it has to be ready
	 * by. */
	int64_t stuffed_ns;
	/* Both threads in the frame: on a CPU, and ready without one. */
	int64_t main_ran_ns, main_waited_ns, render_ran_ns, render_waited_ns;
	int64_t sf_ran_ns, sf_waited_ns; /* SurfaceFlinger's main thread */
};

struct shared {
	struct frame frames[MAX_FRAMES];
	int64_t disk_ns; /* of the next read; taken by it */
	int64_t grid_ns; /* a vsync of the grid, and its period: for the counters of vsyncs */
	int64_t period_ns;
};

static struct shared *shared;

/* A thread or process that is asked for something: a number goes there, one may come back. */
struct helper {
	int ask, answer;
};

static inline void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "late_app: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static inline int64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static inline int64_t boot_ns(void)
{
	return clock_ns(CLOCK_BOOTTIME);
}

static inline int64_t ran_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* For how long this thread has waited for a CPU. */
static inline int64_t waited_ns(void)
{
	char text[96] = "";
	int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	long long ran = 0, waited = 0;

	if (fd < 0)
		return 0;
	if (read(fd, text, sizeof(text) - 1) > 0)
		sscanf(text, "%lld %lld", &ran, &waited);
	close(fd);
	return waited;
}

static inline void nap_ns(int64_t ns)
{
	struct timespec ts = {ns / 1000000000, ns % 1000000000};

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

static inline void sleep_until(int64_t at_ns)
{
	struct timespec at = {at_ns / 1000000000, at_ns % 1000000000};

	while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

/* Compute until this thread has had so much of a CPU. */
static inline __attribute__((always_inline)) void burn(int64_t ns)
{
	volatile uint64_t sum = 0;

	for (int64_t end = ran_ns() + ns; ran_ns() < end;)
		for (int i = 0; i < 5000; i++)
			sum += (uint64_t)i * i;
}

/* A line into the trace buffer; fd -1: there is none, and nobody may read it by now. */
static inline void put_mark(int fd, const char *text, int size)
{
	must(fd < 0 || write(fd, text, (size_t)size) == size || errno == EBADF, "marker");
}

static inline void pin(unsigned cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* Before all others of the machine, and before those of this program with a lower number. */
static inline void be_urgent(int priority)
{
	struct sched_param param = {.sched_priority = priority};

	if (sched_setscheduler(0, SCHED_FIFO, &param))
		setpriority(0, 0, priority > 7 ? -20 : -10);
}

static inline void send_number(int fd, int64_t number)
{
	must(write(fd, &number, sizeof(number)) == sizeof(number), "write");
}

static inline int64_t get_number(int fd)
{
	int64_t number;
	ssize_t n;

	do
		n = recv(fd, &number, sizeof(number), 0);
	while (n < 0 && errno == EINTR);
	if (n != sizeof(number))
		_exit(0); /* the app is gone */
	return number;
}

/* A pair of sockets: [0] the app's. */
static inline void pair(int fds[2])
{
	must(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), "socketpair");
}

/* A process that ends with this one, and has this name. */
static inline pid_t child(const char *name)
{
	pid_t pid = fork();

	must(pid >= 0, "fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, name);
	}
	return pid;
}

/* A process that answers each number: run() does what it asks for. */
static inline int serve(const char *name, unsigned cpu, int priority, void (*run)(int64_t ns),
			bool answers)
{
	int fds[2];

	pair(fds);
	if (child(name)) {
		close(fds[1]);
		return fds[0];
	}
	close(fds[0]);
	if (cpu != UINT32_MAX)
		pin(cpu);
	be_urgent(priority);
	for (;;) {
		run(get_number(fds[1]));
		if (answers)
			send_number(fds[1], 0);
	}
}

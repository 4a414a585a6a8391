/* SPDX-License-Identifier: BSD-2-Clause */
/* Plays an app and SurfaceFlinger through the kernel's trace_marker: 60 frames a second, of which
 * each HOLE-th comes five refreshes late. Writes what it did when it ends.
 * usage: play_markers TRUTH SECONDS HOLE [TRACE_MARKER] */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_NS 16666667LL
#define LAYER     "com.example.play/com.example.play.Main#7"

static int marker;

static void mark(const char *format, int pid, const char *name, int value)
{
	char text[256];
	int n = snprintf(text, sizeof(text), format, pid, name, value);

	if (write(marker, text, (size_t)n) != n)
		_exit(3);
}

static void sleep_until(int64_t at_ns)
{
	struct timespec at = {at_ns / 1000000000, at_ns % 1000000000};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void *render(void *number)
{
	int pid = getpid();

	mark("B|%d|%s %d", pid, "DrawFrames", *(int *)number);
	mark("B|%d|%s", pid, "queueBuffer", 0);
	mark("C|%d|BufferTX - %s|%d", pid + 1, LAYER, 1);
	mark("E|%d", pid, "", 0);
	mark("E|%d", pid, "", 0);
	return NULL;
}

int main(int argc, char **argv)
{
	int64_t next, end;
	struct sched_param realtime = {.sched_priority = 50};
	int frames = 0, holes = 0, hole, pid = getpid();
	struct timespec now;
	FILE *truth;

	if (argc < 4)
		return 2;
	marker = open(argc > 4 ? argv[4] : "/sys/kernel/tracing/trace_marker", O_WRONLY);
	if (marker < 0) {
		perror("trace_marker");
		return 1;
	}
	/* a busy machine shall not play other frames than these */
	sched_setscheduler(0, SCHED_FIFO, &realtime);
	hole = atoi(argv[3]);
	clock_gettime(CLOCK_MONOTONIC, &now);
	next = now.tv_sec * 1000000000LL + now.tv_nsec;
	end = next + atoll(argv[2]) * 1000000000LL;
	while (next < end) {
		pthread_t thread;

		sleep_until(next);
		mark("B|%d|%s %d", pid, "Choreographer#doFrame", frames);
		mark("B|%d|%s", pid, "traversal", 0);
		mark("E|%d", pid, "", 0);
		if (hole && frames % hole == hole - 1) {
			/* the frame takes five refreshes longer */
			next += 5 * PERIOD_NS;
			sleep_until(next);
			holes++;
		}
		mark("E|%d", pid, "", 0);
		pthread_create(&thread, NULL, render, &frames);
		pthread_join(thread, NULL);
		/* SurfaceFlinger takes the buffer */
		mark("C|%d|BufferTX - %s|%d", pid + 1, LAYER, 0);
		frames++;
		next += PERIOD_NS;
	}
	truth = fopen(argv[1], "w");
	if (!truth)
		return 1;
	fprintf(truth, "%d %d %d\n", pid, frames, holes);
	return fclose(truth) ? 1 : 0;
}

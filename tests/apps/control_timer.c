/* SPDX-License-Identifier: BSD-2-Clause */
/* A periodic timer at the niceness of its caller: what the machine does to anybody's intervals.
 * usage: control_timer MS FILE    writes pairs of u64: CLOCK_BOOTTIME, length of the interval. */
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int main(int argc, char **argv)
{
	long ms = argc > 2 ? strtol(argv[1], NULL, 10) : 0;
	struct itimerspec every = {.it_interval = {ms / 1000, ms % 1000 * 1000000}};
	int out, timer;
	uint64_t row[2], before, count;

	if (ms <= 0)
		return 2;
	out = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	every.it_value = every.it_interval;
	if (out < 0 || timer < 0 || timerfd_settime(timer, 0, &every, NULL))
		return 1;
	before = now_ns(CLOCK_MONOTONIC);
	while (read(timer, &count, sizeof(count)) == sizeof(count)) {
		uint64_t now = now_ns(CLOCK_MONOTONIC);

		row[0] = now_ns(CLOCK_BOOTTIME);
		row[1] = now - before;
		before = now;
		if (write(out, row, sizeof(row)) != sizeof(row))
			return 1;
	}
	return 1;
}

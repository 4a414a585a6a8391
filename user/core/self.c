/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/self.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"

struct self_usage {
	uint64_t cpu_ns;
	int status_fd;
};

struct self_usage *self_usage_new(void)
{
	struct self_usage *usage = calloc(1, sizeof(*usage));

	if (usage)
		usage->status_fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	return usage;
}

void self_usage_free(struct self_usage *usage)
{
	if (usage && usage->status_fd >= 0)
		close(usage->status_fd);
	free(usage);
}

static uint64_t timeval_ns(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * NSEC_PER_SEC + (uint64_t)tv->tv_usec * NSEC_PER_USEC;
}

void self_usage_take(struct self_usage *usage, struct record_self *self)
{
	uint64_t now_ns = clock_now_ns(CLOCK_PROCESS_CPUTIME_ID);
	struct rusage children;
	char text[4096], *line;
	ssize_t n;

	if (!getrusage(RUSAGE_CHILDREN, &children))
		now_ns += timeval_ns(&children.ru_utime) + timeval_ns(&children.ru_stime);
	if (self) {
		self->cpu_ns = now_ns - usage->cpu_ns;
		n = usage->status_fd >= 0 ? pread(usage->status_fd, text, sizeof(text) - 1, 0) : -1;
		text[n > 0 ? n : 0] = 0;
		line = strstr(text, "RssAnon:");
		if (line)
			self->anon_bytes = SOME_U64(strtoull(line + 8, NULL, 10) * 1024);
	}
	usage->cpu_ns = now_ns;
}

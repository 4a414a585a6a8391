/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/self.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "core/self_memory.h"
#include "proc/status.h"
#include "prober/warden.h"
#include "util/clock.h"

struct self_usage {
	struct warden *warden;
	struct self_memory *memory;
	uint64_t cpu_ns;
	int status_fd;
};

struct self_usage *self_usage_new(struct warden *warden, struct prober_pool *probes)
{
	struct self_usage *usage = calloc(1, sizeof(*usage));

	if (!usage)
		return NULL;
	usage->warden = warden;
	usage->memory = self_memory_new(warden, probes);
	usage->status_fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	if (!usage->memory) {
		self_usage_free(usage);
		return NULL;
	}
	return usage;
}

void self_usage_free(struct self_usage *usage)
{
	if (!usage)
		return;
	if (usage->status_fd >= 0)
		close(usage->status_fd);
	self_memory_free(usage->memory);
	free(usage);
}

static uint64_t timeval_ns(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * NSEC_PER_SEC + (uint64_t)tv->tv_usec * NSEC_PER_USEC;
}

/* Since the start. A helper that was reaped by this process is among its children and among the
 * helpers. */
static uint64_t cpu_now_ns(struct self_usage *usage)
{
	uint64_t now_ns = clock_now_ns(CLOCK_PROCESS_CPUTIME_ID);
	struct warden_usage helpers = {0};
	struct rusage children;

	if (usage->warden)
		warden_usage(usage->warden, &helpers);
	now_ns += helpers.cpu_ns;
	if (!getrusage(RUSAGE_CHILDREN, &children)) {
		uint64_t children_ns =
			timeval_ns(&children.ru_utime) + timeval_ns(&children.ru_stime);

		now_ns += children_ns > helpers.reaped_ns ? children_ns - helpers.reaped_ns : 0;
	}
	return now_ns;
}

void self_usage_add(struct self_usage *usage, pid_t pid)
{
	self_memory_add(usage->memory, pid);
}

void self_usage_look(struct self_usage *usage)
{
	self_memory_look(usage->memory, 0);
}

void self_usage_take(struct self_usage *usage, struct record_self *self)
{
	uint64_t now_ns = cpu_now_ns(usage);
	struct proc_status status;
	char text[4096];
	ssize_t n;

	n = self && usage->status_fd >= 0 ? pread(usage->status_fd, text, sizeof(text) - 1, 0) : -1;
	text[n > 0 ? n : 0] = 0;
	proc_parse_status(text, &status);
	self_memory_look(usage->memory, status.anon_bytes.value);
	if (self) {
		/* Of a process that died unseen, the last look is all that is known. */
		self->cpu_ns = now_ns > usage->cpu_ns ? now_ns - usage->cpu_ns : 0;
		self->anon_bytes = status.anon_bytes;
		self->memory_bytes = self_memory_bytes(usage->memory);
	}
	usage->cpu_ns = now_ns;
}

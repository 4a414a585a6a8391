/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel side of the busy periods: loads bpf/looper.bpf.c on the maps of the switch program,
 * attaches what a detector needs, and lends the slots of the watched threads. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/looper.h"
#include "kernel/sched_kernel.h"
#include "source/wait_stub.h"

struct looper_kernel;

struct looper_kernel_options {
	enum looper_detector detector; /* 0: any */
	const char *btf_path;          /* NULL: the kernel's own */
	bool test_one_by_one;          /* perf uprobes although the kernel has uprobe_multi */
};

/* Load for a detector, 0: for any; LOOPER_BY_SYSCALL attaches sys_enter at once. sched is borrowed
 * and was opened with loopers. On failure NULL, with errno and a line in reason. */
struct looper_kernel *looper_kernel_open(struct sched_kernel *sched,
					 const struct looper_kernel_options *options, char *reason,
					 size_t size);
void looper_kernel_close(struct looper_kernel *kernel);

/* Attach sys_enter, for threads that cannot be probed. Loaded for 0 and LOOPER_BY_SYSCALL. */
int looper_kernel_hook_syscalls(struct looper_kernel *kernel);
/* Attach the wake-up hooks; they stay until the close. Without them there are no wakers and no
 * preemptors after a wake-up. */
int looper_kernel_hook_wakeups(struct looper_kernel *kernel);

/* The pair of uprobes of one process. */
struct looper_probes;
/* NULL with errno. */
struct looper_probes *looper_kernel_probe(struct looper_kernel *kernel, pid_t pid,
					  const struct wait_stub *stub);
void looper_probes_free(struct looper_probes *probes);
/* "uprobe_multi" or "uprobe": how a process is probed on this kernel. */
const char *looper_kernel_probe_name(const struct looper_kernel *kernel);

/* Watch a main thread in a slot that was filled for it; mark it again now and then. */
int looper_kernel_watch(struct looper_kernel *kernel, uint32_t index, pid_t tid);
void looper_kernel_mark(struct looper_kernel *kernel, uint32_t index, pid_t tid);
void looper_kernel_unwatch(struct looper_kernel *kernel, uint32_t index, pid_t tid);

/* The live slot, written by the kernel. */
struct looper_slot *looper_kernel_slot(const struct looper_kernel *kernel, uint32_t index);
/* A consistent copy of it. False: it changed all the time. */
bool looper_kernel_read(const struct looper_kernel *kernel, uint32_t index, struct looper_slot *to);
/* The thread of a slot sleeps and was frozen there, by a cgroup or the system. */
bool looper_kernel_is_frozen(const struct looper_kernel *kernel, uint32_t index);
struct looper_registers *looper_kernel_stash(const struct looper_kernel *kernel, uint32_t index);

typedef int (*looper_event_fn)(void *ctx, const struct looper_event *event, size_t size);
/* Take all events. 0, -errno, or what the callback returned. */
int looper_kernel_events(struct looper_kernel *kernel, looper_event_fn callback, void *ctx);
int looper_kernel_events_fd(const struct looper_kernel *kernel);
int looper_kernel_losses(const struct looper_kernel *kernel, uint64_t losses[LOOPER_LOSS_MAX]);

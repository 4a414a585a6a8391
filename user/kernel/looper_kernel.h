/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel side of the busy periods: loads bpf/looper.bpf.c on the maps of the switch program,
 * attaches what a detector needs, and lends the slots of the watched threads. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/looper.h"
#include "kernel/looper_read.h"
#include "kernel/sched_kernel.h"

struct looper_kernel;

struct looper_kernel_options {
	enum looper_detector detector; /* 0: any */
	const char *btf_path;          /* NULL: the kernel's own */
	bool test_one_by_one;          /* perf uprobes although the kernel has uprobe_multi */
	bool test_plain_atomics;       /* the programs of kernels without fetching atomics */
};

/* Load for a detector, 0: for any; LOOPER_BY_SYSCALL attaches sys_enter at once. sched is borrowed
 * and was opened with loopers, which says how many can be watched at a time
 * (sched_kernel_options.max_watched). On failure NULL, with errno and a line in reason. */
struct looper_kernel *looper_kernel_open(struct sched_kernel *sched,
					 const struct looper_kernel_options *options, char *reason,
					 size_t size);
void looper_kernel_close(struct looper_kernel *kernel);
/* How many threads can be watched at a time: slots have the indexes below it. */
uint32_t looper_kernel_count(const struct looper_kernel *kernel);
/* The programs' atomics order by themselves (kernel/atomics.h). */
bool looper_kernel_has_fetch(const struct looper_kernel *kernel);

/* Attach sys_enter, for threads that cannot be probed. Loaded for 0 and LOOPER_BY_SYSCALL. */
int looper_kernel_hook_syscalls(struct looper_kernel *kernel);
/* Attach the wake-up hooks and the exec hook; they stay until the close. Without them there are no
 * wakers and no preemptors after a wake-up, and a watched process that calls execve keeps the loop
 * of its former program until that is not waited in for LOOPER_ADOPT_NS. */
int looper_kernel_hook_wakeups(struct looper_kernel *kernel);
/* Have the wake-ups hooked tell of wakers with their stacks (LOOPER_EVENT_WAKER). */
void looper_kernel_want_waker_stacks(struct looper_kernel *kernel);
/* FLIGHT_NEAR bytes: which threads of the flight recorder have these low bits of the tid; the
 * wake-ups look at others no further. Owned by the kernel, written by kernel/flight_kernel.h. */
uint8_t *looper_kernel_flight_near(const struct looper_kernel *kernel);
/* The processes that are never named as wakers, at most LOOPER_OWN_PROCESSES; the rest is left out.
 */
int looper_kernel_set_own(struct looper_kernel *kernel, const pid_t *tgids, size_t count);

/* What other processes need; owned by the kernel, to be passed as copies. programs: in the order of
 * enum looper_probe, for whoever attaches them. */
enum looper_probe {
	LOOPER_PROBE_LEAVE = 0,  /* behind each system call instruction of the waits */
	LOOPER_PROBE_EPOLL = 1,  /* where epoll_wait, epoll_pwait, epoll_pwait2 begin */
	LOOPER_PROBE_POLL = 2,   /* poll, ppoll */
	LOOPER_PROBE_SELECT = 3, /* select, pselect */
	LOOPER_PROBES = 4,
};
struct looper_fds {
	int slots, stash;            /* for looper_view_open */
	int wakes;                   /* a ring of struct looper_event */
	int is_frozen;               /* for looper_is_frozen */
	int registers, wanted;       /* for task_registers_open; -1: no iterator on this kernel */
	int mm_locks;                /* for mm_locks_look; -1: as above */
	int programs[LOOPER_PROBES]; /* -1: not loaded */
	bool multi;                  /* they are for uprobe_multi links, else for perf events */
};
struct looper_fds looper_kernel_fds(const struct looper_kernel *kernel);

/* One place for a uprobe: the byte offset of an instruction in a file. */
struct looper_place {
	uint64_t offset;
	enum looper_probe probe;
};
#define LOOPER_MAX_PLACES 64

/* The uprobes of one process. */
struct looper_probes;
/* Set them, the leaving ones first: an entry without its exit would last until the next entry.
 * path: the file, best as /proc/PID/map_files/... Waits for the process's mmap_lock and, to take
 * back what failed, for grace periods of RCU. NULL with errno. */
struct looper_probes *looper_kernel_probe(struct looper_kernel *kernel, pid_t pid, const char *path,
					  const struct looper_place *places, size_t count);
void looper_probes_free(struct looper_probes *probes);
/* "uprobe_multi" or "uprobe": how a process is probed on this kernel. */
const char *looper_kernel_probe_name(const struct looper_kernel *kernel);

/* Watch the thread whose filled slot this is (kernel/looper_slot.h): clears the stash, stores the
 * slot, and lets the programs see it. 0 or -errno. To be marked again now and then. */
int looper_kernel_watch(struct looper_kernel *kernel, uint32_t index,
			const struct looper_slot *slot);
void looper_kernel_mark(struct looper_kernel *kernel, uint32_t index, pid_t tid);
void looper_kernel_unwatch(struct looper_kernel *kernel, uint32_t index, pid_t tid);
/* Store what looper_slot_settle made of a read copy, if no program has written the slot since.
 * False: one has. */
bool looper_kernel_correct(struct looper_kernel *kernel, uint32_t index,
			   const struct looper_slot *slot);
/* The descriptor of the slot's loop is closed: what the thread waits in now or next is its loop. */
void looper_kernel_loop_closed(struct looper_kernel *kernel, uint32_t index);

/* The live slot, written by the kernel. */
struct looper_slot *looper_kernel_slot(const struct looper_kernel *kernel, uint32_t index);
/* The slots and stashes as this process sees them, for looper_read.h. */
struct looper_view *looper_kernel_view(struct looper_kernel *kernel);
/* A consistent copy of a slot: looper_read_slot. */
bool looper_kernel_read(struct looper_kernel *kernel, uint32_t index, struct looper_slot *to);
/* Slots that were made to be read again: `blocks_resynced`. */
uint64_t looper_kernel_resynced(const struct looper_kernel *kernel);
/* The thread of a slot sleeps and was frozen there, by a cgroup or the system. */
bool looper_kernel_is_frozen(const struct looper_kernel *kernel, uint32_t index);
/* The same by the descriptor of looper_fds, in any process. */
bool looper_is_frozen(int is_frozen_fd, uint32_t index);

typedef int (*looper_event_fn)(void *ctx, const struct looper_event *event, size_t size);
/* Take all events but LOOPER_EVENT_BUSY; those of wakers come before the period that they are of.
 * 0, -errno, or what the callback returned. */
int looper_kernel_events(struct looper_kernel *kernel, looper_event_fn callback, void *ctx);
int looper_kernel_events_fd(const struct looper_kernel *kernel);
/* Take all LOOPER_EVENT_BUSY: one process only. */
int looper_kernel_wakes(struct looper_kernel *kernel, looper_event_fn callback, void *ctx);
int looper_kernel_losses(const struct looper_kernel *kernel, uint64_t losses[LOOPER_LOSS_MAX]);

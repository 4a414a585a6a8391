/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of watched main threads: who sits in which slot of the kernel side. */
#pragma once
#include <stdbool.h>

#include "jankscope/target.h"
#include "kernel/looper_kernel.h"
#include "kernel/looper_slot.h"
#include "source/blocks_ledger.h"
#include "source/blocks_stacks.h"

/* Load of the machine and of the app at one moment. */
struct watched_load {
	uint64_t mono_ns; /* 0: not read */
	struct opt_u64 idle_ns, cpu_ns, rss_bytes;
};

#define BLOCKS_MAX_WATCHED LOOPER_DEFAULT_WATCHED

struct watched {
	bool used;
	bool unwatchable; /* only remembered, so that it is told once */
	uint32_t index;
	pid_t pid; /* and tid: main threads only */
	int pidfd; /* own copy; -1: none */
	uint64_t start_boot_ns, slot_id;
	char process[256], package[256];
	uint32_t detector; /* enum looper_detector */
	struct looper_probes *probes;
	char degraded[96]; /* why not by the best detector, or "" */
	/* the period that is being followed */
	bool tracking, reported_open, reported_anr;
	uint64_t period, begin_ns, sampled_spell;
	/* frozen where it slept, which no switch tells: seen by looking, up to 50 ms late */
	uint64_t frozen_ns, frozen_seen_ns, looked_ns;
	int64_t boot_minus_mono_ns; /* as of its begin, so that all its records tell one start */
	bool starting; /* the watch has not begun: something of the process is held up */
	struct probe_job *probing;        /* what it waits for; of blocks.c */
	bool settled;                     /* looked at once more after the watch began */
	struct probe_standing first;      /* as found when the watch began */
	struct looper_slot filled;        /* what was made of it */
	struct looper_period_event *held; /* ended before it was known to be a loop; or NULL */
	struct watched_load load;
	struct block_samples samples;
	struct block_spells spells;
	struct {
		pid_t tid;
		char thread[RECORD_COMM_LEN];
	} owner;
};

struct blocks_watch;
struct bounded_calls;

/* calls: how the processes are read (util/bounded_call.h), borrowed. NULL with errno. */
struct blocks_watch *blocks_watch_new(struct bounded_calls *calls);
/* Everything must have been removed. */
void blocks_watch_free(struct blocks_watch *watch);

/* A row for a process. NULL with ENOSPC when all are taken. */
struct watched *blocks_watch_add(struct blocks_watch *watch, const struct target_process *process);
/* Fill the slot by what the thread does now and let the kernel side see it. detector and probes are
 * set. 0, or why the thread could not be read. */
int blocks_watch_start(struct blocks_watch *watch, struct watched *watched,
		       struct looper_kernel *kernel, uint64_t block_ns);
/* It may have left or entered its poll while the watch began: then what it does now counts. Sets
 * settled, unless the process is held up: then it must be called again. */
void blocks_watch_settle(struct blocks_watch *watch, struct watched *watched,
			 struct looper_kernel *kernel);
void blocks_watch_remove(struct blocks_watch *watch, struct watched *watched,
			 struct looper_kernel *kernel);
/* The row of a slot, NULL when it is free. */
struct watched *blocks_watch_at(struct blocks_watch *watch, uint32_t index);
struct watched *blocks_watch_find(struct blocks_watch *watch, pid_t pid);

/* Forget the period: spells and owner. Its samples were given away. */
void blocks_watch_end_period(struct watched *watched);
void blocks_watch_set_owner(struct watched *watched, pid_t tid);
struct watched_load blocks_watch_load(const struct watched *watched,
				      const struct sched_kernel *sched);

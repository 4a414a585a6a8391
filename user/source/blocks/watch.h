/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of watched threads: who sits in which slot of the kernel side. */
#pragma once
#include <stdbool.h>

#include "jankscope/target.h"
#include "kernel/looper_kernel.h"
#include "prober/pool.h"
#include "source/blocks/chain.h"
#include "source/blocks/waker.h"

/* How far the start of a watch is. */
enum watched_stage {
	WATCHED_WAITS = 0,   /* the prober is to be asked (again) what the thread does */
	WATCHED_ASKED = 1,   /* and was */
	WATCHED_RUNS = 2,    /* the kernel side sees it */
	WATCHED_REFUSED = 3, /* it cannot be watched; only remembered, so that this is told once */
};

enum watched_probes {
	PROBES_NONE = 0, /* its loop is not known, or needs none */
	PROBES_SET = 1,
	PROBES_REFUSED = 2, /* there is no place for them; the switch program sees its waits */
};

/* Why the epoll that a thread waits in is no loop of its own: own.c. */
enum watched_shared {
	SHARED_NOT = 0,
	SHARED_BY_THREADS = 1, /* others were seen to wait in it too */
	SHARED_BY_GO = 2,      /* it is the Go runtime's */
	SHARED_CLOSED = 3,     /* it is closed */
	SHARED_NO_PLACE = 4,   /* each of its waits is in another place */
};

/* The process has another load by now: this is what it was at the first sample of a period. */
struct watched_load {
	uint64_t mono_ns; /* 0: not read */
	struct opt_u64 idle_ns, cpu_ns, rss_bytes;
};

struct watched {
	uint32_t index;
	struct blocks_source *blocks; /* that it belongs to */
	pid_t pid, tid;
	int pidfd; /* own copy; -1: none */
	uint64_t start_boot_ns, slot_id;
	uint64_t gone_ns; /* since when its process is no target any more; 0: it is */
	uid_t uid;
	char process[256], package[256], thread[RECORD_COMM_LEN];

	struct {
		enum watched_stage stage;
		int64_t request; /* of the prober pool; 0: none */
		uint64_t retry_ns;
		bool settled; /* looked at once more after the watch began */
		bool told;    /* target_start was */
		bool gone;    /* the prober found no such thread */
		bool from_birth;
		struct probe_standing standing;
		struct looper_slot slot; /* as it was put in */
	} start;

	struct {
		enum watched_probes state;
		bool asked; /* the file is being opened, searched, or probed */
		int64_t request;
		uint64_t retry_ns;
		uint64_t key;  /* by which the warden keeps them */
		uint32_t kind; /* enum looper_wait */
		uint64_t program_counter, load_address;
		int32_t loop_fd;
		bool in_stack; /* its wait was on the main thread's own stack */
		int file_fd;   /* -1: none */
		struct probe_places places;
		uint64_t returns[LOOPER_PROBED_RETURNS];
		char refused[96]; /* why, or "" */
		bool refused_told, held_off_told;
	} probes;

	/* whether its loop is its own: own.c */
	struct {
		enum watched_shared shared;
		int64_t request; /* who else waits in it */
		uint64_t asked_ns;
		uint32_t asks;
		int32_t fd;       /* that was asked about */
		bool place_asked; /* whose code waits there is not known yet */
		uint64_t place_asked_ns;
		uint64_t plain_counter; /* a place in a file without Go's runtime; 0: none yet */
	} own;

	/* whether the descriptor that its loop waits in is still open */
	struct {
		int64_t request;
		uint64_t asked_ns;
		uint32_t changes; /* of the loop that was asked about */
		bool nested;      /* and it waited in another one */
	} closed;

	uint32_t detector;  /* enum looper_detector */
	uint32_t loop_kind; /* as told last */
	bool is_loop;

	struct {
		bool tracking, reported_open, reported_anr;
		uint64_t number, begin_ns;
		int64_t boot_minus_mono_ns; /* as of its begin, so that its records tell one start
					     */
		/* frozen where it slept, which no switch tells: seen by looking, up to 50 ms late
		 */
		uint64_t frozen_ns, frozen_seen_ns, looked_ns;
		uint64_t frozen_unsure_ns; /* by how much frozen_ns may be off */
		/* waits inside the message, and when it was last seen in one: look.c */
		uint64_t nested_waits, nested_ns;
		bool unproved; /* so it is not told as long as it lasts */
		struct watched_load load;
		struct block_samples samples;
		uint64_t failed;            /* captures that gave none */
		enum stack_failure failure; /* why the last of them did not */
		struct block_spells spells;
		/* Of the last sleep that was looked at; and of the longest one before it. */
		struct block_chain chain, chain_before;
		struct block_wake wake;
	} period;
};

struct blocks_watch;

/* room: slots of the kernel side. NULL with errno. */
struct blocks_watch *blocks_watch_new(uint32_t room);
/* Everything must have been removed. */
void blocks_watch_free(struct blocks_watch *watch);
uint32_t blocks_watch_room(const struct blocks_watch *watch);

/* A row for a thread of a process. NULL with ENOSPC when all are taken, or ENOMEM. */
struct watched *blocks_watch_add(struct blocks_watch *watch, const struct target_process *process,
				 pid_t tid);
/* Give the row back. Its slot, probes and requests must be free. */
void blocks_watch_remove(struct blocks_watch *watch, struct watched *watched);
/* The row of a slot, NULL when it is free. */
struct watched *blocks_watch_at(struct blocks_watch *watch, uint32_t index);
/* The row of a process. */
struct watched *blocks_watch_find(struct blocks_watch *watch, pid_t pid);

/* Forget the period: spells, samples and chain. */
void blocks_watch_end_period(struct watched *watched);

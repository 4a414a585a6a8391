/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the memory source share. */
#pragma once
#include <uthash.h>

#include "jankscope/source.h"
#include "prober/pool.h"
#include "source/memory/memory.h"
#include "util/clock.h"

/* /proc/PID/status; longer where a process is in thousands of groups. */
#define STATUS_BYTES (64u << 10)

/* Processes whose files stay open at the most, two descriptors each: these are the whole
 * recorder's, so of few there are (RLIMIT_NOFILE) the processes take a half. */
#define MEMORY_KEPT 1024

/* The end of a rest may come twice so much later. */
#define MEMORY_REST_SLACK_NS (5 * NSEC_PER_MSEC)

struct memory_source;

/* A process of the targets, as long as it is one. */
struct memory_process {
	struct memory_process_key {
		uint64_t start_boot_ns;
		uint64_t pid;
	} key;
	struct memory_source *source;
	char *process, *package; /* owned; package may be NULL */
	/* Descriptors of status and of the folder fd; -errno. Those of a process beyond
	 * most_kept are opened for each row. */
	int status, files;
	bool kept;
	int64_t request;  /* of a prober; 0: none */
	uint64_t due_ns;  /* CLOCK_MONOTONIC: of the next one */
	uint64_t next_ns; /* of the next one that has more than kinds */
	uint64_t readings;
	bool told;      /* by the prober, and in no interval yet */
	int err;        /* of that request */
	unsigned asked; /* what for: enum probe_use */
	uint64_t use_boot_ns;
	struct probe_memory_use use;
	struct record_memory_kind kinds[MEMORY_KINDS];
	uint64_t turn; /* of the last sample that saw it */
	UT_hash_handle hh;
};

/* Bytes of GPUs by process, from Android's map. */
struct memory_gpu {
	uint32_t pid;
	uint64_t bytes;
};

struct memory_source {
	struct source base;
	struct memory_options options;
	const struct source_context *context;
	struct memory_process *processes;
	struct record_memory_process *rows;
	size_t row_count, row_room;
	size_t kept, most_kept; /* processes whose files are open */
	uint64_t turn, unread;
	/* One process is asked about at a time, and then there is a rest. */
	struct memory_process *asked; /* NULL: nobody now */
	uint64_t rest_until_ns;       /* CLOCK_MONOTONIC */
	int timer;                    /* of the loop; -1: there is none */
	bool counts_files;            /* the size of a folder fd is the number of its descriptors */
	int meminfo, pressure, gpu_map; /* descriptors, or -errno */
	struct {
		uint64_t some_ns, full_ns;
		bool taken;
	} pressure_before;
	uint64_t dmabufs_due_ns;
	struct memory_gpu *gpus; /* sorted by pid */
	size_t gpu_count;
	char text[STATUS_BYTES];
};

/* ---- processes.c ---- */

/* The process of that target, which is made where it is new. NULL: no memory. */
struct memory_process *memory_find(struct memory_source *memory,
				   const struct target_process *target);
/* Forget it, and what was asked about it. */
void memory_drop(struct memory_process *process);
/* Ask a prober about the process that is due for the longest, unless another is asked about or it
 * is time to rest. The answer has the next one asked. */
void memory_ask_next(struct memory_source *memory);
/* Add its row. final: no answer is waited for after this. 0 or -ENOMEM. */
int memory_add_row(struct memory_process *process, const struct target_process *target, bool final);

/* ---- system.c ---- */

void memory_system_open(struct memory_source *memory);
/* Fill in what there is; what there is not goes to `missing`. 0 or -ENOMEM. */
int memory_system_read(struct memory_source *memory, struct record_memory_system *system,
		       struct missing_list *missing);
void memory_system_close(struct memory_source *memory);
/* What the map of Android has of this process. */
struct opt_u64 memory_gpu_of(const struct memory_source *memory, pid_t pid);

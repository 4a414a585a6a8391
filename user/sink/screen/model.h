/* SPDX-License-Identifier: BSD-2-Clause */
/* What the live screen shows: the last interval, the last blocks and late frames, how many frames
 * the last intervals had, the last events. Copied from the records, bounded, free of any terminal.
 * All texts in it are clean (sink/text.h). */
#pragma once
#include "jankscope/record.h"
#include "why/line.h"

#define SCREEN_TASKS   4096 /* rows of an interval; the heaviest come first */
#define SCREEN_ROWS    64   /* of each other list of an interval */
#define SCREEN_BLOCKS  64
#define SCREEN_LATE    64 /* frames */
#define SCREEN_LAYERS  8
#define SCREEN_HISTORY 320 /* intervals of a graph */
#define SCREEN_EVENTS  16
#define SCREEN_TEXT    200 /* bytes of an event or of a title */
#define SCREEN_TIME    16

struct screen_task {
	pid_t pid, tid; /* of a process tid is 0 */
	const char *thread, *process, *package;
	uint64_t cpu_ns;
	struct opt_u64 runnable_ns, voluntary, involuntary;
	unsigned threads; /* of a process: that ran */
	bool exited;
};

struct screen_bytes {
	const char *name; /* a package, or "uid 1000", "loopback" */
	uint64_t rx_bytes, tx_bytes;
};

struct screen_process {
	pid_t pid;
	const char *name;
	struct opt_u64 pss_bytes, rss_bytes, swap_bytes;
};

/* One interval. It is not changed once it is made: a paused screen holds on to it. */
struct screen_interval {
	unsigned refs;
	void *memory; /* of the rows and their names */
	uint64_t dur_ns;
	char time[SCREEN_TIME];
	bool has_cpu, has_net, has_memory, has_power;
	unsigned online_cpus;
	uint64_t busy_ns, targets_ns;
	struct screen_task *tasks, *processes;
	size_t task_count, process_count;
	size_t left_out; /* tasks that found no room */
	struct screen_bytes *bytes;
	size_t bytes_count;
	uint64_t rx_bytes, tx_bytes; /* of all of them but loopback */
	struct screen_process *memories;
	size_t memory_count;
	struct opt_u64 total_bytes, available_bytes;
	char power[SCREEN_TEXT], zones[SCREEN_TEXT], capped[SCREEN_TEXT];
	char lost[SCREEN_TEXT]; /* "": nothing */
	uint64_t self_cpu_ns;
	struct opt_u64 self_bytes;
};

/* The frames of a layer, newest interval last. */
struct screen_layer {
	pid_t pid;
	char name[SCREEN_TEXT];
	uint64_t shown, janky, dropped; /* in the last interval */
	double fps_active;              /* 0: not known */
	struct opt_u64 period_ns;
	float rate[SCREEN_HISTORY]; /* frames shown a second of the clock */
	bool late[SCREEN_HISTORY];  /* one of them was janky or dropped */
	size_t count;
	uint64_t quiet; /* intervals since its last frame */
};

/* A block as its last record tells it. The text has one line for each thing that is known of it,
 * each begins with the letter of its style (enum screen_style). */
struct screen_block {
	unsigned refs;
	uint64_t seqs[4]; /* of its records, the newest first, +1; 0: none */
	pid_t pid, tid;
	uint64_t start_boot_ns, wall_ns;
	enum block_state state;
	enum block_class class;
	unsigned running_pct, runnable_pct, sleeping_pct, uninterruptible_pct;
	char time[SCREEN_TIME];
	char *process, *told; /* told: "function < caller, futex held by x" */
	char *text;
	bool has_stack;
};

struct screen_late {
	char time[SCREEN_TIME];
	char process[SCREEN_TEXT];
	char text[SCREEN_TEXT]; /* of why_line() */
};

struct screen_event {
	char text[SCREEN_TEXT];
	bool bad;
};

/* A copy of this struct by screen_model_copy() shares what is counted by refs. */
struct screen_model {
	uint64_t unix_minus_boot_ns, interval_ns;
	bool has_targets;
	char title[SCREEN_TEXT];     /* who is watched */
	char absent[SCREEN_TEXT];    /* sources that are not there */
	struct screen_interval *now; /* NULL: none yet */
	bool has_frames;
	struct screen_layer layers[SCREEN_LAYERS]; /* most frames first */
	size_t layer_count;
	struct screen_block *blocks[SCREEN_BLOCKS]; /* newest first */
	size_t block_count;
	uint64_t blocks_seen;
	struct screen_late late[SCREEN_LATE]; /* newest first */
	size_t late_count;
	struct why_totals late_totals;             /* of all so far */
	struct screen_event events[SCREEN_EVENTS]; /* newest first */
	size_t event_count;
};

/* 0, or -ENOMEM: the model is as it was before. */
int screen_model_take(struct screen_model *model, const struct record *record);
/* A line for the events, of stderr or of the screen itself. */
void screen_model_say(struct screen_model *model, const char *text, bool bad);
void screen_model_copy(struct screen_model *to, const struct screen_model *from);
void screen_model_clear(struct screen_model *model);

/* ---- what the files of the model share ---- */

/* "12:00:01Z" of a moment. */
const char *screen_time(const struct screen_model *model, uint64_t boot_ns, char text[SCREEN_TIME]);
/* NULL: no memory. */
struct screen_block *screen_block_new(const struct screen_model *model,
				      const struct record *record);
/* A stack that came later. */
int screen_block_add(struct screen_block *block, const struct record_stack *stack);
struct screen_block *screen_block_hold(struct screen_block *block);
void screen_block_drop(struct screen_block *block);
struct screen_interval *screen_interval_new(const struct screen_model *model,
					    const struct record *record);
void screen_interval_drop(struct screen_interval *interval);

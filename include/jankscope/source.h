/* SPDX-License-Identifier: BSD-2-Clause */
/* The seam between what measures and what runs it. A source fills its part of each interval and
 * may emit blocks and events at any time; it never prints and knows no sink. */
#pragma once
#include "jankscope/option.h"
#include "jankscope/record.h"

struct loop;
struct summary;
struct target_set;

struct prober_pool;
struct warden;

/* What the session lends to every source, valid from open to close. */
struct source_context {
	struct loop *loop; /* core/loop.h: file descriptors and timers of the one epoll loop */
	struct target_set *targets;
	struct prober_pool *probes; /* prober/pool.h: what has to be asked of targets */
	struct warden *warden;      /* prober/warden.h: helper processes, and what they keep */
	uint64_t interval_ns, block_ns;
	/* Hand a block or an event to the sinks; the record is only read during the call. */
	void (*emit)(void *emit_ctx, struct record *record);
	void *emit_ctx;
};

enum source_state { SOURCE_OK = 0, SOURCE_DEGRADED = 1, SOURCE_ABSENT = 2 };

struct source;

struct target_process;

/* In this order, one more at a time; THIN_INTERVALS is the session's own. */
enum thin_step {
	THIN_TASKS = 1,     /* a record lists THIN_LISTED_TASKS, the others are one sum */
	THIN_STACKS = 2,    /* no stacks of blocks */
	THIN_INTERVALS = 4, /* an interval is THIN_TIMES as long */
};
#define THIN_STEPS        3
#define THIN_LISTED_TASKS 30
#define THIN_TIMES        4

struct source_ops {
	const char *name;                /* as in the header's sources list */
	const struct loss_table *losses; /* the counters that it adds to `lost`; NULL: none */
	/* Attach and take the baseline. 0, or a negative errno after reason[] was filled. */
	int (*open)(struct source *source, const struct source_context *context);
	/* Add everything since the last call to the interval. What the interval points to stays
	 * valid until the next call. A failed part becomes a `missing` entry, not an error. */
	int (*sample)(struct source *source, struct record_interval *interval);
	/* A target has come. True: the source emits its event target_start by itself, with what it
	 * finds out about it; else the session does. May be NULL. */
	bool (*take_target)(struct source *source, const struct target_process *process);
	/* A target has ended, or is none any more; it is out of the set when this returns. May be
	 * NULL. */
	void (*drop_target)(struct source *source);
	/* Set totals of the whole run (summary/summary.h). May be NULL. */
	int (*summarise)(struct source *source, struct summary *summary);
	/* The recorder costs more than it may: leave out what these steps (enum thin_step, in bits)
	 * say, and nothing of it with 0. Sums stay exact. May be NULL. */
	void (*thin)(struct source *source, unsigned steps);
	/* Detach and free; safe after a failed open and when called twice. */
	void (*close)(struct source *source);
};

struct source {
	const struct source_ops *ops;
	enum source_state state;
	const char *variant;
	unsigned rights; /* enum source_right of core/rights.h: what it needs after its open */
	char reason[160];
};

/* ---- what a source says about itself: one a folder, listed in source/declarations.c ---- */

#define SOURCE_FLAGS_BYTES 64
#define MAX_SOURCES        16

struct field;

/* What flags that belong to no source ask of all of them; the texts live as long as the run. */
struct source_wishes {
	bool targets;         /* certain programs were asked for */
	const char *btf_path; /* NULL: the kernel's own */
	int variant;          /* enum program_variant of kernel/load.h */
	size_t top;           /* tasks that a record lists; 0: all */
	/* Those before this one in the list, as far as they are wanted. */
	struct source *made[MAX_SOURCES];
	size_t made_count;
};

/* The source of that name among those that were made; NULL: it was not. */
struct source *source_made(const struct source_wishes *wishes, const char *name);

struct source_declaration {
	const char *name;
	const struct field *part; /* its row of struct record_interval; NULL: it emits records */
	const struct loss_table *losses; /* as those of its source_ops */
	/* Its flags, in a struct of flags_size <= SOURCE_FLAGS_BYTES that begins as *defaults;
	 * NULL: all 0. */
	const struct option_row *options;
	size_t option_count, flags_size;
	const void *defaults;
	/* Make the source as its flags say. *needed: the run ends where it cannot be opened. NULL
	 * with errno ENOMEM, or with errno 0: it is not wanted. */
	struct source *(*make)(const void *flags, const struct source_wishes *wishes, bool *needed);
};

/* The list of sources, in the order in which they are opened and stand in an interval
 * (user/source/declarations.c). */
extern const struct source_declaration *const source_declarations[];
extern const size_t source_declaration_count;

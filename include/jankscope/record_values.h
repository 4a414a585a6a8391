/* SPDX-License-Identifier: BSD-2-Clause */
/* What records are made of: values that may be absent, counters of losses, reasons; a part of
 * record.h. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct opt_u64 {
	bool present;
	uint64_t value;
};

struct opt_i64 {
	bool present;
	int64_t value;
};

#define SOME_U64(v) ((struct opt_u64){true, (v)})
#define SOME_I64(v) ((struct opt_i64){true, (v)})

/* Named counters: losses by reason. The list owns its names. Order is that of first use. */
struct counter_list {
	struct counter {
		char *name;
		uint64_t value;
	} * items;
	size_t count;
};

/* Add value to the counter of that name; a value of 0 creates nothing. 0, or -ENOMEM. */
int counter_list_add(struct counter_list *list, const char *name, uint64_t value);
/* The counter's value, 0 when it was never touched. */
uint64_t counter_list_get(const struct counter_list *list, const char *name);
int counter_list_merge(struct counter_list *to, const struct counter_list *from);
void counter_list_free(struct counter_list *list);

/* What a counter means for the data: really lost; told later than it should be; made good. */
enum loss_kind { LOSS_LOST = 0, LOSS_LATE = 1, LOSS_REPAIRED = 2 };

/* The whole of which a lost counter is a share; its unit is the counter's. */
enum loss_of {
	LOSS_OF_NOTHING = 0,  /* told, but no share of a whole: another counter has the amount */
	LOSS_OF_CPU_TIME = 1, /* ns, of busy time */
	LOSS_OF_TASKS = 2,    /* of the tasks that ended */
	LOSS_OF_BYTES = 3,    /* of the bytes that went over the network */
	LOSS_OF_PACKETS = 4,  /* of the packets */
	LOSS_OF_BLOCKS = 5,   /* of the blocks */
	LOSS_OF_STACKS = 6,   /* blocks, of the blocks */
	LOSS_OF_FRAMES = 7,   /* of the frames that were shown */
	LOSS_OF_RECORDS = 8,  /* of the records */
	LOSS_OF_COUNT = 9,
};

/* A counter as its source declares it, once. A name that nobody declared is lost, of nothing. */
struct loss_info {
	const char *name;
	enum loss_kind kind;
	enum loss_of of;
};

/* A room's declarations, and those of the rooms below it. */
struct loss_table {
	const struct loss_info *items;
	size_t count;
	const struct loss_table *more; /* NULL: no more */
};

/* Keys that are absent from this record, each with its reason. The list owns both strings. */
struct missing_list {
	struct missing {
		char *key, *reason;
	} * items;
	size_t count;
};

/* Say that key is absent and why; a second reason for the same key replaces the first. 0, -ENOMEM.
 */
int missing_list_set(struct missing_list *list, const char *key, const char *reason);
/* Why that key is absent; NULL: nothing says that it is. */
const char *missing_reason(const struct missing_list *list, const char *key);
void missing_list_free(struct missing_list *list);

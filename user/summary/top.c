/* SPDX-License-Identifier: BSD-2-Clause */
#include "summary/top.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "util/arena.h"

/* Rows that are held: beyond this many the lighter half is dropped, and what it used is in
 * other_ns. */
#define MAX_ROWS   2048
#define MAX_GROUPS 512
/* Of those that have ended fewer are held by themselves (a footer tells 20): beyond this many the
 * lightest are summed up with those of their name. Few at a time: half of many hundreds would look
 * like a leak that goes on for a quarter of an hour. */
#define MAX_ENDED  64
#define KEPT_ENDED 48
/* A thread or process that lived shorter than this is summed up with those of its name. */
#define SHORT_NS 5000000000ull

struct top_key {
	uint64_t start_boot_ns;
	int64_t pid, tid;
};

struct top_row {
	struct top_key key;
	struct footer_usage usage;
	char *thread, *process, *package; /* owned */
	bool ended;
	UT_hash_handle hh;
};

/* Short-lived ones of one name. */
struct top_group {
	struct footer_usage usage;
	UT_hash_handle hh;
	char name[]; /* "thread\nprocess\npackage\nuid"; behind it the texts of usage */
};

struct top {
	struct top_row *rows;
	struct top_group *groups;
	size_t ended;        /* rows */
	struct arena memory; /* of the groups; those that were dropped too, until pack() */
	uint64_t total_ns;
	uint64_t dropped_boot_ns; /* when rows that might come again were dropped; 0: never */
	bool groups_dropped;
	struct footer_usage *result;
};

struct top *top_new(void)
{
	struct top *top = calloc(1, sizeof(*top));

	if (top)
		top->memory.part_bytes = ARENA_KEPT_BYTES;
	return top;
}

static void free_texts(struct top_row *row)
{
	free(row->thread);
	free(row->process);
	free(row->package);
}

static void drop_row(struct top *top, struct top_row *row)
{
	HASH_DEL(top->rows, row);
	top->ended -= row->ended;
	free_texts(row);
	free(row);
}

void top_free(struct top *top)
{
	struct top_row *row, *next_row;

	if (!top)
		return;
	HASH_ITER (hh, top->rows, row, next_row)
		drop_row(top, row);
	HASH_CLEAR(hh, top->groups);
	arena_free(&top->memory);
	free(top->result);
	free(top);
}

/* A process may be known by another name later: the last one counts. */
static int keep_text(char **text, const char *now)
{
	char *copy;

	if (!now || (*text && !strcmp(*text, now)))
		return 0;
	copy = strdup(now);
	if (!copy)
		return -ENOMEM;
	free(*text);
	*text = copy;
	return 0;
}

static int keep_texts(struct top_row *row, const struct top_entry *entry)
{
	int err = keep_text(&row->thread, entry->thread);

	if (!err)
		err = keep_text(&row->process, entry->process);
	if (!err)
		err = keep_text(&row->package, entry->package);
	row->usage.thread = row->thread;
	row->usage.process = row->process;
	row->usage.package = row->package;
	return err;
}

static void add_usage(struct footer_usage *to, uint64_t cpu_ns, struct opt_u64 runnable_ns,
		      unsigned threads)
{
	to->cpu_ns += cpu_ns;
	if (runnable_ns.present)
		to->runnable_ns = SOME_U64(to->runnable_ns.value + runnable_ns.value);
	if (threads > to->threads)
		to->threads = threads;
}

static int lighter(const struct footer_usage *a, const struct footer_usage *b)
{
	if (a->cpu_ns != b->cpu_ns)
		return a->cpu_ns < b->cpu_ns ? 1 : -1;
	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static int lighter_row(const struct top_row *a, const struct top_row *b)
{
	return lighter(&a->usage, &b->usage);
}

static int lighter_group(const struct top_group *a, const struct top_group *b)
{
	return lighter(&a->usage, &b->usage);
}

static void drop_lighter_rows(struct top *top, uint64_t now_boot_ns)
{
	struct top_row *row, *next;
	size_t kept = 0;

	HASH_SORT(top->rows, lighter_row);
	HASH_ITER (hh, top->rows, row, next)
		if (kept++ >= MAX_ROWS / 2)
			drop_row(top, row);
	top->dropped_boot_ns = now_boot_ns;
}

static size_t text_bytes(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

static const char *copy_text(char **place, const char *text)
{
	char *copy = *place;

	if (!text)
		return NULL;
	memcpy(copy, text, strlen(text) + 1);
	*place += strlen(text) + 1;
	return copy;
}

/* With a copy of all texts. */
static struct top_group *add_group(struct top *top, const char *name,
				   const struct footer_usage *usage)
{
	struct top_group *group = arena_take(
		&top->memory, sizeof(*group) + text_bytes(name) + text_bytes(usage->thread) +
				      text_bytes(usage->process) + text_bytes(usage->package));
	char *place;

	if (!group)
		return NULL;
	place = group->name;
	copy_text(&place, name);
	group->usage = *usage;
	group->usage.thread = copy_text(&place, usage->thread);
	group->usage.process = copy_text(&place, usage->process);
	group->usage.package = copy_text(&place, usage->package);
	HASH_ADD_KEYPTR(hh, top->groups, group->name, strlen(name), group);
	return group;
}

/* Move all groups together, and free what the dropped ones took. Where memory is short, what a
 * group used is in other_ns. */
static void pack_groups(struct top *top)
{
	struct top_group *all = top->groups, *group;
	struct arena old = top->memory;

	top->groups = NULL;
	top->memory = (struct arena){.part_bytes = old.part_bytes};
	for (group = all; group; group = group->hh.next)
		add_group(top, group->name, &group->usage);
	HASH_CLEAR(hh, all);
	arena_free(&old);
}

static void drop_lighter_groups(struct top *top)
{
	struct top_group *group, *next;
	size_t kept = 0;

	HASH_SORT(top->groups, lighter_group);
	HASH_ITER (hh, top->groups, group, next)
		if (kept++ >= MAX_GROUPS / 2)
			HASH_DEL(top->groups, group);
	top->groups_dropped = true;
	pack_groups(top);
}

/* Some of what it used may have been dropped with a row. */
static bool may_be_partial(const struct top *top, const struct top_entry *entry)
{
	return entry->start_boot_ns < top->dropped_boot_ns;
}

static const char *text_of(const char *text)
{
	return text ? text : "";
}

static int find_group(struct top *top, const struct top_entry *entry, struct top_group **found)
{
	struct top_group *group = NULL;
	char name[600];
	int length =
		snprintf(name, sizeof(name), "%.64s\n%.250s\n%.250s\n%u", text_of(entry->thread),
			 text_of(entry->process), text_of(entry->package), entry->uid);

	HASH_FIND(hh, top->groups, name, (size_t)length, group);
	*found = group;
	if (group)
		return 0;
	if (HASH_COUNT(top->groups) >= MAX_GROUPS)
		drop_lighter_groups(top);
	*found = add_group(top, name,
			   &(struct footer_usage){
				   .thread = entry->thread,
				   .process = entry->process,
				   .package = entry->package,
				   .uid = entry->uid,
				   .partial = top->groups_dropped,
			   });
	return *found ? 0 : -ENOMEM;
}

/* It ended: what it used goes to the row of its name. `row` is what was held of it, or NULL. */
static int add_short(struct top *top, struct top_row *row, const struct top_entry *entry)
{
	struct top_group *group;
	struct footer_usage *usage;
	int err = find_group(top, entry, &group);

	if (err)
		return err;
	usage = &group->usage;
	/* The first one is shown as what it is. */
	usage->pid = usage->count ? 0 : entry->pid;
	usage->tid = usage->count ? 0 : entry->tid;
	usage->start_boot_ns = usage->count ? 0 : entry->start_boot_ns;
	usage->count++;
	add_usage(usage, entry->cpu_ns, entry->runnable_ns, entry->threads);
	usage->partial |= !row && may_be_partial(top, entry);
	if (row) {
		add_usage(usage, row->usage.cpu_ns, row->usage.runnable_ns, row->usage.threads);
		usage->partial |= row->usage.partial;
		drop_row(top, row);
	}
	return 0;
}

/* A target that comes back each minute would fill all rows in a day, and push out those who live.
 */
static int fold_ended(struct top *top)
{
	struct top_row *row, *next;
	size_t kept = 0;
	int err = 0;

	HASH_SORT(top->rows, lighter_row);
	HASH_ITER (hh, top->rows, row, next) {
		const struct top_entry nothing_more = {
			.thread = row->thread,
			.process = row->process,
			.package = row->package,
			.uid = row->usage.uid,
			.pid = row->usage.pid,
			.tid = row->usage.tid,
			.start_boot_ns = row->usage.start_boot_ns,
		};

		if (!err && row->ended && kept++ >= KEPT_ENDED)
			err = add_short(top, row, &nothing_more);
	}
	return err;
}

int top_add(struct top *top, const struct top_entry *entry, uint64_t end_boot_ns)
{
	struct top_row *row;
	struct top_key key;
	int err;

	top->total_ns += entry->cpu_ns;
	/* uthash compares bytes, holes too. */
	memset(&key, 0, sizeof(key));
	key.start_boot_ns = entry->start_boot_ns;
	key.pid = entry->pid;
	key.tid = entry->tid;
	HASH_FIND(hh, top->rows, &key, sizeof(key), row);
	if (entry->exited && entry->start_boot_ns && end_boot_ns < entry->start_boot_ns + SHORT_NS)
		return add_short(top, row, entry);
	if (!row) {
		if (HASH_COUNT(top->rows) >= MAX_ROWS)
			drop_lighter_rows(top, end_boot_ns);
		row = calloc(1, sizeof(*row));
		if (!row)
			return -ENOMEM;
		row->key = key;
		row->usage = (struct footer_usage){
			.pid = entry->pid,
			.tid = entry->tid,
			.start_boot_ns = entry->start_boot_ns,
			.count = 1,
			.partial = may_be_partial(top, entry),
		};
		HASH_ADD(hh, top->rows, key, sizeof(row->key), row);
	}
	row->usage.uid = entry->uid;
	add_usage(&row->usage, entry->cpu_ns, entry->runnable_ns, entry->threads);
	err = keep_texts(row, entry);
	top->ended += entry->exited && !row->ended;
	row->ended |= entry->exited;
	return !err && top->ended > MAX_ENDED ? fold_ended(top) : err;
}

void top_add_other(struct top *top, uint64_t cpu_ns)
{
	top->total_ns += cpu_ns;
}

static int compare(const void *a, const void *b)
{
	return lighter(a, b);
}

int top_take(struct top *top, size_t count, struct footer_top *result)
{
	size_t all = HASH_COUNT(top->rows) + HASH_COUNT(top->groups), n = 0;
	struct footer_usage *usages = calloc(all + 1, sizeof(*usages));
	struct top_row *row;
	struct top_group *group;

	if (!usages)
		return -ENOMEM;
	for (row = top->rows; row; row = row->hh.next)
		usages[n++] = row->usage;
	for (group = top->groups; group; group = group->hh.next)
		usages[n++] = group->usage;
	qsort(usages, n, sizeof(*usages), compare);
	/* A row without time says nothing. */
	while (n && (n > count || !usages[n - 1].cpu_ns))
		n--;
	free(top->result);
	top->result = usages;
	*result = (struct footer_top){.rows = usages, .count = n, .other_ns = top->total_ns};
	for (size_t i = 0; i < n; i++)
		result->other_ns -= usages[i].cpu_ns;
	return 0;
}

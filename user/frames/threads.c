/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/threads.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#ifdef FRAMES_SMALL_WINDOWS /* as in timeline.c */
#define MAX_THREADS 64
#else
#define MAX_THREADS 65536
#endif
#define NOT_NAMED INT64_MIN

struct entry {
	struct spell_thread thread; /* first: a thread that was handed out is its entry */
	int64_t named_ns;           /* when it ran under that name, or NOT_NAMED */
	UT_hash_handle hh;
};

struct thread_table {
	struct entry *entries;
	uint64_t lost;
};

struct thread_table *thread_table_new(void)
{
	return calloc(1, sizeof(struct thread_table));
}

void thread_table_free(struct thread_table *table)
{
	struct entry *entry, *next;

	if (!table)
		return;
	HASH_ITER (hh, table->entries, entry, next) {
		HASH_DEL(table->entries, entry);
		free(entry);
	}
	free(table);
}

/* *made: NULL where there is no more room. */
static int find_or_make(struct thread_table *table, int32_t tid, struct entry **made)
{
	struct entry *entry;

	HASH_FIND_INT(table->entries, &tid, entry);
	if (!entry && HASH_COUNT(table->entries) < MAX_THREADS) {
		entry = calloc(1, sizeof(*entry));
		if (!entry)
			return -ENOMEM;
		entry->thread.tid = tid;
		entry->named_ns = NOT_NAMED;
		HASH_ADD_INT(table->entries, thread.tid, entry);
	}
	table->lost += !entry;
	*made = entry;
	return 0;
}

static void name_it(struct entry *entry, const char *name, size_t size)
{
	size = size ? strnlen(name, size) : 0;
	if (size > RECORD_COMM_LEN - 1)
		size = RECORD_COMM_LEN - 1;
	if (size) {
		memcpy(entry->thread.comm, name, size);
		entry->thread.comm[size] = 0;
	}
}

int thread_table_note(struct thread_table *table, int32_t tid, int32_t tgid, const char *name,
		      size_t size)
{
	struct entry *entry = NULL;
	int err = tid > 0 ? find_or_make(table, tid, &entry) : 0;

	if (!entry)
		return err;
	if (tgid > 0)
		entry->thread.tgid = tgid;
	if (entry->named_ns == NOT_NAMED)
		name_it(entry, name, size);
	return 0;
}

int thread_table_ran(struct thread_table *table, int32_t tid, int64_t ts_ns, const char *name,
		     size_t size)
{
	struct entry *entry = NULL;
	int err = tid > 0 && size && *name ? find_or_make(table, tid, &entry) : 0;

	if (!entry || ts_ns < entry->named_ns)
		return err;
	entry->named_ns = ts_ns;
	name_it(entry, name, size);
	return 0;
}

uint64_t thread_table_lost(const struct thread_table *table)
{
	return table->lost;
}

const struct spell_thread *thread_table_find(const struct thread_table *table, int32_t tid)
{
	struct entry *entry;

	HASH_FIND_INT(table->entries, &tid, entry);
	return entry ? &entry->thread : NULL;
}

const struct spell_thread *thread_table_next(const struct thread_table *table,
					     const struct spell_thread *before)
{
	const struct entry *entry =
		before ? ((const struct entry *)(const void *)before)->hh.next : table->entries;

	return entry ? &entry->thread : NULL;
}

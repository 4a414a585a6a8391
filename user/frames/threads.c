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
#define MAX_NAMES 8 /* of one thread, or of those that had its number */

/* It was seen to run under that name first and last. */
struct named {
	int64_t first_ns, last_ns;
	char comm[RECORD_COMM_LEN];
};

struct entry {
	struct spell_thread thread; /* first: a thread that was handed out is its entry */
	bool is_again;              /* its number is another process's by now */
	struct named *names;        /* in order of time; the last one is that of thread */
	size_t count;
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
		free(entry->names);
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
		HASH_ADD_INT(table->entries, thread.tid, entry);
	}
	table->lost += !entry;
	*made = entry;
	return 0;
}

static void copy_name(char to[RECORD_COMM_LEN], const char *name, size_t size)
{
	size = size ? strnlen(name, size) : 0;
	if (size > RECORD_COMM_LEN - 1)
		size = RECORD_COMM_LEN - 1;
	if (size)
		memcpy(to, name, size);
	to[size] = 0;
}

int thread_table_note(struct thread_table *table, int32_t tid, int32_t tgid, const char *name,
		      size_t size)
{
	struct entry *entry = NULL;
	int err = tid > 0 ? find_or_make(table, tid, &entry) : 0;

	if (!entry)
		return err;
	if (tgid > 0) {
		entry->is_again |= entry->thread.tgid && entry->thread.tgid != tgid;
		entry->thread.tgid = tgid;
	}
	if (!entry->count && size && *name)
		copy_name(entry->thread.comm, name, size);
	return 0;
}

/* Its name of then is the one before `at`, but it is seen again behind that. */
static int put_name(struct thread_table *table, struct entry *entry, size_t at,
		    const struct named *name)
{
	struct named *before = at ? &entry->names[at - 1] : NULL, *grown;
	bool splits = before && before->last_ns > name->first_ns;
	size_t more = splits ? 2 : 1;

	if (entry->count + more > MAX_NAMES) {
		table->lost++;
		if (at == entry->count && !splits)
			*before = *name;
		return 0;
	}
	grown = realloc(entry->names, (entry->count + more) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	entry->names = grown;
	memmove(&grown[at + more], &grown[at], (entry->count - at) * sizeof(*grown));
	grown[at] = *name;
	if (splits) {
		grown[at + 1] = grown[at - 1];
		grown[at + 1].first_ns = grown[at - 1].last_ns;
		grown[at - 1].last_ns = grown[at - 1].first_ns;
	}
	entry->count += more;
	return 0;
}

int thread_table_ran(struct thread_table *table, int32_t tid, int64_t ts_ns, const char *name,
		     size_t size)
{
	struct named named = {.first_ns = ts_ns, .last_ns = ts_ns}, *names;
	struct entry *entry = NULL;
	int err = tid > 0 && size && *name ? find_or_make(table, tid, &entry) : 0;
	size_t at;

	if (!entry)
		return err;
	copy_name(named.comm, name, size);
	names = entry->names;
	at = entry->count;
	while (at && names[at - 1].first_ns > ts_ns)
		at--;
	if (at && !strcmp(names[at - 1].comm, named.comm)) {
		if (ts_ns > names[at - 1].last_ns)
			names[at - 1].last_ns = ts_ns;
		return 0;
	}
	if (at < entry->count && !strcmp(names[at].comm, named.comm) &&
	    !(at && names[at - 1].last_ns > ts_ns))
		names[at].first_ns = ts_ns;
	else
		err = put_name(table, entry, at, &named);
	if (entry->count)
		memcpy(entry->thread.comm, entry->names[entry->count - 1].comm, RECORD_COMM_LEN);
	return err;
}

bool thread_table_at(const struct thread_table *table, int32_t tid, int64_t ts_ns,
		     struct spell_thread *out)
{
	struct entry *entry;
	size_t at;

	HASH_FIND_INT(table->entries, &tid, entry);
	if (!entry)
		return false;
	*out = entry->thread;
	at = entry->count;
	while (at > 1 && entry->names[at - 1].first_ns > ts_ns)
		at--;
	if (at == entry->count)
		return true;
	memcpy(out->comm, entry->names[at - 1].comm, RECORD_COMM_LEN);
	/* Whose number it was then is not told. */
	if (entry->is_again)
		out->tgid = 0;
	return true;
}

bool thread_was_called(const struct spell_thread *thread, const char *comm)
{
	const struct entry *entry = (const struct entry *)(const void *)thread;

	for (size_t i = 0; i < entry->count; i++)
		if (!strcmp(entry->names[i].comm, comm))
			return true;
	return !strcmp(thread->comm, comm);
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

/* SPDX-License-Identifier: BSD-2-Clause */
/* The threads that a trace names: whose they are, and how they are called. */
#pragma once
#include "jankscope/spell.h"
#include <stddef.h>

struct thread_table;

/* NULL with errno ENOMEM. */
struct thread_table *thread_table_new(void);
void thread_table_free(struct thread_table *table);
/* tgid below 1: not known; size 0: it is not named. What was told before and is not told now stays;
 * what is told wins. More than 65536 threads are not kept (thread_table_lost). 0 or -ENOMEM. */
int thread_table_note(struct thread_table *table, int32_t tid, int32_t tgid, const char *name,
		      size_t size);
/* Which name a thread ran under at ts_ns, in whatever order they come (a trace tells CPU by CPU).
 * They win over thread_table_note(), which knows no time. 0 or -ENOMEM. */
int thread_table_ran(struct thread_table *table, int32_t tid, int64_t ts_ns, const char *name,
		     size_t size);
/* How many names or numbers of threads the table had no room for. */
uint64_t thread_table_lost(const struct thread_table *table);
/* Number, process and the latest name, as far as they are known. Valid until the table is freed;
 * NULL: nothing is known. */
const struct spell_thread *thread_table_find(const struct thread_table *table, int32_t tid);
/* The same with the name as of ts_ns, of one whose name has changed, or whose number has been
 * another thread's. False: nothing is known, and *out is left as it is. */
bool thread_table_at(const struct thread_table *table, int32_t tid, int64_t ts_ns,
		     struct spell_thread *out);
/* Of a thread that was handed out: it had that name at some time. */
bool thread_was_called(const struct spell_thread *thread, const char *comm);
/* The threads one by one in any order: the one behind this one (NULL: the first). NULL: no more. */
const struct spell_thread *thread_table_next(const struct thread_table *table,
					     const struct spell_thread *before);

/* SPDX-License-Identifier: BSD-2-Clause */
/* argv[0] of processes, asked of the probers for many at once and without waiting. It is read from
 * the memory of a process, which can hold the read up, and the names that stand behind it in the
 * same request: these are asked for again, each by itself. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "prober/pool.h"
#include "target/set.h"
#include "util/clock.h"

/* One request of many takes a prober some milliseconds; another one may stand still meanwhile. */
#define TOGETHER_AT_ONCE 2
#define ALONE_AT_ONCE    4
#define TOGETHER_NS      (100 * NSEC_PER_MSEC)
#define ALONE_NS         NSEC_PER_SEC

struct argv_request {
	struct argv_request *next, *prev;
	struct target_set *set;
	int64_t id;
	bool alone;
	size_t count;
	struct process_entry *entries[PROBE_MAX_NAMES]; /* NULL: dropped since */
};

static void put(struct process_entry **list, struct process_entry *entry)
{
	DL_APPEND2(*list, entry, argv.prev, argv.next);
	entry->argv.list = list;
}

static void take_out(struct process_entry *entry)
{
	if (entry->argv.list)
		DL_DELETE2(*entry->argv.list, entry, argv.prev, argv.next);
	entry->argv.list = NULL;
}

void argv_want(struct target_set *set, struct process_entry *entry)
{
	if (entry->argv.is_wanted || entry->argv.is_told)
		return;
	entry->argv.is_wanted = true;
	entry->argv.asked_ns = clock_now_ns(CLOCK_BOOTTIME);
	put(&set->argv.wanted[entry->argv.alone   ? ARGV_ALONE
			      : entry->is_decided ? ARGV_KNOWN
						  : ARGV_NEW],
	    entry);
}

void argv_forget(struct target_set *set, struct process_entry *entry)
{
	struct argv_request *request;

	take_out(entry);
	if (entry->argv.is_wanted)
		DL_FOREACH (set->argv.asked, request)
			for (size_t i = 0; i < request->count; i++)
				if (request->entries[i] == entry)
					request->entries[i] = NULL;
	free(entry->argv.told);
	entry->argv.told = NULL;
	entry->argv.is_wanted = entry->argv.is_told = false;
}

int argv_take(struct process_entry *entry, char *name, size_t size)
{
	int err = entry->argv.err;

	take_out(entry);
	entry->argv.is_told = false;
	if (err)
		return err;
	snprintf(name, size, "%s", entry->argv.told);
	free(entry->argv.told);
	entry->argv.told = NULL;
	return (int)strlen(name);
}

/* text NULL: err says why there is none. */
static void tell(struct target_set *set, struct process_entry *entry, int err, const char *text,
		 size_t length)
{
	entry->argv.is_wanted = false;
	entry->argv.told = err ? NULL : strndup(text, length);
	entry->argv.err = !err && !entry->argv.told ? -ENOMEM : err;
	entry->argv.is_told = true;
	entry->argv.alone &= err != 0;
	/* No scan meets it any more: what it was called is what its records need. */
	if (!entry->live)
		process_take_told(set, entry);
	else
		put(&set->argv.told[entry->is_decided ? ARGV_KNOWN : ARGV_NEW], entry);
}

/* The answer about the next process of a request: bytes of it that were used, 0: there is none. */
static size_t tell_next(struct target_set *set, struct process_entry *entry, const char *data,
			size_t length)
{
	int16_t n;

	if (length < sizeof(n))
		return 0;
	memcpy(&n, data, sizeof(n));
	if (n > PROBE_NAME_BYTES || (n > 0 && (size_t)n > length - sizeof(n)))
		return 0;
	if (entry)
		tell(set, entry, n < 0 ? n : 0, data + sizeof(n), n > 0 ? (size_t)n : 0);
	return sizeof(n) + (n > 0 ? (size_t)n : 0);
}

static void on_names(void *ctx, int err, const struct probe_answer *answer)
{
	struct argv_request *request = ctx;
	struct target_set *set = request->set;
	size_t at = 0, used;

	DL_DELETE(set->argv.asked, request);
	set->argv.asked_count[request->alone]--;
	if (!err)
		set->argv.answered_ns = clock_now_ns(CLOCK_BOOTTIME);
	for (size_t i = 0; i < request->count; i++) {
		struct process_entry *entry = request->entries[i];

		used = err ? 0
			   : tell_next(set, entry, (const char *)answer->data + at,
				       answer->length - at);
		at += used;
		if (used || !entry)
			continue;
		if (request->alone) {
			tell(set, entry, err ?: -EBADMSG, NULL, 0);
			continue;
		}
		entry->argv.is_wanted = false;
		entry->argv.alone = true;
		argv_want(set, entry);
	}
	free(request);
	argv_send(set);
	if (set->argv.told[ARGV_NEW] && set->argv.on_told)
		set->argv.on_told(set->argv.ctx);
}

/* The next one to be asked about; NULL: none. */
static struct process_entry *next_wanted(struct target_set *set, bool alone)
{
	struct process_entry *entry;

	if (alone)
		return set->argv.wanted[ARGV_ALONE];
	while ((entry = set->argv.wanted[ARGV_NEW] ?: set->argv.wanted[ARGV_KNOWN]) &&
	       probe_holds_up(set->probes, entry->key.pid)) {
		take_out(entry);
		put(&set->argv.wanted[ARGV_ALONE], entry);
	}
	return entry;
}

/* False: nobody can be asked now; they stay wanted. */
static bool send_one(struct target_set *set, bool alone)
{
	struct argv_request *request = calloc(1, sizeof(*request));
	struct probe_named named[PROBE_MAX_NAMES] = {0};
	struct probe_request probe = {.operation = PROBE_NAMES};
	size_t most = alone ? 1 : PROBE_MAX_NAMES;
	struct process_entry *entry;
	bool refused = false;

	if (!request)
		return false;
	*request = (struct argv_request){.set = set, .alone = alone};
	while (request->count < most && (entry = next_wanted(set, alone))) {
		take_out(entry);
		refused |= alone && probe_holds_up(set->probes, entry->key.pid);
		named[request->count] =
			(struct probe_named){entry->key.pid, 0, entry->key.start_ticks};
		request->entries[request->count++] = entry;
	}
	if (request->count == 1 && alone)
		probe.pid = named[0].pid;
	/* Who holds up a prober is refused (and counted): that is the answer about it. */
	if (request->count)
		request->id = probe_ask(set->probes, &probe, named, request->count * sizeof(*named),
					NULL, 0, alone ? ALONE_NS : TOGETHER_NS, on_names, request);
	if (request->id > 0) {
		DL_APPEND(set->argv.asked, request);
		set->argv.asked_count[alone]++;
		return true;
	}
	for (size_t i = 0; i < request->count; i++) {
		entry = request->entries[i];
		if (refused) {
			tell(set, entry, -EBUSY, NULL, 0);
			continue;
		}
		entry->argv.is_wanted = false;
		argv_want(set, entry);
	}
	free(request);
	return refused;
}

void argv_send(struct target_set *set)
{
	static const unsigned at_once[] = {TOGETHER_AT_ONCE, ALONE_AT_ONCE};

	for (int alone = 0; alone < 2 && set->probes; alone++)
		while (set->argv.asked_count[alone] < at_once[alone] && next_wanted(set, alone) &&
		       send_one(set, alone))
			;
}

struct process_entry *argv_next_told(struct target_set *set)
{
	struct process_entry *entry = set->argv.told[ARGV_NEW] ?: set->argv.told[ARGV_KNOWN];

	if (entry)
		take_out(entry);
	return entry;
}

bool argv_any_told(const struct target_set *set)
{
	return set->argv.told[ARGV_NEW] || set->argv.told[ARGV_KNOWN];
}

bool argv_any_new(const struct target_set *set)
{
	const struct argv_request *request;

	if (set->argv.wanted[ARGV_NEW] || set->argv.told[ARGV_NEW])
		return true;
	DL_FOREACH (set->argv.asked, request)
		for (size_t i = 0; i < request->count; i++)
			if (request->entries[i] && !request->entries[i]->is_decided)
				return true;
	for (const struct process_entry *entry = set->argv.wanted[ARGV_ALONE]; entry;
	     entry = entry->argv.next)
		if (!entry->is_decided)
			return true;
	return false;
}

void argv_free(struct target_set *set)
{
	struct argv_request *request, *next;

	DL_FOREACH_SAFE(set->argv.asked, request, next)
	{
		probe_cancel(set->probes, request->id);
		DL_DELETE(set->argv.asked, request);
		free(request);
	}
}

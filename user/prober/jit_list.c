/* SPDX-License-Identifier: BSD-2-Clause */
#include "prober/jit_list_private.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "util/clock.h"
#include "util/hash.h"

#define DESCRIPTOR_PLAIN   24
#define DESCRIPTOR_ANDROID sizeof(struct jit_public_descriptor)
#define HEAD_AT            offsetof(struct jit_public_descriptor, first)
#define HEAD_LOOKS         64
#define RESTARTS           16
#define RETRIES            256 /* of a link that changed while it was followed */
#define REST_NS            20000
#define MAX_REST_NS        5000000
#define MAX_LIES           2
#define PASSES             4 /* over a list that always has something new */

/* ---- the descriptor ---- */

/* The kernel copies by bytes, and may be held up amid a pointer: half of one and half of the next
 * lead to what never was an entry. So the head is read twice. 0; -EAGAIN: it is another one each
 * time. */
static int read_descriptor(struct jit_reading *r, struct jit_public_descriptor *descriptor)
{
	uint64_t at = r->request->descriptor, first;
	struct jit_part parts[] = {{at, descriptor, DESCRIPTOR_PLAIN},
				   {at + HEAD_AT, &first, sizeof(first)},
				   {at + DESCRIPTOR_PLAIN, (char *)descriptor + DESCRIPTOR_PLAIN,
				    DESCRIPTOR_ANDROID - DESCRIPTOR_PLAIN}};
	int n, looks = 0;

	do {
		memset(descriptor, 0, sizeof(*descriptor));
		n = jit_read_parts(r, parts, 3);
		if (n < 2)
			return n < 0 ? n : -EFAULT;
	} while (first != descriptor->first && ++looks < HEAD_LOOKS);
	if (first != descriptor->first)
		return -EAGAIN;
	/* What follows a plain one is none of its own. */
	if (n < 3 || memcmp(descriptor->magic, "Android", 7))
		memset((char *)descriptor + DESCRIPTOR_PLAIN, 0,
		       DESCRIPTOR_ANDROID - DESCRIPTOR_PLAIN);
	descriptor->first = jit_untagged(descriptor->first);
	return 0;
}

/* 0 or -ENOTSUP. */
static int layout_of(const struct jit_public_descriptor *descriptor, enum jit_layout *layout)
{
	if (descriptor->version != 1)
		return -ENOTSUP;
	*layout = !descriptor->magic[0]         ? JIT_PLAIN
		  : descriptor->magic[7] == '1' ? JIT_ANDROID1
		  : descriptor->magic[7] == '2' ? JIT_ANDROID2
						: JIT_LAYOUTS;
	if (*layout == JIT_LAYOUTS)
		return -ENOTSUP;
	if (*layout != JIT_PLAIN && (descriptor->descriptor_bytes != DESCRIPTOR_ANDROID ||
				     descriptor->entry_bytes != jit_entry_bytes(*layout)))
		return -ENOTSUP;
	return 0;
}

/* 0: it is being changed. */
static uint64_t version_of(const struct jit_public_descriptor *descriptor)
{
	return descriptor->seqlock & 1 ? 0 : hash_bytes(descriptor, sizeof(*descriptor), 3) | 1;
}

/* ---- the entries that were found ---- */

static uint32_t *slot_of(struct jit_reading *r, uint64_t address)
{
	size_t at = hash_u64(address) & (r->slots - 1);

	while (r->table[at] && r->list->entries[r->table[at] - 1].address != address)
		at = (at + 1) & (r->slots - 1);
	return &r->table[at];
}

static int grow(struct jit_reading *r)
{
	size_t room = r->room ? r->room * 2 : 256;
	struct jit_list_entry *entries = realloc(r->list->entries, room * sizeof(*entries));
	uint32_t *seen_in = NULL, *path = NULL, *table;

	if (entries) {
		r->list->entries = entries;
		seen_in = realloc(r->seen_in, room * sizeof(*seen_in));
	}
	if (seen_in) {
		r->seen_in = seen_in;
		path = realloc(r->path, room * sizeof(*path));
	}
	if (path)
		r->path = path;
	table = path ? calloc(room * 2, sizeof(*table)) : NULL;
	if (!table)
		return -ENOMEM;
	free(r->table);
	r->table = table;
	r->slots = room * 2;
	r->room = room;
	for (uint32_t i = 0; i < r->list->header.count; i++)
		*slot_of(r, entries[i].address) = i + 1;
	return 0;
}

/* Keep an entry that was read in this pass. 0; -EAGAIN: it was met before in this pass. */
static int keep(struct jit_reading *r, uint64_t address, const struct jit_public_entry *from)
{
	struct jit_list_entry entry = {.address = address,
				       .timestamp = from->timestamp,
				       .symfile = jit_untagged(from->symfile),
				       .size = from->seqlock & 1 ? 0 : from->size,
				       .seqlock = from->seqlock};
	uint32_t *slot, number;
	int err = r->list->header.count == r->room ? grow(r) : 0;

	if (err)
		return err;
	slot = slot_of(r, address);
	number = *slot;
	if (!number) {
		if (r->list->header.count == JIT_LIST_ENTRIES)
			return -E2BIG;
		*slot = number = ++r->list->header.count;
		r->found++;
	} else {
		struct jit_list_entry *known = &r->list->entries[number - 1];

		if (r->seen_in[number - 1] == r->pass && known->seqlock == entry.seqlock)
			return -EAGAIN;
		r->found += memcmp(known, &entry, sizeof(entry)) != 0;
	}
	r->seen_in[number - 1] = r->pass;
	r->list->entries[number - 1] = entry;
	if (r->depth == r->room)
		return -EAGAIN;
	r->path[r->depth++] = number - 1;
	return 0;
}

/* ---- following the links ---- */

/* Links apart. */
static bool is_as_known(const struct jit_public_entry *now, const struct jit_list_entry *known)
{
	return jit_untagged(now->symfile) == known->symfile && now->timestamp == known->timestamp &&
	       now->seqlock == known->seqlock && (now->seqlock & 1 || now->size == known->size);
}

/* Bytes of one page, or of two. False: they are not there. */
static bool read_by_pages(struct jit_reading *r, uint64_t address, void *to, size_t bytes)
{
	while (bytes) {
		uint64_t page = address & ~(JIT_PAGE_BYTES - 1ull);
		size_t slot = page / JIT_PAGE_BYTES % JIT_PAGES, at = (size_t)(address - page);
		size_t n = bytes < JIT_PAGE_BYTES - at ? bytes : JIT_PAGE_BYTES - at;
		struct jit_part part = {page, r->pages->bytes[slot], JIT_PAGE_BYTES};

		if (r->pages->address[slot] != page) {
			r->pages->address[slot] = 0;
			if (!page || jit_read_parts(r, &part, 1) != 1)
				return false;
			r->pages->address[slot] = page;
		}
		memcpy(to, r->pages->bytes[slot] + at, n);
		to = (char *)to + n;
		address += n;
		bytes -= n;
	}
	return true;
}

/* ART begins with 1; memory of zeros is no entry. */
static bool is_alive(const struct jit_public_entry *entry)
{
	return entry->seqlock && !(entry->seqlock & 1);
}

/* Read the entry at `address` to which `from` leads, and then from once more, in this order. The
 * kernel takes and gives back the lock of the memory between two parts, which keeps the order of
 * the copies on every machine. An entry that is dead but still linked leads on like any other:
 * whoever takes it out may have been preempted amid that. 0; -EAGAIN: from leads elsewhere now, to
 * *address, which for a head was read twice; -ESTALE: from is not what it was. */
static int follow(struct jit_reading *r, const struct jit_list_entry *from, uint64_t *address,
		  struct jit_public_entry *entry)
{
	struct jit_public_descriptor descriptor = {0};
	struct jit_public_entry before = {0};
	size_t bytes = jit_entry_bytes(r->layout), have = *address ? 1 : 0, behind = from ? 1 : 2;
	struct jit_part parts[3] = {{*address, entry, bytes}};
	uint64_t next, first = 0;
	bool there, sure;
	int n;

	*entry = (struct jit_public_entry){0};
	if (r->pages)
		return !*address || read_by_pages(r, *address, entry, bytes) ? 0 : -ESTALE;
	if (r->layout == JIT_ANDROID1 && *address) {
		n = jit_read_parts(r, parts, 1);
		return n < 0 ? n : n ? 0 : -ESTALE;
	}
	parts[have] = (struct jit_part){from ? from->address : 0, &before, bytes};
	if (!from) {
		parts[have] =
			(struct jit_part){r->request->descriptor, &descriptor, DESCRIPTOR_PLAIN};
		parts[have + 1] =
			(struct jit_part){r->request->descriptor + HEAD_AT, &first, sizeof(first)};
	}
	n = jit_read_parts(r, parts, have + behind);
	if (n < 0)
		return n;
	there = n == (int)(have + behind);
	/* The entry's memory is not there: whether from leads there still? */
	if (!there && (n || !have || jit_read_parts(r, &parts[1], behind) != (int)behind))
		return -ESTALE;
	if (from && !is_as_known(&before, from))
		return -ESTALE;
	next = jit_untagged(from ? before.next : descriptor.first);
	sure = from || first == descriptor.first;
	/* An entry that is alive was the head a moment ago, whatever is in front of it now: a list
	 * may get new heads faster than they can be read. */
	if (there && ((sure && next == *address) ||
		      (!from && have && r->layout == JIT_ANDROID2 && is_alive(entry))))
		return 0;
	if (sure)
		*address = next;
	return -EAGAIN;
}

/* From the head to the end. 0; -EAGAIN: begin again. */
static int walk(struct jit_reading *r)
{
	uint64_t address = r->begin.first;
	struct jit_public_entry entry = {0};
	unsigned steps = 0;
	int err;

	for (;;) {
		const struct jit_list_entry *from =
			r->depth ? &r->list->entries[r->path[r->depth - 1]] : NULL;

		err = follow(r, from, &address, &entry);
		if (!(++steps & 63) && clock_now_ns(CLOCK_MONOTONIC) > r->until_ns)
			return -ETIMEDOUT;
		if ((err == -EAGAIN || err == -ESTALE) && !r->pages && r->retries++ < RETRIES) {
			/* One that died leads nowhere: the one before it goes on. */
			if (err == -ESTALE) {
				r->depth -= r->depth > 0;
				address = 0;
			}
			continue;
		}
		if (err || !address)
			break;
		err = keep(r, address, &entry);
		if (err)
			break;
		address = jit_untagged(entry.next);
	}
	if (err == -E2BIG) {
		r->list->header.left_out++;
		err = 0;
	}
	return err == -ESTALE ? -EAGAIN : err;
}

/* Entries that only earlier passes met are dead. */
static void drop_dead(struct jit_reading *r)
{
	for (uint32_t i = 0; i < r->list->header.count; i++)
		if (r->seen_in[i] != r->pass)
			r->list->entries[i].size = 0;
	jit_drop_empty(r->list);
}

static bool is_same(const struct jit_public_descriptor *a, const struct jit_public_descriptor *b)
{
	return !(a->seqlock & 1) && !memcmp(a, b, sizeof(*a));
}

static void begin_pass(struct jit_reading *r)
{
	r->pass++;
	r->found = 0;
	r->depth = 0;
}

/* Whoever changes the list may have been preempted amid that. */
static void rest(unsigned restarts)
{
	long ns = restarts < 9 ? (long)REST_NS << (restarts - 1) : MAX_REST_NS;

	/* Or it was just quick. */
	if (restarts < 4)
		return;

	nanosleep(&(struct timespec){0, ns}, NULL);
}

/* One picture of the list, and whether the list was the same all the time. 0; -EAGAIN. */
static int read_entries(struct jit_reading *r, bool *same)
{
	struct jit_public_descriptor end = {0};
	unsigned passes = 0;
	int err;

	for (;;) {
		begin_pass(r);
		err = read_descriptor(r, &r->begin);
		if (!err && r->layout == JIT_ANDROID1 && r->begin.seqlock & 1)
			err = -EAGAIN;
		err = err ?: walk(r);
		err = err ?: read_descriptor(r, &end);
		if (err)
			return err;
		*same = is_same(&r->begin, &end);
		if (*same)
			break;
		/* What was read in pages is old now. */
		if (r->pages || r->layout == JIT_ANDROID1)
			return -EAGAIN;
		/* Repacking enters what it moves at the head, behind whoever reads; so the list is
		 * gone through until there is nothing new. */
		if (++passes > 1 && (!r->found || passes == PASSES))
			break;
	}
	drop_dead(r);
	return 0;
}

static int read_once(struct jit_reading *r)
{
	struct jit_public_descriptor end = {0};
	bool same;
	int err;

	r->retries = 0;
	r->list->header = (struct jit_list_header){.layout = r->layout};
	free(r->list->bytes);
	r->list->bytes = NULL;
	if (r->table)
		memset(r->table, 0, r->slots * sizeof(*r->table));
	err = read_entries(r, &same);
	err = err ?: jit_copy_symfiles(r);
	err = err ?: read_descriptor(r, &end);
	if (err)
		return err;
	same = same && is_same(&r->begin, &end);
	/* These say nothing of a single entry. */
	if (!same && (r->pages || r->layout != JIT_ANDROID2))
		return -EAGAIN;
	r->list->header.version = same ? version_of(&end) : 0;
	return 0;
}

/* One attempt, begun with the descriptor as it is. */
static int attempt(struct jit_reading *r)
{
	struct jit_public_descriptor first = {0}, end = {0};
	bool rests;
	int err = read_descriptor(r, &first);

	if (err)
		return err;
	rests = r->layout != JIT_PLAIN && !(first.seqlock & 1) && !r->restarts;
	r->pages = rests ? calloc(1, sizeof(*r->pages)) : NULL;
	err = read_once(r);
	free(r->pages);
	r->pages = NULL;
	if (err == -EAGAIN && rests && !read_descriptor(r, &end) && !is_same(&first, &end))
		err = read_once(r);
	if (err == -EAGAIN && !read_descriptor(r, &end))
		r->lies += is_same(&first, &end);
	r->list->header.timestamp = first.timestamp;
	return err;
}

int jit_list_read(const struct jit_memory *memory, const struct jit_list_request *request,
		  struct jit_list *list)
{
	struct jit_reading r = {.memory = memory,
				.request = request,
				.list = list,
				.until_ns = clock_now_ns(CLOCK_MONOTONIC) + JIT_LIST_NS};
	int err;

	*list = (struct jit_list){0};
	err = read_descriptor(&r, &r.begin);
	err = err ?: layout_of(&r.begin, &r.layout);
	if (err)
		return err;
	if (request->known && version_of(&r.begin) == request->known)
		return 0;
	do {
		if (r.restarts)
			rest(r.restarts);
		err = attempt(&r);
		if (err == -EAGAIN && clock_now_ns(CLOCK_MONOTONIC) > r.until_ns)
			err = -ETIMEDOUT;
		/* A list that nobody changed, and that makes no sense, will make none. */
	} while (err == -EAGAIN && r.lies < MAX_LIES && r.restarts++ < RESTARTS);
	free(r.table);
	free(r.seen_in);
	free(r.path);
	if (err)
		jit_list_free(list);
	return err ?: 1;
}

void jit_list_free(struct jit_list *list)
{
	free(list->entries);
	free(list->bytes);
	*list = (struct jit_list){0};
}

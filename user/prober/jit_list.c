/* SPDX-License-Identifier: BSD-2-Clause */
#include "prober/jit_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "util/clock.h"
#include "util/hash.h"

#define DESCRIPTOR_PLAIN   24
#define DESCRIPTOR_ANDROID 56
#define ENTRY_BYTES        48
#define RESTARTS           16
#define RETRIES            256 /* of a link that changed while it was followed */
#define REST_NS            20000
#define MAX_REST_NS        5000000
#define PASSES             4 /* over a list that always has something new */

static const uint8_t entry_bytes[JIT_LAYOUTS] = {32, 40, 48};

/* struct JITDescriptorPublic and struct JITCodeEntryPublic of ART; gdb's end before magic and
 * before timestamp. */
struct descriptor {
	uint32_t version, action;
	uint64_t relevant, first;
	char magic[8];
	uint32_t flags, descriptor_bytes, entry_bytes, seqlock;
	uint64_t timestamp;
};
_Static_assert(sizeof(struct descriptor) == DESCRIPTOR_ANDROID, "as in ART");

struct entry {
	uint64_t next, previous, symfile, size, timestamp;
	uint32_t seqlock, reserved;
};
_Static_assert(sizeof(struct entry) == ENTRY_BYTES, "as in ART");

/* A place that a link is read from: an entry, or the descriptor (address 0). */
struct place {
	uint64_t address;
	uint32_t seqlock;
};

struct reading {
	const struct jit_memory *memory;
	const struct jit_list_request *request;
	struct jit_list *list;
	enum jit_layout layout;
	struct descriptor begin; /* as it was when the pass began */
	size_t room, bytes_room;
	uint32_t *table; /* entries by address: number plus 1; a power of two of slots */
	size_t slots;
	uint32_t *seen_in; /* the pass in which an entry was met last */
	uint32_t pass, restarts, retries, found;
	uint64_t until_ns;
};

/* The top byte of a pointer is a tag on arm64, and zero elsewhere. */
static uint64_t untagged(uint64_t address)
{
	return address << 8 >> 8;
}

static int read_parts(struct reading *r, const struct jit_part *parts, size_t count)
{
	return r->memory->read(r->memory->ctx, parts, count);
}

/* ---- the descriptor ---- */

static int read_descriptor(struct reading *r, struct descriptor *descriptor)
{
	uint64_t at = r->request->descriptor;
	struct jit_part parts[] = {{at, descriptor, DESCRIPTOR_PLAIN},
				   {at + DESCRIPTOR_PLAIN, (char *)descriptor + DESCRIPTOR_PLAIN,
				    DESCRIPTOR_ANDROID - DESCRIPTOR_PLAIN}};
	int n;

	memset(descriptor, 0, sizeof(*descriptor));
	n = read_parts(r, parts, 2);
	if (n < 1)
		return n < 0 ? n : -EFAULT;
	/* What follows a plain one is none of its own. */
	if (n < 2 || memcmp(descriptor->magic, "Android", 7))
		memset((char *)descriptor + DESCRIPTOR_PLAIN, 0,
		       DESCRIPTOR_ANDROID - DESCRIPTOR_PLAIN);
	descriptor->first = untagged(descriptor->first);
	return 0;
}

/* 0 or -ENOTSUP. */
static int layout_of(const struct descriptor *descriptor, enum jit_layout *layout)
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
				     descriptor->entry_bytes != entry_bytes[*layout]))
		return -ENOTSUP;
	return 0;
}

/* 0: it is being changed. */
static uint64_t version_of(const struct descriptor *descriptor)
{
	return descriptor->seqlock & 1 ? 0 : hash_bytes(descriptor, sizeof(*descriptor), 3) | 1;
}

/* ---- the entries that were found ---- */

static uint32_t *slot_of(struct reading *r, uint64_t address)
{
	size_t at = hash_u64(address) & (r->slots - 1);

	while (r->table[at] && r->list->entries[r->table[at] - 1].address != address)
		at = (at + 1) & (r->slots - 1);
	return &r->table[at];
}

static int grow(struct reading *r)
{
	size_t room = r->room ? r->room * 2 : 256;
	struct jit_list_entry *entries = realloc(r->list->entries, room * sizeof(*entries));
	uint32_t *seen_in = NULL, *table;

	if (entries) {
		r->list->entries = entries;
		seen_in = realloc(r->seen_in, room * sizeof(*seen_in));
	}
	if (seen_in)
		r->seen_in = seen_in;
	table = seen_in ? calloc(room * 2, sizeof(*table)) : NULL;
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
static int keep(struct reading *r, uint64_t address, const struct entry *from)
{
	struct jit_list_entry entry = {.address = address,
				       .timestamp = from->timestamp,
				       .symfile = untagged(from->symfile),
				       .size = from->size,
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

		if (r->seen_in[number - 1] == r->pass)
			return -EAGAIN;
		r->found += memcmp(known, &entry, sizeof(entry)) != 0;
	}
	r->seen_in[number - 1] = r->pass;
	r->list->entries[number - 1] = entry;
	return 0;
}

/* ---- following the links ---- */

/* Read the entry at `address` to which `from` leads, and then from once more, in this order. The
 * kernel takes and gives back the lock of the memory between two parts, which keeps the order of
 * the copies on every machine. 0; -EAGAIN: from leads elsewhere now, or the entry is just being
 * changed: *address is where it leads; -ESTALE: from is no part of the list any more. */
static int follow(struct reading *r, const struct place *from, uint64_t *address,
		  struct entry *entry)
{
	struct descriptor descriptor;
	struct entry before = {0};
	size_t bytes = entry_bytes[r->layout], have = *address ? 1 : 0;
	struct jit_part parts[2] = {{*address, entry, bytes}};
	uint64_t next;
	int n;

	*entry = (struct entry){0};
	if (r->layout == JIT_ANDROID1 && *address) {
		n = read_parts(r, parts, 1);
		return n < 0 ? n : n ? 0 : -ESTALE;
	}
	parts[have] = (struct jit_part){from->address, &before, bytes};
	if (!from->address)
		parts[have] =
			(struct jit_part){r->request->descriptor, &descriptor, DESCRIPTOR_PLAIN};
	n = read_parts(r, parts, have + 1);
	if (n < 0)
		return n;
	if (n < (int)have + 1) {
		/* The entry's memory is gone: its place in the list tells. */
		if (n == 0 && have && read_parts(r, &parts[1], 1) != 1)
			return -ESTALE;
		if (n != 0 || !have)
			return -ESTALE;
		entry->seqlock = 1;
	}
	if (from->address && before.seqlock != from->seqlock)
		return -ESTALE;
	next = untagged(from->address ? before.next : descriptor.first);
	if (next != *address || entry->seqlock & 1) {
		*address = next;
		return -EAGAIN;
	}
	return 0;
}

/* From the head to the end. 0; -EAGAIN: begin again. */
static int walk(struct reading *r)
{
	struct place from = {0};
	uint64_t address = r->begin.first;
	struct entry entry;
	unsigned steps = 0;

	for (;;) {
		int err = follow(r, &from, &address, &entry);

		if (!(++steps & 63) && clock_now_ns(CLOCK_MONOTONIC) > r->until_ns)
			return -ETIMEDOUT;
		if (err == -EAGAIN && r->retries++ < RETRIES)
			continue;
		if (err == -ESTALE)
			err = -EAGAIN;
		if (err)
			return err;
		if (!address)
			return 0;
		err = keep(r, address, &entry);
		if (err == -E2BIG) {
			r->list->header.left_out++;
			return 0;
		}
		if (err)
			return err;
		from = (struct place){address, entry.seqlock};
		address = untagged(entry.next);
	}
}

/* Entries without a symfile are dead, or mark where the list of ART's zygote begins and ends. */
static void drop_empty(struct jit_list *list)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < list->header.count; i++)
		if (list->entries[i].symfile && list->entries[i].size)
			list->entries[kept++] = list->entries[i];
	list->header.count = kept;
}

/* Entries that only earlier passes met are dead. */
static void drop_dead(struct reading *r)
{
	for (uint32_t i = 0; i < r->list->header.count; i++)
		if (r->seen_in[i] != r->pass)
			r->list->entries[i].size = 0;
	drop_empty(r->list);
}

/* ---- symfiles ---- */

static bool is_wanted(const struct reading *r, const struct jit_list_entry *entry)
{
	/* Without timestamps nothing tells which are new. */
	return r->request->symfiles && (r->layout == JIT_PLAIN || !r->request->since ||
					entry->timestamp > r->request->since);
}

/* The bytes of a symfile, and the entry after them. */
struct copied {
	struct jit_list_entry *entry;
	uint64_t at;
	struct entry again;
};

/* read: the symfile was there. */
static void settle(struct reading *r, struct copied *copied, bool read)
{
	const struct entry *again = &copied->again;
	struct jit_list_entry *entry = copied->entry;

	if (r->layout == JIT_ANDROID2 && again->seqlock != entry->seqlock)
		entry->size = 0; /* it died meanwhile */
	else if (read && untagged(again->symfile) == entry->symfile && again->size == entry->size &&
		 again->timestamp == entry->timestamp)
		entry->offset = copied->at + 1;
	else
		r->list->header.unread++;
}

/* Copy so many symfiles, each followed by its entry. */
static int copy_batch(struct reading *r, struct copied *batch, size_t count)
{
	struct jit_part parts[JIT_PARTS];
	size_t done = 0;

	for (size_t i = 0; i < count; i++) {
		struct copied *copied = &batch[i];

		copied->again = (struct entry){0};
		parts[i * 2] =
			(struct jit_part){copied->entry->symfile, r->list->bytes + copied->at,
					  (size_t)copied->entry->size};
		parts[i * 2 + 1] = (struct jit_part){copied->entry->address, &copied->again,
						     entry_bytes[r->layout]};
	}
	while (done < count) {
		int got = read_parts(r, parts + done * 2, (count - done) * 2);

		if (got < 0)
			return got;
		for (int i = 0; i < got / 2; i++)
			settle(r, &batch[done++], true);
		if (done == count)
			break;
		/* This one is not there: its entry says why. */
		got = read_parts(r, &parts[done * 2 + 1], 1);
		if (got < 0)
			return got;
		settle(r, &batch[done++], false);
	}
	return 0;
}

static int copy_symfiles(struct reading *r)
{
	struct jit_list_header *header = &r->list->header;
	struct copied batch[JIT_PARTS / 2];
	size_t waiting = 0, bytes = 0;
	uint32_t last = 0;
	int err = 0;

	for (uint32_t i = 0; i < header->count; i++) {
		const struct jit_list_entry *entry = &r->list->entries[i];

		if (!is_wanted(r, entry) || entry->size > JIT_SYMFILE_BYTES)
			continue;
		if (entry->size > JIT_ANSWER_BYTES - bytes)
			break;
		bytes += (size_t)entry->size;
		last = i + 1;
	}
	r->list->bytes = calloc(1, bytes ? bytes : 1);
	if (!r->list->bytes)
		return -ENOMEM;
	for (uint32_t i = 0; i < header->count && !err; i++) {
		struct jit_list_entry *entry = &r->list->entries[i];

		entry->offset = 0;
		if (!is_wanted(r, entry))
			continue;
		if (i >= last || entry->size > JIT_SYMFILE_BYTES) {
			header->left_out++;
			continue;
		}
		batch[waiting++] = (struct copied){.entry = entry, .at = header->bytes};
		header->bytes += entry->size;
		if (waiting == JIT_PARTS / 2) {
			err = copy_batch(r, batch, waiting);
			waiting = 0;
			if (!err && clock_now_ns(CLOCK_MONOTONIC) > r->until_ns)
				err = -ETIMEDOUT;
		}
	}
	if (!err && waiting)
		err = copy_batch(r, batch, waiting);
	drop_empty(r->list);
	return err;
}

/* ---- */

static bool is_same(const struct descriptor *a, const struct descriptor *b)
{
	return !(a->seqlock & 1) && !memcmp(a, b, sizeof(*a));
}

static void begin_pass(struct reading *r)
{
	r->pass++;
	r->found = 0;
}

/* Whoever changes the list may have been preempted amid that. */
static void rest(unsigned restarts)
{
	long ns = restarts < 9 ? (long)REST_NS << (restarts - 1) : MAX_REST_NS;

	nanosleep(&(struct timespec){0, ns}, NULL);
}

/* One picture of the list, and whether the list was the same all the time. 0; -EAGAIN. */
static int read_entries(struct reading *r, bool *same)
{
	struct descriptor end;
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
		if (r->layout == JIT_ANDROID1)
			return -EAGAIN;
		/* Repacking enters what it moves at the head, behind whoever reads; so the list is
		 * gone through until there is nothing new. */
		if (++passes > 1 && (!r->found || passes == PASSES))
			break;
	}
	drop_dead(r);
	return 0;
}

static int read_once(struct reading *r)
{
	struct descriptor first, end;
	bool same;
	int err = read_descriptor(r, &first);

	r->retries = 0;
	r->list->header = (struct jit_list_header){.layout = r->layout};
	if (r->table)
		memset(r->table, 0, r->slots * sizeof(*r->table));
	err = err ?: read_entries(r, &same);
	err = err ?: copy_symfiles(r);
	err = err ?: read_descriptor(r, &end);
	if (err)
		return err;
	same = same && is_same(&r->begin, &end);
	/* These two say nothing of a single entry. */
	if (!same && r->layout != JIT_ANDROID2)
		return -EAGAIN;
	r->list->header.version = same ? version_of(&end) : 0;
	r->list->header.timestamp = first.timestamp;
	return 0;
}

int jit_list_read(const struct jit_memory *memory, const struct jit_list_request *request,
		  struct jit_list *list)
{
	struct reading r = {.memory = memory,
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
		free(list->bytes);
		list->bytes = NULL;
		if (r.restarts)
			rest(r.restarts);
		err = read_once(&r);
		if (err == -EAGAIN && clock_now_ns(CLOCK_MONOTONIC) > r.until_ns)
			err = -ETIMEDOUT;
	} while (err == -EAGAIN && r.restarts++ < RESTARTS);
	free(r.table);
	free(r.seen_in);
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

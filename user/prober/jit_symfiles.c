/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "prober/jit_list_private.h"
#include "util/clock.h"

void jit_drop_empty(struct jit_list *list)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < list->header.count; i++)
		if (list->entries[i].symfile && list->entries[i].size)
			list->entries[kept++] = list->entries[i];
	list->header.count = kept;
}

static bool is_wanted(const struct jit_reading *r, const struct jit_list_entry *entry)
{
	/* Without timestamps nothing tells which are new. */
	return r->request->symfiles && (r->layout == JIT_PLAIN || !r->request->since ||
					entry->timestamp > r->request->since);
}

/* The bytes of a symfile, and the entry after them. */
struct copied {
	struct jit_list_entry *entry;
	uint64_t at;
	struct jit_public_entry again;
};

/* read: the symfile was there. */
static void settle(struct jit_reading *r, struct copied *copied, bool read)
{
	const struct jit_public_entry *again = &copied->again;
	struct jit_list_entry *entry = copied->entry;

	if (r->pages && read)
		entry->offset = copied->at + 1;
	else if (r->pages)
		r->list->header.unread++;
	else if (r->layout == JIT_ANDROID2 && again->seqlock != entry->seqlock)
		entry->size = 0; /* it died meanwhile */
	else if (read && jit_untagged(again->symfile) == entry->symfile &&
		 again->size == entry->size && again->timestamp == entry->timestamp)
		entry->offset = copied->at + 1;
	else
		r->list->header.unread++;
}

/* Copy so many symfiles, each followed by its entry where nothing else tells that it lives. */
static int copy_batch(struct jit_reading *r, struct copied *batch, size_t count)
{
	size_t done = 0, each = r->pages ? 1 : 2;
	struct jit_part parts[JIT_PARTS];

	for (size_t i = 0; i < count; i++) {
		struct copied *copied = &batch[i];

		copied->again = (struct jit_public_entry){0};
		parts[i * each] =
			(struct jit_part){copied->entry->symfile, r->list->bytes + copied->at,
					  (size_t)copied->entry->size};
		if (each == 2)
			parts[i * 2 + 1] = (struct jit_part){copied->entry->address, &copied->again,
							     jit_entry_bytes(r->layout)};
	}
	while (done < count) {
		int got = jit_read_parts(r, parts + done * each, (count - done) * each);

		if (got < 0)
			return got;
		for (size_t i = 0; i < (size_t)got / each; i++)
			settle(r, &batch[done++], true);
		if (done == count)
			break;
		/* This one is not there: its entry says why. */
		got = each == 2 ? jit_read_parts(r, &parts[done * 2 + 1], 1) : 0;
		if (got < 0)
			return got;
		settle(r, &batch[done++], false);
	}
	return 0;
}

int jit_copy_symfiles(struct jit_reading *r)
{
	struct jit_list_header *header = &r->list->header;
	struct copied batch[JIT_PARTS];
	size_t batch_size = r->pages ? JIT_PARTS : JIT_PARTS / 2;
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
		if (waiting == batch_size) {
			err = copy_batch(r, batch, waiting);
			waiting = 0;
			if (!err && clock_now_ns(CLOCK_MONOTONIC) > r->until_ns)
				err = -ETIMEDOUT;
		}
	}
	if (!err && waiting)
		err = copy_batch(r, batch, waiting);
	jit_drop_empty(r->list);
	return err;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/recording.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "record/json_read.h"
#include "source/line_reader.h"

/* Blocks that are held back for their end or for stacks that may follow: the newest ones. */
#define MAX_HELD 1024

/* A block that was told open and not (yet) told again, or whose stacks follow. */
struct held_block {
	struct key {
		uint64_t start_boot_ns;
		int64_t pid;
	} key;
	uint64_t seq;
	struct parsed_record *block, **additions;
	size_t addition_count;
	UT_hash_handle hh;     /* by key */
	UT_hash_handle hh_seq; /* by seq of the last record */
};

struct walk {
	const struct recording_reader *reader;
	struct recording_counts *counts;
	struct held_block *held, *held_by_seq;
	uint64_t next_seq;
	bool header, footer;
};

static void __attribute__((format(printf, 2, 3))) damage(struct walk *walk, const char *format, ...)
{
	char what[160];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	walk->counts->damages++;
	if (walk->reader->damage)
		walk->reader->damage(walk->reader->ctx, walk->counts->lines, what);
}

/* A block with the stacks of its own record and those that followed it. */
static int tell(struct walk *walk, const struct record_block *told,
		struct parsed_record *const *additions, size_t addition_count)
{
	struct record_block block = *told;
	int err;

	walk->counts->blocks++;
	if (!addition_count)
		return walk->reader->block(walk->reader->ctx, &block);
	block.stacks = calloc(told->stack_count + addition_count, sizeof(*block.stacks));
	if (!block.stacks)
		return -ENOMEM;
	if (told->stack_count)
		memcpy(block.stacks, told->stacks, told->stack_count * sizeof(*block.stacks));
	for (size_t i = 0; i < addition_count; i++)
		block.stacks[block.stack_count++] = additions[i]->record.addition->stack;
	err = walk->reader->block(walk->reader->ctx, &block);
	free(block.stacks);
	return err;
}

static void unhold(struct walk *walk, struct held_block *held)
{
	HASH_DELETE(hh, walk->held, held);
	HASH_DELETE(hh_seq, walk->held_by_seq, held);
}

static void free_held(struct held_block *held)
{
	parsed_record_free(held->block);
	for (size_t i = 0; i < held->addition_count; i++)
		parsed_record_free(held->additions[i]);
	free(held->additions);
	free(held);
}

static int tell_held(struct walk *walk, const struct held_block *held)
{
	return tell(walk, held->block->record.block, held->additions, held->addition_count);
}

/* uthash keeps the order in which they came. */
static int tell_oldest(struct walk *walk)
{
	struct held_block *held = walk->held;
	int err;

	unhold(walk, held);
	err = tell_held(walk, held);
	free_held(held);
	return err;
}

/* Takes the record over where it is held: *parsed is NULL then. */
static int hold(struct walk *walk, const struct key *key, struct parsed_record **parsed)
{
	struct held_block *held, *same;
	uint64_t seq = (*parsed)->record.seq;

	/* No two of a whole recording have one; what is told twice is told once. */
	HASH_FIND(hh_seq, walk->held_by_seq, &seq, sizeof(seq), same);
	if (same)
		return 0;
	held = calloc(1, sizeof(*held));
	if (!held)
		return -ENOMEM;
	held->key = *key;
	held->seq = seq;
	held->block = *parsed;
	*parsed = NULL;
	HASH_ADD(hh, walk->held, key, sizeof(held->key), held);
	HASH_ADD(hh_seq, walk->held_by_seq, seq, sizeof(held->seq), held);
	return HASH_COUNT(walk->held) > MAX_HELD ? tell_oldest(walk) : 0;
}

static bool stacks_follow(const struct record_block *block)
{
	for (size_t i = 0; i < block->missing.count; i++)
		if (!strcmp(block->missing.items[i].key, "stacks") &&
		    !strcmp(block->missing.items[i].reason, MISSING_FOLLOWS))
			return true;
	return false;
}

/* What a later record of the same block says takes the place of what it said before. */
static int take_block(struct walk *walk, struct parsed_record **parsed)
{
	const struct record_block *block = (*parsed)->record.block;
	struct held_block *held;
	struct key key;

	/* uthash compares bytes, holes too. */
	memset(&key, 0, sizeof(key));
	key.start_boot_ns = block->start_boot_ns;
	key.pid = block->pid;
	HASH_FIND(hh, walk->held, &key, sizeof(key), held);
	if (held) {
		unhold(walk, held);
		free_held(held);
	}
	if (block->state == BLOCK_OPEN || stacks_follow(block))
		return hold(walk, &key, parsed);
	return tell(walk, block, NULL, 0);
}

/* A stack of a block that has gone on since is in the later record. */
static int take_stack(struct walk *walk, struct parsed_record **parsed)
{
	uint64_t of = (*parsed)->record.addition->of;
	struct parsed_record **more;
	struct held_block *held;

	HASH_FIND(hh_seq, walk->held_by_seq, &of, sizeof(of), held);
	if (!held)
		return 0;
	more = realloc(held->additions, (held->addition_count + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	held->additions = more;
	more[held->addition_count++] = *parsed;
	*parsed = NULL;
	return 0;
}

static void check_place(struct walk *walk, const struct parsed_record *parsed)
{
	bool header = parsed->known && parsed->record.type == RECORD_HEADER;
	uint64_t seq = parsed->record.seq;

	if (header && walk->header)
		damage(walk, "a second header: these are several recordings");
	if (!header && walk->counts->lines == 1 + walk->counts->rejected)
		damage(walk, "no header first: the begin is missing");
	if (walk->footer)
		damage(walk, "a record after the footer");
	if (!parsed->has_seq)
		damage(walk, "no seq");
	else if (seq > walk->next_seq)
		damage(walk, "%" PRIu64 " records are missing before it (seq %" PRIu64 ")",
		       seq - walk->next_seq, seq);
	else if (seq < walk->next_seq)
		damage(walk, "seq %" PRIu64 " again, after %" PRIu64, seq, walk->next_seq - 1);
	walk->next_seq = seq + 1;
	walk->header |= header;
	walk->footer = parsed->known && parsed->record.type == RECORD_FOOTER;
}

static void reject(struct walk *walk, const char *why)
{
	walk->counts->rejected++;
	walk->next_seq++; /* it was one record, most likely */
	damage(walk, "%s", why);
}

static int take_record(struct walk *walk, struct parsed_record **parsed)
{
	const struct recording_reader *reader = walk->reader;
	const struct record *record = &(*parsed)->record;
	int err = 0;

	check_place(walk, *parsed);
	if ((*parsed)->schema)
		walk->counts->schema = (*parsed)->schema;
	if (!(*parsed)->known)
		return 0;
	/* What is told of blocks stands before the summary. */
	while (!err && record->type == RECORD_FOOTER && walk->held)
		err = tell_oldest(walk);
	if (!err && reader->record)
		err = reader->record(reader->ctx, record);
	if (!err && reader->block && record->type == RECORD_BLOCK)
		err = take_block(walk, parsed);
	else if (!err && reader->block && record->type == RECORD_STACK)
		err = take_stack(walk, parsed);
	return err;
}

static int take_line(struct walk *walk, const struct line_reader *reader)
{
	struct parsed_record *parsed;
	char why[160];
	int err;

	walk->counts->lines++;
	if (reader->torn || reader->too_long) {
		reject(walk, reader->torn ? "torn: the line has no end" : "the line is too long");
		return 0;
	}
	err = record_parse(reader->line, reader->length, &parsed, why, sizeof(why));
	if (err == -EBADMSG) {
		reject(walk, why);
		err = 0;
	} else if (err == -EPROTONOSUPPORT) {
		walk->counts->schema = parsed->schema;
	} else if (!err) {
		err = take_record(walk, &parsed);
	}
	parsed_record_free(parsed);
	return err;
}

int recording_read(const char *path, const struct recording_reader *reader,
		   struct recording_counts *counts)
{
	struct walk walk = {.reader = reader, .counts = counts};
	struct line_reader lines = {.in = fopen(path, "re")};
	struct held_block *held, *next;
	int err = 0;

	*counts = (struct recording_counts){0};
	if (!lines.in)
		return -errno;
	while (!err && (err = line_reader_next(&lines)) > 0)
		err = take_line(&walk, &lines);
	if (!err && counts->lines == counts->rejected)
		err = -EBADMSG;
	if (!err && !walk.footer)
		damage(&walk, "no footer last: it was not written to its end");
	HASH_ITER (hh, walk.held, held, next) {
		unhold(&walk, held);
		if (!err)
			err = tell_held(&walk, held);
		free_held(held);
	}
	free(lines.line);
	fclose(lines.in);
	return err;
}

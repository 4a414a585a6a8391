/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/recording.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "source/frames/line_reader.h"
#include "source/recording_records.h"
#include "util/crc32c.h"

/* Blocks that are held back for their end or for stacks that may follow: the newest ones. */
#define MAX_HELD 1024

/* A block that was told open and not (yet) told again, or whose stacks follow. */
struct held_block {
	struct key {
		uint64_t start_boot_ns;
		int64_t pid;
	} key;
	uint64_t seq;
	json_t *record, *additions;
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

static const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static uint64_t number_of(const json_t *object, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(object, key));

	return value > 0 ? (uint64_t)value : 0;
}

static size_t choice_of(const json_t *object, const char *key, const char *const *names,
			size_t count)
{
	const char *text = text_of(object, key);

	for (size_t i = 0; text && i < count; i++)
		if (!strcmp(text, names[i]))
			return i;
	return 0;
}

static int read_stack(const json_t *object, struct record_stack *stack)
{
	static const char *const captures[] = {"snapshot", "perf", "ptrace", "kernel"};
	static const char *const kinds[] = {"native", "jit", "dex", "kernel", "vdso"};
	static const char *const found_by[] = {"cfi", "fp", "lr", "scan"};
	const json_t *frames = json_object_get(object, "frames");
	size_t count = json_array_size(frames);

	stack->t_boot_ns = number_of(object, "t_boot_ns");
	stack->weight_ns = number_of(object, "weight_ns");
	stack->capture = (enum capture_kind)choice_of(object, "capture", captures, 4);
	stack->complete = json_is_true(json_object_get(object, "complete"));
	stack->end_reason = text_of(object, "end_reason");
	stack->in_wait = json_is_true(json_object_get(object, "in_wait"));
	stack->frames = calloc(count + 1, sizeof(*stack->frames));
	if (!stack->frames)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const json_t *frame = json_array_get(frames, i);

		stack->frames[i] = (struct record_frame){
			.module = text_of(frame, "module"),
			.build_id = text_of(frame, "build_id"),
			.offset = (uint64_t)json_integer_value(json_object_get(frame, "offset")),
			.symbol = text_of(frame, "symbol"),
			.kind = (enum frame_kind)choice_of(frame, "kind", kinds, 5),
			.by = (enum frame_by)choice_of(frame, "by", found_by, 4),
			.shared = json_is_true(json_object_get(frame, "shared")),
		};
	}
	stack->frame_count = count;
	return 0;
}

static int tell(struct walk *walk, const json_t *object, const json_t *additions)
{
	static const char *const states[] = {"open", "closed", "exited"};
	static const char *const classes[] = {"short", "long", "anr"};
	const json_t *stacks = json_object_get(object, "stacks");
	size_t own = json_array_size(stacks), count = own + json_array_size(additions);
	struct record_block block = {
		.pid = (pid_t)number_of(object, "pid"),
		.tid = (pid_t)number_of(object, "tid"),
		.package = text_of(object, "package"),
		.process = text_of(object, "process"),
		.detector = text_of(object, "detector"),
		.start_boot_ns = number_of(object, "start_boot_ns"),
		.wall_ns = number_of(object, "wall_ns"),
		.state = (enum block_state)choice_of(object, "state", states, 3),
		.class = (enum block_class)choice_of(object, "class", classes, 3),
	};
	int err = 0;

	block.stacks = calloc(count + 1, sizeof(*block.stacks));
	if (!block.stacks)
		return -ENOMEM;
	for (size_t i = 0; i < count && !err; i++) {
		err = read_stack(i < own ? json_array_get(stacks, i)
					 : json_array_get(additions, i - own),
				 &block.stacks[i]);
		block.stack_count += !err;
	}
	if (!err) {
		walk->counts->blocks++;
		err = walk->reader->block(walk->reader->ctx, &block);
	}
	for (size_t i = 0; i < block.stack_count; i++)
		free(block.stacks[i].frames);
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
	json_decref(held->record);
	json_decref(held->additions);
	free(held);
}

/* uthash keeps the order in which they came. */
static int tell_oldest(struct walk *walk)
{
	struct held_block *held = walk->held;
	int err;

	unhold(walk, held);
	err = tell(walk, held->record, held->additions);
	free_held(held);
	return err;
}

static int hold(struct walk *walk, const struct key *key, uint64_t seq, json_t *object)
{
	struct held_block *held = calloc(1, sizeof(*held)), *same;

	if (!held)
		return -ENOMEM;
	held->key = *key;
	held->seq = seq;
	held->record = json_incref(object);
	held->additions = json_array();
	/* No two of a whole recording have one; what is told twice is told once. */
	HASH_FIND(hh_seq, walk->held_by_seq, &seq, sizeof(seq), same);
	if (same || !held->additions) {
		free_held(held);
		return same ? 0 : -ENOMEM;
	}
	HASH_ADD(hh, walk->held, key, sizeof(held->key), held);
	HASH_ADD(hh_seq, walk->held_by_seq, seq, sizeof(held->seq), held);
	return HASH_COUNT(walk->held) > MAX_HELD ? tell_oldest(walk) : 0;
}

/* What a later record of the same block says takes the place of what it said before. */
static int take_block(struct walk *walk, json_t *object)
{
	const char *state = text_of(object, "state");
	const char *why = text_of(json_object_get(object, "missing"), "stacks");
	bool open = state && !strcmp(state, "open");
	struct held_block *held;
	struct key key;

	/* uthash compares bytes, holes too. */
	memset(&key, 0, sizeof(key));
	key.start_boot_ns = number_of(object, "start_boot_ns");
	key.pid = (int64_t)number_of(object, "pid");
	HASH_FIND(hh, walk->held, &key, sizeof(key), held);
	if (held) {
		unhold(walk, held);
		free_held(held);
	}
	if (open || (why && !strcmp(why, MISSING_FOLLOWS)))
		return hold(walk, &key, number_of(object, "seq"), object);
	return tell(walk, object, NULL);
}

/* A stack of a block that has gone on since is in the later record. */
static int take_stack(struct walk *walk, json_t *object)
{
	uint64_t of = number_of(object, "of");
	struct held_block *held;

	HASH_FIND(hh_seq, walk->held_by_seq, &of, sizeof(of), held);
	return held && json_array_append(held->additions, object) ? -ENOMEM : 0;
}

static int take_header(struct walk *walk, const json_t *object)
{
	json_int_t schema = json_integer_value(json_object_get(object, "schema"));

	if (walk->header)
		damage(walk, "a second header: these are several recordings");
	walk->header = true;
	walk->counts->schema = schema;
	if (schema > RECORD_SCHEMA)
		return -EPROTONOSUPPORT;
	if (schema < 1)
		damage(walk, "the header names no schema");
	return walk->reader->record
		       ? recording_tell_header(object, walk->reader->record, walk->reader->ctx)
		       : 0;
}

static void check_place(struct walk *walk, const json_t *object, const char *type)
{
	const json_t *number = json_object_get(object, "seq");
	uint64_t seq = number_of(object, "seq");

	if (walk->counts->lines == 1 + walk->counts->rejected && strcmp(type, "header"))
		damage(walk, "no header first: the begin is missing");
	if (walk->footer)
		damage(walk, "a record after the footer");
	if (!json_is_integer(number))
		damage(walk, "no seq");
	else if (seq > walk->next_seq)
		damage(walk, "%" PRIu64 " records are missing before it (seq %" PRIu64 ")",
		       seq - walk->next_seq, seq);
	else if (seq < walk->next_seq)
		damage(walk, "seq %" PRIu64 " again, after %" PRIu64, seq, walk->next_seq - 1);
	walk->next_seq = seq + 1;
}

/* The checksum is that of the bytes before its own key, which is the last. */
static bool is_whole(const char *line, size_t length)
{
	static const char key[] = ",\"crc\":\"";
	const size_t tail = sizeof(key) - 1 + 8 + 2;
	char text[9];

	if (length < tail || memcmp(line + length - tail, key, sizeof(key) - 1) ||
	    memcmp(line + length - 2, "\"}", 2))
		return false;
	snprintf(text, sizeof(text), "%08x", crc32c(0, line, length - tail));
	return !memcmp(line + length - 10, text, 8);
}

static void reject(struct walk *walk, const char *why)
{
	walk->counts->rejected++;
	walk->next_seq++; /* it was one record, most likely */
	damage(walk, "%s", why);
}

static int take_line(struct walk *walk, const struct line_reader *reader)
{
	json_t *object = NULL;
	const char *type;
	int err = 0;

	walk->counts->lines++;
	if (reader->torn || reader->too_long) {
		reject(walk, reader->torn ? "torn: the line has no end" : "the line is too long");
		return 0;
	}
	if (is_whole(reader->line, reader->length))
		object = json_loadb(reader->line, reader->length, 0, NULL);
	type = text_of(object, "type");
	if (!type) {
		reject(walk, object ? "no record" : "the checksum is wrong");
		json_decref(object);
		return 0;
	}
	check_place(walk, object, type);
	if (!strcmp(type, "header"))
		err = take_header(walk, object);
	else if (!strcmp(type, "block"))
		err = take_block(walk, object);
	else if (!strcmp(type, "stack"))
		err = take_stack(walk, object);
	walk->footer = !strcmp(type, "footer");
	if (walk->footer && !err && walk->reader->record)
		err = recording_tell_footer(object, walk->reader->record, walk->reader->ctx);
	json_decref(object);
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
			err = tell(&walk, held->record, held->additions);
		free_held(held);
	}
	free(lines.line);
	fclose(lines.in);
	return err;
}

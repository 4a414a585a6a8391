/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/recording.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* A block that was told open and not (yet) told again. */
struct open_block {
	struct key {
		uint64_t start_boot_ns;
		int64_t pid;
	} key;
	json_t *record;
	UT_hash_handle hh;
};

struct reader {
	recording_block_fn callback;
	void *ctx;
	struct recording_counts *counts;
	struct open_block *open;
};

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
	const json_t *frames = json_object_get(object, "frames");
	size_t count = json_array_size(frames);

	stack->t_boot_ns = number_of(object, "t_boot_ns");
	stack->weight_ns = number_of(object, "weight_ns");
	stack->capture = (enum capture_kind)choice_of(object, "capture", captures, 4);
	stack->complete = json_is_true(json_object_get(object, "complete"));
	stack->end_reason = text_of(object, "end_reason");
	stack->frames = calloc(count + 1, sizeof(*stack->frames));
	if (!stack->frames)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const json_t *frame = json_array_get(frames, i);

		stack->frames[i] = (struct record_frame){
			.module = text_of(frame, "module"),
			.build_id = text_of(frame, "build_id"),
			.offset = number_of(frame, "offset"),
			.symbol = text_of(frame, "symbol"),
			.kind = (enum frame_kind)choice_of(frame, "kind", kinds, 5),
		};
	}
	stack->frame_count = count;
	return 0;
}

static int tell(struct reader *reader, const json_t *object)
{
	static const char *const states[] = {"open", "closed", "exited"};
	static const char *const classes[] = {"short", "long", "anr"};
	const json_t *stacks = json_object_get(object, "stacks");
	size_t count = json_array_size(stacks);
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
		err = read_stack(json_array_get(stacks, i), &block.stacks[i]);
		block.stack_count += !err;
	}
	if (!err) {
		reader->counts->blocks++;
		err = reader->callback(reader->ctx, &block);
	}
	for (size_t i = 0; i < block.stack_count; i++)
		free(block.stacks[i].frames);
	free(block.stacks);
	return err;
}

static int take_block(struct reader *reader, json_t *object)
{
	const char *state = text_of(object, "state");
	struct open_block *open;
	struct key key;

	/* uthash compares bytes, holes too. */
	memset(&key, 0, sizeof(key));
	key.start_boot_ns = number_of(object, "start_boot_ns");
	key.pid = (int64_t)number_of(object, "pid");
	HASH_FIND(hh, reader->open, &key, sizeof(key), open);
	if (state && !strcmp(state, "open")) {
		if (!open) {
			open = calloc(1, sizeof(*open));
			if (!open)
				return -ENOMEM;
			open->key = key;
			HASH_ADD(hh, reader->open, key, sizeof(key), open);
		}
		json_decref(open->record);
		open->record = json_incref(object);
		return 0;
	}
	if (open) {
		HASH_DEL(reader->open, open);
		json_decref(open->record);
		free(open);
	}
	return tell(reader, object);
}

static int take_line(struct reader *reader, const char *line, size_t length)
{
	json_t *object = length <= RECORDING_MAX_LINE ? json_loadb(line, length, 0, NULL) : NULL;
	const char *type = text_of(object, "type");
	int err = 0;

	reader->counts->lines++;
	if (!type)
		reader->counts->rejected++;
	else if (!strcmp(type, "block"))
		err = take_block(reader, object);
	json_decref(object);
	return err;
}

int recording_each_block(const char *path, recording_block_fn callback, void *ctx,
			 struct recording_counts *counts)
{
	struct reader reader = {.callback = callback, .ctx = ctx, .counts = counts};
	FILE *in = fopen(path, "re");
	struct open_block *open, *next;
	char *line = NULL;
	size_t room = 0;
	ssize_t length;
	int err = 0;

	*counts = (struct recording_counts){0};
	if (!in)
		return -errno;
	while (!err && (length = getline(&line, &room, in)) > 0)
		err = take_line(&reader, line, (size_t)length);
	if (!err && ferror(in))
		err = errno ? -errno : -EIO;
	if (!err && counts->lines == counts->rejected)
		err = -EBADMSG;
	HASH_ITER (hh, reader.open, open, next) {
		HASH_DEL(reader.open, open);
		if (!err)
			err = tell(&reader, open->record);
		json_decref(open->record);
		free(open);
	}
	free(line);
	fclose(in);
	return err;
}

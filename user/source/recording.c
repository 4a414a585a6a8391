/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uthash.h>

#include "record/json_read.h"
#include "source/read_ahead.h"
#include "store/folder.h"
#include "store/line.h"
#include "store/verify.h"

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
	/* What is damaged and which gaps are explained is known at the end. */
	struct verifier *verifier;
	char session[37];
};

static void damage(struct walk *walk, uint64_t line, const char *what)
{
	walk->counts->damages++;
	if (walk->reader->damage)
		walk->reader->damage(walk->reader->ctx, line, what);
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

/* In a folder a run begins with its header, and each further segment of it with the same. A block
 * of one run has nothing to do with those of another. True: the run was met before. */
static int take_header(struct walk *walk, const struct record_header *header, bool *again)
{
	int err = 0;

	*again = header->segment.number && !strcmp(walk->session, header->session);
	memcpy(walk->session, header->session, sizeof(walk->session));
	while (!err && !*again && walk->held)
		err = tell_oldest(walk);
	return err;
}

static int take_record(struct walk *walk, struct parsed_record **parsed)
{
	const struct recording_reader *reader = walk->reader;
	const struct record *record = &(*parsed)->record;
	bool again = false;
	int err = 0;

	if ((*parsed)->schema)
		walk->counts->schema = (*parsed)->schema;
	if (!(*parsed)->known)
		return 0;
	if (record->type == RECORD_HEADER)
		err = take_header(walk, record->header, &again);
	if (again)
		return err;
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

static int take_line(struct walk *walk, struct read_line *line)
{
	int err;

	if (line->torn)
		err = verifier_line(walk->verifier, line->line, line->length, true);
	else
		err = verifier_parsed(walk->verifier, line->line, line->length, line->parsed,
				      line->too_long ? -EBADMSG : line->err,
				      line->too_long ? LINE_TOO_LONG : line->why);
	walk->counts->lines++;
	walk->counts->rejected += !line->parsed || line->err;
	if (err == -EPROTONOSUPPORT)
		walk->counts->schema = line->parsed->schema;
	/* What is damaged the verifier has told. */
	if (err || !line->parsed || line->err)
		return err;
	return take_record(walk, &line->parsed);
}

static int read_lines(struct walk *walk, FILE *in)
{
	struct read_ahead *ahead = read_ahead_new(in);
	struct read_line *line;
	int err = ahead ? 0 : -ENOMEM;

	while (!err && (err = read_ahead_next(ahead, &line)) > 0)
		err = take_line(walk, line);
	read_ahead_free(ahead);
	fclose(in);
	return err;
}

static void name_segment(struct walk *walk, uint64_t number, bool packed)
{
	char name[SEGMENT_NAME];

	if (walk->reader->segment)
		walk->reader->segment(walk->reader->ctx, segment_name(name, number, packed));
}

/* What is behind a place that cannot be read may be whole. */
static int pass_unreadable(struct walk *walk, int err)
{
	if (err != -EBADMSG && err != -EIO && err != -EACCES && err != -ELOOP && err != -EMSGSIZE)
		return err;
	verifier_unreadable(walk->verifier, err);
	return 0;
}

static int read_segment(struct walk *walk, int dir_fd, uint64_t number)
{
	bool packed;
	FILE *in = segment_open(dir_fd, number, &packed);
	int err;

	/* Removed since the folder was listed, to keep a limit: what tells of it follows. */
	if (!in && errno == ENOENT)
		return 0;
	err = in ? 0 : -errno;
	verifier_begin(walk->verifier, number);
	name_segment(walk, number, packed);
	if (in)
		err = read_lines(walk, in);
	return pass_unreadable(walk, err);
}

static void tell_findings(struct walk *walk, uint64_t last_removed)
{
	const struct finding *finding;
	char text[FINDING_TEXT];

	verifier_end(walk->verifier, walk->counts->writer != 0, last_removed);
	for (size_t i = 0; (finding = verifier_finding(walk->verifier, i)); i++) {
		if (finding->explained)
			continue;
		if (finding->segment)
			name_segment(walk, finding->segment, false);
		damage(walk, finding->line, finding_text(finding, text, sizeof(text)));
	}
	/* Beyond the limit they are counted only. */
	walk->counts->damages += verifier_counts(walk->verifier)->not_kept;
}

static int read_folder(struct walk *walk, int dir_fd)
{
	struct store_list list;
	int err;

	walk->counts->writer = store_folder_writer(dir_fd);
	err = store_list_read(&list, dir_fd);
	for (size_t i = 0; i < list.count && !err; i++)
		err = read_segment(walk, dir_fd, list.items[i].number);
	if (!err && !walk->counts->writer)
		verifier_check_last(walk->verifier, list.last_known);
	if (!err)
		tell_findings(walk, list.last_removed);
	store_list_free(&list);
	return err;
}

static int read_file(struct walk *walk, const char *path)
{
	FILE *in = segment_open_file(AT_FDCWD, path);
	int err = in ? 0 : -errno;

	verifier_begin(walk->verifier, 0);
	if (in)
		err = pass_unreadable(walk, read_lines(walk, in));
	if (!err)
		tell_findings(walk, 0);
	return err;
}

int recording_read(const char *path, const struct recording_reader *reader,
		   struct recording_counts *counts)
{
	struct walk walk = {.reader = reader, .counts = counts, .verifier = verifier_new()};
	int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err = walk.verifier ? 0 : -ENOMEM;
	struct held_block *held, *next;

	*counts = (struct recording_counts){0};
	if (!err)
		err = dir_fd >= 0 ? read_folder(&walk, dir_fd) : read_file(&walk, path);
	if (dir_fd >= 0)
		close(dir_fd);
	if (!err && counts->lines == counts->rejected)
		err = -EBADMSG;
	HASH_ITER (hh, walk.held, held, next) {
		unhold(&walk, held);
		if (!err)
			err = tell_held(&walk, held);
		free_held(held);
	}
	verifier_free(walk.verifier);
	return err;
}

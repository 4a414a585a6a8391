/* SPDX-License-Identifier: BSD-2-Clause */
/* Recordings in folders: the index, what is removed when, what verify says, and the writer on real
 * folders. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "record/json_write.h"
#include "store/folder.h"
#include "store/index.h"
#include "store/keep.h"
#include "store/line.h"
#include "store/repair.h"
#include "store/retain.h"
#include "store/scan.h"
#include "store/store.h"
#include "store/verify.h"
#include "store/write.h"

#define SESSION "11111111-2222-3333-4444-555555555555"
#define BOOT    "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"

/* ---- lines ---- */

static char *event_line(uint64_t seq, const char *name, size_t *length)
{
	const struct record_event event = {
		.event = name, .keys = {{"number", NULL, (int64_t)seq}}, .key_count = 1};
	const struct record record = {
		.type = RECORD_EVENT, .seq = seq, .t_boot_ns = 1000 + seq, .event = &event};

	return record_to_line(&record, length);
}

static char *header_line(const char *session, uint64_t segment, uint64_t first_seq, size_t *length)
{
	struct record_header header = {.kernel = "Linux",
				       .arch = "arm64",
				       .boot_id = BOOT,
				       .segment = {segment, first_seq}};
	const struct record record = {.type = RECORD_HEADER, .t_boot_ns = 1000, .header = &header};

	memcpy(header.session, session, sizeof(header.session));
	return record_to_line(&record, length);
}

Test(store, a_line_is_looked_at_without_parsing)
{
	struct line_look look;
	size_t length;
	char *line = event_line(7, "start", &length);

	cr_assert(line_look(line, length, &look));
	cr_expect_str_eq(look.type, "event");
	cr_expect_eq(look.seq, 7);
	cr_expect_eq(look.t_boot_ns, 1007);
	cr_expect(line_is_whole(line, length - 1));
	line[20] ^= 1;
	cr_expect_not(line_is_whole(line, length - 1));
	/* Not one byte beyond the end is looked at. */
	for (size_t i = 0; i < 40; i++) {
		char *copy = malloc(i ? i : 1);

		memcpy(copy, "{\"type\":\"event\",\"seq\":7,\"t_boot_ns\":1007,", i);
		cr_expect_eq(line_look(copy, i, &look), i > 36, "%zu", i);
		cr_expect_not(line_is_whole(copy, i));
		free(copy);
	}
	cr_expect_not(line_look("{\"type\":\"event\",\"seq\":99999999999999999999,", 43, &look));
	free(line);
}

/* ---- the index ---- */

static void count_facts(void *ctx, const struct segment_facts *facts)
{
	struct segment_facts *kept = ctx;

	kept[facts->number % 8] = *facts;
}

Test(store, the_index_gives_back_what_it_took)
{
	const struct segment_facts facts = {.number = 3,
					    .session = SESSION,
					    .boot_id = BOOT,
					    .lines = 12,
					    .bytes = 4096,
					    .first_seq = 100,
					    .last_seq = 110,
					    .first_boot_ns = 5,
					    .last_boot_ns = 9,
					    .crc = 0xdeadbeef,
					    .footer = true,
					    .removed = STORE_FOR_RETAIN};
	struct segment_facts kept[8] = {0};
	char text[3 * INDEX_MAX_LINE];
	size_t length = index_format(text, &facts), refused;

	cr_assert(index_parse(text, length - 1, &kept[0]));
	cr_expect(!memcmp(&kept[0], &facts, sizeof(facts)));
	/* A damaged line, half a line and rubbish cost themselves alone. */
	length += index_format(text + length, &(struct segment_facts){.number = 4});
	text[10] = '9';
	length += (size_t)sprintf(text + length, "rubbish\n{\"segment\":7");
	refused = index_each(text, length, count_facts, kept);
	cr_expect_eq(refused, 3, "%zu", refused);
	cr_expect_eq(kept[4].number, 4);
	cr_expect_eq(kept[3].number, 0);
}

/* ---- what has to go ---- */

#define MIB (1ull << 20)

Test(store, the_oldest_go_and_never_more_than_need_be)
{
	struct store_segment items[4];
	struct store_list list = {.items = items, .count = 4};
	struct store_options options = {0};
	struct retain_state state = {.now_boot_ns = 1000,
				     .boot_id = BOOT,
				     .disk_bytes = 100000 * MIB,
				     .free_bytes = 50000 * MIB};
	enum store_reason reason;

	for (size_t i = 0; i < 4; i++) {
		items[i] = (struct store_segment){
			.number = i + 1, .known = true, .file_bytes = 10 * MIB};
		strcpy(items[i].facts.boot_id, BOOT);
		items[i].facts.last_boot_ns = 200 * (i + 1);
	}
	cr_expect_eq(retain_count(&list, &options, &state, &reason), 0);
	options.max_disk_bytes = 25 * MIB;
	state.other_bytes = 5 * MIB;
	cr_expect_eq(retain_count(&list, &options, &state, &reason), 2);
	cr_expect_eq(reason, STORE_FOR_MAX_DISK);
	options.max_disk_bytes = 0;
	options.retain_ns = 500; /* they ended 800, 600, 400 and 200 ago */
	cr_expect_eq(retain_count(&list, &options, &state, &reason), 2);
	cr_expect_eq(reason, STORE_FOR_RETAIN);
	/* Of another boot: at least as old as this one. What its clock showed means nothing. */
	strcpy(items[0].facts.boot_id, SESSION);
	items[0].facts.last_boot_ns = 999999;
	state.now_boot_ns = 501;
	cr_expect_eq(retain_count(&list, &options, &state, &reason), 1);
	state.now_boot_ns = 499;
	cr_expect_eq(retain_count(&list, &options, &state, &reason), 0);
	/* One that nobody can read is older than the next. */
	items[0].known = false;
	items[0].facts.boot_id[0] = 0;
	state.now_boot_ns = 901;
	cr_expect_eq(retain_count(&list, &options, &state, &reason), 2); /* by the second's 400 */
	options.retain_ns = 0;
	/* 5 % of the disk, at least 64 MiB, at most half of it. */
	cr_expect_eq(retain_reserve(100000 * MIB), 5000 * MIB);
	cr_expect_eq(retain_reserve(1000 * MIB), 64 * MIB);
	cr_expect_eq(retain_reserve(MIB), MIB / 2);
	state.free_bytes = 4985 * MIB;
	cr_expect_eq(retain_count(&list, &options, &state, &reason), 2);
	cr_expect_eq(reason, STORE_FOR_FREE_SPACE);
}

/* ---- verify ---- */

struct script {
	struct verifier *verifier;
};

static void feed(struct verifier *verifier, char *line, size_t length)
{
	cr_assert_eq(verifier_line(verifier, line, length - 1, false), 0);
	free(line);
}

static void feed_events(struct verifier *verifier, uint64_t first, uint64_t last)
{
	size_t length;

	for (uint64_t seq = first; seq <= last; seq++) {
		char *line = event_line(seq, "mark", &length);

		feed(verifier, line, length);
	}
}

static void feed_header(struct verifier *verifier, const char *session, uint64_t segment,
			uint64_t first_seq)
{
	size_t length;
	char *line = header_line(session, segment, first_seq, &length);

	verifier_begin(verifier, segment);
	feed(verifier, line, length);
}

static void feed_event(struct verifier *verifier, uint64_t seq, const char *name,
		       const struct event_key *keys, size_t count)
{
	struct record_event event = {.event = name, .key_count = count};
	const struct record record = {
		.type = RECORD_EVENT, .seq = seq, .t_boot_ns = 1000 + seq, .event = &event};
	size_t length;
	char *line;

	memcpy(event.keys, keys, count * sizeof(*keys));
	line = record_to_line(&record, &length);
	feed(verifier, line, length);
}

static void feed_footer(struct verifier *verifier, uint64_t seq)
{
	const struct record_footer footer = {0};
	const struct record record = {
		.type = RECORD_FOOTER, .seq = seq, .t_boot_ns = 1000 + seq, .footer = &footer};
	size_t length;
	char *line = record_to_line(&record, &length);

	feed(verifier, line, length);
}

static void expect_finding(const struct verifier *verifier, size_t i, enum finding_kind kind,
			   uint64_t first, uint64_t last, bool explained)
{
	const struct finding *finding = verifier_finding(verifier, i);

	cr_assert_not_null(finding, "finding %zu", i);
	cr_expect_eq(finding->kind, kind, "finding %zu: %d", i, finding->kind);
	cr_expect_eq(finding->first, first, "finding %zu: %" PRIu64, i, finding->first);
	cr_expect_eq(finding->last, last, "finding %zu: %" PRIu64, i, finding->last);
	cr_expect_eq(finding->explained, explained, "finding %zu", i);
}

Test(store, verify_of_whole_segments_finds_nothing)
{
	struct verifier *verifier = verifier_new();

	feed_header(verifier, SESSION, 1, 1);
	feed_events(verifier, 1, 9);
	feed_header(verifier, SESSION, 2, 10);
	feed_events(verifier, 10, 19);
	feed_footer(verifier, 20);
	verifier_end(verifier, false, 0);
	cr_expect_null(verifier_finding(verifier, 0));
	cr_expect_eq(verifier_counts(verifier)->unexplained, 0);
	cr_expect_eq(verifier_counts(verifier)->lines, 22);
	cr_expect_eq(verifier_counts(verifier)->runs, 1);
	verifier_free(verifier);
}

Test(store, verify_names_each_gap_and_what_tells_of_it)
{
	const struct event_key dropped[] = {
		{"records", NULL, 5}, {"first_seq", NULL, 5}, {"last_seq", NULL, 9}};
	const struct event_key less[] = {
		{"records", NULL, 1}, {"first_seq", NULL, 20}, {"last_seq", NULL, 20}};
	struct verifier *verifier = verifier_new();

	feed_header(verifier, SESSION, 1, 1);
	feed_events(verifier, 1, 4); /* 5 to 9 are told */
	feed_events(verifier, 10, 12);
	feed_events(verifier, 14, 19);                        /* 13 is not */
	feed_events(verifier, 15, 15);                        /* again */
	feed_event(verifier, 22, "records_dropped", less, 3); /* 20 is told, 21 is not */
	feed_event(verifier, 23, "records_dropped", dropped, 3);
	feed_footer(verifier, 24);
	verifier_end(verifier, false, 0);
	expect_finding(verifier, 0, FINDING_MISSING, 5, 9, true);
	expect_finding(verifier, 1, FINDING_MISSING, 13, 13, false);
	expect_finding(verifier, 2, FINDING_DOUBLED, 15, 0, false);
	expect_finding(verifier, 3, FINDING_MISSING, 20, 21, false);
	cr_expect_null(verifier_finding(verifier, 4));
	cr_expect_eq(verifier_counts(verifier)->missing, 8);
	cr_expect_eq(verifier_counts(verifier)->unexplained, 3);
	verifier_free(verifier);
}

static void feed_dropped(struct verifier *verifier, uint64_t seq, uint64_t first, uint64_t last)
{
	const struct event_key keys[] = {{"first_seq", NULL, (int64_t)first},
					 {"last_seq", NULL, (int64_t)last}};

	feed_event(verifier, seq, "records_dropped", keys, 2);
}

Test(store, verify_joins_what_events_tell_in_any_order)
{
	struct verifier *verifier = verifier_new();

	feed_header(verifier, SESSION, 1, 1);
	feed_events(verifier, 1, 4);
	feed_dropped(verifier, 13, 0, 0);
	feed_dropped(verifier, 20, 0, 2);
	feed_dropped(verifier, 30, 20, 28); /* 29 is not told */
	feed_dropped(verifier, 31, 14, 19);
	feed_dropped(verifier, 32, 10, 12);
	feed_dropped(verifier, 33, 5, 9);
	feed_dropped(verifier, 34, 6, 7);
	feed_footer(verifier, 35);
	verifier_end(verifier, false, 0);
	expect_finding(verifier, 0, FINDING_MISSING, 5, 12, true);
	expect_finding(verifier, 1, FINDING_MISSING, 14, 19, true);
	expect_finding(verifier, 2, FINDING_MISSING, 21, 29, false);
	cr_expect_null(verifier_finding(verifier, 3));
	verifier_free(verifier);
}

/* Each gap was once held against each event, and each end against each gap. */
Test(store, verify_ends_whatever_a_recording_claims, .timeout = 120)
{
	const struct event_key resumed[] = {{"segment", NULL, 1}};
	struct verifier *verifier = verifier_new();
	const uint64_t most = INT64_MAX;

	feed_header(verifier, SESSION, 1, 1);
	for (uint64_t i = 0; i < 60000; i++)
		feed_dropped(verifier, 2 + 2 * i, most - 2 * i, most - 2 * i);
	for (uint64_t i = 0; i < 30000; i++)
		feed_event(verifier, 2, "recording_resumed", resumed, 1);
	verifier_end(verifier, false, 0);
	cr_expect_eq(verifier_counts(verifier)->missing, 60000);
	cr_expect_eq(verifier_counts(verifier)->doubled, 30000);
	cr_expect_eq(verifier_counts(verifier)->unexplained, 90000); /* and the end is explained */
	verifier_free(verifier);
}

/* The oldest segments were removed, and with them the events that told of the removal of others. */
Test(store, verify_knows_what_was_removed)
{
	const struct event_key removed[] = {{"first_segment", NULL, 4}, {"last_segment", NULL, 5}};

	for (int told = 0; told < 4; told++) {
		struct verifier *verifier = verifier_new();
		uint64_t index_says = told == 2 ? 5 : told == 3 ? 4 : 0;

		feed_header(verifier, SESSION, 6, 50);
		feed_events(verifier, 50, 59);
		if (told == 1)
			feed_event(verifier, 60, "segments_removed", removed, 2);
		else
			feed_events(verifier, 60, 60);
		feed_footer(verifier, 61);
		verifier_end(verifier, false, index_says);
		expect_finding(verifier, 0, FINDING_MISSING, 1, 49, told == 1 || told == 2);
		cr_expect_null(verifier_finding(verifier, 1));
		verifier_free(verifier);
	}
}

Test(store, verify_of_a_killed_run_that_was_resumed)
{
	const char *other = "99999999-2222-3333-4444-555555555555";
	const struct event_key resumed[] = {{"segment", NULL, 1}};

	for (int told = 0; told < 2; told++) {
		struct verifier *verifier = verifier_new();

		feed_header(verifier, SESSION, 1, 1);
		feed_events(verifier, 1, 9);
		cr_assert_eq(verifier_line(verifier, "{\"type\":\"ev", 11, true), 0);
		feed_header(verifier, other, 2, 1);
		feed_event(verifier, 1, told ? "recording_resumed" : "mark", resumed, 1);
		feed_footer(verifier, 2);
		verifier_end(verifier, false, 0);
		expect_finding(verifier, 0, FINDING_TORN, 0, 0, told);
		expect_finding(verifier, 1, FINDING_NO_FOOTER, 0, 0, told);
		cr_expect_eq(verifier_finding(verifier, 1)->segment, 1);
		cr_expect_null(verifier_finding(verifier, 2));
		cr_expect_eq(verifier_counts(verifier)->runs, 2);
		verifier_free(verifier);
	}
}

/* Each damaged line was one record: the gap that it leaves is not told twice. */
Test(store, verify_of_damaged_lines)
{
	struct verifier *verifier = verifier_new();
	size_t length;
	char *line = event_line(5, "mark", &length);

	feed_header(verifier, SESSION, 0, 0);
	feed_events(verifier, 1, 4);
	line[30] ^= 4;
	feed(verifier, line, length);
	feed_events(verifier, 6, 8);
	verifier_end(verifier, false, 0);
	expect_finding(verifier, 0, FINDING_DAMAGED, 0, 0, false);
	cr_expect_eq(verifier_finding(verifier, 0)->line, 6);
	expect_finding(verifier, 1, FINDING_NO_FOOTER, 0, 0, false);
	cr_expect_null(verifier_finding(verifier, 2));
	verifier_free(verifier);
}

/* ---- the writer ---- */

struct place {
	char path[64];
	struct store_notices notices;
	struct store_writer *writer;
};

static void open_place(struct place *place, const struct store_options *options)
{
	char why[128];

	place->writer = store_writer_open(place->path, options, &place->notices, why, sizeof(why));
	cr_assert_not_null(place->writer, "%s: %s", place->path, why);
}

static void make_place(struct place *place, const struct store_options *options)
{
	*place = (struct place){.path = "/tmp/jankscope-store-XXXXXX"};
	cr_assert_not_null(mkdtemp(place->path));
	open_place(place, options);
}

static void put_events(struct place *place, uint64_t first, uint64_t last)
{
	size_t length;

	for (uint64_t seq = first; seq <= last; seq++) {
		char *line = event_line(seq, "mark", &length);

		cr_assert_eq(store_writer_put(place->writer, line, length), 0);
		free(line);
	}
}

static void put_header(struct place *place, const char *session)
{
	size_t length;
	char *line = header_line(session, 0, 0, &length);

	cr_assert_eq(store_writer_put(place->writer, line, length), 0);
	free(line);
}

/* Findings of a folder, explained or not. */
static struct verify_counts verify_place(const struct place *place, size_t *findings)
{
	struct verifier *verifier = verifier_new();
	int dir_fd = open(place->path, O_RDONLY | O_DIRECTORY);
	struct verify_counts counts;
	struct store_list list;

	cr_assert_eq(store_list_read(&list, dir_fd), 0);
	for (size_t i = 0; i < list.count; i++) {
		bool packed;
		FILE *in = segment_open(dir_fd, list.items[i].number, &packed);

		cr_assert_not_null(in);
		verifier_begin(verifier, list.items[i].number);
		cr_expect_eq(verifier_stream(verifier, in, NULL, NULL), 0);
		fclose(in);
	}
	verifier_end(verifier, true, list.last_removed);
	counts = *verifier_counts(verifier);
	*findings = 0;
	while (verifier_finding(verifier, *findings))
		(*findings)++;
	verifier_free(verifier);
	store_list_free(&list);
	close(dir_fd);
	return counts;
}

static void remove_place(const struct place *place)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", place->path);
	cr_expect_eq(system(command), 0);
}

static bool has_name(const struct place *place, const char *name, struct stat *status)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", place->path, name);
	return !lstat(path, status);
}

/* 64 KiB segments, thousands of lines: seq goes on over all of them, each begins with the header,
 * and those that are closed are compressed and in the index. */
Test(store, segments_hold_every_line_once, .timeout = 60)
{
	const struct store_options options = {.segment_bytes = STORE_MIN_SEGMENT_BYTES};
	struct verify_counts counts;
	struct store_list list;
	struct place place;
	struct stat status;
	size_t findings;
	int dir_fd, unpacked = 1;

	make_place(&place, &options);
	put_header(&place, SESSION);
	put_events(&place, 1, 20000);
	counts = verify_place(&place, &findings);
	cr_expect_eq(findings, 0);
	cr_expect_eq(counts.lines, 20000 + counts.segments);
	cr_expect_gt(counts.segments, 20);
	cr_assert(has_name(&place, "lock", &status));
	cr_expect_eq(status.st_mode & 0777, 0600);
	dir_fd = open(place.path, O_RDONLY | O_DIRECTORY);
	for (int tries = 0; tries < 500 && unpacked; tries++) {
		usleep(50000);
		cr_assert_eq(store_list_read(&list, dir_fd), 0);
		unpacked = 0;
		for (size_t i = 0; i + 1 < list.count; i++)
			unpacked += list.items[i].plain;
		if (!unpacked)
			for (size_t i = 0; i + 1 < list.count; i++) {
				struct segment_facts facts;

				cr_assert_eq(store_scan(dir_fd, list.items[i].number, &facts), 0);
				cr_expect(list.items[i].known);
				cr_expect(!memcmp(&facts, &list.items[i].facts, sizeof(facts)));
			}
		store_list_free(&list);
	}
	cr_expect_eq(unpacked, 0);
	counts = verify_place(&place, &findings);
	cr_expect_eq(findings, 0);
	cr_expect_eq(counts.lines, 20000 + counts.segments);
	/* The index is made anew as it was. */
	cr_assert_eq(unlinkat(dir_fd, INDEX_NAME, 0), 0);
	cr_assert_eq(store_index_rebuild(dir_fd), 0);
	cr_assert_eq(store_list_read(&list, dir_fd), 0);
	for (size_t i = 0; i + 1 < list.count; i++)
		cr_expect(list.items[i].known);
	store_list_free(&list);
	close(dir_fd);
	remove_place(&place);
}

/* A folder never takes more than it may, whatever is removed is told, and the newest stay. */
Test(store, the_limit_of_the_disk_is_kept, .timeout = 60)
{
	const struct store_options options = {.max_disk_bytes = STORE_MIN_DISK_BYTES,
					      .plain = true};
	uint64_t removed = 0, most = 0;
	struct store_notice notice;
	struct verify_counts counts;
	struct place place;
	size_t findings;

	make_place(&place, &options);
	put_header(&place, SESSION);
	for (uint64_t seq = 1; seq <= 40000; seq += 100) {
		int dir_fd = open(place.path, O_RDONLY | O_DIRECTORY);
		struct store_list list;
		uint64_t sum;

		put_events(&place, seq, seq + 99);
		cr_assert_eq(store_list_read(&list, dir_fd), 0);
		sum = list.index_bytes;
		for (size_t i = 0; i < list.count; i++)
			sum += list.items[i].file_bytes;
		most = sum > most ? sum : most;
		store_list_free(&list);
		close(dir_fd);
		while (store_notice_take(&place.notices, &notice)) {
			cr_expect_eq(notice.kind, STORE_REMOVED);
			cr_expect_eq(notice.reason, STORE_FOR_MAX_DISK);
			cr_expect_eq(notice.first_seq, removed + 1);
			removed = notice.last_seq;
		}
	}
	cr_expect_leq(most, STORE_MIN_DISK_BYTES);
	cr_expect_gt(most, STORE_MIN_DISK_BYTES * 3 / 4);
	counts = verify_place(&place, &findings);
	cr_expect_eq(findings, 1);
	cr_expect_eq(counts.missing, removed);
	/* Here nobody wrote the events: the index tells. */
	cr_expect_eq(counts.unexplained, 0);
	remove_place(&place);
}

/* A new run opens a new segment, tells how the last one ended, and touches nothing of it. */
Test(store, a_run_that_was_killed_stays_as_it_is, .timeout = 60)
{
	const struct store_options options = {.segment_bytes = STORE_MIN_SEGMENT_BYTES};
	struct store_notice notice;
	struct verify_counts counts;
	struct place place;
	struct stat before, after;
	char torn[128];
	size_t findings;
	pid_t child;
	FILE *file;

	place = (struct place){.path = "/tmp/jankscope-store-XXXXXX"};
	cr_assert_not_null(mkdtemp(place.path));
	/* Killed: its lock goes, and half a line stays. */
	child = fork();
	if (!child) {
		open_place(&place, &options);
		put_header(&place, SESSION);
		put_events(&place, 1, 100);
		_exit(0);
	}
	cr_assert_eq(waitpid(child, NULL, 0), child);
	snprintf(torn, sizeof(torn), "%s/00000001.jsonl", place.path);
	file = fopen(torn, "a");
	fputs("{\"type\":\"even", file);
	fclose(file);
	cr_assert_eq(stat(torn, &before), 0);
	open_place(&place, &options);
	cr_assert(store_notice_take(&place.notices, &notice));
	cr_expect_eq(notice.kind, STORE_RESUMED);
	cr_expect_eq(notice.last_segment, 1);
	cr_expect_eq(notice.last_seq, 100);
	cr_expect_eq(notice.error, -EBADMSG);
	cr_expect_str_eq(notice.session, SESSION);
	put_header(&place, "99999999-2222-3333-4444-555555555555");
	put_events(&place, 1, 2000);
	usleep(300000);
	cr_assert_eq(stat(torn, &after), 0);
	cr_expect_eq(before.st_size, after.st_size);
	counts = verify_place(&place, &findings);
	cr_expect_eq(counts.torn, 1);
	cr_expect_eq(counts.runs, 2);
	remove_place(&place);
}

/* Somebody else removes the segment that is written, or gives it another name. */
Test(store, what_somebody_else_takes_is_told, .timeout = 60)
{
	const struct store_options options = {.plain = true};
	struct store_notice notice;
	struct verify_counts counts;
	struct place place;
	struct stat status;
	char path[128], other[128];
	size_t findings;

	make_place(&place, &options);
	put_header(&place, SESSION);
	for (uint64_t turn = 0; turn < 2; turn++) {
		put_events(&place, 1 + 20 * turn, 10 + 20 * turn);
		store_writer_tick(place.writer);
		cr_expect_not(store_notice_take(&place.notices, &notice));
		snprintf(path, sizeof(path), "%s/%08d.jsonl", place.path, (int)turn + 1);
		snprintf(other, sizeof(other), "%s/old", place.path);
		cr_assert_eq(turn ? rename(path, other) : unlink(path), 0);
		put_events(&place, 11 + 20 * turn, 20 + 20 * turn);
		store_writer_tick(place.writer);
		cr_assert(store_notice_take(&place.notices, &notice));
		cr_expect_eq(notice.kind, STORE_TAKEN);
		cr_expect_eq(notice.first_seq, 1 + 20 * turn);
		cr_expect_eq(notice.last_seq, 20 + 20 * turn);
		cr_expect_eq(notice.records, 20);
	}
	put_events(&place, 41, 45);
	cr_expect(has_name(&place, "00000003.jsonl", &status));
	counts = verify_place(&place, &findings);
	cr_expect_eq(counts.missing, 40);
	cr_expect_eq(counts.lines, 6);
	remove_place(&place);
}

static int open_refused(const char *path, char why[128])
{
	static struct store_notices notices;
	const struct store_options options = {0};

	errno = 0;
	cr_expect_null(store_writer_open(path, &options, &notices, why, 128));
	return errno;
}

Test(store, folders_that_are_refused)
{
	char why[128], path[64] = "/tmp/jankscope-store-XXXXXX", other[80];
	struct place place;

	cr_assert_not_null(mkdtemp(path));
	chmod(path, 0720);
	cr_expect_eq(open_refused(path, why), EPERM);
	cr_expect(strstr(why, "others may write in this folder (mode 720)"), "%s", why);
	chmod(path, 0755);
	snprintf(other, sizeof(other), "%s/link", path);
	cr_assert_eq(symlink(path, other), 0);
	cr_expect_eq(open_refused(other, why), ENOTDIR);
	cr_expect(strstr(why, "is a link"), "%s", why);
	strcat(other, "/");
	cr_expect(strstr((open_refused(other, why), why), "is a link"), "%s", why);
	if (!geteuid()) {
		cr_assert_eq(chown(path, 12345, 0), 0);
		cr_expect_eq(open_refused(path, why), EPERM);
		cr_expect(strstr(why, "another user (uid 12345)"), "%s", why);
	}
	snprintf(place.path, sizeof(place.path), "%s", path);
	remove_place(&place);
	/* A second writer is told who the first one is. */
	make_place(&place, &(struct store_options){0});
	cr_expect_eq(open_refused(place.path, why), EBUSY);
	snprintf(other, sizeof(other), "another jankscope, pid %d", getppid());
	cr_expect(strstr(why, other), "%s", why);
	remove_place(&place);
}

/* Links that lie where segments, the lock and the index are to be are not followed. */
Test(store, links_that_somebody_planted)
{
	char victim[64] = "/tmp/jankscope-victim-XXXXXX", path[128], why[128];
	const struct store_options options = {.segment_bytes = STORE_MIN_SEGMENT_BYTES};
	int fd = mkstemp(victim);
	struct stat status;
	struct place place = {.path = "/tmp/jankscope-store-XXXXXX"};

	cr_assert_geq(fd, 0);
	cr_assert_not_null(mkdtemp(place.path));
	for (int i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s", place.path,
			 ((const char *[]){"00000001.jsonl", "pack.tmp", "index",
					   "00000003.jsonl.zst"})[i]);
		cr_assert_eq(symlink(victim, path), 0);
	}
	open_place(&place, &options);
	put_header(&place, SESSION);
	put_events(&place, 1, 2000);
	usleep(500000);
	cr_assert_eq(fstat(fd, &status), 0);
	cr_expect_eq(status.st_size, 0);
	cr_expect(has_name(&place, "00000002.jsonl", &status) ||
		  has_name(&place, "00000002.jsonl.zst", &status));
	remove_place(&place);
	cr_assert_not_null(mkdtemp(strcpy(place.path, "/tmp/jankscope-store-XXXXXX")));
	snprintf(path, sizeof(path), "%s/lock", place.path);
	cr_assert_eq(symlink(victim, path), 0);
	cr_expect_eq(open_refused(place.path, why), ELOOP);
	remove_place(&place);
	unlink(victim);
	close(fd);
}

Test(store, a_torn_end_is_cut_into_a_file_beside_it)
{
	char path[64] = "/tmp/jankscope-torn-XXXXXX", side[80], text[64] = "";
	int fd = mkstemp(path);

	cr_assert_eq(write(fd, "whole\nhalf", 10), 10);
	cr_assert_eq(store_cut_tail(AT_FDCWD, path, 6), 0);
	cr_expect_eq(pread(fd, text, sizeof(text), 0), 6);
	snprintf(side, sizeof(side), "%s.torn", path);
	close(fd);
	fd = open(side, O_RDONLY);
	cr_expect_eq(read(fd, text, sizeof(text)), 4);
	cr_expect(!memcmp(text, "half", 4));
	close(fd);
	/* A second one does not take its place. */
	cr_assert_eq(store_cut_tail(AT_FDCWD, path, 3), 0);
	cr_expect_eq(access(strcat(side, ".1"), R_OK), 0);
	unlink(side);
	side[strlen(side) - 2] = 0;
	unlink(side);
	unlink(path);
}

/* ---- old intervals ---- */

Test(store, rules_of_keep)
{
	static const char *const bad[] = {
		"",
		"1s",
		"1s:",
		":1h",
		"1s:1h,",
		"1s:1h,2s:1h",
		"2s:1h,1s:2h",
		"10s:1h,15s:2h",
		"0s:1h",
		"1s:1h,1m:x",
		"1s:1m,2s:2m,4s:3m,8s:4m,16s:5m,32s:6m,64s:7m,128s:8m,256s:9m"};
	struct store_options options = {0};
	uint64_t next_ns;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		cr_expect_not_null(keep_parse(bad[i], &options), "%s", bad[i]);
	cr_assert_null(keep_parse("100ms:10m,1s:24h,10s:30d", &options));
	cr_expect_eq(options.keep_count, 3);
	cr_expect_eq(keep_resolution(&options, 600000000000, &next_ns), 100000000);
	cr_expect_eq(next_ns, 600000000000);
	cr_expect_eq(keep_resolution(&options, 600000000001, &next_ns), 1000000000);
	cr_expect_eq(next_ns, 86400000000000);
	cr_expect_eq(keep_resolution(&options, 90000000000000, &next_ns), 10000000000);
	cr_expect_eq(next_ns, 0);
	options.keep_count = 0;
	cr_expect_eq(keep_resolution(&options, 5, &next_ns), 0);
}

static void feed_merged_header(struct verifier *verifier, uint64_t segment, uint64_t first_seq)
{
	struct record_header header = {.kernel = "Linux",
				       .arch = "arm64",
				       .boot_id = BOOT,
				       .segment = {segment, first_seq, 1000000000}};
	const struct record record = {.type = RECORD_HEADER, .t_boot_ns = 1000, .header = &header};
	size_t length;
	char *line;

	memcpy(header.session, SESSION, sizeof(header.session));
	line = record_to_line(&record, &length);
	verifier_begin(verifier, segment);
	feed(verifier, line, length);
}

static void feed_merged(struct verifier *verifier, struct record_seqs *seqs, size_t count)
{
	struct record_interval interval = {
		.dur_ns = 5,
		.merged = {.present = true, .intervals = 2, .seqs = seqs, .seq_count = count}};
	const struct record record = {.type = RECORD_INTERVAL,
				      .seq = seqs[count - 1].last,
				      .t_boot_ns = 1000 + seqs[count - 1].last,
				      .interval = &interval};
	size_t length;
	char *line = record_to_line(&record, &length);

	feed(verifier, line, length);
}

Test(store, verify_counts_what_a_merged_interval_names)
{
	struct record_seqs first[] = {{1, 2}, {4, 6}}, second[] = {{8, 9}}, wrong[] = {{12, 14}};
	struct verifier *verifier = verifier_new();

	feed_merged_header(verifier, 1, 1);
	feed_events(verifier, 3, 3);
	feed_merged(verifier, first, 2); /* 1 2 4 5 6 */
	feed_events(verifier, 7, 7);
	feed_merged(verifier, second, 1);
	feed_merged_header(verifier, 2, 10);
	feed_events(verifier, 11, 12);   /* 10 is missing */
	feed_merged(verifier, wrong, 1); /* 12 is there as well */
	feed_footer(verifier, 16);       /* 15 is missing */
	verifier_end(verifier, false, 0);
	cr_expect_eq(verifier_counts(verifier)->missing, 2);
	cr_expect_eq(verifier_counts(verifier)->doubled, 1);
	expect_finding(verifier, 0, FINDING_DOUBLED, 12, 0, false);
	expect_finding(verifier, 1, FINDING_MISSING, 10, 10, false);
	expect_finding(verifier, 2, FINDING_MISSING, 15, 15, false);
	cr_expect_null(verifier_finding(verifier, 3));
	verifier_free(verifier);
}

Test(store, verify_ends_whatever_a_merged_interval_names, .timeout = 120)
{
	struct record_seqs *seqs = calloc(20000, sizeof(*seqs));
	struct verifier *verifier = verifier_new();

	cr_assert_not_null(seqs);
	feed_merged_header(verifier, 1, 1);
	for (uint64_t i = 0; i < 60000; i++)
		feed_events(verifier, 2 + 2 * i, 2 + 2 * i);
	for (uint64_t i = 0; i < 20000; i++)
		seqs[i] = (struct record_seqs){2 + 2 * i, 2 + 2 * i};
	seqs[19999].last = 130000;
	for (int i = 0; i < 3; i++)
		feed_merged(verifier, seqs, 20000);
	feed_footer(verifier, 130001);
	verifier_end(verifier, false, 0);
	cr_expect_gt(verifier_counts(verifier)->not_kept, 0);
	cr_expect_geq(verifier_counts(verifier)->unexplained, verifier_counts(verifier)->not_kept);
	verifier_free(verifier);
	free(seqs);
}

Test(store, what_is_named_is_missing_elsewhere)
{
	struct record_seqs seqs[] = {{1, 1}, {3, 4}};
	struct verifier *verifier = verifier_new();

	/* A segment that was not merged has nobody who could name a seq. */
	feed_header(verifier, SESSION, 1, 1);
	feed_events(verifier, 2, 2);
	feed_merged(verifier, seqs, 2);
	feed_footer(verifier, 5);
	verifier_end(verifier, false, 0);
	cr_expect_eq(verifier_counts(verifier)->missing, 2);
	verifier_free(verifier);
}

/* ---- what others put there ---- */

/* 1 GiB without a newline takes 32 KiB: nobody may hold it in memory. */
Test(store, a_line_without_an_end_is_not_taken_into_memory, .timeout = 60)
{
	char path[] = "/tmp/jankscope-store-XXXXXX", command[160];
	struct segment_facts facts;
	struct rusage before, after;
	int dir_fd;

	cr_assert_not_null(mkdtemp(path));
	snprintf(command, sizeof(command),
		 "head -c 1000000000 /dev/zero | zstd -1qc >%s/00000001.jsonl.zst", path);
	cr_assert_eq(system(command), 0);
	dir_fd = open(path, O_RDONLY | O_DIRECTORY);
	getrusage(RUSAGE_SELF, &before);
	cr_expect_eq(store_scan(dir_fd, 1, &facts), -EBADMSG);
	getrusage(RUSAGE_SELF, &after);
	cr_expect_lt(after.ru_maxrss - before.ru_maxrss, 150 << 10);
	close(dir_fd);
	snprintf(command, sizeof(command), "rm -r %s", path);
	cr_expect_eq(system(command), 0);
}

Test(store, numbers_end_where_names_do)
{
	struct segment_facts far = {.number = SEGMENT_MAX + 5ull, .removed = STORE_FOR_RETAIN};
	struct place place = {.path = "/tmp/jankscope-store-XXXXXX"};
	char path[128], why[128], line[INDEX_MAX_LINE];
	struct stat status;
	size_t length;
	FILE *index;

	/* An index that lies about what was removed is not believed. */
	cr_assert_not_null(mkdtemp(place.path));
	snprintf(path, sizeof(path), "%s/index", place.path);
	index = fopen(path, "w");
	length = index_format(line, &far);
	fwrite(line, 1, length, index);
	fclose(index);
	open_place(&place, &(struct store_options){0});
	put_header(&place, SESSION);
	cr_expect(has_name(&place, "00000001.jsonl", &status));
	remove_place(&place);
	/* Behind the last number there is no name. */
	cr_assert_not_null(mkdtemp(strcpy(place.path, "/tmp/jankscope-store-XXXXXX")));
	snprintf(path, sizeof(path), "%s/99999999.jsonl", place.path);
	close(open(path, O_WRONLY | O_CREAT, 0600));
	cr_expect_eq(open_refused(place.path, why), EOVERFLOW);
	cr_expect_not_null(strstr(why, "name another folder"));
	remove_place(&place);
}

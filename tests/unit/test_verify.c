/* SPDX-License-Identifier: BSD-2-Clause */
/* What verify and report say of recordings whose lines are whole one by one, and which somebody put
 * together: times that go back, segments of other recordings, sums that are not those of the rows.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/json_write.h"
#include "source/recording.h"
#include "store/folder.h"
#include "store/index.h"
#include "store/line.h"
#include "store/verify.h"

#define A   "11111111-2222-3333-4444-555555555555"
#define B   "99999999-2222-3333-4444-555555555555"
#define SEC 1000000000ull
/* When each run begins. */
#define BOOT (100 * SEC)

static char folder[64];

static void make_folder(void)
{
	strcpy(folder, "/tmp/jankscope-verify-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void)
{
	char command[96];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_expect_eq(system(command), 0);
}

TestSuite(verify, .init = make_folder, .fini = remove_folder);

static void put(FILE *file, const struct record *record)
{
	size_t length;
	char *line = record_to_line(record, &length);

	cr_assert_not_null(line);
	cr_assert_eq(fwrite(line, 1, length, file), length);
	free(line);
}

static FILE *begin_file(uint64_t number, const char *session, uint64_t of, uint64_t first_seq)
{
	struct record_header header = {
		.kernel = "Linux", .arch = "arm64", .segment = {of, first_seq}};
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%08" PRIu64 ".jsonl", folder, number);
	file = fopen(path, "a");
	cr_assert_not_null(file);
	strcpy(header.session, session);
	put(file, &(struct record){RECORD_HEADER, 0, BOOT, .header = &header});
	return file;
}

static void put_interval(FILE *file, uint64_t seq, uint64_t t_boot_ns)
{
	const struct record_interval interval = {.dur_ns = SEC};

	put(file, &(struct record){RECORD_INTERVAL, seq, t_boot_ns, .interval = &interval});
}

static void put_event(FILE *file, uint64_t seq, uint64_t t_boot_ns)
{
	const struct record_event event = {.event = "mark"};

	put(file, &(struct record){RECORD_EVENT, seq, t_boot_ns, .event = &event});
}

static void end_file(FILE *file, uint64_t footer_seq, uint64_t t_boot_ns)
{
	const struct record_footer footer = {0};

	if (footer_seq)
		put(file,
		    &(struct record){RECORD_FOOTER, footer_seq, t_boot_ns, .footer = &footer});
	fclose(file);
}

/* A whole run in the segments first to last, with three intervals each, and its footer. */
static void make_run(const char *session, uint64_t first, uint64_t last)
{
	uint64_t seq = 1;

	for (uint64_t number = first; number <= last; number++) {
		FILE *file = begin_file(number, session, number, seq);

		for (int i = 0; i < 3; i++, seq++)
			put_interval(file, seq, BOOT + seq * SEC);
		end_file(file, number == last ? seq : 0, BOOT + seq * SEC);
	}
}

struct told {
	char text[4096];
	char segment[32];
};

static void on_damage(void *ctx, uint64_t line, const char *what)
{
	struct told *told = ctx;
	size_t n = strlen(told->text);

	if (n + 100 > sizeof(told->text))
		return;
	snprintf(told->text + n, sizeof(told->text) - n, "%s:%" PRIu64 " %s\n", told->segment, line,
		 what);
}

static void on_segment(void *ctx, const char *name)
{
	struct told *told = ctx;

	snprintf(told->segment, sizeof(told->segment), "%s", name);
}

/* As the verb feeds it. */
static void verify(struct told *told)
{
	struct verifier *verifier = verifier_new();
	int dir_fd = open(folder, O_RDONLY | O_DIRECTORY);
	const struct finding *finding;
	char text[FINDING_TEXT], name[SEGMENT_NAME];
	struct store_list list;
	bool packed;
	int err;

	cr_assert_eq(verifier_check_values(verifier), 0);
	cr_assert_eq(store_list_read(&list, dir_fd), 0);
	for (size_t i = 0; i < list.count; i++) {
		FILE *in = segment_open(dir_fd, list.items[i].number, &packed);

		verifier_begin(verifier, list.items[i].number);
		err = verifier_stream(verifier, in, NULL, NULL);
		cr_expect(!err || err == -EMSGSIZE, "%d", err);
		fclose(in);
	}
	verifier_check_last(verifier, list.last_known);
	verifier_end(verifier, false, list.last_removed);
	for (size_t i = 0; (finding = verifier_finding(verifier, i)); i++) {
		if (finding->explained)
			continue;
		on_segment(told, segment_name(name, finding->segment, false));
		on_damage(told, finding->line, finding_text(finding, text, sizeof(text)));
	}
	store_list_free(&list);
	close(dir_fd);
	verifier_free(verifier);
}

/* Both report and verify say this of the folder. */
static void expect(const char *want)
{
	struct told told = {0}, verified = {0};
	const struct recording_reader reader = {
		.damage = on_damage, .segment = on_segment, .ctx = &told};
	struct recording_counts counts;

	cr_assert_eq(recording_read(folder, &reader, &counts), 0);
	cr_expect_str_eq(told.text, want, "report says\n%snot\n%s", told.text, want);
	cr_expect_eq(!counts.damages, !*want);
	verify(&verified);
	cr_expect_str_eq(verified.text, want, "verify says\n%snot\n%s", verified.text, want);
}

static void expect_begin(const char *want)
{
	struct told told = {0}, verified = {0};
	const struct recording_reader reader = {
		.damage = on_damage, .segment = on_segment, .ctx = &told};
	struct recording_counts counts;

	cr_assert_eq(recording_read(folder, &reader, &counts), 0);
	cr_expect(!strncmp(told.text, want, strlen(want)), "report says\n%.400s", told.text);
	cr_expect_leq(counts.lines, 1000010);
	verify(&verified);
	cr_expect(!strncmp(verified.text, want, strlen(want)), "verify says\n%.400s",
		  verified.text);
}

Test(verify, whole_runs_have_nothing)
{
	make_run(A, 1, 2);
	make_run(B, 3, 4);
	expect("");
}

/* The recorder takes the time when it emits a record. */
Test(verify, intervals_that_were_swapped)
{
	FILE *file = begin_file(1, A, 1, 1);

	put_interval(file, 1, BOOT + SEC);
	put_interval(file, 2, BOOT + 3 * SEC);
	put_interval(file, 3, BOOT + 2 * SEC);
	put_interval(file, 4, BOOT + 4 * SEC);
	end_file(file, 5, BOOT + 5 * SEC);
	expect("00000001.jsonl:4 untimely: t_boot_ns goes back from 103000000000 to "
	       "102000000000\n");
}

Test(verify, times_that_nothing_can_have)
{
	FILE *file = begin_file(1, A, 1, 1);

	put_interval(file, 1, BOOT + SEC);
	put_interval(file, 2, 0);
	put_interval(file, 3, BOOT + 3 * SEC);
	put_interval(file, 4, 9000000000000000000);
	put_interval(file, 5, BOOT + 5 * SEC);
	put_event(file, 6, BOOT - 61 * SEC);
	put_event(file, 7, 9000000000000000000);
	put_event(file, 8, BOOT + 4 * SEC); /* what ended before an interval may be told after it */
	end_file(file, 9, BOOT + 4 * SEC);
	expect("00000001.jsonl:3 untimely: t_boot_ns goes back from 101000000000 to 0\n"
	       "00000001.jsonl:3 contradictory: dur_ns is 1000000000, and t_boot_ns is 0\n"
	       "00000001.jsonl:5 untimely: t_boot_ns goes beyond 3153600000000000000 to "
	       "9000000000000000000\n"
	       "00000001.jsonl:7 untimely: t_boot_ns goes back from 40000000000 to 39000000000\n"
	       "00000001.jsonl:8 untimely: t_boot_ns goes beyond 3153600000000000000 to "
	       "9000000000000000000\n"
	       "00000001.jsonl:10 untimely: t_boot_ns goes back from 105000000000 to "
	       "104000000000\n");
}

/* A busy machine, and a recorder that was killed: what its successor had before it could write its
 * header. Of make soak, where 0.1 s was read as damage. */
Test(verify, records_of_before_the_header)
{
	FILE *file = begin_file(1, A, 1, 1);

	put_event(file, 1, BOOT - SEC / 8);
	put_interval(file, 2, BOOT - SEC / 9);
	put_interval(file, 3, BOOT + SEC);
	end_file(file, 4, BOOT + 2 * SEC);
	expect("");
}

/* Another boot: the clock began anew. */
Test(verify, a_run_has_its_own_time)
{
	FILE *file;

	make_run(A, 1, 3);
	file = begin_file(4, B, 4, 1);
	put_interval(file, 1, BOOT + 1);
	end_file(file, 2, BOOT + 1);
	expect("");
}

Test(verify, segments_of_another_recording)
{
	char from[128], to[128];

	make_run(A, 1, 2);
	make_run(B, 7, 8);
	for (int i = 0; i < 2; i++) {
		snprintf(from, sizeof(from), "%s/%08d.jsonl", folder, 7 + i);
		snprintf(to, sizeof(to), "%s/%08d.jsonl", folder, 3 + i);
		cr_assert_eq(rename(from, to), 0);
	}
	expect("00000003.jsonl:1 misplaced: it is segment 7 by its header\n"
	       "00000004.jsonl:1 misplaced: it is segment 8 by its header\n");
}

Test(verify, a_file_that_is_no_segment)
{
	FILE *file;

	make_run(A, 1, 1);
	file = begin_file(2, B, 0, 0);
	put_interval(file, 1, BOOT + SEC);
	end_file(file, 2, BOOT + SEC);
	expect("00000002.jsonl:1 misplaced: it is segment 0 by its header\n");
}

Test(verify, a_run_in_the_middle_that_is_not_there)
{
	make_run(A, 1, 2);
	make_run(B, 5, 6);
	expect("00000005.jsonl:1 missing: segments 3 to 4\n");
}

Test(verify, a_run_at_the_end_that_is_not_there)
{
	const struct segment_facts facts = {.number = 3, .lines = 1};
	struct segment_facts removed = {.number = 3, .removed = 2};
	char path[128], line[INDEX_MAX_LINE];
	FILE *index;

	make_run(A, 1, 2);
	snprintf(path, sizeof(path), "%s/index", folder);
	for (int turn = 0; turn < 2; turn++) {
		index = fopen(path, "a");
		index_format(line, turn ? &removed : &facts);
		fputs(line, index);
		fclose(index);
		/* What was removed to keep a limit is not missing. */
		expect(turn ? "" : "00000002.jsonl:5 missing: segments 3 to 3\n");
	}
}

static void put_cpu(FILE *file, uint64_t seq, uint64_t busy_ns)
{
	struct record_task tasks[] = {{.tid = 1, .pid = 1, .cpu_ns = 5}, {.tid = 2, .cpu_ns = 6}};
	struct record_interval interval = {.dur_ns = SEC,
					   .cpu = {.present = true,
						   .busy_ns = busy_ns,
						   .other_ns = 100,
						   .overflow_ns = 1000,
						   .tasks = tasks,
						   .task_count = 2}};

	tasks[0].process = tasks[1].process = tasks[0].package = tasks[1].package = "x";
	put(file, &(struct record){RECORD_INTERVAL, seq, BOOT + seq * SEC, .interval = &interval});
}

Test(verify, sums_that_are_not_those_of_the_rows)
{
	FILE *file = begin_file(1, A, 1, 1);

	put_cpu(file, 1, 1111);
	put_cpu(file, 2, 1112);
	end_file(file, 3, BOOT + 3 * SEC);
	expect("00000001.jsonl:3 contradictory: cpu.busy_ns is 1112, and the sum of its tasks, "
	       "other_ns and overflow_ns is 1111\n");
}

/* A line of this text, with its checksum. */
static void put_text(FILE *file, const char *text)
{
	char end[LINE_CRC_BYTES + 2];
	size_t length = strlen(text) - 1; /* without the brace */

	line_put_crc(end, text, length);
	fprintf(file, "%.*s%s", (int)length, text, end);
}

/* The checksum is right, and what stands there is no interval. */
Test(verify, values_that_no_row_of_the_table_has)
{
	FILE *file = begin_file(1, A, 1, 1);

	put_text(file, "{\"type\":\"interval\",\"seq\":1,\"t_boot_ns\":100000000001,\"dur_ns\":-5,"
		       "\"lost\":{},\"late\":{},\"repaired\":{},\"missing\":{}}");
	put_text(file, "{\"type\":\"interval\",\"seq\":2,\"t_boot_ns\":100000000001,\"dur_ns\":5,"
		       "\"dur_ns\":6,\"lost\":{},\"late\":{},\"repaired\":{},\"missing\":{}}");
	end_file(file, 3, BOOT + SEC);
	expect("00000001.jsonl:2 damaged: dur_ns is no whole number of at least 0\n"
	       "00000001.jsonl:3 damaged: dur_ns is there twice\n");
}

static void put_dropped(FILE *file, uint64_t seq, int64_t first, int64_t last)
{
	const struct record_event event = {
		.event = "records_dropped",
		.keys = {{"first_seq", NULL, first}, {"last_seq", NULL, last}},
		.key_count = 2};

	put(file, &(struct record){RECORD_EVENT, seq, BOOT + seq * SEC, .event = &event});
}

/* What was dropped is told behind it; an event from before would excuse whatever came. */
Test(verify, an_event_tells_nothing_of_what_is_to_come)
{
	FILE *file = begin_file(1, A, 1, 1);

	put_dropped(file, 1, 0, INT64_MAX);
	put_interval(file, 4, BOOT + 4 * SEC);
	put_dropped(file, 7, 5, 6);
	end_file(file, 8, BOOT + 8 * SEC);
	expect("00000001.jsonl:3 missing: 2 records, seq 2 to 3\n");
}

/* Of another run whose recorder was newer it would be the first line. */
Test(verify, a_header_of_another_schema_amid_a_segment)
{
	FILE *file = begin_file(1, A, 1, 1);

	put_interval(file, 1, BOOT + SEC);
	put_text(file, "{\"type\":\"header\",\"seq\":2,\"t_boot_ns\":100000000001,\"schema\":99}");
	put_interval(file, 3, BOOT + 3 * SEC);
	end_file(file, 4, BOOT + 4 * SEC);
	expect("00000001.jsonl:3 damaged: a header of another schema\n");
}

Test(verify, a_seq_that_is_none)
{
	FILE *file = begin_file(1, A, 1, 1);

	put_text(file,
		 "{\"type\":\"event\",\"seq\":1.0,\"t_boot_ns\":100000000001,\"event\":\"x\"}");
	put_text(file, "{\"type\":\"event\",\"seq\":18446744073709551615,"
		       "\"t_boot_ns\":100000000001,\"event\":\"x\"}");
	end_file(file, 3, BOOT + 3 * SEC);
	expect("00000001.jsonl:2 damaged: no seq\n"
	       "00000001.jsonl:3 damaged: no seq\n");
}

Test(verify, what_lasts_longer_than_the_clock_has_run)
{
	const struct record_block block = {.pid = 1,
					   .state = BLOCK_CLOSED,
					   .wall_ns = 101 * SEC,
					   .package = "x",
					   .process = "x"};
	FILE *file = begin_file(1, A, 1, 1);

	put(file, &(struct record){RECORD_BLOCK, 1, BOOT, .block = &block});
	end_file(file, 2, BOOT + SEC);
	expect("00000001.jsonl:2 contradictory: wall_ns is 101000000000, and t_boot_ns is "
	       "100000000000\n");
}

/* 70 MB of the same byte are 10 KB, and 20 million ends of lines hardly more. */
Test(verify, what_is_compressed_has_an_end, .timeout = 60)
{
	char command[400];

	make_run(A, 1, 1);
	snprintf(command, sizeof(command),
		 "(cat %s/00000001.jsonl; head -c 70000000 /dev/zero; echo; head -c 20000000 "
		 "/dev/zero | tr '\\0' '\\n') | zstd -1qc >%s/00000001.jsonl.zst && rm "
		 "%s/00000001.jsonl",
		 folder, folder, folder);
	cr_assert_eq(system(command), 0);
	expect_begin("00000001.jsonl:6 damaged: the line is too long\n"
		     "00000001.jsonl:7 damaged: the checksum is wrong\n");
}

/* Each segment begins with the header of its run, and nobody looks at it again. */
Test(verify, a_header_that_is_not_that_of_its_run)
{
	struct record_header header = {
		.kernel = "Linuy", .arch = "arm64", .segment = {2, 4}, .session = A};
	char path[128];
	FILE *file;

	make_run(A, 1, 3);
	snprintf(path, sizeof(path), "%s/00000002.jsonl", folder);
	file = fopen(path, "w");
	put(file, &(struct record){RECORD_HEADER, 0, BOOT, .header = &header});
	for (uint64_t seq = 4; seq < 7; seq++)
		put_interval(file, seq, BOOT + seq * SEC);
	fclose(file);
	expect("00000002.jsonl:1 misplaced: a header that is not that of its run\n");
}

/* Behind a power cut a name may have no content: then the next run tells of it. */
Test(verify, a_segment_without_a_line)
{
	const struct record_event event = {
		.event = "recording_resumed", .keys = {{"segment", NULL, 3}}, .key_count = 1};
	char path[128];
	FILE *file;

	make_run(A, 1, 2);
	snprintf(path, sizeof(path), "%s/00000003.jsonl", folder);
	fclose(fopen(path, "w"));
	expect("00000003.jsonl:0 no header first: the begin is missing\n");
	file = begin_file(4, B, 4, 1);
	put(file, &(struct record){RECORD_EVENT, 1, BOOT, .event = &event});
	end_file(file, 2, BOOT);
	expect("");
}

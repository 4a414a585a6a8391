/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crc_reference.h"
#include "golden_records.h"
#include "record/fields.h"
#include "record/json_read.h"
#include "record/json_write.h"
#include "record/schema.h"
#include "record/shapes.h"

/* A record that the tool does not know: what a new metric has to declare, and no more. */
struct toy_row {
	pid_t pid;
	const char *name;
	struct opt_u64 pss_bytes;
};

struct toy {
	uint64_t total_bytes;
	struct opt_i64 current_ua;
	double ratio;
	bool charging;
	uint32_t state;
	struct toy_row *rows;
	size_t row_count;
};

static const struct field toy_row_rows[] = {
	FIELD(struct toy_row, pid, REQUIRED, ID, "process id"),
	FIELD(struct toy_row, name, OPTIONAL, NAME, "its name"),
	FIELD(struct toy_row, pss_bytes, OPTIONAL, BYTES, "its share of memory"),
};
static const struct field_type toy_row_type = FIELD_TYPE("toy_row", struct toy_row, toy_row_rows);

static const char *const toy_words[] = {"full", "empty", NULL};
static const struct field toy_rows[] = {
	FIELD(struct toy, total_bytes, REQUIRED, BYTES, "memory of the toy"),
	FIELD(struct toy, current_ua, OPTIONAL, NONE, "current"),
	FIELD(struct toy, ratio, NONZERO, NONE, "a ratio"),
	FIELD(struct toy, charging, NONZERO, NONE, "it charges"),
	FIELD_WORDS(struct toy, state, REQUIRED, toy_words, "its state"),
	FIELD_ROWS("rows", struct toy, rows, row_count, REQUIRED, &toy_row_type, "its processes"),
};
static const struct field_type toy_type = FIELD_TYPE("toy", struct toy, toy_rows);

static struct toy_row some_rows[] = {{7, "a\"\xff", {true, 1}}, {8, NULL, {false, 5}}};
static const struct toy some = {1ull << 40, {true, -3}, 0.5, true, 1, some_rows, 2};

static char *write_toy(const struct toy *toy)
{
	struct json_buffer b = {0};

	json_put_mark(&b, '{');
	json_put_fields(&b, &toy_type, toy);
	json_put_mark(&b, '}');
	cr_assert(!b.failed);
	return b.text;
}

Test(fields, a_new_record_is_written)
{
	struct toy bare = {0};
	char *text = write_toy(&some);

	cr_expect_str_eq(text, "{\"total_bytes\":1099511627776,\"current_ua\":-3,\"ratio\":0.5,"
			       "\"charging\":true,\"state\":\"empty\",\"rows\":["
			       "{\"pid\":7,\"name\":\"a\\\"\xef\xbf\xbd\",\"pss_bytes\":1},"
			       "{\"pid\":8}]}");
	free(text);
	text = write_toy(&bare);
	cr_expect_str_eq(text, "{\"total_bytes\":0,\"state\":\"full\",\"rows\":[]}");
	free(text);
}

static int read_toy(const char *text, struct toy *toy, struct parsed_memory *memory,
		    json_t **object, char why[160])
{
	*toy = (struct toy){0};
	why[0] = 0;
	*object = json_loads(text, 0, NULL);
	cr_assert_not_null(*object, "%s", text);
	return record_fill(&toy_type, *object, toy, memory, why, 160);
}

Test(fields, a_new_record_is_read)
{
	struct parsed_memory *memory = record_memory_new();
	char *text = write_toy(&some), *again, why[160];
	struct toy toy;
	json_t *object;

	cr_assert_eq(read_toy(text, &toy, memory, &object, why), 0, "%s", why);
	cr_expect_eq(toy.row_count, 2);
	cr_expect_eq(toy.rows[0].pss_bytes.value, 1);
	cr_expect(!toy.rows[1].pss_bytes.present);
	cr_expect_null(toy.rows[1].name);
	again = write_toy(&toy);
	cr_expect_str_eq(again, text);
	free(again);
	free(text);
	json_decref(object);
	record_memory_free(memory);
}

/* What is not as the rows say is named by its path. */
Test(fields, hostile_values_are_refused_by_name)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{"{}", "total_bytes is absent"},
		{"{\"total_bytes\":null}", "total_bytes is no whole number of at least 0"},
		{"{\"total_bytes\":-1}", "total_bytes is no whole number of at least 0"},
		{"{\"total_bytes\":1.5}", "total_bytes is no whole number of at least 0"},
		{"{\"total_bytes\":1,\"state\":\"shut\"}", "state is none of its words: \"shut\""},
		{"{\"total_bytes\":1,\"state\":1}", "state is no text"},
		{"{\"total_bytes\":1,\"state\":\"full\"}", "rows is absent"},
		{"{\"total_bytes\":1,\"state\":\"full\",\"rows\":{}}", "rows is no list"},
		{"{\"total_bytes\":1,\"state\":\"full\",\"rows\":[{\"pid\":1},7]}",
		 "rows[1] is no object"},
		{"{\"total_bytes\":1,\"state\":\"full\",\"rows\":[{\"pid\":1},{\"name\":\"x\"}]}",
		 "rows[1].pid is absent"},
		{"{\"total_bytes\":1,\"state\":\"full\",\"rows\":[{\"pid\":4294967296}]}",
		 "rows[0].pid is too large"},
		{"{\"total_bytes\":1,\"state\":\"full\",\"charging\":1,\"rows\":[]}",
		 "charging is neither true nor false"},
		{"{\"total_bytes\":1,\"state\":\"full\",\"current_ua\":\"1\",\"rows\":[]}",
		 "current_ua is no whole number"},
		{"{\"total_bytes\":1,\"state\":\"full\",\"ratio\":true,\"rows\":[]}",
		 "ratio is no number"},
	};
	struct parsed_memory *memory = record_memory_new();

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char why[160];
		struct toy toy;
		json_t *object;

		cr_expect_eq(read_toy(cases[i].text, &toy, memory, &object, why), -EBADMSG, "%s",
			     cases[i].text);
		cr_expect_str_eq(why, cases[i].why);
		json_decref(object);
	}
	record_memory_free(memory);
}

/* Every kind of row there is, in the golden records: what is read is written again to the byte. */
Test(fields, what_was_written_is_read_and_written_the_same)
{
	size_t count;
	const struct golden *runs = golden_runs(&count);

	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < runs[i].count; k++) {
			struct parsed_record *parsed;
			size_t length, again_length;
			char *line = record_to_line(&runs[i].records[k], &length), *again;
			char why[160] = "";

			cr_assert_eq(record_parse(line, length - 1, &parsed, why, sizeof(why)), 0,
				     "%s %zu: %s", runs[i].name, k, why);
			cr_assert(parsed->known);
			again = record_to_line(&parsed->record, &again_length);
			cr_expect_str_eq(again, line);
			free(again);
			free(line);
			parsed_record_free(parsed);
		}
	}
}

/* ---- a summary whose totals and rows meet in one object ---- */

static const struct field blocks_rows[] = {
	FIELD_ROWS("paths", struct record_footer, paths, path_count, NONZERO, &toy_row_type,
		   "paths"),
};
static const struct field_type blocks_type = FIELD_TYPE("b", struct record_footer, blocks_rows);
static const struct field summary_rows[] = {
	{.kind = FIELD_TOTALS},
	FIELD_GROUP_AS("blocks", NONZERO, &blocks_type, "blocks"),
};
static const struct field_type summary_type = FIELD_TYPE("s", struct record_footer, summary_rows);

static void expect_summary(const struct record_footer *footer, const char *want)
{
	struct parsed_memory *memory = record_memory_new();
	struct record_footer again = {0};
	struct json_buffer b = {0};
	char why[160] = "";
	json_t *object;

	json_put_mark(&b, '{');
	json_put_fields(&b, &summary_type, footer);
	json_put_mark(&b, '}');
	cr_expect_str_eq(b.text, want);
	object = json_loads(b.text, 0, NULL);
	cr_assert_eq(record_fill(&summary_type, object, &again, memory, why, sizeof(why)), 0, "%s",
		     why);
	cr_expect_eq(again.total_count, footer->total_count);
	cr_expect_eq(again.path_count, footer->path_count);
	for (size_t i = 0; i < again.total_count && i < footer->total_count; i++)
		cr_expect_str_eq(again.totals[i].key, footer->totals[i].key);
	free(b.text);
	json_decref(object);
	record_memory_free(memory);
}

Test(fields, totals_and_rows_share_an_object)
{
	struct summary_total totals[] = {{"blocks.count", 2}, {"blocks.all.ns", 7}, {"dur_ns", 5}};
	struct record_footer footer = {.totals = totals, .total_count = 3};

	expect_summary(&footer, "{\"blocks\":{\"count\":2,\"all\":{\"ns\":7}},\"dur_ns\":5}");
	footer.paths = (const struct footer_path *)(const void *)some_rows;
	footer.path_count = 1;
	totals[1].key = (char *)"blocks.all";
	expect_summary(&footer, "{\"blocks\":{\"count\":2,\"all\":7,\"paths\":[{\"pid\":7,\"name\":"
				"\"a\\\"\xef\xbf\xbd\",\"pss_bytes\":1}]},\"dur_ns\":5}");
	footer.total_count = 0;
	expect_summary(&footer, "{\"blocks\":{\"paths\":[{\"pid\":7,\"name\":"
				"\"a\\\"\xef\xbf\xbd\",\"pss_bytes\":1}]}}");
	footer.path_count = 0;
	expect_summary(&footer, "{}");
}

/* What was met in the lines before changes nothing: neither the record nor the reason. */
static void expect_same_shaped(struct shapes *shapes, const char *line, int err,
			       const struct parsed_record *plain, const char *why)
{
	size_t length, shaped_length;
	struct parsed_record *shaped;
	char shaped_why[160] = "", *text, *shaped_text;

	cr_assert_eq(record_parse_shaped(shapes, line, strlen(line), &shaped, shaped_why,
					 sizeof(shaped_why)),
		     err, "%s", line);
	cr_assert_str_eq(shaped_why, why, "%s", line);
	if (!err) {
		cr_assert(shaped->known == plain->known && shaped->has_seq == plain->has_seq &&
			  shaped->schema == plain->schema);
	}
	if (!err && plain->known) {
		text = record_to_line(&plain->record, &length);
		shaped_text = record_to_line(&shaped->record, &shaped_length);
		cr_assert_str_eq(shaped_text, text, "%s", line);
		free(shaped_text);
		free(text);
	}
	parsed_record_free(shaped);
}

/* Lines with bytes changed, cut out and doubled and a checksum that is right again: each is read or
 * refused with a word, and what is read can be written. */
Test(fields, lines_that_were_tampered_with)
{
	struct shapes *shapes = shapes_new();
	size_t count;
	const struct golden *run = golden_runs(&count);
	unsigned seed = 1, refused = 0, read = 0;

	for (unsigned round = 0; round < 20000; round++) {
		size_t length, again;
		char *line = record_to_line(&run->records[round % run->count], &length), *copy;
		size_t body = length - sizeof(",\"crc\":\"01234567\"}"), from, to;
		struct parsed_record *parsed;
		char why[160] = "", *text;
		int err;

		from = (size_t)rand_r(&seed) % body;
		to = from + (size_t)rand_r(&seed) % 12;
		to = to < body ? to : body;
		copy = malloc(2 * length + 32);
		memcpy(copy, line, body);
		copy[from] = "0-9\"[]{}:,tfe."[rand_r(&seed) % 14];
		if (round % 3 == 1) {
			memmove(copy + from, copy + to, body - to);
			body -= to - from;
		} else if (round % 3 == 2) {
			memcpy(copy + body, copy + from, body - from);
			body += body - from;
		}
		sprintf(copy + body, ",\"crc\":\"%08x\"}", reference_crc32c(copy, body));
		err = record_parse(copy, strlen(copy), &parsed, why, sizeof(why));
		cr_assert(err == 0 || (err == -EBADMSG && why[0]) || err == -EPROTONOSUPPORT,
			  "%d: %s", err, copy);
		expect_same_shaped(shapes, copy, err, parsed, why);
		refused += err == -EBADMSG;
		if (!err && parsed->known) {
			text = record_to_line(&parsed->record, &again);
			cr_assert_not_null(text);
			free(text);
			read++;
		}
		parsed_record_free(parsed);
		free(copy);
		free(line);
	}
	cr_expect_gt(refused, 5000);
	cr_expect_gt(read, 500);
	shapes_free(shapes);
}

#define TRAFFIC "\"rx_bytes\":1,\"rx_packets\":2,\"tx_bytes\":3,\"tx_packets\":4"

/* Keys that are wanted and unknown, in any order, some absent or there twice; values differ, so
 * that one is not taken for another. */
static size_t put_odd_row(char *text, unsigned *seed, unsigned more)
{
	const char *keys[] = {"rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "uid", "unknown"};
	size_t n = (size_t)sprintf(text, "{\"package\":\"p\"");

	for (unsigned left = 6; left--;) {
		unsigned which = (unsigned)rand_r(seed) % (left + 1);

		if (rand_r(seed) % 32)
			n += (size_t)sprintf(text + n, ",\"%s\":%u", keys[which], 10 + left);
		keys[which] = keys[left];
	}
	if (rand_r(seed) % 8 == 0)
		n += (size_t)sprintf(text + n, ",\"%s\":3", keys[0]);
	while (more--)
		n += (size_t)sprintf(text + n, ",\"k%u\":0", more);
	return n + (size_t)sprintf(text + n, "}");
}

/* Objects of more kinds than there is room for, in each other and with their keys in any order,
 * and some with too many keys: the same as without shapes. */
Test(fields, objects_of_many_shapes)
{
	struct shapes *shapes = shapes_new();
	unsigned seed = 3, met = 0;

	for (unsigned round = 0; round < 4000; round++) {
		char line[8192], why[160] = "";
		struct parsed_record *parsed;
		size_t n = (size_t)sprintf(line, "{\"type\":\"interval\",\"seq\":1,\"t_boot_ns\":1,"
						 "\"dur_ns\":1,\"net\":{\"uids\":[");
		int err;

		n += put_odd_row(line + n, &seed, 0);
		line[n++] = ',';
		n += put_odd_row(line + n, &seed, round % 97 ? 0 : 70);
		n += (size_t)sprintf(line + n,
				     "],\"loopback\":{" TRAFFIC "},\"unattributed\":{" TRAFFIC
				     ",\"forwarded\":{" TRAFFIC "},\"kernel\":{" TRAFFIC
				     "},\"no_socket\":{" TRAFFIC
				     "}}},\"lost\":{},\"missing\":{},\"x%u\":1,"
				     "\"self\":{\"cpu_ns\":1,\"stops\":0,\"stop_max_ns\":0}",
				     round % 300);
		sprintf(line + n, ",\"crc\":\"%08x\"}", reference_crc32c(line, n));
		err = record_parse(line, strlen(line), &parsed, why, sizeof(why));
		met += !err;
		expect_same_shaped(shapes, line, err, parsed, why);
		parsed_record_free(parsed);
	}
	cr_expect(met > 1000 && met < 3500, "%u", met);
	shapes_free(shapes);
}

/* Who takes the first of two values and who takes the last would both be silent. */
Test(fields, keys_that_are_there_twice)
{
	static const struct {
		const char *more, *why;
	} lines[] = {
		{"\"dur_ns\":2", "dur_ns is there twice"},
		{"\"odd\":1,\"odd\":1", "odd is there twice"},
		{"\"cpu\":{},\"cpu\":{}", "cpu is there twice"},
		{"\"lost\":{\"a\":1,\"b\":2,\"a\":1}", "lost.a is there twice"},
		{"\"lost\":{},\"missing\":{\"a\":\"x\",\"a\":\"y\"}", "missing.a is there twice"},
		{"\"net\":{\"uids\":[{\"uid\":1," TRAFFIC ",\"uid\":1}]}",
		 "net.uids[0].uid is there twice"},
	};
	struct shapes *shapes = shapes_new();

	for (size_t i = 0; i < 2 * sizeof(lines) / sizeof(*lines); i++) {
		struct parsed_record *parsed;
		char line[8192], why[160] = "";
		size_t n = (size_t)sprintf(
			line, "{\"type\":\"interval\",\"seq\":1,\"t_boot_ns\":1,\"dur_ns\":1,%s",
			lines[i / 2].more);

		/* So many keys that they are sorted, too. */
		for (unsigned k = 0; i % 2 && k < 300; k++)
			n += (size_t)sprintf(line + n, ",\"k%u\":0", k);
		sprintf(line + n, ",\"crc\":\"%08x\"}", reference_crc32c(line, n));
		cr_expect_eq(record_parse(line, strlen(line), &parsed, why, sizeof(why)), -EBADMSG);
		cr_expect_str_eq(why, lines[i / 2].why);
		expect_same_shaped(shapes, line, -EBADMSG, parsed, why);
		parsed_record_free(parsed);
	}
	shapes_free(shapes);
}

Test(fields, a_new_record_has_a_schema)
{
	char *text = record_type_schema(&toy_type);
	json_t *schema = json_loads(text, 0, NULL), *properties, *required;

	cr_assert_not_null(schema, "%s", text);
	required = json_object_get(schema, "required");
	cr_expect_eq(json_array_size(required), 3);
	cr_expect_str_eq(json_string_value(json_array_get(required, 0)), "total_bytes");
	properties = json_object_get(schema, "properties");
	cr_expect_eq(json_object_size(properties), 6);
	cr_expect_str_eq(json_string_value(json_object_get(
				 json_object_get(properties, "total_bytes"), "$ref")),
			 "#/$defs/bytes");
	cr_expect_str_eq(json_string_value(json_object_get(
				 json_object_get(properties, "total_bytes"), "description")),
			 "memory of the toy");
	json_decref(schema);
	free(text);
}

/* make schema writes the file. */
Test(fields, the_schema_in_the_repository_is_that_of_the_table)
{
	FILE *file = fopen("include/jankscope/record.schema.json", "r");
	char *text = record_schema(), *kept = calloc(1, 1 << 20);

	cr_assert_not_null(file);
	cr_assert_gt(fread(kept, 1, (1 << 20) - 1, file), 0);
	cr_expect(!strcmp(text, kept), "run make schema");
	fclose(file);
	free(kept);
	free(text);
}

/* The schema has room for so many kinds of rows. One that found none would be named, and not be
 * there. */
Test(fields, each_definition_that_the_schema_names_is_in_it)
{
	json_error_t error;
	char *text = record_schema();
	json_t *schema = json_loads(text, 0, &error), *defs = json_object_get(schema, "$defs");
	static const char prefix[] = "\"#/$defs/";
	size_t count = 0;
	char name[64];

	cr_assert_not_null(defs, "%s", error.text);
	for (const char *at = text; (at = strstr(at, prefix)); count++) {
		at += sizeof(prefix) - 1;
		cr_assert_eq(sscanf(at, "%63[^\"]", name), 1);
		cr_expect_not_null(json_object_get(defs, name), "%s", name);
	}
	cr_expect_gt(count, 60);
	json_decref(schema);
	free(text);
}

Test(fields, of_lists_and_sources_are_found_by_their_path)
{
	const struct field *field = field_find("interval", "cpu.tasks.runnable_ns");

	cr_assert_not_null(field);
	cr_expect_eq(field->kind, FIELD_OPT_U64);
	cr_expect_str_eq(field_unit_name(field), "ns");
	cr_expect_str_eq(field_meaning("interval", "cpu.tasks.runnable_ns"),
			 "ready to run, without a CPU");
	cr_expect_not_null(field_meaning("block", "stacks.frames.by"));
	cr_expect_not_null(field_meaning("interval", "net.uids.rx_bytes"));
	cr_expect_not_null(field_meaning("stack", "weight_ns"));
	cr_expect_null(field_meaning("interval", "cpu.tasks.no_such"));
	cr_expect_null(field_meaning("block", "cpu"));
}

static int check_row(void *ctx, const struct field_visit *visit)
{
	static const char *const who[] = {"pid", "tid", "uid", "package", "process", "thread"};
	const struct field *field = visit->field;
	size_t length = strlen(visit->path);

	++*(size_t *)ctx;
	cr_expect(field->meaning && field->meaning[0], "%s.%s has no meaning", visit->record,
		  visit->path);
	/* The contract: the unit stands in the key. */
	if (length > 3 && !strcmp(visit->path + length - 3, "_ns"))
		cr_expect_eq(field->unit, UNIT_NS, "%s.%s", visit->record, visit->path);
	if (length > 6 && !strcmp(visit->path + length - 6, "_bytes"))
		cr_expect_eq(field->unit, UNIT_BYTES, "%s.%s", visit->record, visit->path);
	/* What says whose a row is: sink/csv_subject.c looks for it among such fields only. */
	for (size_t i = 0; field->key && i < sizeof(who) / sizeof(*who); i++)
		if (!strcmp(field->key, who[i]) && field->kind != FIELD_OBJECT &&
		    field->kind != FIELD_POINTER && field->kind != FIELD_LIST)
			cr_expect(field->unit == UNIT_ID || field->unit == UNIT_NAME, "%s.%s",
				  visit->record, visit->path);
	return 0;
}

Test(fields, every_row_has_a_meaning_and_the_unit_of_its_key)
{
	size_t count = 0;

	for (int type = 0; type < RECORD_TYPES; type++)
		cr_expect_eq(field_each((enum record_type)type, check_row, &count), 0);
	cr_expect_gt(count, 150);
}

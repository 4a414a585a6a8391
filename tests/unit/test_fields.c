/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/fields.h"
#include "record/json_write.h"
#include "record/schema.h"

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
	return 0;
}

Test(fields, every_row_has_a_meaning_and_the_unit_of_its_key)
{
	size_t count = 0;

	for (int type = 0; type < RECORD_TYPES; type++)
		cr_expect_eq(field_each((enum record_type)type, check_row, &count), 0);
	cr_expect_gt(count, 150);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* No name of any field of any record is left by --redact, and all that is no name is. */
#include <errno.h>
#include <string.h>

#include "random_records.h"
#include "record/json_read.h"
#include "record/json_write.h"
#include "record/redact.h"
#include "util/siphash.h"

static const unsigned char key[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* Of the paper, appendix A. */
Test(redact, the_hash_is_siphash)
{
	unsigned char data[15];

	for (unsigned char i = 0; i < 15; i++)
		data[i] = i;
	cr_expect_eq(siphash(key, data, 15), 0xa129ca6149be45e5);
}

#define NAME "zebra"
#define WORD "okapi"

static void fill_text(void *ctx, const struct field *row, char *to, size_t size)
{
	struct random_records *r = ctx;
	unsigned n = random_below(r, 10);

	if (row->unit == UNIT_UUID)
		snprintf(to, size, "01234567-89ab-cdef-0123-456789abcdef");
	else if (row->text == TEXT_WORD)
		snprintf(to, size, WORD);
	else if (row->text == TEXT_SENTENCE)
		snprintf(to, size, WORD " of (" NAME "0), /data/" NAME "1/x and \"" NAME "0\".");
	else if (row->text == TEXT_FOLDED)
		snprintf(to, size, NAME "1;a " NAME "2;" NAME "3");
	else if (row->unit == UNIT_HEX)
		snprintf(to, size, "abad1deaabad1deaabad1dea");
	else
		snprintf(to, size, NAME "%u", n);
}

static char *line_of(const struct record *record)
{
	size_t length;

	return record_to_line(record, &length);
}

/* A record of a type with all that the table knows, as text, with hashes or without. */
static void make(struct redactor *redactor, int type, unsigned seed, char **plain, char **redacted)
{
	struct random_records r = {.seed = seed, .all = true, .text = fill_text, .ctx = &r};
	json_t *object = random_object(&r, record_types[type], 0);
	struct parsed_memory *memory = record_memory_new();
	char why[160] = "", *body = calloc(1, record_types[type]->size);
	struct record record = {.type = (enum record_type)type, .seq = 5};

	if (type == RECORD_EVENT) {
		json_object_set_new(object, "process", json_string(NAME "5"));
		json_object_set_new(object, "of_a_newer_version", json_string(NAME "6"));
		json_object_set_new(object, "reason", json_string("no " NAME "0: " WORD));
		json_object_set_new(object, "loop", json_string(WORD));
	}
	cr_assert_eq(record_fill(record_types[type], object, body, memory, why, sizeof(why)), 0,
		     "%s", why);
	record.header = (void *)body;
	*plain = line_of(&record);
	*redacted = line_of(redactor_record(redactor, &record));
	cr_expect_str_neq(*plain, *redacted);
	/* The record itself is as it was. */
	cr_expect_str_eq(*plain, line_of(&record));
	json_decref(object);
	record_memory_free(memory);
	free(body);
}

static size_t count_of(const char *text, const char *what)
{
	size_t count = 0;

	for (; (text = strstr(text, what)); text++)
		count++;
	return count;
}

Test(redact, no_name_of_any_field_is_left)
{
	struct redactor *redactor = redactor_new(key);

	redactor_add_name(redactor, NAME "0");
	for (int type = 0; type < RECORD_TYPES; type++)
		for (unsigned seed = 1; seed < 6; seed++) {
			char *plain, *redacted, why[160];
			struct parsed_record *parsed = NULL;

			make(redactor, type, seed, &plain, &redacted);
			cr_expect_gt(count_of(plain, NAME), 0);
			cr_expect_null(strstr(redacted, NAME), "%s: %s", record_type_names[type],
				       strstr(redacted, NAME));
			cr_expect_null(strstr(redacted, "abad1dea"));
			cr_expect_eq(count_of(redacted, WORD), count_of(plain, WORD));
			/* It is a record as ever. */
			cr_expect_eq(record_parse(redacted, strlen(redacted) - 1, &parsed, why,
						  sizeof(why)),
				     0, "%s", why);
			parsed_record_free(parsed);
		}
	redactor_free(redactor);
}

Test(redact, one_name_has_one_hash_and_another_key_another_one)
{
	static const unsigned char other[16] = {9};
	struct redactor *a = redactor_new(key), *b = redactor_new(key), *c = redactor_new(other);
	char x[32], y[32], z[32];

	redactor_name(a, "com.example", x, sizeof(x));
	cr_expect_eq(strlen(x), 13);
	cr_expect_str_eq(x, redactor_name(b, "com.example", y, sizeof(y)));
	cr_expect_str_neq(x, redactor_name(a, "com.example2", y, sizeof(y)));
	cr_expect_str_neq(x, redactor_name(c, "com.example", z, sizeof(z)));
	cr_expect_str_eq(redactor_name(a, "", y, sizeof(y)), "");
	redactor_free(a);
	redactor_free(b);
	redactor_free(c);
}

Test(redact, sentences_lose_names_and_paths_and_keep_their_words)
{
	struct redactor *redactor = redactor_new(key);
	static const char *const gone[] = {"com.example", "secret", "my app", "RenderThread"};
	char hash[32], to[256], small[8];
	const char *text;

	redactor_add_name(redactor, "com.example");
	redactor_add_name(redactor, "my app");
	redactor_name(redactor, "RenderThread", hash, sizeof(hash));
	text = redactor_sentence(redactor,
				 "the process of com.example:push (my app): /data/secret/x is not "
				 "readable; RenderThread, xcom.examplex /proc/5/stat.",
				 to, sizeof(to));
	for (size_t i = 0; i < sizeof(gone) / sizeof(*gone); i++)
		cr_expect_null(strstr(text, gone[i]), "%s", text);
	cr_expect_not_null(strstr(text, "the process of #"), "%s", text);
	cr_expect_not_null(strstr(text, "is not readable; "), "%s", text);
	cr_expect_not_null(strstr(text, " /proc/5/stat."), "%s", text);
	cr_expect_not_null(strstr(text, hash), "%s", text);
	/* What does not fit is cut, not written beyond. */
	redactor_sentence(redactor, "a b c d e f g h i j k", small, sizeof(small));
	cr_expect_lt(strlen(small), sizeof(small));
	redactor_free(redactor);
}

Test(redact, names_of_several_words_are_found_in_sentences)
{
	struct redactor *redactor = redactor_new(key);
	char name[32], package[32], want[256], to[256];

	redactor_name(redactor, "OkHttp api.bank.com", name, sizeof(name));
	redactor_name(redactor, "OkHttp", package, sizeof(package));
	redactor_name(redactor, "api", package, sizeof(package));
	redactor_name(redactor, "com.bank", package, sizeof(package));
	snprintf(want, sizeof(want), "%s is late (%s): com.bank:push waits for %s.", name, name,
		 package);
	cr_expect_str_eq(redactor_sentence(redactor,
					   "OkHttp api.bank.com is late (OkHttp api.bank.com): "
					   "com.bank:push waits for com.bank.",
					   to, sizeof(to)),
			 want);
	redactor_free(redactor);
}

/* A week has more names than there is room for. */
Test(redact, what_came_last_is_found_however_much_came_before)
{
	struct redactor *redactor = redactor_new(key);
	char name[32], seen[32], hash[32], to[64];

	redactor_add_name(redactor, "asked");
	for (int i = 0; i < 200000; i++) {
		snprintf(name, sizeof(name), "Thread-%d", i);
		redactor_name(redactor, name, hash, sizeof(hash));
		redactor_name(redactor, "steady", seen, sizeof(seen));
	}
	cr_expect_str_eq(redactor_sentence(redactor, name, to, sizeof(to)), hash);
	cr_expect_str_eq(redactor_sentence(redactor, "steady", to, sizeof(to)), seen);
	cr_expect_eq(redactor_sentence(redactor, "unasked", to, sizeof(to))[0], '#');
	redactor_free(redactor);
}

/* Rows that --top cut off stand behind those that are counted; the table reads them. */
Test(redact, rows_that_were_cut_off_are_hashed_too)
{
	struct record_task tasks[3] = {{.tid = 1, .process = NAME},
				       {.tid = 2, .process = NAME},
				       {.tid = 3, .process = NAME, .thread = NAME}};
	struct record_interval interval = {
		.cpu = {.present = true, .tasks = tasks, .task_count = 1, .cut_count = 2}};
	const struct record record = {.type = RECORD_INTERVAL, .interval = &interval}, *shown;
	struct redactor *redactor = redactor_new(key);

	shown = redactor_record(redactor, &record);
	cr_expect_eq(shown->interval->cpu.task_count, 1);
	for (int i = 0; i < 3; i++)
		cr_expect_eq(shown->interval->cpu.tasks[i].process[0], '#');
	cr_expect_eq(shown->interval->cpu.tasks[2].thread[0], '#');
	redactor_free(redactor);
}

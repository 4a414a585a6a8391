/* SPDX-License-Identifier: BSD-2-Clause */
/* libFuzzer target of what reads recordings back: the first byte chooses the index of a folder or
 * the lines of a recording. Each line gets the checksum that it should have unless it begins with
 * '!', because no fuzzer finds one. */
#include <stdlib.h>
#include <string.h>

#include "record/json_read.h"
#include "record/json_write.h"
#include "record/shapes.h"
#include "store/index.h"
#include "store/line.h"
#include "store/verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The line with its checksum, in memory of its own: what is read beyond it is found. */
static char *seal(const char *text, size_t length, size_t *sealed)
{
	char *line = malloc(length + LINE_CRC_BYTES + 2), end[LINE_CRC_BYTES + 2];

	if (!line)
		abort();
	if (length && *text == '!') {
		*sealed = length - 1;
		memcpy(line, text + 1, length - 1);
		return line;
	}
	memcpy(line, text, length);
	line_put_crc(end, text, length);
	memcpy(line + length, end, LINE_CRC_BYTES);
	*sealed = length + LINE_CRC_BYTES;
	return realloc(line, *sealed ? *sealed : 1);
}

/* What was taken must be given back the same. */
static void check_index(const char *line, size_t length)
{
	struct segment_facts facts, again;
	char text[INDEX_MAX_LINE];
	size_t formatted;

	if (!index_parse(line, length, &facts))
		return;
	formatted = index_format(text, &facts);
	if (!index_parse(text, formatted - 1, &again) || memcmp(&facts, &again, sizeof(facts)))
		abort();
}

/* A record that was read is written and read again, and is the same text then. */
static void check_record(const char *line, size_t length)
{
	struct parsed_record *parsed = NULL, *again = NULL;
	char why[160], *written = NULL, *rewritten = NULL;
	size_t written_length, rewritten_length;

	if (!record_parse(line, length, &parsed, why, sizeof(why)) && parsed->known)
		written = record_to_line(&parsed->record, &written_length);
	if (written && !record_parse(written, written_length - 1, &again, why, sizeof(why)) &&
	    again->known)
		rewritten = record_to_line(&again->record, &rewritten_length);
	if (rewritten &&
	    (written_length != rewritten_length || memcmp(written, rewritten, written_length)))
		abort();
	free(written);
	free(rewritten);
	parsed_record_free(parsed);
	parsed_record_free(again);
}

/* Lines of one file are read by what was met in those before: the same, and the same reason. */
static void check_shaped(struct shapes *shapes, const char *line, size_t length)
{
	struct parsed_record *plain, *shaped;
	char why[160] = "", shaped_why[160] = "", *text, *shaped_text;
	size_t text_length, shaped_length;
	int err = record_parse(line, length, &plain, why, sizeof(why));

	if (record_parse_shaped(shapes, line, length, &shaped, shaped_why, sizeof(shaped_why)) !=
		    err ||
	    strcmp(why, shaped_why))
		abort();
	if (!err && plain->known != shaped->known)
		abort();
	if (!err && plain->known) {
		text = record_to_line(&plain->record, &text_length);
		shaped_text = record_to_line(&shaped->record, &shaped_length);
		if (text && shaped_text &&
		    (text_length != shaped_length || memcmp(text, shaped_text, text_length)))
			abort();
		free(text);
		free(shaped_text);
	}
	parsed_record_free(plain);
	parsed_record_free(shaped);
}

static void take_facts(void *ctx, const struct segment_facts *facts)
{
	*(size_t *)ctx += facts->number;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data + 1, *end = (const char *)data + size;
	struct verifier *verifier = verifier_new();
	struct shapes *shapes = shapes_new();
	char what[FINDING_TEXT];
	size_t sum = 0;

	if (!size || !verifier || !shapes) {
		verifier_free(verifier);
		shapes_free(shapes);
		return 0;
	}
	index_each(text, size - 1, take_facts, &sum);
	if (*data & 4)
		verifier_check_values(verifier);
	verifier_begin(verifier, 1);
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const char *stop = newline ? newline : end;
		size_t length;
		char *line = seal(text, (size_t)(stop - text), &length);

		if (*data & 1) {
			check_index(line, length);
		} else {
			if (*line == 's') /* another segment */
				verifier_begin(verifier, length);
			check_record(line, length);
			check_shaped(shapes, line, length);
			if (verifier_line(verifier, line, length, !newline))
				text = end;
		}
		free(line);
		text = newline && text < end ? newline + 1 : end;
	}
	verifier_check_last(verifier, *data >> 3);
	verifier_end(verifier, *data & 2, *data >> 4);
	for (size_t i = 0; verifier_finding(verifier, i); i++)
		sum += strlen(finding_text(verifier_finding(verifier, i), what, sizeof(what)));
	verifier_free(verifier);
	shapes_free(shapes);
	return sum == SIZE_MAX;
}

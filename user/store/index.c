/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/index.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/line.h"
#include "store/store.h"

static const char *const reasons[] = {
	[STORE_FOR_MAX_DISK] = "max_disk",
	[STORE_FOR_RETAIN] = "retain",
	[STORE_FOR_FREE_SPACE] = "free_space",
};
#define REASONS ((int)(sizeof(reasons) / sizeof(*reasons)))

const char *store_reason_name(int reason)
{
	return reason > 0 && reason < REASONS ? reasons[reason] : NULL;
}

size_t index_format(char line[INDEX_MAX_LINE], const struct segment_facts *facts)
{
	const char *removed = store_reason_name(facts->removed);
	int n = snprintf(
		line, INDEX_MAX_LINE - LINE_CRC_BYTES - 2,
		"{\"segment\":%" PRIu64 ",\"session\":\"%s\",\"boot_id\":\"%s\","
		"\"first_seq\":%" PRIu64 ",\"last_seq\":%" PRIu64 ",\"first_boot_ns\":%" PRIu64
		",\"last_boot_ns\":%" PRIu64 ",\"lines\":%" PRIu64 ",\"bytes\":%" PRIu64
		",\"content_crc\":\"%08x\",\"resolution_ns\":%" PRIu64 ",\"footer\":%s%s%s%s",
		facts->number, facts->session, facts->boot_id, facts->first_seq, facts->last_seq,
		facts->first_boot_ns, facts->last_boot_ns, facts->lines, facts->bytes, facts->crc,
		facts->resolution_ns, facts->footer ? "true" : "false",
		removed ? ",\"removed\":\"" : "", removed ? removed : "", removed ? "\"" : "");

	line_put_crc(line + n, line, (size_t)n);
	return (size_t)n + LINE_CRC_BYTES + 1;
}

static bool take_number(const json_t *object, const char *key, uint64_t *value)
{
	const json_t *number = json_object_get(object, key);

	if (!json_is_integer(number) || json_integer_value(number) < 0)
		return false;
	*value = (uint64_t)json_integer_value(number);
	return true;
}

/* Hexadecimal digits and '-', as in a UUID: the text goes into the next index as it is. */
static bool take_uuid(const json_t *object, const char *key, char text[37])
{
	const char *value = json_string_value(json_object_get(object, key));

	if (!value || strlen(value) > 36 || value[strspn(value, "0123456789abcdef-")])
		return false;
	memset(text, 0, 37);
	memcpy(text, value, strlen(value));
	return true;
}

static bool take_crc(const json_t *object, uint32_t *crc)
{
	const char *text = json_string_value(json_object_get(object, "content_crc"));

	if (!text || strlen(text) != 8 || text[strspn(text, "0123456789abcdef")])
		return false;
	*crc = (uint32_t)strtoul(text, NULL, 16);
	return true;
}

static int reason_of(const json_t *object)
{
	const char *text = json_string_value(json_object_get(object, "removed"));

	for (int i = 1; text && i < REASONS; i++)
		if (!strcmp(text, reasons[i]))
			return i;
	return 0;
}

bool index_parse(const char *line, size_t length, struct segment_facts *facts)
{
	json_t *object;
	bool good;

	*facts = (struct segment_facts){0};
	if (length > INDEX_MAX_LINE || !line_is_whole(line, length))
		return false;
	object = json_loadb(line, length, 0, NULL);
	good = take_number(object, "segment", &facts->number) && facts->number &&
	       take_uuid(object, "session", facts->session) &&
	       take_uuid(object, "boot_id", facts->boot_id) &&
	       take_number(object, "first_seq", &facts->first_seq) &&
	       take_number(object, "last_seq", &facts->last_seq) &&
	       take_number(object, "first_boot_ns", &facts->first_boot_ns) &&
	       take_number(object, "last_boot_ns", &facts->last_boot_ns) &&
	       take_number(object, "lines", &facts->lines) &&
	       take_number(object, "bytes", &facts->bytes) && take_crc(object, &facts->crc);
	facts->footer = json_is_true(json_object_get(object, "footer"));
	/* An older jankscope did not write it. */
	take_number(object, "resolution_ns", &facts->resolution_ns);
	facts->removed = reason_of(object);
	json_decref(object);
	return good;
}

size_t index_each(const char *text, size_t length,
		  void (*take)(void *ctx, const struct segment_facts *facts), void *ctx)
{
	const char *end = text + length;
	size_t refused = 0;

	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		struct segment_facts facts;

		if (newline && index_parse(text, (size_t)(newline - text), &facts))
			take(ctx, &facts);
		else
			refused++;
		text = newline ? newline + 1 : end;
	}
	return refused;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/folder.h"
#include "store/line.h"
#include "util/crc32c.h"

static void take_look(struct segment_facts *facts, const struct line_look *look)
{
	if (facts->lines == 1)
		facts->first_boot_ns = look->t_boot_ns;
	facts->footer = !strcmp(look->type, "footer");
	if (!strcmp(look->type, "header")) {
		facts->last_boot_ns = look->t_boot_ns;
		return;
	}
	if (facts->last_seq < facts->first_seq) {
		facts->first_seq = look->seq;
		facts->first_boot_ns = look->t_boot_ns;
	}
	facts->last_seq = look->seq;
	facts->last_boot_ns = look->t_boot_ns;
}

/* A text of the header, where it is a UUID. */
static void take_text(const char *line, size_t length, const char *key, char text[37])
{
	const char *at = memmem(line, length, key, strlen(key));
	size_t room = at ? length - (size_t)(at - line) - strlen(key) : 0;

	if (room < 37 || at[strlen(key) + 36] != '"')
		return;
	for (size_t i = 0; i < 36; i++)
		if (!strchr("0123456789abcdef-", at[strlen(key) + i]))
			return;
	memcpy(text, at + strlen(key), 36);
}

/* The keys of a record have an order, and a quote within a name is escaped. */
static bool tells_of_resuming(const char *line, size_t length, const struct line_look *look)
{
	static const char key[] = ",\"event\":\"recording_resumed\"";

	return !strcmp(look->type, "event") && memmem(line, length, key, sizeof(key) - 1);
}

/* What --keep made of it. */
static void take_resolution(const char *line, size_t length, struct segment_facts *facts)
{
	static const char key[] = ",\"resolution_ns\":";
	const char *at = memmem(line, length, key, sizeof(key) - 1);

	if (at)
		facts->resolution_ns = strtoull(at + sizeof(key) - 1, NULL, 10);
}

int store_scan(int dir_fd, uint64_t number, struct segment_facts *facts)
{
	struct line_look look;
	bool packed;
	FILE *in = segment_open(dir_fd, number, &packed);
	char *line = NULL;
	size_t room = 0;
	ssize_t length = 0;
	int err = 0;

	if (!in)
		return -errno;
	*facts = (struct segment_facts){.number = number, .first_seq = 1};
	while (!err && (length = line_read(in, &line, &room)) > 0) {
		facts->bytes += (uint64_t)length;
		facts->lines++;
		facts->crc = crc32c(facts->crc, line, (size_t)length);
		if (line[length - 1] != '\n' || !line_is_whole(line, (size_t)length - 1) ||
		    !line_look(line, (size_t)length, &look)) {
			err = -EBADMSG;
		} else {
			take_look(facts, &look);
			facts->resumed |= tells_of_resuming(line, (size_t)length, &look);
			if (facts->lines == 1)
				take_text(line, (size_t)length, "\"session\":\"", facts->session);
			if (facts->lines == 1)
				take_text(line, (size_t)length, "\"boot_id\":\"", facts->boot_id);
			if (facts->lines == 1)
				take_resolution(line, (size_t)length, facts);
		}
	}
	if (!err && length < 0)
		err = length == -EMSGSIZE ? -EBADMSG : (int)length;
	free(line);
	fclose(in);
	return err;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace/ring_page.h"
#include "trace/atrace.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the commit word beside the length: kernel/trace/ring_buffer.c, RB_MISSED_*. */
#define LENGTH_MASK   0xfffffu
#define MISSED_EVENTS (1u << 31)
#define MISSED_STORED (1u << 30)
#define TIME_BITS     27

/* "field: TYPE NAME; offset:N; size:N;" of that name. */
static int find_field(const char *text, const char *name, uint32_t *offset, uint32_t *size)
{
	size_t length = strlen(name);

	for (const char *line = text; line;
	     line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		const char *end = strchr(line, ';'), *field = strstr(line, "field:");
		unsigned o, s;

		if (!field || !end || field > end)
			continue;
		/* "buf[]" is named buf */
		if (end - field > 2 && end[-1] == ']') {
			while (end > field && *end != '[')
				end--;
		}
		if ((size_t)(end - field) <= length || memcmp(end - length, name, length) ||
		    (end[-(ptrdiff_t)length - 1] != ' ' && end[-(ptrdiff_t)length - 1] != '\t'))
			continue;
		end = strstr(end, "offset:");
		if (!end || sscanf(end, "offset:%u;%*[ \t]size:%u;", &o, &s) != 2 || o > 65536 ||
		    s > 1u << 20)
			return -EBADMSG;
		*offset = o;
		*size = s;
		return 0;
	}
	return -EBADMSG;
}

int ring_layout_page(struct ring_layout *layout, const char *text)
{
	uint32_t size, data_size;

	if (find_field(text, "timestamp", &layout->time_offset, &size) || size != 8 ||
	    find_field(text, "commit", &layout->commit_offset, &layout->commit_size) ||
	    (layout->commit_size != 4 && layout->commit_size != 8) ||
	    find_field(text, "data", &layout->data_offset, &data_size) || !data_size)
		return -EBADMSG;
	layout->page_size = layout->data_offset + data_size;
	return 0;
}

static int find_number(const char *text, const char *name, const char *before, uint32_t *value)
{
	const char *line = strstr(text, name), *number = line ? strstr(line, before) : NULL;
	const char *newline = line ? strchr(line, '\n') : NULL;
	unsigned n;

	if (!number || (newline && number > newline) ||
	    sscanf(number + strlen(before), "%u", &n) != 1 || n > 64)
		return -EBADMSG;
	*value = n;
	return 0;
}

int ring_layout_event(struct ring_layout *layout, const char *text)
{
	if (find_number(text, "type_len", ":", &layout->type_bits) || layout->type_bits != 5 ||
	    find_number(text, "padding", "type ==", &layout->padding) ||
	    find_number(text, "time_extend", "type ==", &layout->time_extend) ||
	    find_number(text, "data max", "==", &layout->data_max))
		return -EBADMSG;
	/* described since 4.17 (dc4e2801d400); before, the kernel never wrote one */
	if (find_number(text, "time_stamp", "type ==", &layout->time_stamp))
		layout->time_stamp = UINT32_MAX;
	return 0;
}

int ring_layout_print(struct ring_layout *layout, const char *text)
{
	const char *id = strstr(text, "ID:");
	uint32_t size;
	unsigned n;

	if (!id || sscanf(id, "ID: %u", &n) != 1 ||
	    find_field(text, "common_type", &layout->type_offset, &layout->type_size) ||
	    (layout->type_size != 2 && layout->type_size != 1) ||
	    find_field(text, "common_pid", &layout->pid_offset, &size) || size != 4 ||
	    find_field(text, "buf", &layout->text_offset, &size))
		return -EBADMSG;
	layout->print_id = n;
	return 0;
}

static uint64_t read_word(const uint8_t *p, uint32_t size)
{
	uint64_t value = 0;

	memcpy(&value, p, size < 8 ? size : 8);
	return value;
}

static void decode_entry(const struct ring_layout *layout, int64_t ts_ns, const uint8_t *entry,
			 size_t size, const struct trace_events *events, void *ctx)
{
	struct trace_mark mark;
	const char *text;

	if (size < layout->text_offset || size < layout->pid_offset + 4 ||
	    size < layout->type_offset + layout->type_size ||
	    read_word(entry + layout->type_offset, layout->type_size) != layout->print_id)
		return;
	text = (const char *)entry + layout->text_offset;
	if (!atrace_parse(text, strnlen(text, size - layout->text_offset), &mark))
		return;
	mark.ts_ns = ts_ns;
	mark.tid = (int32_t)read_word(entry + layout->pid_offset, 4);
	events->mark(ctx, &mark);
}

int ring_page_decode(const struct ring_layout *layout, const uint8_t *page, size_t size,
		     const struct trace_events *events, void *ctx)
{
	uint64_t ts, commit;
	size_t pos = layout->data_offset, end;
	int count = 0;

	if (size < layout->data_offset || size < layout->time_offset + 8 ||
	    size < layout->commit_offset + layout->commit_size)
		return -EBADMSG;
	ts = read_word(page + layout->time_offset, 8);
	commit = read_word(page + layout->commit_offset, layout->commit_size);
	end = pos + (commit & LENGTH_MASK);
	if (end > size)
		return -EBADMSG;
	if (commit & MISSED_EVENTS && events->loss) {
		uint64_t missed = 1;

		if (commit & MISSED_STORED && end + 8 <= size)
			missed = read_word(page + end, layout->commit_size);
		events->loss(ctx, "ftrace_lost_events", missed);
	}
	while (pos + 4 <= end) {
		uint32_t head = (uint32_t)read_word(page + pos, 4);
		uint32_t type = head & ((1u << layout->type_bits) - 1),
			 delta = head >> layout->type_bits;
		uint64_t word = pos + 8 <= end ? read_word(page + pos + 4, 4) : 0, length;

		if (type == layout->padding) {
			if (!delta)
				break;
			if (pos + 8 > end)
				return -EBADMSG;
			pos += 4 + word;
			continue;
		}
		if (type == layout->time_extend || type == layout->time_stamp) {
			if (pos + 8 > end)
				return -EBADMSG;
			if (type == layout->time_extend)
				ts += delta + (word << TIME_BITS);
			else
				ts = delta + (word << TIME_BITS);
			pos += 8;
			continue;
		}
		if (type > layout->data_max)
			return -EBADMSG;
		ts += delta;
		if (type == 0) {
			if (pos + 8 > end || word < 4)
				return -EBADMSG;
			length = word - 4;
			pos += 8;
		} else {
			length = (uint64_t)type * 4;
			pos += 4;
		}
		if (length > end - pos)
			return -EBADMSG;
		decode_entry(layout, (int64_t)ts, page + pos, length, events, ctx);
		pos += length;
		count++;
	}
	return count;
}

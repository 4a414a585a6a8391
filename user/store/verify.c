/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/verify_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/json_read.h"
#include "store/line.h"
#include "util/crc32c.h"

#define MAX_LINE    (64u << 20)
#define BLOCK_BYTES (1u << 20)
/* A line may name a million ranges, and each is looked for among a hundred thousand gaps. */
#define MAX_STEPS (1u << 30)

struct verifier *verifier_new(void)
{
	return calloc(1, sizeof(struct verifier));
}

void verifier_free(struct verifier *verifier)
{
	if (!verifier)
		return;
	free(verifier->findings.items);
	free(verifier->explanations.items);
	free(verifier->pending.items);
	free(verifier);
}

static void *add_row(struct rows *rows, size_t size, size_t limit)
{
	char *more;

	if (rows->count == limit)
		return NULL;
	if (rows->count == rows->room) {
		rows->room = rows->room ? 2 * rows->room : 64;
		more = realloc(rows->items, rows->room * size);
		if (!more)
			return NULL;
		rows->items = more;
	}
	return memset(rows->items + size * rows->count++, 0, size);
}

static struct finding *add_finding(struct verifier *v, enum finding_kind kind)
{
	static struct finding none;
	struct finding *finding =
		add_row(&v->findings, sizeof(struct finding), VERIFY_MAX_FINDINGS);

	if (!finding) {
		v->counts.not_kept++;
		return &none;
	}
	*finding = (struct finding){.kind = kind,
				    .segment = v->segment,
				    .line = v->line,
				    .offset = v->offset,
				    .run = v->run};
	return finding;
}

static void explain(struct verifier *v, enum explained what, uint64_t first, uint64_t last)
{
	struct explanation *row =
		last < first ? NULL : add_row(&v->explanations, sizeof(*row), MAX_EXPLANATIONS);

	if (row)
		*row = (struct explanation){what, what == EXPLAINED_RECORDS ? v->run : 0, first,
					    last};
}

void verifier_begin(struct verifier *v, uint64_t segment)
{
	verifier_end_pending(v);
	v->last_segment = v->segment;
	v->segment = segment;
	v->line = v->offset = 0;
	v->counts.segments++;
}

/* ---- seq ---- */

static void add_gap(struct verifier *v, uint64_t first, uint64_t last, bool at_segment)
{
	struct finding *finding;
	uint64_t count = last - first + 1;

	/* Each damaged line was a record. */
	if (count <= v->damaged)
		return;
	v->counts.missing += count - v->damaged;
	finding = add_finding(v, FINDING_MISSING);
	finding->first = first;
	finding->last = last;
	finding->at_segment = at_segment;
	finding->before = v->last_segment;
}

/* ---- merged intervals ---- */

/* The gap is kept as the finding that it becomes when nothing tells of it; each damaged line in it
 * was a record. */
static void add_pending(struct verifier *v, uint64_t first, uint64_t last)
{
	struct finding *gap = add_row(&v->pending, sizeof(*gap), VERIFY_MAX_FINDINGS);

	if (!gap) {
		add_gap(v, first, last, false);
		return;
	}
	*gap = (struct finding){.kind = FINDING_MISSING,
				.segment = v->segment,
				.line = v->line,
				.offset = v->offset,
				.run = v->run,
				.first = first,
				.last = last,
				.before = v->last_segment,
				.bytes = v->damaged};
}

void verifier_end_pending(struct verifier *v)
{
	const struct finding *gaps = (const struct finding *)(const void *)v->pending.items;

	for (size_t i = 0; i < v->pending.count; i++) {
		uint64_t count = gaps[i].last - gaps[i].first + 1;
		struct finding *finding;

		if (count <= gaps[i].bytes)
			continue;
		v->counts.missing += count - gaps[i].bytes;
		finding = add_finding(v, FINDING_MISSING);
		*finding = gaps[i];
		finding->bytes = 0;
	}
	v->pending.count = 0;
	v->merged = false;
}

/* The records first..last are in a merged interval. How many of them were missing until now. */
static uint64_t take_out(struct verifier *v, uint64_t first, uint64_t last)
{
	struct finding *gaps = (struct finding *)(void *)v->pending.items;
	uint64_t found = 0;

	v->steps += v->pending.count;
	if (v->steps > MAX_STEPS) {
		v->counts.not_kept++;
		return last - first + 1;
	}
	for (size_t i = 0; i < v->pending.count; i++) {
		struct finding gap = gaps[i];
		uint64_t from = gap.first > first ? gap.first : first;
		uint64_t to = gap.last < last ? gap.last : last;

		if (from > to)
			continue;
		found += to - from + 1;
		gaps[i].last = from - 1; /* what is left before it */
		if (gap.last > to) {
			struct finding *behind =
				from > gap.first
					? add_row(&v->pending, sizeof(*behind), VERIFY_MAX_FINDINGS)
					: &gaps[i];

			gaps = (struct finding *)(void *)v->pending.items;
			if (behind) {
				*behind = gap;
				behind->first = to + 1;
			}
		} else if (from == gap.first) {
			gaps[i--] = gaps[--v->pending.count];
		}
	}
	return found;
}

/* Past `"key":N`, or NULL. */
static const char *take_number(const char *p, const char *end, const char *key, uint64_t *value)
{
	size_t length = strlen(key);
	const char *begin;

	if (!p || (size_t)(end - p) < length || memcmp(p, key, length))
		return NULL;
	*value = 0;
	for (begin = p += length; p < end && *p >= '0' && *p <= '9' && p - begin < 19; p++)
		*value = *value * 10 + (uint64_t)(*p - '0');
	return p == begin ? NULL : p;
}

/* The ranges of a merged interval, as record/fields.c has them. What it names and is there as well
 * is there twice. */
static void take_merged(struct verifier *v, const char *line, size_t length, uint64_t seq)
{
	static const char key[] = ",\"merged\":{", list[] = "\"seqs\":[";
	const char *end = line + length;
	const char *p = memmem(line, length < 256 ? length : 256, key, sizeof(key) - 1);
	uint64_t first, last;

	p = p ? memmem(p, (size_t)(end - p), list, sizeof(list) - 1) : NULL;
	for (p = p ? p + sizeof(list) - 1 : NULL; p; p = p && p < end && *p == ',' ? p + 1 : NULL) {
		p = take_number(p, end, "{\"first\":", &first);
		p = take_number(p, end, ",\"last\":", &last);
		if (!p || last > seq || first > last)
			return;
		if (last == seq && first == last--)
			return;
		if (take_out(v, first, last) < last - first + 1) {
			add_finding(v, FINDING_DOUBLED)->first = first;
			v->counts.doubled++;
		}
		p = p < end && *p == '}' ? p + 1 : NULL;
	}
}

static void take_seq(struct verifier *v, uint64_t seq)
{
	if (seq > v->next_seq && v->merged) {
		add_pending(v, v->next_seq, seq - 1);
	} else if (seq > v->next_seq) {
		add_gap(v, v->next_seq, seq - 1, false);
	} else if (seq < v->next_seq) {
		add_finding(v, FINDING_DOUBLED)->first = seq;
		v->counts.doubled++;
	}
	if (seq >= v->next_seq)
		v->next_seq = seq + 1;
	v->damaged = 0;
}

/* ---- what single lines say ---- */

void verifier_end_run(struct verifier *v)
{
	struct finding *finding;

	if (!v->run || v->footer)
		return;
	finding = add_finding(v, FINDING_NO_FOOTER);
	if (v->segment && v->line == 1)
		finding->segment = v->last_segment; /* it ended there */
	if (finding->segment != v->segment)
		finding->line = finding->offset = 0;
}

/* A segment of a run that was met before goes on where the last one ended; what lies between is
 * missing. */
static void begin_segment(struct verifier *v, uint64_t first_seq)
{
	if (first_seq > v->next_seq)
		add_gap(v, v->next_seq, first_seq - 1, true);
	if (first_seq > v->next_seq)
		v->next_seq = first_seq;
	v->damaged = 0;
}

static void take_header(struct verifier *v, const struct record *record)
{
	const struct record_header *header = record->header;
	bool same = v->run && !strcmp(header->session, v->session);

	verifier_end_pending(v);
	v->merged = header->segment.resolution_ns > 0;
	if (same && header->segment.number && v->line == 1) {
		begin_segment(v, header->segment.first_seq);
		return;
	}
	if (same || (v->run && v->line > 1))
		add_finding(v, FINDING_MISPLACED);
	verifier_end_run(v);
	memcpy(v->session, header->session, sizeof(v->session));
	v->run++;
	v->counts.runs++;
	v->footer = false;
	v->damaged = 0;
	v->next_seq = record->seq + 1;
	if (record->seq && !header->segment.number)
		add_gap(v, 0, record->seq - 1, false);
	if (header->segment.number)
		begin_segment(v, header->segment.first_seq);
}

static bool number_of(const struct record_event *event, const char *key, uint64_t *value)
{
	for (size_t i = 0; i < event->key_count; i++)
		if (!strcmp(event->keys[i].name, key) && !event->keys[i].text &&
		    event->keys[i].value >= 0) {
			*value = (uint64_t)event->keys[i].value;
			return true;
		}
	return false;
}

static void take_event(struct verifier *v, const struct record_event *event)
{
	bool removed = !strcmp(event->event, "segments_removed");
	uint64_t first, last;

	if (!strcmp(event->event, "recording_resumed") && number_of(event, "segment", &first))
		explain(v, EXPLAINED_ENDS, first, first);
	if (!removed && strcmp(event->event, "records_dropped") &&
	    strcmp(event->event, "segment_taken"))
		return;
	if (number_of(event, "first_seq", &first) && number_of(event, "last_seq", &last) &&
	    !removed)
		explain(v, EXPLAINED_RECORDS, first, last);
	if (number_of(event, "first_segment", &first) && number_of(event, "last_segment", &last))
		explain(v, EXPLAINED_SEGMENTS, first, last);
}

static int parse_line(struct verifier *v, const char *line, size_t length)
{
	struct parsed_record *parsed;
	char why[160];
	int err = record_parse(line, length, &parsed, why, sizeof(why));

	if (parsed && parsed->schema > v->counts.schema)
		v->counts.schema = parsed->schema;
	if (err == -EBADMSG) {
		add_finding(v, FINDING_DAMAGED);
		v->counts.damaged++;
		v->damaged++;
		err = 0;
	} else if (!err && parsed->known && parsed->record.type == RECORD_HEADER) {
		take_header(v, &parsed->record);
	} else if (!err) {
		if (!v->run)
			add_finding(v, FINDING_NO_HEADER);
		take_seq(v, parsed->record.seq);
		if (parsed->known && parsed->record.type == RECORD_EVENT)
			take_event(v, parsed->record.event);
	}
	parsed_record_free(parsed);
	return err;
}

static int take_line(struct verifier *v, const char *line, size_t length)
{
	struct line_look look;

	if (!line_is_whole(line, length)) {
		add_finding(v, FINDING_DAMAGED);
		v->counts.damaged++;
		v->damaged++;
		return 0;
	}
	if (!line_look(line, length, &look) || !strcmp(look.type, "header"))
		return parse_line(v, line, length);
	if (v->line == 1)
		add_finding(v, FINDING_NO_HEADER);
	if (v->footer)
		add_finding(v, FINDING_MISPLACED);
	/* A file that begins inside of a run: what came before is not known. */
	if (!v->run) {
		v->run = 1;
		v->counts.runs++;
		v->next_seq = look.seq;
	}
	v->counts.intervals += !strcmp(look.type, "interval");
	v->footer |= !strcmp(look.type, "footer");
	if (!strcmp(look.type, "event"))
		return parse_line(v, line, length);
	take_seq(v, look.seq);
	if (v->merged && !strcmp(look.type, "interval"))
		take_merged(v, line, length, look.seq);
	return 0;
}

int verifier_line(struct verifier *v, const char *line, size_t length, bool torn)
{
	int err = 0;

	v->line++;
	v->counts.lines++;
	if (torn) {
		add_finding(v, FINDING_TORN)->bytes = length;
		v->counts.torn++;
		v->damaged++;
	} else {
		err = take_line(v, line, length);
	}
	v->offset += length + !torn;
	v->counts.bytes += length + !torn;
	return err;
}

void verifier_unreadable(struct verifier *v, int error)
{
	v->line++;
	add_finding(v, FINDING_UNREADABLE)->error = error;
}

/* ---- streams ---- */

/* The lines of the first `length` bytes; what is left of the last one begins at *rest. */
static int take_lines(struct verifier *v, const char *text, size_t length, size_t *rest)
{
	size_t at = 0;
	int err = 0;

	while (!err) {
		const char *newline = memchr(text + at, '\n', length - at);

		if (!newline)
			break;
		err = verifier_line(v, text + at, (size_t)(newline - text) - at, false);
		at = (size_t)(newline - text) + 1;
	}
	*rest = at;
	return err;
}

int verifier_stream(struct verifier *v, void *stream, uint64_t *bytes, uint32_t *crc)
{
	size_t room = 2 * BLOCK_BYTES, held = 0, rest, n;
	char *text = malloc(room), *more;
	FILE *in = stream;
	int err = text ? 0 : -ENOMEM;

	errno = 0;
	while (!err && (n = fread(text + held, 1, room - held, in)) > 0) {
		if (bytes)
			*bytes += n;
		if (crc)
			*crc = crc32c(*crc, text + held, n);
		err = take_lines(v, text, held + n, &rest);
		held += n - rest;
		memmove(text, text + rest, held);
		if (room - held >= BLOCK_BYTES || err)
			continue;
		more = room < 2 * (size_t)MAX_LINE ? realloc(text, 2 * room) : NULL;
		if (!more) {
			err = room < 2 * (size_t)MAX_LINE ? -ENOMEM : -EMSGSIZE;
			continue;
		}
		text = more;
		room *= 2;
	}
	if (!err && ferror(in))
		err = errno ? -errno : -EIO;
	if (!err && held)
		err = verifier_line(v, text, held, true);
	free(text);
	return err;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/verify_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/fields.h"
#include "record/json_read.h"
#include "record/shapes.h"
#include "store/line.h"
#include "util/crc32c.h"

/* A few bytes of a compressed file can be lines for hours. */
#define MAX_DAMAGED 1000000
#define BLOCK_BYTES (1u << 20)

struct verifier *verifier_new(void)
{
	return calloc(1, sizeof(struct verifier));
}

int verifier_check_values(struct verifier *verifier)
{
	verifier->shapes = shapes_new();
	return verifier->shapes ? 0 : -ENOMEM;
}

void verifier_free(struct verifier *verifier)
{
	const struct finding *finding;

	if (!verifier)
		return;
	for (size_t i = 0; (finding = verifier_finding(verifier, i)); i++)
		free(finding->why);
	shapes_free(verifier->shapes);
	free(verifier->findings.items);
	free(verifier->explanations.items);
	free(verifier->pending.items);
	free(verifier);
}

void *verifier_add_row(struct rows *rows, size_t size, size_t limit)
{
	size_t room = rows->room ? 2 * rows->room : 64;
	char *more;

	if (rows->count == limit)
		return NULL;
	if (rows->count == rows->room) {
		more = realloc(rows->items, room * size);
		if (!more)
			return NULL;
		rows->items = more;
		rows->room = room;
	}
	return memset(rows->items + size * rows->count++, 0, size);
}

struct finding *verifier_add_finding(struct verifier *v, enum finding_kind kind)
{
	static struct finding none;
	struct finding *finding =
		verifier_add_row(&v->findings, sizeof(struct finding), VERIFY_MAX_FINDINGS);

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
		last < first ? NULL
			     : verifier_add_row(&v->explanations, sizeof(*row), MAX_EXPLANATIONS);

	if (row)
		*row = (struct explanation){what, what == EXPLAINED_RECORDS ? v->run : 0, first,
					    last};
}

void verifier_begin(struct verifier *v, uint64_t segment)
{
	verifier_end_segment(v);
	v->last_segment = v->segment;
	v->segment = segment;
	v->line = v->offset = 0;
	v->counts.segments++;
}

/* ---- seq ---- */

void verifier_add_gap(struct verifier *v, uint64_t first, uint64_t last, bool at_segment)
{
	struct finding *finding;
	uint64_t count = last - first + 1;

	/* Each damaged line was a record. */
	if (count <= v->damaged)
		return;
	v->counts.missing += count - v->damaged;
	finding = verifier_add_finding(v, FINDING_MISSING);
	finding->first = first;
	finding->last = last;
	finding->at_segment = at_segment;
	finding->before = v->last_segment;
}

static void take_seq(struct verifier *v, uint64_t seq)
{
	if (seq > v->next_seq && v->merged) {
		verifier_add_pending(v, v->next_seq, seq - 1);
	} else if (seq > v->next_seq) {
		verifier_add_gap(v, v->next_seq, seq - 1, false);
	} else if (seq < v->next_seq) {
		verifier_add_finding(v, FINDING_DOUBLED)->first = seq;
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
	finding = verifier_add_finding(v, FINDING_NO_FOOTER);
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
		verifier_add_gap(v, v->next_seq, first_seq - 1, true);
	if (first_seq > v->next_seq)
		v->next_seq = first_seq;
	v->damaged = 0;
}

/* What a line says, whether it was looked at or parsed. */
struct line {
	const char *text;
	size_t length;
	struct line_look look;              /* type "": one that this version does not know */
	const struct parsed_record *parsed; /* NULL: it was looked at */
};

static void take_header(struct verifier *v, const struct line *line)
{
	const struct record *record = &line->parsed->record;
	const struct record_header *header = record->header;
	uint32_t crc = verifier_header_crc(line->text, line->length);
	bool same = v->run && !strcmp(header->session, v->session);

	verifier_end_pending(v);
	verifier_check_number(v, header);
	v->merged = header->segment.resolution_ns > 0;
	if (same && header->segment.number && v->line == 1) {
		if (crc != v->header_crc)
			verifier_add_finding(v, FINDING_MISPLACED)->first = 2;
		begin_segment(v, header->segment.first_seq);
		return;
	}
	if (same || (v->run && v->line > 1))
		verifier_add_finding(v, FINDING_MISPLACED)->first = 1;
	verifier_end_run(v);
	memcpy(v->session, header->session, sizeof(v->session));
	v->header_crc = crc;
	v->run++;
	v->counts.runs++;
	v->footer = false;
	v->damaged = 0;
	v->next_seq = record->seq + 1;
	verifier_begin_time(v, record->t_boot_ns);
	if (record->seq && !header->segment.number)
		verifier_add_gap(v, 0, record->seq - 1, false);
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

/* Nothing tells of what is to come: an event whose range goes on behind it explains nothing. */
static void take_event(struct verifier *v, const struct record_event *event, uint64_t seq)
{
	bool removed = !strcmp(event->event, "segments_removed");
	uint64_t first, last;

	if (!strcmp(event->event, "recording_resumed") && number_of(event, "segment", &first))
		explain(v, EXPLAINED_ENDS, first, first);
	if (!removed && strcmp(event->event, "records_dropped") &&
	    strcmp(event->event, "segment_taken"))
		return;
	if (number_of(event, "first_seq", &first) && number_of(event, "last_seq", &last) &&
	    !removed && last < seq)
		explain(v, EXPLAINED_RECORDS, first, last);
	if (number_of(event, "first_segment", &first) && number_of(event, "last_segment", &last) &&
	    last < v->segment)
		explain(v, EXPLAINED_SEGMENTS, first, last);
}

static void add_damaged(struct verifier *v, const char *why)
{
	struct finding *finding = verifier_add_finding(v, FINDING_DAMAGED);

	/* Without memory it stays a damaged line. */
	if (v->counts.not_kept == 0)
		finding->why = strdup(why);
	v->counts.damaged++;
	v->damaged++;
}

static bool is_known(const char *type)
{
	size_t i = 0;

	while (i < RECORD_TYPES && strcmp(type, record_type_names[i]))
		i++;
	return i < RECORD_TYPES;
}

static void take_body(struct verifier *v, const struct line *line)
{
	const struct line_look *look = &line->look;
	bool interval = !strcmp(look->type, "interval");

	if (!v->run || v->line == 1)
		verifier_add_finding(v, FINDING_NO_HEADER);
	if (v->footer)
		verifier_add_finding(v, FINDING_MISPLACED);
	/* A file that begins inside of a run: what came before is not known. */
	if (!v->run) {
		v->run = 1;
		v->counts.runs++;
		v->next_seq = look->seq;
	}
	v->counts.intervals += interval;
	v->counts.unknown += !is_known(look->type);
	v->footer |= !strcmp(look->type, "footer");
	take_seq(v, look->seq);
	verifier_check_time(v, look);
	if (v->merged && interval)
		verifier_take_merged(v, line->text, line->length, look->seq);
	if (!line->parsed || !line->parsed->known)
		return;
	if (line->parsed->record.type == RECORD_EVENT)
		take_event(v, line->parsed->record.event, look->seq);
	else if (line->parsed->record.type == RECORD_INTERVAL)
		verifier_check_interval(v, &line->parsed->record);
	else if (line->parsed->record.type == RECORD_BLOCK)
		verifier_check_length(v, &line->parsed->record,
				      line->parsed->record.block->wall_ns);
}

/* A line whose checksum is right. err and why: of record_parse(), where it was parsed. */
static int take_whole(struct verifier *v, struct line *line, int err, const char *why)
{
	const struct parsed_record *parsed = line->parsed;

	if (parsed && parsed->schema > v->counts.schema)
		v->counts.schema = parsed->schema;
	/* A newer jankscope begins a segment of its own. */
	if (err == -EPROTONOSUPPORT && v->line > 1) {
		err = -EBADMSG;
		why = "a header of another schema";
	} else if (!err && parsed && !parsed->has_seq) {
		err = -EBADMSG;
		why = "no seq";
	}
	if (err == -EBADMSG) {
		add_damaged(v, why);
		return v->damaged > MAX_DAMAGED ? -EMSGSIZE : 0;
	}
	if (err)
		return err;
	if (parsed) {
		line->look = (struct line_look){.seq = parsed->record.seq,
						.t_boot_ns = parsed->record.t_boot_ns};
		if (parsed->known)
			strcpy(line->look.type, record_type_names[parsed->record.type]);
	}
	if (parsed && parsed->known && parsed->record.type == RECORD_HEADER)
		take_header(v, line);
	else
		take_body(v, line);
	return 0;
}

static int take_line(struct verifier *v, const char *text, size_t length)
{
	struct line line = {.text = text, .length = length};
	struct parsed_record *parsed = NULL;
	char why[160];
	int err = 0;

	if (length > LINE_MAX_BYTES || !line_is_whole(text, length))
		return take_whole(v, &line, -EBADMSG,
				  length > LINE_MAX_BYTES ? LINE_TOO_LONG
							  : "the checksum is wrong");
	if (v->shapes || !line_look(text, length, &line.look) ||
	    !strcmp(line.look.type, "header") || !strcmp(line.look.type, "event"))
		err = record_parse_shaped(v->shapes, text, length, &parsed, why, sizeof(why));
	line.parsed = parsed;
	err = take_whole(v, &line, err, why);
	parsed_record_free(parsed);
	return err;
}

static void begin_line(struct verifier *v)
{
	v->line++;
	v->counts.lines++;
}

static void end_line(struct verifier *v, size_t length)
{
	v->offset += length;
	v->counts.bytes += length;
}

int verifier_line(struct verifier *v, const char *line, size_t length, bool torn)
{
	int err = 0;

	begin_line(v);
	if (torn) {
		verifier_add_finding(v, FINDING_TORN)->bytes = length;
		v->counts.torn++;
		v->damaged++;
	} else {
		err = take_line(v, line, length);
	}
	end_line(v, length + !torn);
	return err;
}

int verifier_parsed(struct verifier *v, const char *text, size_t length,
		    const struct parsed_record *parsed, int err, const char *why)
{
	struct line line = {.text = text, .length = length, .parsed = parsed};

	begin_line(v);
	err = take_whole(v, &line, err, why);
	end_line(v, length + 1);
	return err;
}

void verifier_unreadable(struct verifier *v, int error)
{
	v->line++;
	verifier_add_finding(v, FINDING_UNREADABLE)->error = error;
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
		more = room < 2 * (size_t)LINE_MAX_BYTES ? realloc(text, 2 * room) : NULL;
		if (!more) {
			err = room < 2 * (size_t)LINE_MAX_BYTES ? -ENOMEM : -EMSGSIZE;
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

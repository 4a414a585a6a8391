/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/pprof.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "pprof.pb-c.h"
#include "sink/stack_table.h"

#define TABLE_BYTES (64u << 20)
#define GZIP        (MAX_WBITS + 16) /* deflateInit2: a gzip header, and the largest window */

static const char *const class_words[] = {"short", "long", "anr"};

struct pprof {
	struct sink base;
	FILE *to;
	struct stack_table *table;
	uint64_t unix_ns;           /* of the first header; 0: not known */
	uint64_t first_ns, last_ns; /* t_boot_ns of the records */
	/* of finish() */
	z_stream stream;
	int err;
	uint8_t *packed;
	size_t packed_room;
	uint64_t *mapping_of; /* by frame; 0: no file */
	struct file {
		uint32_t file, build_id;
		uint64_t limit;
	} * files;
	size_t file_count;
};

static int pprof_write(struct sink *sink, const struct record *record)
{
	struct pprof *pprof = (struct pprof *)sink;
	int err;

	if (record->type == RECORD_HEADER && !pprof->unix_ns) {
		pprof->unix_ns = record->header->clock.unix_ns;
		pprof->first_ns = record->t_boot_ns;
	}
	if (record->t_boot_ns > pprof->last_ns)
		pprof->last_ns = record->t_boot_ns;
	if (record->type == RECORD_BLOCK)
		err = stack_table_add(pprof->table, record->block);
	else if (record->type == RECORD_JANK)
		err = stack_table_add_frame(pprof->table, record->jank);
	else
		return 0;
	sink->dropped += err == -ENOSPC;
	return err == -ENOSPC ? 0 : err;
}

/* ---- bytes ---- */

static void compress_bytes(struct pprof *pprof, uint8_t *bytes, size_t size, int flush)
{
	unsigned char out[16384];

	pprof->stream.next_in = bytes;
	pprof->stream.avail_in = (unsigned)size;
	do {
		size_t length;

		pprof->stream.next_out = out;
		pprof->stream.avail_out = sizeof(out);
		deflate(&pprof->stream, flush);
		length = sizeof(out) - pprof->stream.avail_out;
		errno = 0;
		if (!pprof->err && fwrite(out, 1, length, pprof->to) != length)
			pprof->err = errno ? -errno : -EIO;
	} while (!pprof->stream.avail_out);
}

/* Messages that stand behind each other are one message with the fields of all (Protocol Buffers,
 * "Last One Wins"): so a profile is written field by field, and is never whole in memory. */
static void put(struct pprof *pprof, const Pprof__Profile *part)
{
	size_t size = pprof__profile__get_packed_size(part);
	uint8_t *more;

	if (pprof->err)
		return;
	if (size > pprof->packed_room) {
		more = realloc(pprof->packed, size);
		if (!more) {
			pprof->err = -ENOMEM;
			return;
		}
		pprof->packed = more;
		pprof->packed_room = size;
	}
	pprof__profile__pack(part, pprof->packed);
	compress_bytes(pprof, pprof->packed, size, Z_NO_FLUSH);
}

/* The table's index of a text that every profile has: the table has had it from the beginning. */
static int64_t text(struct pprof *pprof, const char *words)
{
	uint32_t index = 0;
	int err = stack_table_text(pprof->table, words, &index);

	if (err && !pprof->err)
		pprof->err = err;
	return index;
}

/* ---- parts of a profile ---- */

static void put_value_type(struct pprof *pprof, const char *type, const char *unit)
{
	Pprof__Profile part = PPROF__PROFILE__INIT;
	Pprof__ValueType value = PPROF__VALUE_TYPE__INIT, *values[] = {&value};

	value.type = text(pprof, type);
	value.unit = text(pprof, unit);
	part.n_sample_type = 1;
	part.sample_type = values;
	put(pprof, &part);
}

static void put_head(struct pprof *pprof)
{
	Pprof__Profile part = PPROF__PROFILE__INIT;

	put_value_type(pprof, "samples", "count");
	put_value_type(pprof, "block", "nanoseconds");
	put_value_type(pprof, "cpu", "nanoseconds");
	part.default_sample_type = text(pprof, "block");
	part.time_nanos = (int64_t)pprof->unix_ns;
	if (pprof->last_ns > pprof->first_ns)
		part.duration_nanos = (int64_t)(pprof->last_ns - pprof->first_ns);
	put(pprof, &part);
}

static int sort_files(const void *a, const void *b)
{
	const struct file *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return x->build_id < y->build_id ? -1 : x->build_id > y->build_id;
}

/* Two builds of one file are two mappings. */
static int find_files(struct pprof *pprof)
{
	const struct stack_table *table = pprof->table;
	struct file *files = calloc(table->frame_count + 1, sizeof(*files));
	size_t count = 0;

	pprof->files = files;
	pprof->mapping_of = calloc(table->frame_count + 1, sizeof(*pprof->mapping_of));
	if (!files || !pprof->mapping_of)
		return -ENOMEM;
	for (size_t i = 0; i < table->frame_count; i++)
		if (table->frames[i].file)
			files[count++] =
				(struct file){table->frames[i].file, table->frames[i].build_id, 0};
	qsort(files, count, sizeof(*files), sort_files);
	for (size_t i = 0; i < count; i++)
		if (!i || sort_files(&files[i], &files[pprof->file_count - 1]))
			files[pprof->file_count++] = files[i];
	for (size_t i = 0; i < table->frame_count; i++) {
		const struct file key = {table->frames[i].file, table->frames[i].build_id, 0};
		struct file *file =
			bsearch(&key, files, pprof->file_count, sizeof(*files), sort_files);

		if (!file)
			continue;
		pprof->mapping_of[i] = (uint64_t)(file - files) + 1;
		if (table->frames[i].offset >= file->limit)
			file->limit = table->frames[i].offset + 1;
	}
	return 0;
}

static void put_mappings(struct pprof *pprof)
{
	for (size_t i = 0; i < pprof->file_count && !pprof->err; i++) {
		Pprof__Profile part = PPROF__PROFILE__INIT;
		Pprof__Mapping mapping = PPROF__MAPPING__INIT, *mappings[] = {&mapping};

		mapping.id = i + 1;
		mapping.memory_limit = pprof->files[i].limit;
		mapping.filename = pprof->files[i].file;
		mapping.build_id = pprof->files[i].build_id;
		mapping.has_functions = 1; /* no reader need look for names in the file */
		part.n_mapping = 1;
		part.mapping = mappings;
		put(pprof, &part);
	}
}

/* A function and a location of the same number a frame: with names in it, a profile needs no file
 * to be shown. */
static void put_location(struct pprof *pprof, uint64_t id, int64_t name, int64_t file, int64_t line,
			 uint64_t mapping_id, uint64_t address)
{
	Pprof__Profile part = PPROF__PROFILE__INIT;
	Pprof__Function function = PPROF__FUNCTION__INIT, *functions[] = {&function};
	Pprof__Location location = PPROF__LOCATION__INIT, *locations[] = {&location};
	Pprof__Line of_line = PPROF__LINE__INIT, *lines[] = {&of_line};

	function.id = of_line.function_id = location.id = id;
	function.name = function.system_name = name;
	function.filename = file;
	of_line.line = line;
	location.mapping_id = mapping_id;
	location.address = address;
	location.n_line = 1;
	location.line = lines;
	part.n_function = part.n_location = 1;
	part.function = functions;
	part.location = locations;
	put(pprof, &part);
}

static void put_locations(struct pprof *pprof)
{
	const struct stack_table *table = pprof->table;

	for (size_t i = 0; i < table->frame_count && !pprof->err; i++) {
		const struct table_frame *frame = &table->frames[i];

		put_location(pprof, i + 1, frame->name, frame->file, frame->line,
			     pprof->mapping_of[i], frame->offset);
	}
	put_location(pprof, table->frame_count + 1, text(pprof, "[not sampled]"), 0, 0, 0, 0);
}

static void put_sample(struct pprof *pprof, const struct table_stack *stack, uint64_t *ids)
{
	Pprof__Profile part = PPROF__PROFILE__INIT;
	Pprof__Sample sample = PPROF__SAMPLE__INIT, *samples[] = {&sample};
	Pprof__Label process = PPROF__LABEL__INIT, class = PPROF__LABEL__INIT;
	Pprof__Label *labels[] = {&process, &class};
	int64_t weight_ns = (int64_t)stack->weight_ns;
	int64_t values[] = {stack->frame_count ? (int64_t)stack->count : 0,
			    stack->of_frame ? 0 : weight_ns, stack->of_frame ? weight_ns : 0};

	for (size_t i = 0; i < stack->frame_count; i++)
		ids[i] = stack->frames[i] + 1;
	if (!stack->frame_count)
		ids[0] = pprof->table->frame_count + 1;
	process.key = text(pprof, "process");
	process.str = stack->process;
	class.key = text(pprof, "class");
	class.str = text(pprof, stack->of_frame ? "late frame" : class_words[stack->class]);
	sample.n_location_id = stack->frame_count ? stack->frame_count : 1;
	sample.location_id = ids;
	sample.n_value = 3;
	sample.value = values;
	sample.n_label = 2;
	sample.label = labels;
	part.n_sample = 1;
	part.sample = samples;
	put(pprof, &part);
}

static void put_samples(struct pprof *pprof)
{
	const struct stack_table *table = pprof->table;
	size_t room = 1;
	uint64_t *ids;

	for (size_t i = 0; i < table->stack_count; i++)
		if (table->stacks[i]->frame_count > room)
			room = table->stacks[i]->frame_count;
	ids = calloc(room, sizeof(*ids));
	if (!ids) {
		pprof->err = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < table->stack_count && !pprof->err; i++)
		put_sample(pprof, table->stacks[i], ids);
	free(ids);
}

/* Last, because the parts before it name the texts that all profiles have. */
static void put_texts(struct pprof *pprof)
{
	for (size_t i = 0; i < pprof->table->text_count && !pprof->err; i++) {
		Pprof__Profile part = PPROF__PROFILE__INIT;
		char *texts[] = {(char *)(uintptr_t)pprof->table->texts[i]};

		part.n_string_table = 1;
		part.string_table = texts;
		put(pprof, &part);
	}
}

static int pprof_finish(struct sink *sink, uint64_t deadline_mono_ns)
{
	struct pprof *pprof = (struct pprof *)sink;

	if (deflateInit2(&pprof->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	pprof->err = find_files(pprof);
	if (!pprof->err) {
		put_head(pprof);
		put_mappings(pprof);
		put_locations(pprof);
		put_samples(pprof);
		put_texts(pprof);
		compress_bytes(pprof, NULL, 0, Z_FINISH);
	}
	deflateEnd(&pprof->stream);
	return pprof->err;
}

static void pprof_close(struct sink *sink)
{
	struct pprof *pprof = (struct pprof *)sink;

	stack_table_free(pprof->table);
	free(pprof->packed);
	free(pprof->mapping_of);
	free(pprof->files);
	free(pprof);
}

struct sink *pprof_sink_new(FILE *to)
{
	static const struct sink_ops ops = {.name = "pprof",
					    .write = pprof_write,
					    .finish = pprof_finish,
					    .close = pprof_close};
	static const char *const texts[] = {"samples", "count",   "block",      "nanoseconds",
					    "cpu",     "process", "class",      "short",
					    "long",    "anr",     "late frame", "[not sampled]"};
	struct pprof *pprof = calloc(1, sizeof(*pprof));

	if (!pprof)
		return NULL;
	pprof->base.ops = &ops;
	pprof->to = to;
	pprof->table = stack_table_new(TABLE_BYTES);
	/* While there is room for them for sure. */
	for (size_t i = 0; pprof->table && i < sizeof(texts) / sizeof(*texts); i++)
		text(pprof, texts[i]);
	if (pprof->table && !pprof->err)
		return &pprof->base;
	pprof_close(&pprof->base);
	errno = ENOMEM;
	return NULL;
}

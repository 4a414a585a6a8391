/* SPDX-License-Identifier: BSD-2-Clause */
/* From the tables of classes to the code of methods. The class definitions of a DEX file are not
 * counted here; a table ends where the first class begins, or another table does
 * (art/dex2oat/linker/oat_writer.cc: the tables of all DEX files, then the classes in the same
 * order). So an index needs no DEX file, and code whose DEX file is not there can be stepped
 * through all the same. */
#include <stdlib.h>

#include "stack/code/byte_window.h"
#include "stack/code/oat_file.h"

#define MAX_CLASSES 65536u /* of a DEX file */

enum { ALL_COMPILED = 0, SOME_COMPILED = 1, NONE_COMPILED = 2 };

struct builder {
	const struct oat_file *oat;
	struct byte_source source;
	struct byte_window table, classes;
	struct oat_method *methods;
	size_t count, room;
	uint32_t *class_counts;
};

static int window_u32(struct byte_window *window, uint32_t *value)
{
	uint8_t bytes[4];
	int err = 0;

	for (unsigned i = 0; i < 4 && !err; i++)
		err = byte_window_byte(window, &bytes[i]);
	*value = err ? 0 : load_le32(bytes);
	return err;
}

/* Code lies in a segment that is executable. */
static bool is_code(const struct builder *builder, uint32_t offset)
{
	uint64_t address = builder->oat->begin + offset;

	for (unsigned i = 0; i < builder->oat->elf->load_count; i++) {
		const struct elf_load *load = &builder->oat->elf->loads[i];

		if (load->exec && address >= load->address &&
		    address - load->address < load->file_bytes)
			return true;
	}
	return false;
}

static int add(struct builder *builder, uint32_t code, uint32_t dex, uint32_t class,
	       uint32_t number)
{
	struct oat_method *grown;
	size_t room;

	if (builder->count == builder->room) {
		if (builder->room == OAT_MAX_METHODS)
			return -EFBIG;
		room = builder->room ? builder->room * 2 : 1024;
		grown = realloc(builder->methods, room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		builder->methods = grown;
		builder->room = room;
	}
	builder->methods[builder->count++] = (struct oat_method){
		.code = code, .class = (uint16_t) class, .number = (uint16_t)number, .dex = dex};
	return 0;
}

/* The methods of a class. end: where the next class begins; 0: it is the last one. */
static int take_class(struct builder *builder, uint32_t dex, uint32_t class, uint32_t at,
		      uint32_t end)
{
	struct byte_window *window = &builder->classes;
	uint32_t head, type, methods = 0, code;
	uint64_t bits = 0;
	int err;

	window->at = at;
	err = window_u32(window, &head);
	type = head >> 16;
	if (err || type == NONE_COMPILED)
		return err;
	if (type > NONE_COMPILED)
		return -EBADMSG;
	if (builder->oat->counted_classes || type == SOME_COMPILED)
		err = window_u32(window, &methods);
	if (!err && !builder->oat->counted_classes)
		/* what was read is the length of the bits that follow */
		methods = type == SOME_COMPILED ? methods * 8
			  : end > window->at    ? (uint32_t)(end - window->at) / 4
						: MAX_CLASSES;
	if (err || methods > MAX_CLASSES)
		return err ?: -EBADMSG;
	if (type == SOME_COMPILED)
		bits = window->at;
	if (bits)
		window->at += 4ull * ((methods + 31) / 32);
	builder->table.at = bits;
	for (uint32_t i = 0, word = 0; i < methods; i++) {
		if (bits && i % 32 == 0) {
			err = window_u32(&builder->table, &word);
			if (err)
				return err;
		}
		if (bits && !(word >> i % 32 & 1))
			continue;
		err = window_u32(window, &code);
		if (err)
			return err;
		if (is_code(builder, code))
			err = add(builder, code, dex, class, i);
		else if (!builder->oat->counted_classes && !bits && !end)
			return 0; /* something else follows the last class */
		if (err)
			return err;
	}
	return 0;
}

/* The class offsets of a DEX file: *count of them, malloc'ed. */
static int read_offsets(struct builder *builder, uint32_t dex, uint32_t **offsets, uint32_t *count)
{
	uint32_t at = builder->oat->dex[dex].classes_at, end = UINT32_MAX, room = 0, value;
	int err = 0;

	*offsets = NULL;
	*count = 0;
	if (!at)
		return 0;
	for (uint32_t i = 0; i < builder->oat->dex_count; i++) {
		uint32_t other = builder->oat->dex[i].classes_at;

		if (other > at && other < end)
			end = other;
	}
	builder->table.at = at;
	while (end - at >= 4 && !err) {
		err = window_u32(&builder->table, &value);
		if (err)
			return err;
		if (value <= at)
			return -EBADMSG;
		if (value < end)
			end = value;
		if (*count == MAX_CLASSES)
			return -EBADMSG;
		if (*count == room) {
			uint32_t *grown;

			room = room ? room * 2 : 256;
			grown = realloc(*offsets, room * sizeof(**offsets));
			if (!grown)
				return -ENOMEM;
			*offsets = grown;
		}
		(*offsets)[(*count)++] = value;
		at += 4;
	}
	return err;
}

static int take_dex(struct builder *builder, uint32_t dex)
{
	uint32_t *offsets, count;
	int err = read_offsets(builder, dex, &offsets, &count);

	builder->class_counts[dex] = count;
	for (uint32_t i = 0; i < count && !err; i++)
		err = take_class(builder, dex, i, offsets[i], i + 1 < count ? offsets[i + 1] : 0);
	free(offsets);
	return err;
}

/* By bytes, the lowest first, which leaves methods of the same code in their order. */
static int sort(struct oat_method *methods, size_t count)
{
	struct oat_method *from = methods, *to, *other, *swap;

	if (!count)
		return 0;
	to = other = malloc(count * sizeof(*methods));
	if (!other)
		return -ENOMEM;
	for (unsigned shift = 0; shift < 32; shift += 8) {
		size_t begins[256] = {0}, sum = 0;

		for (size_t i = 0; i < count; i++)
			begins[from[i].code >> shift & 255]++;
		for (unsigned i = 0; i < 256; i++) {
			size_t n = begins[i];

			begins[i] = sum;
			sum += n;
		}
		for (size_t i = 0; i < count; i++)
			to[begins[from[i].code >> shift & 255]++] = from[i];
		swap = from;
		from = to;
		to = swap;
	}
	free(other);
	return 0;
}

int oat_index_build(struct oat_index *index, const struct oat_file *oat)
{
	struct builder *builder = calloc(1, sizeof(*builder));
	struct oat_method *fitting;
	int err = 0;

	*index = (struct oat_index){0};
	if (!builder)
		return -ENOMEM;
	builder->oat = oat;
	builder->class_counts = index->classes;
	builder->source = oat_file_source(oat);
	byte_window_open(&builder->table, &builder->source, UINT64_MAX);
	byte_window_open(&builder->classes, &builder->source, UINT64_MAX);
	for (uint32_t i = 0; i < oat->dex_count && !err; i++)
		err = take_dex(builder, i);
	if (!err)
		err = sort(builder->methods, builder->count);
	if (!err && builder->count) {
		fitting = realloc(builder->methods, builder->count * sizeof(*fitting));
		index->methods = fitting ?: builder->methods;
		index->count = builder->count;
	} else {
		free(builder->methods);
	}
	free(builder);
	return err;
}

void oat_index_free(struct oat_index *index)
{
	free(index->methods);
	*index = (struct oat_index){0};
}

const struct oat_method *oat_index_find(const struct oat_index *index, uint64_t offset,
					size_t *count)
{
	size_t low = 0, high = index->count, first;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (index->methods[middle].code <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return NULL;
	for (first = low - 1;
	     first && index->methods[first - 1].code == index->methods[low - 1].code;)
		first--;
	*count = low - first;
	return &index->methods[first];
}

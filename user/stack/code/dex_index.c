/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "stack/code/dex_file.h"
#include "stack/code/byte_window.h"

#define CLASS_BYTES 32
#define CLASS_DATA  24 /* of class_data_off in a class_def_item */
#define CLASS_BATCH 64

/* What building an index goes through. A file may let all its classes name the same data: what is
 * gone through in all is bounded by the number of fields and methods that the header tells. */
struct builder {
	const struct dex_file *dex;
	struct byte_window window;
	struct dex_item *code;
	size_t count;
	uint32_t fields, methods; /* gone through so far */
};

/* encoded_field, which says nothing of code: two numbers each. */
static int skip_fields(struct builder *builder, uint32_t count)
{
	uint32_t ignored;
	int err = 0;

	if (count > builder->dex->field_count - builder->fields)
		return -EBADMSG;
	builder->fields += count;
	for (uint64_t i = 0; i < 2ull * count && !err; i++)
		err = byte_window_uleb(&builder->window, &ignored);
	return err;
}

/* encoded_method: the number as difference to the one before, flags, the code item or 0. */
static int take_methods(struct builder *builder, uint32_t count)
{
	uint32_t number = 0, difference, flags, code;

	if (count > builder->dex->methods.count - builder->methods)
		return -EBADMSG;
	builder->methods += count;
	for (uint32_t i = 0; i < count; i++) {
		int err = byte_window_uleb(&builder->window, &difference);

		if (!err)
			err = byte_window_uleb(&builder->window, &flags);
		if (!err)
			err = byte_window_uleb(&builder->window, &code);
		if (err)
			return err;
		if (difference >= builder->dex->methods.count - number)
			return -EBADMSG;
		number += difference;
		if (code)
			builder->code[builder->count++] = (struct dex_item){code, number};
	}
	return 0;
}

static int take_class(struct builder *builder, uint32_t data)
{
	uint32_t counts[4];
	int err = 0;

	if (data >= builder->dex->end - builder->dex->data)
		return -EBADMSG;
	builder->window.at = builder->dex->data + data;
	for (unsigned i = 0; i < 4 && !err; i++)
		err = byte_window_uleb(&builder->window, &counts[i]);
	if (!err)
		err = skip_fields(builder, counts[0]);
	if (!err)
		err = skip_fields(builder, counts[1]);
	if (!err)
		err = take_methods(builder, counts[2]);
	if (!err)
		err = take_methods(builder, counts[3]);
	return err;
}

static int take_classes(struct builder *builder)
{
	const struct dex_table *classes = &builder->dex->classes;
	uint8_t batch[CLASS_BATCH * CLASS_BYTES];
	int err = 0;

	for (uint32_t i = 0; i < classes->count && !err; i++) {
		uint32_t in_batch = i % CLASS_BATCH, left = classes->count - i, data;

		if (!in_batch)
			err = byte_source_read(&builder->dex->source,
					       classes->at + (uint64_t)i * CLASS_BYTES, batch,
					       (left < CLASS_BATCH ? left : CLASS_BATCH) *
						       (size_t)CLASS_BYTES);
		data = err ? 0 : load_le32(batch + in_batch * CLASS_BYTES + CLASS_DATA);
		if (data)
			err = take_class(builder, data);
	}
	return err;
}

/* By bytes, the lowest first: the numbers are spread, and there are up to 65,536. */
static int sort(struct dex_item *code, size_t count)
{
	struct dex_item *from = code, *to, *other, *swap;

	if (!count)
		return 0;
	to = other = malloc(count * sizeof(*code));
	if (!other)
		return -ENOMEM;
	for (unsigned shift = 0; shift < 32; shift += 8) {
		size_t begins[256] = {0}, sum = 0;

		for (size_t i = 0; i < count; i++)
			begins[from[i].at >> shift & 255]++;
		for (unsigned i = 0; i < 256; i++) {
			size_t n = begins[i];

			begins[i] = sum;
			sum += n;
		}
		for (size_t i = 0; i < count; i++)
			to[begins[from[i].at >> shift & 255]++] = from[i];
		swap = from;
		from = to;
		to = swap;
	}
	free(other);
	return 0;
}

/* d8 writes equal code once, for several methods. */
static size_t merge_shared(struct dex_item *code, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		struct dex_item *last = kept ? &code[kept - 1] : NULL;
		uint32_t method;

		if (!last || last->at != code[i].at) {
			code[kept++] = code[i];
			continue;
		}
		method = last->method & ~DEX_SHARED;
		if (code[i].method != method)
			last->method =
				(code[i].method < method ? code[i].method : method) | DEX_SHARED;
	}
	return kept;
}

int dex_index_build(struct dex_index *index, const struct dex_file *dex)
{
	struct builder *builder;
	struct dex_item *fitting;
	int err;

	*index = (struct dex_index){0};
	if (!dex->methods.count || !dex->classes.count)
		return 0;
	builder = malloc(sizeof(*builder));
	if (!builder)
		return -ENOMEM;
	builder->dex = dex;
	builder->count = builder->fields = builder->methods = 0;
	builder->code = malloc(dex->methods.count * sizeof(*builder->code));
	err = builder->code ? 0 : -ENOMEM;
	byte_window_open(&builder->window, &dex->source, dex->end);
	if (!err)
		err = take_classes(builder);
	if (!err)
		err = sort(builder->code, builder->count);
	if (!err) {
		index->count = merge_shared(builder->code, builder->count);
		fitting = realloc(builder->code, (index->count ?: 1) * sizeof(*fitting));
		index->code = fitting ?: builder->code;
	} else {
		free(builder->code);
	}
	free(builder);
	return err;
}

void dex_index_free(struct dex_index *index)
{
	free(index->code);
	*index = (struct dex_index){0};
}

/* The offset of debug info of a method of compact dex, or 0. art/libdexfile/dex/
 * compact_offset_table.h: for 16 methods there is one block, found by a table of offsets, with a
 * bit for each that has an offset (high byte first), and the differences between these. */
static int compact_debug_info(const struct dex_file *dex, uint32_t method, uint32_t *offset)
{
	uint64_t data = dex->data + dex->debug_offsets, mask, value = dex->debug_base;
	struct byte_window window;
	uint8_t bytes[4], high, low;
	uint32_t difference;
	int err;

	*offset = 0;
	err = byte_source_read(&dex->source, data + dex->debug_table + 4ull * (method / 16), bytes,
			       4);
	if (err)
		return err;
	byte_window_open(&window, &dex->source, dex->end);
	window.at = data + load_le32(bytes);
	err = byte_window_byte(&window, &high);
	if (!err)
		err = byte_window_byte(&window, &low);
	if (err)
		return err;
	mask = (uint64_t)high << 8 | low;
	if (!(mask >> method % 16 & 1))
		return 0;
	for (unsigned i = 0; i <= method % 16 && !err; i++) {
		if (!(mask >> i & 1))
			continue;
		err = byte_window_uleb(&window, &difference);
		value += difference;
	}
	if (!err)
		*offset = (uint32_t)value;
	return err;
}

/* code_item: four u16, debug_info_off, insns_size, instructions. */
static int read_standard(const struct dex_file *dex, uint64_t at, struct dex_place *place,
			 uint32_t *debug_info)
{
	uint8_t item[16];
	int err = byte_source_read(&dex->source, at, item, sizeof(item));

	if (err)
		return err;
	*debug_info = load_le32(item + 8);
	place->instructions = load_le32(item + 12);
	place->code = at + sizeof(item);
	return 0;
}

/* Compact: u16 fields, u16 with the length of the code above five flags; flag 4 says that the rest
 * of the length stands before the item, in two u16, the low one last. */
static int read_compact(const struct dex_file *dex, uint64_t at, struct dex_place *place,
			uint32_t *debug_info)
{
	uint8_t item[4], before[4];
	uint16_t count_and_flags;
	int err = byte_source_read(&dex->source, at, item, sizeof(item));

	if (err)
		return err;
	count_and_flags = load_le16(item + 2);
	place->instructions = count_and_flags >> 5;
	place->code = at + sizeof(item);
	if (count_and_flags & 16) {
		if (at < sizeof(before))
			return -EBADMSG;
		err = byte_source_read(&dex->source, at - sizeof(before), before, sizeof(before));
		if (err)
			return err;
		place->instructions += load_le16(before + 2) + ((uint32_t)load_le16(before) << 16);
	}
	return compact_debug_info(dex, place->method, debug_info);
}

int dex_index_place(const struct dex_index *index, const struct dex_file *dex, size_t i,
		    struct dex_place *place)
{
	uint32_t debug_info = 0;
	uint64_t at = dex->data + index->code[i].at;
	int err;

	*place = (struct dex_place){.method = index->code[i].method & ~DEX_SHARED,
				    .shared = index->code[i].method & DEX_SHARED};
	err = dex->compact ? read_compact(dex, at, place, &debug_info)
			   : read_standard(dex, at, place, &debug_info);
	if (err)
		return err;
	if (place->code > dex->end || place->instructions > (dex->end - place->code) / 2)
		return -EBADMSG;
	place->debug_info = debug_info ? dex->data + debug_info : 0;
	return 0;
}

int dex_index_find(const struct dex_index *index, const struct dex_file *dex, uint64_t offset,
		   struct dex_place *place)
{
	size_t low = 0, high = index->count;
	int err;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (dex->data + index->code[middle].at <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return -ENOENT;
	err = dex_index_place(index, dex, low - 1, place);
	if (err)
		return err;
	if (offset < place->code || (offset - place->code) / 2 >= place->instructions)
		return -ENOENT;
	place->pc = (uint32_t)((offset - place->code) / 2);
	return 0;
}

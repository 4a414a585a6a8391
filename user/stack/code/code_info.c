/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/code_info.h"

#define STACK_ALIGN    16
#define TABLES         8
#define NO_VALUE       UINT32_MAX
#define MAX_ROWS       (1u << 20)
#define MAX_CODE_BYTES (64u << 20)

enum { TABLE_STACK_MAPS = 0, TABLE_INLINED = 3, TABLE_METHODS = 4 };

enum { MAP_KIND = 0, MAP_PC = 1, MAP_DEX_PC = 2, MAP_INLINED = 5 };
enum { KIND_DEFAULT = UINT32_MAX, KIND_CATCH = 0, KIND_OSR = 1 };
enum {
	INLINED_LAST = 0,
	INLINED_DEX_PC = 1,
	INLINED_METHOD = 2,
	INLINED_ART_HIGH = 3,
	INLINED_ART_LOW = 4
};
enum { METHOD_INDEX = 0, METHOD_KIND = 1, METHOD_DEX = 2 };

/* ---- the header of the method ---- */

/* Where CodeInfo begins, and what of it the header has. */
static int read_method_header(struct code_info *info, enum code_info_format format,
			      const struct byte_source *source, uint64_t code, uint64_t *at)
{
	uint8_t header[24];
	uint32_t size = format == CODE_INFO_HEADER ? 24 : format < CODE_INFO_SHORT ? 8 : 4, offset;
	int err;

	if (code < size)
		return -EBADMSG;
	err = byte_source_read(source, code - size, header, size);
	if (err)
		return err;
	offset = load_le32(header);
	if (format == CODE_INFO_HEADER) {
		info->frame_bytes = load_le32(header + 8);
		info->core_spills = load_le32(header + 12);
		info->fp_spills = load_le32(header + 16);
	}
	if (format < CODE_INFO_SHORT) {
		info->code_bytes = load_le32(header + size - 4) & 0x7fffffff;
	} else if (format == CODE_INFO_SHORT) {
		if (!(offset & 0x40000000))
			return -ENOENT;
		offset &= 0x3fffffff;
	} else if (format == CODE_INFO_MARKED) {
		if (!(offset & 0x80000000))
			return -ENOENT;
		offset &= 0x7fffffff;
	}
	/* A stub that the compiler made by hand has none. */
	if (!offset && format != CODE_INFO_HEADER)
		return -ENOENT;
	if (offset > code)
		return -EBADMSG;
	*at = code - offset;
	return 0;
}

/* ---- tables ---- */

static void read_table(struct bit_reader *reader, enum code_info_format format,
		       struct bit_table *table, unsigned columns)
{
	uint32_t numbers[9] = {0}, begin = 0;

	if (format == CODE_INFO_PLAIN) {
		numbers[0] = bit_reader_varint(reader);
		for (unsigned i = 1; numbers[0] && i <= columns; i++)
			numbers[i] = bit_reader_varint(reader);
	} else {
		bit_reader_varints(reader, numbers, columns + 1);
	}
	table->rows = numbers[0];
	table->columns = columns;
	for (unsigned i = 0; i < columns; i++) {
		if (numbers[i + 1] > 32 * 32)
			reader->err = reader->err ?: -EBADMSG;
		table->begins[i] = (uint16_t)begin;
		begin += numbers[i + 1];
	}
	table->begins[columns] = (uint16_t)begin;
	table->row_bits = begin;
	table->at = reader->at;
	/* Masks of the stack can be long; what is looked into has numbers of 32 bits. */
	if (table->rows > MAX_ROWS || begin > UINT16_MAX)
		reader->err = reader->err ?: -EBADMSG;
	reader->at += (uint64_t)table->rows * begin;
}

static uint32_t column(struct code_info *info, const struct bit_table *table, uint32_t row,
		       unsigned number)
{
	unsigned bits = table->begins[number + 1] - table->begins[number];

	if (row >= table->rows || bits > 32) {
		info->reader.err = info->reader.err ?: -EBADMSG;
		return NO_VALUE;
	}
	info->reader.at = table->at + (uint64_t)row * table->row_bits + table->begins[number];
	/* 0 stands for "no value", which all rows of a column without bits have. */
	return bit_reader_bits(&info->reader, bits) - 1;
}

static int read_tables(struct code_info *info, const struct code_info_layout *layout,
		       uint32_t flags)
{
	const unsigned columns[TABLES] = {8, 2, 1, 6, layout->method_columns};
	struct bit_table *const kept[TABLES] = {[TABLE_STACK_MAPS] = &info->stack_maps,
						[TABLE_INLINED] = &info->inlined,
						[TABLE_METHODS] = &info->methods};
	struct bit_reader *reader = &info->reader;
	struct bit_table ignored;

	/* Those behind are of registers. */
	for (unsigned i = 0; i <= TABLE_METHODS && !reader->err; i++) {
		struct bit_table *table = kept[i] ?: &ignored;
		uint64_t back, before;
		bool shared;

		if (layout->format == CODE_INFO_PLAIN) {
			shared = bit_reader_bits(reader, 1);
		} else {
			if (!(flags >> i & 1))
				continue;
			shared = flags >> (TABLES + i) & 1;
		}
		if (!shared) {
			read_table(reader, layout->format, table, columns[i]);
			continue;
		}
		before = reader->at;
		back = bit_reader_varint(reader);
		if (!back || back > before)
			return -EBADMSG;
		if (!kept[i])
			continue;
		back = before - back;
		before = reader->at;
		reader->at = back;
		read_table(reader, layout->format, table, columns[i]);
		reader->at = before;
	}
	return reader->err;
}

int code_info_open(struct code_info *info, const struct code_info_layout *layout,
		   const struct byte_source *source, uint64_t code, unsigned instruction_bytes)
{
	uint32_t numbers[7] = {0};
	unsigned at_frame;
	uint64_t at;
	int err;

	info->code_bytes = info->frame_bytes = info->core_spills = info->fp_spills = 0;
	info->stack_maps.rows = info->inlined.rows = info->methods.rows = 0;
	info->pc_shift = instruction_bytes == 4 ? 2 : 0;
	bit_reader_open(&info->reader, source, 0);
	err = read_method_header(info, layout->format, source, code, &at);
	if (err)
		return err;
	if (layout->format != CODE_INFO_HEADER) {
		info->reader.at = at * 8;
		if (layout->format == CODE_INFO_PLAIN)
			for (unsigned i = 0; i < 4; i++)
				numbers[i] = bit_reader_varint(&info->reader);
		else
			bit_reader_varints(&info->reader, numbers,
					   layout->format == CODE_INFO_PACKED ? 6 : 7);
		at_frame = layout->format == CODE_INFO_PLAIN    ? 0
			   : layout->format == CODE_INFO_PACKED ? 1
								: 2;
		if (at_frame == 2)
			info->code_bytes = numbers[1];
		info->frame_bytes = numbers[at_frame];
		info->core_spills = numbers[at_frame + 1];
		info->fp_spills = numbers[at_frame + 2];
		if (info->frame_bytes > UINT32_MAX / STACK_ALIGN)
			return -EBADMSG;
		info->frame_bytes *= STACK_ALIGN;
		err = info->reader.err ?: read_tables(info, layout, numbers[at_frame + 4]);
	}
	if (!err && (!info->code_bytes || info->code_bytes > MAX_CODE_BYTES))
		err = -EBADMSG;
	return err;
}

/* ---- from a return address to byte code ---- */

/* The first row that is not before this place; those of catch blocks stand behind all others. */
static uint32_t first_map(struct code_info *info, uint32_t pc)
{
	uint32_t low = 0, high = info->stack_maps.rows;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (column(info, &info->stack_maps, middle, MAP_KIND) != KIND_CATCH &&
		    column(info, &info->stack_maps, middle, MAP_PC) < pc)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int read_inlined(struct code_info *info, uint32_t row, struct code_place *place)
{
	for (; place->count < CODE_INFO_MAX_INLINED; row++) {
		uint32_t last = column(info, &info->inlined, row, INLINED_LAST);
		uint32_t method, low, high;
		struct code_inlined *to = &place->inlined[place->count++];

		*to = (struct code_inlined){
			.dex_pc = column(info, &info->inlined, row, INLINED_DEX_PC),
			.same_dex = true};
		method = column(info, &info->inlined, row, INLINED_METHOD);
		low = column(info, &info->inlined, row, INLINED_ART_LOW);
		high = column(info, &info->inlined, row, INLINED_ART_HIGH);
		to->unnamed = low != NO_VALUE;
		to->art_method = low | (uint64_t)(high == NO_VALUE ? 0 : high) << 32;
		if (!to->unnamed) {
			to->method = column(info, &info->methods, method, METHOD_INDEX);
			if (info->methods.columns >= 2) {
				/* With two columns the only other DEX files are of the boot class
				 * path. */
				unsigned at = info->methods.columns == 2 ? 1 : METHOD_DEX;

				to->dex = column(info, &info->methods, method, at);
				to->same_dex = to->dex == NO_VALUE;
				to->boot = at == 1 ||
					   !column(info, &info->methods, method, METHOD_KIND);
			}
		}
		if (info->reader.err)
			return info->reader.err;
		if (last)
			return 0;
	}
	return -EBADMSG;
}

int code_info_find(struct code_info *info, uint32_t offset, struct code_place *place)
{
	uint32_t pc = offset >> info->pc_shift, inlined;

	place->count = 0;
	if (offset != pc << info->pc_shift)
		return -ENOENT;
	info->reader.err = 0;
	for (uint32_t row = first_map(info, pc); row < info->stack_maps.rows; row++) {
		uint32_t kind = column(info, &info->stack_maps, row, MAP_KIND);

		if (info->reader.err || kind == KIND_CATCH ||
		    column(info, &info->stack_maps, row, MAP_PC) != pc)
			break;
		if (kind != KIND_DEFAULT && kind != KIND_OSR)
			continue;
		place->dex_pc = column(info, &info->stack_maps, row, MAP_DEX_PC);
		inlined = column(info, &info->stack_maps, row, MAP_INLINED);
		if (!info->reader.err && inlined != NO_VALUE)
			return read_inlined(info, inlined, place);
		return info->reader.err;
	}
	return info->reader.err ?: -ENOENT;
}

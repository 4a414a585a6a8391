/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/byte_window.h"
#include "stack/code/dex_file.h"

#define CLASS_BYTES  32
#define CLASS_DATA   24 /* of class_data_off in a class_def_item */
#define CLASS_BATCH  64
#define METHOD_BYTES 8

/* Pass by so many numbers. */
static int skip(struct byte_window *window, uint64_t numbers)
{
	uint32_t ignored;
	int err = 0;

	while (numbers-- && !err)
		err = byte_window_uleb(window, &ignored);
	return err;
}

/* encoded_method: the number as difference to the one before, flags, the code item or 0. */
static int next_method(struct byte_window *window, struct dex_item *item)
{
	uint32_t difference, flags, code = 0;
	int err = byte_window_uleb(window, &difference);

	if (!err)
		err = byte_window_uleb(window, &flags);
	if (!err)
		err = byte_window_uleb(window, &code);
	if (!err && difference > DEX_MAX_IDS - item->method)
		err = -EBADMSG;
	if (!err)
		*item = (struct dex_item){code, item->method + difference};
	return err;
}

static int method_at(struct byte_window *window, uint32_t number, struct dex_item *item)
{
	int err = 0;

	*item = (struct dex_item){0};
	for (uint32_t i = 0; i <= number && !err; i++)
		err = next_method(window, item);
	return err;
}

/* Where the methods of a class definition stand, and how many: direct ones, then the others. */
static int open_class(const struct dex_file *dex, uint32_t class, struct byte_window *window,
		      uint32_t counts[2])
{
	uint32_t numbers[4] = {0};
	uint8_t bytes[4];
	int err;

	if (class >= dex->classes.count)
		return -ENOENT;
	err = byte_source_read(&dex->source,
			       dex->classes.at + (uint64_t) class * CLASS_BYTES + CLASS_DATA, bytes,
			       sizeof(bytes));
	if (err)
		return err;
	if (!load_le32(bytes))
		return -ENOENT;
	byte_window_open(window, &dex->source, dex->end);
	window->at = dex->data + load_le32(bytes);
	for (unsigned i = 0; i < 4 && !err; i++)
		err = byte_window_uleb(window, &numbers[i]);
	if (!err && ((uint64_t)numbers[0] + numbers[1] > dex->field_count ||
		     (uint64_t)numbers[2] + numbers[3] > dex->methods.count))
		err = -EBADMSG;
	counts[0] = numbers[2];
	counts[1] = numbers[3];
	return err ?: skip(window, 2ull * ((uint64_t)numbers[0] + numbers[1]));
}

static int place_of(const struct dex_file *dex, const struct dex_item *item,
		    struct dex_place *place)
{
	struct dex_item one = *item;
	struct dex_index index = {.code = &one, .count = 1};

	if (item->method >= dex->methods.count)
		return -EBADMSG;
	if (item->at)
		return dex_index_place(&index, dex, 0, place);
	*place = (struct dex_place){.method = item->method};
	return 0;
}

int dex_class_method(const struct dex_file *dex, uint32_t class, uint32_t number,
		     struct dex_place *place)
{
	struct byte_window window;
	struct dex_item item;
	uint32_t counts[2];
	int err = open_class(dex, class, &window, counts);

	if (!err && number >= counts[0] + counts[1])
		err = -ENOENT;
	if (!err && number >= counts[0]) {
		err = skip(&window, 3ull * counts[0]);
		number -= counts[0];
	}
	if (!err)
		err = method_at(&window, number, &item);
	return err ?: place_of(dex, &item, place);
}

/* The definition of the class that the method's number names. */
static int class_of(const struct dex_file *dex, uint32_t method, uint32_t *class)
{
	uint8_t bytes[CLASS_BATCH * CLASS_BYTES];
	uint32_t type;
	int err;

	if (method >= dex->methods.count)
		return -EBADMSG;
	err = byte_source_read(&dex->source, dex->methods.at + (uint64_t)method * METHOD_BYTES,
			       bytes, 2);
	type = load_le16(bytes);
	for (uint32_t i = 0; i < dex->classes.count && !err; i++) {
		uint32_t in_batch = i % CLASS_BATCH, left = dex->classes.count - i;

		if (!in_batch)
			err = byte_source_read(
				&dex->source, dex->classes.at + (uint64_t)i * CLASS_BYTES, bytes,
				(left < CLASS_BATCH ? left : CLASS_BATCH) * (size_t)CLASS_BYTES);
		if (!err && load_le32(bytes + in_batch * CLASS_BYTES) == type) {
			*class = i;
			return 0;
		}
	}
	return err ?: -ENOENT;
}

int dex_method_place(const struct dex_file *dex, uint32_t method, struct dex_place *place)
{
	struct byte_window window;
	uint32_t class, counts[2];
	int err = class_of(dex, method, &class);

	if (!err)
		err = open_class(dex, class, &window, counts);
	for (unsigned kind = 0; kind < 2 && !err; kind++) {
		struct dex_item item = {0};

		for (uint32_t i = 0; i < counts[kind] && !err; i++) {
			err = next_method(&window, &item);
			if (!err && item.method == method)
				return place_of(dex, &item, place);
		}
	}
	return err ?: -ENOENT;
}

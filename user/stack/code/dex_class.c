/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/byte_window.h"
#include "stack/code/dex_file.h"

#define CLASS_BYTES 32
#define CLASS_DATA  24 /* of class_data_off in a class_def_item */

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
static int method_at(struct byte_window *window, uint32_t number, struct dex_item *item)
{
	uint32_t method = 0, difference, flags, code = 0;
	int err = 0;

	for (uint32_t i = 0; i <= number && !err; i++) {
		err = byte_window_uleb(window, &difference);
		if (!err)
			err = byte_window_uleb(window, &flags);
		if (!err)
			err = byte_window_uleb(window, &code);
		if (!err && difference > DEX_MAX_IDS - method)
			err = -EBADMSG;
		method += difference;
	}
	*item = (struct dex_item){code, method};
	return err;
}

int dex_class_method(const struct dex_file *dex, uint32_t class, uint32_t number,
		     struct dex_place *place)
{
	struct byte_window window;
	struct dex_index index = {.count = 1};
	struct dex_item item;
	uint8_t bytes[4];
	uint32_t counts[4] = {0};
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
	byte_window_open(&window, &dex->source, dex->end);
	window.at = dex->data + load_le32(bytes);
	for (unsigned i = 0; i < 4 && !err; i++)
		err = byte_window_uleb(&window, &counts[i]);
	if (!err && ((uint64_t)counts[0] + counts[1] > dex->field_count ||
		     (uint64_t)counts[2] + counts[3] > dex->methods.count))
		err = -EBADMSG;
	if (!err && number >= counts[2] + counts[3])
		err = -ENOENT;
	if (!err)
		err = skip(&window, 2ull * ((uint64_t)counts[0] + counts[1]));
	if (!err && number >= counts[2]) {
		err = skip(&window, 3ull * counts[2]);
		number -= counts[2];
	}
	if (!err)
		err = method_at(&window, number, &item);
	if (err)
		return err;
	if (item.method >= dex->methods.count)
		return -EBADMSG;
	if (!item.at) {
		*place = (struct dex_place){.method = item.method};
		return 0;
	}
	index.code = &item;
	return dex_index_place(&index, dex, 0, place);
}

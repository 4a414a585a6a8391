/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/types_cut.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

/* What follows struct btf_type. SIZE_MAX: a kind that is not known. */
static size_t tail_bytes(const struct btf_type *type)
{
	size_t count = btf_vlen(type);

	switch (btf_kind(type)) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case BTF_KIND_DECL_TAG:
		return sizeof(uint32_t);
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return count * sizeof(struct btf_member);
	case BTF_KIND_ENUM:
		return count * sizeof(struct btf_enum);
	case BTF_KIND_ENUM64:
		return count * sizeof(struct btf_enum64);
	case BTF_KIND_FUNC_PROTO:
		return count * sizeof(struct btf_param);
	case BTF_KIND_DATASEC:
		return count * sizeof(struct btf_var_secinfo);
	case BTF_KIND_PTR:
	case BTF_KIND_FWD:
	case BTF_KIND_TYPEDEF:
	case BTF_KIND_VOLATILE:
	case BTF_KIND_CONST:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_FUNC:
	case BTF_KIND_FLOAT:
	case BTF_KIND_TYPE_TAG:
		return 0;
	}
	return SIZE_MAX;
}

/* The type at an offset; 0: it does not lie within the image. */
static size_t type_bytes_at(const struct types_image *image, size_t at)
{
	const struct btf_type *type = (const void *)(image->types + at);
	size_t left = image->type_bytes - at, tail;

	if (left < sizeof(*type))
		return 0;
	tail = tail_bytes(type);
	return tail > left - sizeof(*type) ? 0 : sizeof(*type) + tail;
}

static int make_index(struct types_image *image)
{
	size_t count = 0, bytes;

	for (size_t at = 0; at < image->type_bytes; at += bytes, count++) {
		bytes = type_bytes_at(image, at);
		if (!bytes)
			return -EINVAL;
	}
	if (count > UINT32_MAX / 2 - image->first_id)
		return -EINVAL;
	image->end_id = image->first_id + (uint32_t)count;
	image->offsets = malloc((count + 1) * sizeof(*image->offsets));
	image->new_ids = calloc(count + 1, sizeof(*image->new_ids));
	if (!image->offsets || !image->new_ids) {
		types_image_close(image);
		return -ENOMEM;
	}
	count = 0;
	for (size_t at = 0; at < image->type_bytes; at += type_bytes_at(image, at))
		image->offsets[count++] = (uint32_t)at;
	return 0;
}

int types_image_open(struct types_image *image, const struct types_image *base, const void *bytes,
		     size_t size)
{
	const struct btf_header *header = bytes;
	size_t body;

	*image = (struct types_image){.base = base, .first_id = base ? base->end_id : 1};
	if (size < sizeof(*header) || header->magic != BTF_MAGIC ||
	    header->hdr_len < sizeof(*header) || header->hdr_len > size || header->hdr_len % 4)
		return -EINVAL;
	body = size - header->hdr_len;
	if (header->type_off % 4 || header->type_off > body ||
	    header->type_len > body - header->type_off || header->str_off > body ||
	    header->str_len > body - header->str_off || !header->str_len)
		return -EINVAL;
	image->types = (const uint8_t *)bytes + header->hdr_len + header->type_off;
	image->type_bytes = header->type_len;
	image->strings = (const char *)bytes + header->hdr_len + header->str_off;
	image->string_bytes = header->str_len;
	if (image->strings[image->string_bytes - 1])
		return -EINVAL;
	return make_index(image);
}

void types_image_close(struct types_image *image)
{
	free(image->offsets);
	free(image->new_ids);
	image->offsets = image->new_ids = NULL;
	image->end_id = image->first_id;
}

static const struct types_image *image_of(const struct types_image *image, uint32_t id)
{
	while (image && id < image->first_id)
		image = image->base;
	return image && id < image->end_id ? image : NULL;
}

const struct btf_type *types_image_type(const struct types_image *image, uint32_t id)
{
	const struct types_image *of = image_of(image, id);

	return of ? (const void *)(of->types + of->offsets[id - of->first_id]) : NULL;
}

const char *types_image_string(const struct types_image *image, uint32_t offset)
{
	size_t before = image->base ? image->base->string_bytes : 0;

	if (offset < before)
		return types_image_string(image->base, offset);
	offset -= before;
	return offset < image->string_bytes ? image->strings + offset : "";
}

/* ---- making ---- */

static bool reserve(struct types_cut *cut, void **place, size_t *room, size_t need, size_t size)
{
	size_t more = *room ? *room : 256;
	void *memory;

	if (cut->failed || need <= *room)
		return !cut->failed;
	while (more < need)
		more += more / 2;
	memory = realloc(*place, more * size);
	if (!memory) {
		cut->failed = true;
		return false;
	}
	*place = memory;
	*room = more;
	return true;
}

static uint32_t put_string(struct types_cut *cut, const char *text)
{
	size_t bytes = strlen(text) + 1, at = cut->string_bytes ? cut->string_bytes : 1;

	if (bytes == 1 || !reserve(cut, (void **)&cut->strings, &cut->string_room, at + bytes, 1))
		return 0;
	cut->strings[0] = 0;
	memcpy(cut->strings + at, text, bytes);
	cut->string_bytes = at + bytes;
	return (uint32_t)at;
}

/* The new id of a type, which is taken if it was not; 0 is void. */
static uint32_t take(struct types_cut *cut, const struct types_image *image, uint32_t id,
		     bool with_pointee)
{
	const struct types_image *of = image_of(image, id);

	if (!of)
		return 0;
	if (of->new_ids[id - of->first_id])
		return of->new_ids[id - of->first_id];
	if (!reserve(cut, (void **)&cut->taken, &cut->taken_room, cut->taken_count + 1,
		     sizeof(*cut->taken)))
		return 0;
	cut->taken[cut->taken_count].image = image;
	cut->taken[cut->taken_count].id = id;
	cut->taken[cut->taken_count].with_pointee = with_pointee;
	of->new_ids[id - of->first_id] = (uint32_t)++cut->taken_count;
	return (uint32_t)cut->taken_count;
}

void types_cut_take(struct types_cut *cut, const struct types_image *image, uint32_t id,
		    bool with_pointee)
{
	take(cut, image, id, with_pointee);
}

/* Names and numbers of what follows a type, in the copy. */
static void translate_tail(struct types_cut *cut, const struct types_image *image, uint32_t kind,
			   size_t count, size_t at)
{
	for (size_t i = 0; i < count && !cut->failed; i++) {
		/* Taking more types does not move cut->types. */
		if (kind == BTF_KIND_STRUCT || kind == BTF_KIND_UNION) {
			struct btf_member *member = (struct btf_member *)(cut->types + at) + i;

			member->name_off =
				put_string(cut, types_image_string(image, member->name_off));
			member->type = take(cut, image, member->type, false);
		} else if (kind == BTF_KIND_ENUM) {
			struct btf_enum *value = (struct btf_enum *)(cut->types + at) + i;

			value->name_off =
				put_string(cut, types_image_string(image, value->name_off));
		} else if (kind == BTF_KIND_ENUM64) {
			struct btf_enum64 *value = (struct btf_enum64 *)(cut->types + at) + i;

			value->name_off =
				put_string(cut, types_image_string(image, value->name_off));
		} else if (kind == BTF_KIND_FUNC_PROTO) {
			struct btf_param *parameter = (struct btf_param *)(cut->types + at) + i;

			*parameter = (struct btf_param){0};
		}
	}
}

static void settle(struct types_cut *cut, size_t number)
{
	const struct types_image *image = cut->taken[number].image;
	const struct btf_type *from = types_image_type(image, cut->taken[number].id);
	bool with_pointee = cut->taken[number].with_pointee;
	uint32_t kind = btf_kind(from), count = btf_vlen(from);
	size_t bytes = sizeof(*from) + tail_bytes(from), at = cut->type_bytes;
	struct btf_type *type;

	if (!reserve(cut, (void **)&cut->types, &cut->type_room, at + bytes, 1))
		return;
	memcpy(cut->types + at, from, bytes);
	cut->type_bytes += bytes;
	type = (void *)(cut->types + at);
	type->name_off = put_string(cut, types_image_string(image, from->name_off));
	switch (kind) {
	case BTF_KIND_PTR:
		type->type = with_pointee ? take(cut, image, from->type, false) : 0;
		break;
	case BTF_KIND_TYPEDEF:
	case BTF_KIND_VOLATILE:
	case BTF_KIND_CONST:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_TYPE_TAG:
		type->type = take(cut, image, from->type, with_pointee);
		break;
	case BTF_KIND_FUNC:
	case BTF_KIND_FUNC_PROTO:
	case BTF_KIND_VAR:
	case BTF_KIND_DECL_TAG:
		type->type = 0;
		break;
	case BTF_KIND_ARRAY: {
		struct btf_array *array = (void *)(type + 1);

		array->type = take(cut, image, array->type, false);
		array->index_type = take(cut, image, array->index_type, false);
		return;
	}
	}
	translate_tail(cut, image, kind, count, at + sizeof(*type));
}

/* The types stand in the order of their new ids; how many were written follows from their bytes. */
void types_cut_settle(struct types_cut *cut)
{
	size_t done = 0;

	for (size_t at = 0; at < cut->type_bytes; done++) {
		const struct btf_type *type = (const void *)(cut->types + at);

		at += sizeof(*type) + tail_bytes(type);
	}
	for (; done < cut->taken_count && !cut->failed; done++)
		settle(cut, done);
}

void *types_cut_bytes(const struct types_cut *cut, size_t *size)
{
	struct btf_header header = {.magic = BTF_MAGIC,
				    .version = BTF_VERSION,
				    .hdr_len = sizeof(header),
				    .type_len = (uint32_t)cut->type_bytes,
				    .str_off = (uint32_t)cut->type_bytes,
				    .str_len = cut->string_bytes ? (uint32_t)cut->string_bytes : 1};
	uint8_t *bytes;

	*size = sizeof(header) + header.type_len + header.str_len;
	bytes = cut->failed ? NULL : calloc(1, *size);
	if (!bytes)
		return NULL;
	memcpy(bytes, &header, sizeof(header));
	if (cut->type_bytes)
		memcpy(bytes + sizeof(header), cut->types, cut->type_bytes);
	if (cut->string_bytes)
		memcpy(bytes + sizeof(header) + cut->type_bytes, cut->strings, cut->string_bytes);
	return bytes;
}

void types_cut_free(struct types_cut *cut)
{
	free(cut->taken);
	free(cut->strings);
	free(cut->types);
	*cut = (struct types_cut){0};
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading BTF and making a smaller one of it: bytes in, bytes out. */
#pragma once
#include <bpf/btf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A BTF in memory; `base` is what it goes on from, where it is that of a kernel module. */
struct types_image {
	const struct types_image *base;
	const uint8_t *types;
	const char *strings;
	size_t type_bytes, string_bytes;
	uint32_t first_id, end_id; /* of its own types */
	uint32_t *offsets;         /* by id - first_id, into types */
	uint32_t *new_ids;         /* the same, in what is made; 0: not taken */
};

/* bytes must stay. 0; -EINVAL: no BTF, or not whole; -ENOMEM. */
int types_image_open(struct types_image *image, const struct types_image *base, const void *bytes,
		     size_t size);
void types_image_close(struct types_image *image);
const struct btf_type *types_image_type(const struct types_image *image, uint32_t id);
/* Never NULL. */
const char *types_image_string(const struct types_image *image, uint32_t offset);

/* A BTF that is being made. */
struct types_cut {
	struct {
		const struct types_image *image;
		uint32_t id;
		bool with_pointee;
	} * taken; /* by new id - 1 */
	size_t taken_count, taken_room;
	char *strings;
	size_t string_bytes, string_room;
	uint8_t *types;
	size_t type_bytes, type_room;
	bool failed; /* out of memory */
};

/* Take a type and what it is made of; what its pointers point to becomes void, unless with_pointee
 * (for the first pointer on the way). */
void types_cut_take(struct types_cut *cut, const struct types_image *image, uint32_t id,
		    bool with_pointee);
/* Write down the types that were taken since the last call, and whatever they need; the image that
 * they are of may be closed then. */
void types_cut_settle(struct types_cut *cut);
/* The whole, to free(); NULL: out of memory. */
void *types_cut_bytes(const struct types_cut *cut, size_t *size);
void types_cut_free(struct types_cut *cut);

/* SPDX-License-Identifier: BSD-2-Clause */
/* One app, one row: frames that FrameTimeline knows are not counted again by buffers or slices. */
#include "frames/flow.h"
#include "frames/layers.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct layer_cover {
	int64_t first_ns;
	UT_hash_handle hh;
	char key[]; /* a pid or a name */
};

const char *layer_bare_name(const char *name)
{
	if (!strncmp(name, "BufferTX - ", 11))
		return name + 11;
	return strncmp(name, "TX - ", 5) ? name : name + 5;
}

static struct layer_cover *find(const struct layer_cover *head, const void *key, size_t size)
{
	struct layer_cover *cover;

	HASH_FIND(hh, head, key, size, cover);
	return cover;
}

static int add(struct layer_cover **head, const void *key, size_t size, int64_t first_ns)
{
	struct layer_cover *cover = find(*head, key, size);

	if (cover) {
		cover->first_ns = first_ns < cover->first_ns ? first_ns : cover->first_ns;
		return 0;
	}
	cover = malloc(sizeof(*cover) + size);
	if (!cover)
		return -ENOMEM;
	cover->first_ns = first_ns;
	memcpy(cover->key, key, size);
	HASH_ADD_KEYPTR(hh, *head, cover->key, size, cover);
	return 0;
}

int layer_covers_add(struct layer_covers *covers, const struct layer *layers, size_t count)
{
	int err = 0;

	for (size_t i = 0; i < count && !err; i++) {
		const struct layer *layer = &layers[i];
		const char *name = layer_bare_name(layer->name);

		if (layer->source != LAYER_TIMELINE || layer->first_row_ns == INT64_MAX)
			continue;
		err = add(&covers->by_pid, &layer->pid, sizeof(layer->pid), layer->first_row_ns);
		if (!err)
			err = add(&covers->by_name, name, strlen(name), layer->first_row_ns);
	}
	return err;
}

int64_t layer_covered_from(const struct layer_covers *covers, const struct layer *layer)
{
	const char *name = layer_bare_name(layer->name);
	const struct layer_cover *cover = NULL;

	if (layer->source == LAYER_CHOREOGRAPHER)
		cover = find(covers->by_pid, &layer->pid, sizeof(layer->pid));
	else if (layer->source == LAYER_BUFFER)
		cover = find(covers->by_name, name, strlen(name));
	/* both are told of the same frame at about the same time */
	return cover ? cover->first_ns - FLOW_COVER_NS : INT64_MAX;
}

static void free_all(struct layer_cover *head)
{
	struct layer_cover *cover, *next;

	HASH_ITER (hh, head, cover, next) {
		HASH_DEL(head, cover);
		free(cover);
	}
}

void layer_covers_free(struct layer_covers *covers)
{
	free_all(covers->by_pid);
	free_all(covers->by_name);
	covers->by_pid = covers->by_name = NULL;
}

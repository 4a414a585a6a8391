/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/dex_cache.h"

#include <stdlib.h>

/* The bytes of the header say which file it is: it has a digest of the others. */
struct dex_key {
	struct dex_owner owner;
	uint64_t start, identity;
};

struct dex_slot {
	struct dex_key key;
	struct dex_index index;
	int err;
	uint64_t used; /* 0: free */
};

struct dex_cache {
	struct dex_slot slots[DEX_CACHE_FILES];
	size_t bytes;
	uint64_t uses, malformed, unread;
};

struct dex_cache *dex_cache_new(void)
{
	return calloc(1, sizeof(struct dex_cache));
}

static void drop(struct dex_cache *cache, struct dex_slot *slot)
{
	cache->bytes -= dex_index_bytes(&slot->index);
	dex_index_free(&slot->index);
	*slot = (struct dex_slot){0};
}

void dex_cache_free(struct dex_cache *cache)
{
	for (size_t i = 0; cache && i < DEX_CACHE_FILES; i++)
		drop(cache, &cache->slots[i]);
	free(cache);
}

size_t dex_cache_bytes(const struct dex_cache *cache)
{
	return cache->bytes;
}

void dex_cache_losses(const struct dex_cache *cache, struct stack_unwind_losses *losses)
{
	losses->dex_malformed += cache->malformed;
	losses->dex_unread += cache->unread;
}

/* Another time there may be memory, or the process may be asked. */
static bool is_for_now(int err)
{
	return err == -ENOMEM || err == -ESRCH || err == -EBUSY || err == -ETIMEDOUT ||
	       err == -EPIPE || err == -EMFILE;
}

void dex_cache_count(struct dex_cache *cache, int err)
{
	if (err == -EBADMSG || err == -ENOTSUP)
		cache->malformed++;
	else if (err && err != -ENOEXEC && !is_for_now(err))
		cache->unread++;
}

static struct dex_slot *oldest(const struct dex_cache *cache, const struct dex_slot *keep,
			       bool with_index)
{
	const struct dex_slot *best = NULL;

	for (size_t i = 0; i < DEX_CACHE_FILES; i++) {
		const struct dex_slot *slot = &cache->slots[i];

		if (slot != keep && (!with_index || slot->index.count) &&
		    (!best || slot->used < best->used))
			best = slot;
	}
	return (struct dex_slot *)best;
}

void dex_cache_begin(struct dex_cache *cache, uint64_t use)
{
	cache->uses = use;
}

uint64_t dex_cache_oldest(const struct dex_cache *cache)
{
	const struct dex_slot *slot = oldest(cache, NULL, true);

	return slot ? slot->used : UINT64_MAX;
}

bool dex_cache_give_back(struct dex_cache *cache)
{
	struct dex_slot *slot = oldest(cache, NULL, true);

	if (slot)
		drop(cache, slot);
	return slot;
}

static struct dex_slot *slot_of(struct dex_cache *cache, const struct dex_file *dex,
				const struct dex_key *key)
{
	struct dex_slot *slot, *other;

	for (size_t i = 0; i < DEX_CACHE_FILES; i++) {
		slot = &cache->slots[i];
		if (slot->used && !memcmp(&slot->key, key, sizeof(*key)))
			return slot;
	}
	slot = oldest(cache, NULL, false);
	drop(cache, slot);
	slot->key = *key;
	slot->used = ++cache->uses;
	slot->err = dex_index_build(&slot->index, dex);
	cache->bytes += dex_index_bytes(&slot->index);
	dex_cache_count(cache, slot->err);
	while (cache->bytes > DEX_CACHE_BYTES && (other = oldest(cache, slot, true)))
		drop(cache, other);
	return slot;
}

int dex_cache_find(struct dex_cache *cache, const struct dex_owner *owner,
		   const struct byte_source *source, uint64_t start, uint64_t offset,
		   struct dex_place *place, char name[DEX_NAME_BYTES], uint32_t *line)
{
	struct dex_key key = {*owner, start, 0};
	struct dex_slot *slot;
	struct dex_file dex;
	int err = dex_file_open(&dex, source, start);

	if (err) {
		dex_cache_count(cache, err);
		return err;
	}
	key.identity = dex.identity;
	slot = slot_of(cache, &dex, &key);
	slot->used = ++cache->uses;
	err = slot->err;
	if (is_for_now(err))
		drop(cache, slot);
	if (!err)
		err = dex_index_find(&slot->index, &dex, offset, place);
	if (!err)
		err = dex_method_name(&dex, place->method, name);
	/* Of code that several methods share, each has lines of its own. */
	if (err || place->shared || dex_line(&dex, place, line))
		*line = 0;
	return err;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/names.h"
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define MAX_ENTRIES   65536 /* of each kind */
#define MAX_NAME      256
#define USER_RANGE    100000 /* uids of one Android user */
#define FIRST_APP_UID 10000

struct entry {
	uint32_t key;
	int64_t uid;
	bool cmdline; /* the name is better than a comm */
	char *name;
	UT_hash_handle hh;
};

struct name_table {
	struct entry *processes, *packages;
};

struct name_table *name_table_new(void)
{
	return calloc(1, sizeof(struct name_table));
}

static void entries_free(struct entry *head)
{
	struct entry *entry, *next;

	HASH_ITER (hh, head, entry, next) {
		HASH_DEL(head, entry);
		free(entry->name);
		free(entry);
	}
}

void name_table_free(struct name_table *names)
{
	if (!names)
		return;
	entries_free(names->processes);
	entries_free(names->packages);
	free(names);
}

static struct entry *find(struct entry *head, uint32_t key)
{
	struct entry *entry;

	HASH_FIND(hh, head, &key, sizeof(key), entry);
	return entry;
}

static struct entry *obtain(struct entry **head, uint32_t key)
{
	struct entry *entry = find(*head, key);

	if (entry || HASH_COUNT(*head) >= MAX_ENTRIES)
		return entry;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	entry->key = key;
	entry->uid = -1;
	HASH_ADD(hh, *head, key, sizeof(entry->key), entry);
	return entry;
}

static int set_name(struct entry *entry, const char *name, size_t size)
{
	char *copy;

	size = strnlen(name, size < MAX_NAME ? size : MAX_NAME);
	if (!size ||
	    (entry->name && strlen(entry->name) == size && !memcmp(entry->name, name, size)))
		return 0;
	copy = strndup(name, size);
	if (!copy)
		return -ENOMEM;
	free(entry->name);
	entry->name = copy;
	return 0;
}

int name_table_process(struct name_table *names, int32_t pid, int64_t uid, const char *name,
		       size_t size)
{
	struct entry *entry = obtain(&names->processes, (uint32_t)pid);

	if (!entry)
		return 0;
	if (uid >= 0)
		entry->uid = uid;
	if (!size)
		return 0;
	entry->cmdline = true;
	return set_name(entry, name, size);
}

int name_table_thread(struct name_table *names, int32_t tid, int32_t tgid, const char *name,
		      size_t size)
{
	struct entry *entry = tid == tgid ? obtain(&names->processes, (uint32_t)tid) : NULL;

	return entry && !entry->cmdline ? set_name(entry, name, size) : 0;
}

int name_table_package(struct name_table *names, uint32_t uid, const char *name, size_t size)
{
	struct entry *entry = obtain(&names->packages, uid % USER_RANGE);

	if (!entry)
		return 0;
	/* of a shared uid the name that sorts first, as everywhere in this tool */
	if (entry->name && strncmp(entry->name, name, size) <= 0)
		return 0;
	return set_name(entry, name, size);
}

const char *name_table_process_name(const struct name_table *names, int32_t pid)
{
	struct entry *entry = find(names->processes, (uint32_t)pid);

	return entry ? entry->name : NULL;
}

/* "TX - com.example/com.example.Main#12": the package before the slash, if it looks like one. */
static const char *package_of_layer(const char *layer, char *buffer, size_t size)
{
	const char *slash = strchr(layer, '/');
	bool dot = false;

	if (!strncmp(layer, "BufferTX - ", 11))
		layer += 11;
	if (!strncmp(layer, "TX - ", 5))
		layer += 5;
	if (!strncmp(layer, "SurfaceView[", 12))
		layer += 12;
	if (!slash || slash <= layer || (size_t)(slash - layer) >= size)
		return NULL;
	for (const char *c = layer; c < slash; c++) {
		if (!isalnum((unsigned char)*c) && *c != '.' && *c != '_')
			return NULL;
		dot |= *c == '.';
	}
	if (!dot)
		return NULL;
	memcpy(buffer, layer, (size_t)(slash - layer));
	buffer[slash - layer] = 0;
	return buffer;
}

const char *name_table_package_of(const struct name_table *names, int32_t pid, const char *layer,
				  char *buffer, size_t size)
{
	struct entry *entry = find(names->processes, (uint32_t)pid), *package;

	if (entry && entry->name && entry->cmdline) {
		snprintf(buffer, size, "%s", entry->name);
		buffer[strcspn(buffer, ":")] = 0;
		return buffer;
	}
	if (entry && entry->uid >= FIRST_APP_UID) {
		package = find(names->packages, (uint32_t)entry->uid % USER_RANGE);
		if (package && package->name)
			return package->name;
	}
	if (layer && package_of_layer(layer, buffer, size))
		return buffer;
	return entry ? entry->name : NULL;
}

bool name_table_may_draw(const struct name_table *names, int32_t pid, const char *layer)
{
	struct entry *entry = find(names->processes, (uint32_t)pid);
	char package[256];
	size_t size, whole;

	if (!entry || !entry->name || !package_of_layer(layer, package, sizeof(package)))
		return true;
	size = strcspn(entry->name, ":");
	whole = strlen(package);
	if (entry->cmdline)
		return size == whole && !memcmp(entry->name, package, size);
	/* a comm is the end of the package's name */
	size = strlen(entry->name);
	return size <= whole && !memcmp(package + whole - size, entry->name, size);
}

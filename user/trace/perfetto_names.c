/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes, threads and packages. */
#include "trace/perfetto_private.h"
#include "util/hash.h"

static void read_process(struct perfetto *p, const struct wire_field *message)
{
	struct wire wire = wire_of(message->data, message->size);
	struct wire_field field;
	const char *name = "";
	size_t size = 0;
	int64_t pid = -1, uid = -1;

	while (wire_next(&wire, &field) > 0) {
		if (field.number == 1)
			pid = (int32_t)field.value;
		else if (field.number == 3 && field.type == WIRE_BYTES && !size) {
			name = (const char *)field.data;
			size = field.size;
		} else if (field.number == 5)
			uid = (int32_t)field.value;
	}
	if (pid >= 0 && p->events->process)
		p->events->process(p->ctx, (int32_t)pid, uid, name, size);
}

static void read_thread(struct perfetto *p, const struct wire_field *message)
{
	struct wire wire = wire_of(message->data, message->size);
	struct wire_field field;
	const char *name = "";
	size_t size = 0;
	int32_t tid = -1, tgid = -1;

	while (wire_next(&wire, &field) > 0) {
		if (field.number == 1)
			tid = (int32_t)field.value;
		else if (field.number == 2 && field.type == WIRE_BYTES) {
			name = (const char *)field.data;
			size = field.size;
		} else if (field.number == 3)
			tgid = (int32_t)field.value;
	}
	if (tid >= 0 && p->events->thread)
		p->events->thread(p->ctx, tid, tgid, name, size);
}

void perfetto_process_tree(struct perfetto *p, const struct wire_field *message)
{
	struct wire wire = wire_of(message->data, message->size);
	struct wire_field field;

	while (wire_next(&wire, &field) > 0) {
		if (field.type != WIRE_BYTES)
			continue;
		if (field.number == 1)
			read_process(p, &field);
		else if (field.number == 2)
			read_thread(p, &field);
	}
}

void perfetto_packages(struct perfetto *p, const struct wire_field *message)
{
	struct wire wire = wire_of(message->data, message->size), inner;
	uint64_t hash = hash_bytes(message->data, message->size, message->size);
	struct wire_field field, part;

	/* it is written again and again while hardly anything is installed */
	if (hash == p->packages_hash)
		return;
	p->packages_hash = hash;
	while (p->events->package && wire_next(&wire, &field) > 0) {
		const char *name = NULL;
		size_t size = 0;
		uint64_t uid = 0;

		if (field.number != 1 || field.type != WIRE_BYTES)
			continue;
		inner = wire_of(field.data, field.size);
		while (wire_next(&inner, &part) > 0) {
			if (part.number == 1 && part.type == WIRE_BYTES) {
				name = (const char *)part.data;
				size = part.size;
			} else if (part.number == 2) {
				uid = part.value;
			}
		}
		if (name)
			p->events->package(p->ctx, (uint32_t)uid, name, size);
	}
}

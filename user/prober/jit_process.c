/* SPDX-License-Identifier: BSD-2-Clause */
/* Both ends of a list's way: the memory that it is read from, and the message that it becomes. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "prober/jit_list.h"

bool jit_list_view(uint8_t *message, size_t length, struct jit_list *list)
{
	size_t left;

	if (length < sizeof(list->header))
		return false;
	memcpy(&list->header, message, sizeof(list->header));
	left = length - sizeof(list->header);
	if (list->header.layout >= JIT_LAYOUTS || list->header.count > JIT_LIST_ENTRIES ||
	    left / sizeof(*list->entries) < list->header.count)
		return false;
	left -= list->header.count * sizeof(*list->entries);
	if (list->header.bytes != left)
		return false;
	list->entries = (struct jit_list_entry *)(message + sizeof(list->header));
	list->bytes = message + length - left;
	for (uint32_t i = 0; i < list->header.count; i++) {
		const struct jit_list_entry *entry = &list->entries[i];

		if (entry->offset &&
		    (entry->offset - 1 > left || entry->size > left - (entry->offset - 1)))
			return false;
	}
	return true;
}

/* ---- a process ---- */

static int read_process(void *ctx, const struct jit_part *parts, size_t count)
{
	struct iovec local[JIT_PARTS], remote[JIT_PARTS];
	size_t done = 0, i = 0;
	ssize_t n;

	if (!count)
		return 0;
	do {
		local[i] = (struct iovec){parts[i].to, parts[i].length};
		remote[i] = (struct iovec){(void *)(uintptr_t)parts[i].address, parts[i].length};
	} while (++i < count);
	n = process_vm_readv(*(int *)ctx, local, count, remote, count, 0);
	if (n < 0)
		return errno == EFAULT ? 0 : -errno;
	while (done < count && (size_t)n >= parts[done].length)
		n -= (ssize_t)parts[done++].length;
	return (int)done;
}

int jit_list_read_process(int pid, const struct jit_list_request *request, struct jit_list *list)
{
	struct jit_memory memory = {read_process, &pid};

	return jit_list_read(&memory, request, list);
}

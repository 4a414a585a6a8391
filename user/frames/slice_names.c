/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/slice_names.h"
#include "trace/atrace.h"
#include <string.h>

#define MAX_NAME 512

static bool starts_with(const char *name, size_t size, const char *word)
{
	size_t n = strlen(word);

	return size >= n && !memcmp(name, word, n);
}

enum mark_meaning slice_meaning(const struct trace_mark *mark, int64_t *id)
{
	static const char do_frame[] = "Choreographer#doFrame", draw[] = "DrawFrame";
	static const char resynced[] = " - resynced to";
	const char *name = mark->name;
	size_t size = mark->name_size, word;

	*id = -1;
	if (starts_with(name, size, do_frame)) {
		word = sizeof(do_frame) - 1;
		if (starts_with(name + word, size - word, resynced))
			atrace_slice_id(name, size, word + sizeof(resynced) - 1, id);
		if (starts_with(name + word, size - word, " - "))
			return MEANS_RESYNCED;
		if (size > word && name[word] != ' ')
			return MEANS_OTHER;
		atrace_slice_id(name, size, word, id);
		return MEANS_DO_FRAME;
	}
	if (starts_with(name, size, draw)) {
		word = sizeof(draw) - 1;
		word += size > word && name[word] == 's';
		if (size > word && name[word] != ' ')
			return MEANS_OTHER;
		atrace_slice_id(name, size, word, id);
		return MEANS_DRAW_FRAME;
	}
	if (starts_with(name, size, "queueBuffer") || starts_with(name, size, "eglSwapBuffers"))
		return MEANS_QUEUE_BUFFER;
	return MEANS_OTHER;
}

/* SurfaceFlinger's name for the buffers that wait on a layer: "BufferTX - name#id" since Android
 * 12, "name#n" before, the bare name of a window before 4.4. */
static bool is_buffer_counter(const char *name, size_t size)
{
	const char *hash;

	if (starts_with(name, size, "BufferTX - "))
		return true;
	if (starts_with(name, size, "TX - ") || starts_with(name, size, "QueuedBuffer - ") ||
	    starts_with(name, size, "wq:") || starts_with(name, size, "oq:"))
		return false;
	hash = memrchr(name, '#', size);
	if (hash && hash + 1 < name + size) {
		for (const char *c = hash + 1; c < name + size; c++) {
			if (*c < '0' || *c > '9')
				return false;
		}
		return true;
	}
	return memchr(name, '/', size) && memchr(name, '.', size) && !memchr(name, ' ', size);
}

enum mark_meaning counter_meaning(const char *name, size_t size)
{
	if (starts_with(name, size, "VSYNC")) {
		if ((size == 9 && !memcmp(name, "VSYNC-app", 9)) || size == 5)
			return MEANS_VSYNC_APP;
		return size == 8 && !memcmp(name, "VSYNC-sf", 8) ? MEANS_VSYNC_SF : MEANS_OTHER;
	}
	if (starts_with(name, size, "HW_VSYNC_ON"))
		return MEANS_OTHER;
	if (starts_with(name, size, "HW_VSYNC"))
		return MEANS_VSYNC_HW;
	if (starts_with(name, size, "VSP-period"))
		return MEANS_PERIOD;
	return size <= MAX_NAME && is_buffer_counter(name, size) ? MEANS_BUFFER_COUNT : MEANS_OTHER;
}

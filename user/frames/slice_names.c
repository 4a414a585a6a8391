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

/* Slices that only SurfaceFlinger has, from Android 4.1 to 15. */
static bool is_display_slice(const char *name, size_t size)
{
	return starts_with(name, size, "latchBuffer") ||
	       starts_with(name, size, "postFramebuffer") ||
	       starts_with(name, size, "onMessageReceived") ||
	       starts_with(name, size, "onMessageInvalidate") ||
	       starts_with(name, size, "onMessageRefresh") ||
	       starts_with(name, size, "handleMessageInvalidate") ||
	       starts_with(name, size, "handleMessageRefresh") ||
	       starts_with(name, size, "handleMessageTransaction");
}

static bool ends_with(const char *name, size_t size, const char *word)
{
	size_t n = strlen(word);

	return size >= n && !memcmp(name + size - n, word, n);
}

/* What a thread waits for while it is in this slice: names of ART (runtime/monitor.cc,
 * base/mutex.cc), HWUI and libgui. */
static enum mark_meaning wait_meaning(const char *name, size_t size)
{
	static const char *const fences[] = {"waiting for GPU completion",
					     "Waiting for GPU",
					     "waitOnFences",
					     "fenceWait",
					     "waitForever",
					     "eglClientWaitSync"};

	if (starts_with(name, size, "monitor contention with ") ||
	    starts_with(name, size, "Lock contention on "))
		return MEANS_LOCK;
	if (starts_with(name, size, "dequeueBuffer"))
		return MEANS_DEQUEUE;
	for (size_t i = 0; i < sizeof(fences) / sizeof(*fences); i++)
		if (starts_with(name, size, fences[i]))
			return MEANS_GPU_WAIT;
	if (starts_with(name, size, "AIDL::") && ends_with(name, size, "::client"))
		return MEANS_CALL;
	return MEANS_OTHER;
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
	return is_display_slice(name, size) ? MEANS_DISPLAY : wait_meaning(name, size);
}

/* SurfaceFlinger's name for the buffers that wait on a layer: "name#n" before Android 12, the bare
 * name of a window before 4.4. Apps have counters of such names too ("aq:pending:com.example/
 * com.example.Main#0" counts input events), so only those of SurfaceFlinger's process are meant. */
static bool may_be_buffer_counter(const char *name, size_t size)
{
	const char *hash;

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
	if (size > MAX_NAME)
		return MEANS_OTHER;
	/* since Android 12, and no app has such */
	if (starts_with(name, size, "BufferTX - "))
		return MEANS_BUFFER_COUNT;
	return may_be_buffer_counter(name, size) ? MEANS_MAYBE_BUFFERS : MEANS_OTHER;
}

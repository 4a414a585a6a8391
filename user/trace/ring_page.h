/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages of tracefs' per_cpu/cpuN/trace_pipe_raw. Where things lie in them is read from the kernel's
 * own descriptions, because it differs between word sizes and versions. */
#pragma once
#include "jankscope/timeline.h"

struct ring_layout {
	/* events/header_page */
	uint32_t time_offset, commit_offset, commit_size, data_offset, page_size;
	/* events/header_event */
	uint32_t type_bits, padding, time_extend, time_stamp, data_max;
	/* events/ftrace/print/format */
	uint32_t print_id, type_offset, type_size, pid_offset, text_offset;
};

/* Each takes the text of one description. 0, or -EBADMSG where something is missing. */
int ring_layout_page(struct ring_layout *layout, const char *text);
int ring_layout_event(struct ring_layout *layout, const char *text);
int ring_layout_print(struct ring_layout *layout, const char *text);

/* Decode one page: markers go to events->mark, lost events to events->loss. Returns how many
 * events there were, or -EBADMSG where the page contradicts the layout. */
int ring_page_decode(const struct ring_layout *layout, const uint8_t *page, size_t size,
		     const struct trace_events *events, void *ctx);

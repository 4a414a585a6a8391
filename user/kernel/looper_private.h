/* SPDX-License-Identifier: BSD-2-Clause */
/* What looper_kernel.c and looper_probes.c share. */
#pragma once
#include "kernel/looper_kernel.h"
#include "looper.skel.h"

/* 89ae89f53d20 (6.6); newer than the headers of this libbpf */
#define ATTACH_UPROBE_MULTI 48

struct bpf_link;
struct ring_buffer;

struct looper_kernel {
	struct sched_kernel *sched;
	struct sched_kernel_loopers maps;
	struct looper_bpf *skeleton;
	struct looper_view view;
	bool multi, syscalls, fetch, iterator;
	struct ring_buffer *events, *wakes, *wakers;
	struct bpf_link *links[5];
	size_t link_count;
	looper_event_fn callback;
	void *callback_ctx;
};

/* The kernel has uprobe_multi links (89ae89f53d20, 6.6). Tried with a program of two instructions.
 */
bool looper_has_multi(void);
/* The program that a place of this kind needs; owned by the skeleton. */
struct bpf_program *looper_probe_program(const struct looper_bpf *skeleton,
					 enum looper_probe probe);

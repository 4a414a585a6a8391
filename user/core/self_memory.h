/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of all processes of a run: their anonymous pages, a page that several share counted
 * once, and what the kernel holds for our BPF maps and programs. */
#pragma once
#include "jankscope/record.h"

struct prober_pool;
struct self_memory;
struct warden;

/* Both are borrowed, and may be NULL. NULL with errno. */
struct self_memory *self_memory_new(struct warden *warden, struct prober_pool *probes);
void self_memory_free(struct self_memory *memory);
/* Count another process of this run, from now on and as long as it lives. */
void self_memory_add(struct self_memory *memory, pid_t pid);
/* Look again if the last look is some seconds old. The helpers are looked at by a prober, because
 * their rights are more than the recorder's by then; its answers come in the loop. */
void self_memory_look(struct self_memory *memory);
/* The sum as of the last look; absent until each process was seen once. */
struct opt_u64 self_memory_bytes(const struct self_memory *memory);

/* The anonymous bytes in a text of /proc/PID/smaps_rollup; absent if it does not say. */
struct opt_u64 self_memory_parse(const char *text);

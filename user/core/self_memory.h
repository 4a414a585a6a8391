/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of all processes of a run: their pages that belong to no file, a page that several
 * share counted once, and what the kernel holds for the processes and for our BPF maps and
 * programs. It is what a memory cgroup would charge beside the cache of files, within 10 % and 1
 * MiB (tests/fault/test_memory.sh). */
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
/* Look again if the last look is old: some seconds, and longer where nothing changed; own_bytes,
 * what a cheaper count says of this process, may tell that something did (0: it does not say). The
 * helpers are looked at by a prober, because their rights are more than the recorder's by then; its
 * answers come in the loop. */
void self_memory_look(struct self_memory *memory, uint64_t own_bytes);
/* The sum as of the last look; absent until each process was seen once. */
struct opt_u64 self_memory_bytes(const struct self_memory *memory);

/* The bytes of what the kernel holds for a process by its /proc/PID/status: page tables as told,
 * the rest by number. */
uint64_t self_memory_parse_kernel(const char *text);
/* The bytes without a file in a text of /proc/PID/smaps_rollup; absent if it does not say. */
struct opt_u64 self_memory_parse(const char *text);

/* SPDX-License-Identifier: BSD-2-Clause */
/* What jankscope itself costs, with all its processes. */
#pragma once
#include "jankscope/record.h"

struct prober_pool;
struct self_usage;
struct warden;

/* Both are borrowed, and NULL where there are no helpers. NULL with errno. */
struct self_usage *self_usage_new(struct warden *warden, struct prober_pool *probes);
void self_usage_free(struct self_usage *usage);
/* Count the memory of another process of this run (a sink's), too. */
void self_usage_add(struct self_usage *usage, pid_t pid);
/* Have the memory of the helpers read, which comes in the loop; self_usage_take does so too. */
void self_usage_look(struct self_usage *usage);
/* CPU time of this process, its ended children and its helpers since the last call; anonymous
 * memory of this process; memory of all its processes. self NULL: only start over. Leaves stops and
 * stop_max_ns to whoever stops targets. */
void self_usage_take(struct self_usage *usage, struct record_self *self);

/* SPDX-License-Identifier: BSD-2-Clause */
/* What jankscope itself costs. */
#pragma once
#include "jankscope/record.h"

struct self_usage;

struct self_usage *self_usage_new(void);
void self_usage_free(struct self_usage *usage);
/* CPU time of this process and of its ended children since the last call, and its anonymous memory.
 * self NULL: only start over. Leaves stops and stop_max_ns to whoever stops targets. */
void self_usage_take(struct self_usage *usage, struct record_self *self);

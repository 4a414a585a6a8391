/* SPDX-License-Identifier: BSD-2-Clause */
/* Percentages of CPU time, of a run and of each scene. */
#pragma once
#include <stddef.h>

struct summary_total;

/* Sets a total. 0 or -ENOMEM. */
typedef int (*percentages_set_fn)(void *ctx, const char *key, double value);

/* From those totals set "cpu.device_pct", "targets.core_pct", ".device_pct" and
 * ".device_fnorm_pct", and what other tools call a process's CPU ("compat.*"), each where what it
 * needs was measured. The totals are read before the first one is set. 0 or the set's error. */
int percentages_set(const struct summary_total *totals, size_t count, percentages_set_fn set,
		    void *ctx);

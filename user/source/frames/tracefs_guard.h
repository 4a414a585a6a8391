/* SPDX-License-Identifier: BSD-2-Clause */
/* Settings of the machine that must be as before when we are gone, however we go. Old values are
 * written to a file (prober/trace_state.h) before anything changes; the warden puts them back when
 * this process ends or dies, and the next start does it where the warden died too. */
#pragma once
#include "prober/trace_settings.h"

struct tracefs_guard;
struct warden;

/* Put back what a dead run left; warden and root (trace_settings_root) are borrowed. 0,
 * where reason[] may tell of a file that was not read; -EBUSY: another run owns the settings;
 * another -errno with reason[]. */
int tracefs_guard_start(struct tracefs_guard **guard, struct warden *warden, int root, char *reason,
			size_t size);
/* Change a setting after its old value was saved. 0; -ENOENT: this device has none; -errno. */
int tracefs_guard_set(struct tracefs_guard *guard, uint32_t setting, const char *value);
/* Have the warden put everything back; waits for it up to half a second, then lets it go on alone.
 * NULL is fine. */
void tracefs_guard_end(struct tracefs_guard *guard);

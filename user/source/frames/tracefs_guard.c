/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/frames/tracefs_guard.h"
#include "prober/trace_state.h"
#include "prober/warden.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define END_NS 500000000ull

struct tracefs_guard {
	struct warden *warden; /* NULL: nobody restores behind a recorder that dies */
	struct trace_state *state;
	int root;
};

int tracefs_guard_start(struct tracefs_guard **out, struct warden *warden, int root, char *reason,
			size_t size)
{
	struct tracefs_guard *guard = calloc(1, sizeof(*guard));
	int err;

	if (!guard)
		return -ENOMEM;
	guard->warden = warden;
	guard->root = root;
	err = trace_state_open(&guard->state, NULL, reason, size);
	if (err) {
		free(guard);
		return err;
	}
	trace_state_put_back(guard->state, root);
	err = warden ? warden_hold_settings(warden, trace_state_fd(guard->state), root) : 0;
	if (!err) {
		*out = guard;
		return 0;
	}
	snprintf(reason, size, "cannot keep the settings of the trace buffer: %s", strerror(-err));
	trace_state_free(guard->state);
	free(guard);
	return err;
}

int tracefs_guard_set(struct tracefs_guard *guard, uint32_t setting, const char *value)
{
	char old[TRACE_VALUE_BYTES];
	int err = trace_setting_get(guard->root, setting, old, sizeof(old));

	if (err)
		return err;
	if (!strcmp(old, value))
		return 0;
	/* the old value is in the file before the new one reaches the kernel */
	err = trace_state_add(guard->state, setting, old);
	return err ? err : trace_setting_set(guard->root, setting, value);
}

void tracefs_guard_end(struct tracefs_guard *guard)
{
	if (!guard)
		return;
	/* A warden that is late goes on alone; without one it is done here. */
	if (!guard->warden || warden_restore_settings(guard->warden, END_NS) == -EPIPE)
		trace_state_restore(trace_state_fd(guard->state), guard->root);
	trace_state_free(guard->state);
	free(guard);
}

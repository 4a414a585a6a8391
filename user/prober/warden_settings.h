/* SPDX-License-Identifier: BSD-2-Clause */
/* The settings of the device that a recorder changes for the time of its run, and how the warden
 * puts each back. A setting is named by its number here, never by a path, so that whatever is sent
 * to the warden can change nothing else. */
#pragma once
#include <stdint.h>

enum setting {
	SETTING_TRACING_ON = 1,        /* tracefs: "0" or "1" */
	SETTING_TRACE_CLOCK = 2,       /* tracefs: "local", "boot" ... */
	SETTING_BUFFER_SIZE_KB = 3,    /* tracefs: "4096" */
	SETTING_TRACE_MARKER_MODE = 4, /* tracefs: mode of trace_marker, octal */
	SETTING_SWITCH_ENABLE = 5,     /* tracefs: events/sched/sched_switch/enable */
	SETTING_PRINT_ENABLE = 6,      /* tracefs: events/ftrace/print/enable */
	SETTING_ATRACE_FLAGS = 7,      /* property debug.atrace.tags.enableflags */
	SETTING_ATRACE_APP_NUMBER = 8, /* property debug.atrace.app_number */
	SETTING_ATRACE_APP_0 = 9,      /* property debug.atrace.app_0 */
	SETTING_CHILD = 10,            /* "PID START_TICKS": a process to be ended (SIGTERM) */
	SETTING_COUNT = 11,
};

/* Put a setting back. tracefs NULL: where it is mounted. 0; -EINVAL: no such setting, or a value
 * that it cannot have; another -errno. */
int setting_restore(uint32_t setting, const char *value, const char *tracefs);

/* SPDX-License-Identifier: BSD-2-Clause */
/* The settings of the device that `--frames live` changes, by number. What is kept to put them back
 * names a setting by this number and never by a path, so that nobody who writes such a record can
 * have another file changed; each value has the bounds of its setting. The numbers are written to a
 * file: they stay as they are. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trace_setting {
	TRACE_TRACING_ON = 1,          /* "0" or "1" */
	TRACE_CLOCK = 2,               /* the name of a clock of the trace buffer */
	TRACE_BUFFER_SIZE_KB = 3,      /* of each CPU, 1 to 4194304 */
	TRACE_MARKER_MODE = 4,         /* permission bits of trace_marker, octal, at most 0777 */
	TRACE_PROPERTY_TAGS = 7,       /* debug.atrace.tags.enableflags, a number or nothing */
	TRACE_PROPERTY_APP_NUMBER = 8, /* debug.atrace.app_number, a number or nothing */
	TRACE_PROPERTY_APP_0 = 9,      /* debug.atrace.app_0, the name of an app or nothing */
	TRACE_SETTINGS = 10,
};

#define TRACE_VALUE_BYTES 96 /* with the end of the string */

/* Its file below the tracefs root, or the property's name; NULL: there is no such setting. */
const char *trace_setting_name(uint32_t setting);
/* Whether the number is of a setting and the value within its bounds. */
bool trace_setting_is_valid(uint32_t setting, const char *value);

/* The tracefs mount (/sys/kernel/tracing, or below debugfs) as a descriptor for the two calls
 * below, or -ENOENT. The caller closes it. */
int trace_settings_root(void);
/* The value as it is now. Of "[a] b c" that is the a; of a buffer that has not got its size yet,
 * "7 (expanded: 1408)", it is 1408, because writing 7 would make it 7 KiB for good. 0; -ENOENT:
 * this device has none; -ERANGE: outside of the bounds; another -errno. */
int trace_setting_get(int root, uint32_t setting, char *value, size_t size);
/* 0; -EINVAL: not valid; another -errno. Waits at most 1 s for setprop. */
int trace_setting_set(int root, uint32_t setting, const char *value);

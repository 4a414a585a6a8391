/* SPDX-License-Identifier: BSD-2-Clause */
/* In which clock a bundle of ftrace's events tells its times. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/perfetto_clock.h"

/* What is to be added to the times of this FtraceEventBundle to have them in CLOCK_BOOTTIME: by
 * what the bundle tells, or by the snapshot of its clock before its first event. False: nothing
 * says it; trace_processor leaves such events out, too. */
bool ftrace_offset(struct trace_clocks *clocks, const uint8_t *data, size_t size,
		   int64_t *offset_ns);

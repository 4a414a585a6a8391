/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside of the capturing half. */
#pragma once
#include "jankscope/stack.h"
#include "stack/capture.h"
#include "stack/capture_perf.h"

#define STOP_SAMPLES 4096

struct stack_capturer {
	struct stack_capture_config config;
	struct ptrace_worker worker;
	struct perf_rings perf;
	struct stack_stats stats;
	uint32_t stop_ns[STOP_SAMPLES];
};

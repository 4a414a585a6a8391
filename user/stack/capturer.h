/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside of the stack service: its capture half (service.c) and its unwinding half (symbolise.c).
 */
#pragma once
#include "jankscope/stack.h"
#include "stack/capture.h"
#include "stack/maps.h"
#include "stack/modules.h"

#define STOP_SAMPLES 4096

struct symbol_text;

struct stack_service {
	struct stack_config config;
	struct maps_cache *maps; /* the one thing that both halves use: it locks */
	/* captures */
	struct ptrace_worker worker;
	struct stack_stats stats;
	uint32_t stop_ns[STOP_SAMPLES];
	/* unwinding */
	struct modules *modules;
	struct symbol_text *texts;
	size_t text_bytes;
	uint64_t texts_refused;
};

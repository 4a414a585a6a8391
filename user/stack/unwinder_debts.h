/* SPDX-License-Identifier: BSD-2-Clause */
/* What each process costs the unwinder, which works on one job at a time for all of them: a process
 * whose files take long to read (a hostile one has a new such file for each stack) pays with its
 * own stacks. */
#pragma once
#include "jankscope/stack.h"
#include "util/clock.h"

#define UNWINDER_DEBTORS 16
/* Time that is not remembered: a stack takes 1 ms, the first one of a large library some 100. */
#define DEBT_LEAST_NS (50 * NSEC_PER_MSEC)
/* From here on its jobs wait behind those of others. */
#define DEBT_SLOW_NS (200 * NSEC_PER_MSEC)
/* From here on its captures are refused. */
#define DEBT_MOST_NS (2 * NSEC_PER_SEC)
/* A debt shrinks by a tenth of the time that passes. */
#define DEBT_SHARE 10

struct unwinder_debts {
	struct unwinder_debtor {
		struct stack_process process; /* pid 0: the row is free */
		uint64_t ns, at_ns;           /* at_ns: CLOCK_MONOTONIC */
	} rows[UNWINDER_DEBTORS];
};

/* A job of the process took used_ns of the unwinder. When all rows are taken, the smallest debt is
 * forgotten. */
void unwinder_debts_add(struct unwinder_debts *debts, const struct stack_process *process,
			uint64_t used_ns, uint64_t now_ns);
/* What is left of its debt; 0: none. */
uint64_t unwinder_debts_of(const struct unwinder_debts *debts, const struct stack_process *process,
			   uint64_t now_ns);

/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/unwinder_debts.h"

static uint64_t left(const struct unwinder_debtor *row, uint64_t now_ns)
{
	uint64_t paid_ns = now_ns > row->at_ns ? (now_ns - row->at_ns) / DEBT_SHARE : 0;

	return row->process.pid && row->ns > paid_ns ? row->ns - paid_ns : 0;
}

static bool is_of(const struct unwinder_debtor *row, const struct stack_process *process)
{
	return row->process.pid == process->pid && row->process.start_ticks == process->start_ticks;
}

void unwinder_debts_add(struct unwinder_debts *debts, const struct stack_process *process,
			uint64_t used_ns, uint64_t now_ns)
{
	struct unwinder_debtor *row = &debts->rows[0];

	if (used_ns < DEBT_LEAST_NS || !process->pid)
		return;
	for (size_t i = 0; i < UNWINDER_DEBTORS; i++) {
		struct unwinder_debtor *other = &debts->rows[i];

		if (is_of(other, process)) {
			row = other;
			break;
		}
		if (left(other, now_ns) < left(row, now_ns))
			row = other;
	}
	used_ns += is_of(row, process) ? left(row, now_ns) : 0;
	*row = (struct unwinder_debtor){*process, used_ns, now_ns};
}

uint64_t unwinder_debts_of(const struct unwinder_debts *debts, const struct stack_process *process,
			   uint64_t now_ns)
{
	for (size_t i = 0; i < UNWINDER_DEBTORS; i++)
		if (is_of(&debts->rows[i], process))
			return left(&debts->rows[i], now_ns);
	return 0;
}

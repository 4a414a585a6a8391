/* SPDX-License-Identifier: BSD-2-Clause */
/* The table's lines about long blocks of main threads. */
#include <string.h>

#include "sink/table_private.h"

#define TABLE_STACK_FRAMES 4

/* The innermost function that has a name: what is below it are nameless parts of libraries. One
 * that was found by a guess ends in '?'. */
static const char *top_function(const struct record_stack *stack, bool *guess)
{
	*guess = false;
	if (!stack)
		return NULL;
	for (size_t i = 0; i < stack->frame_count; i++)
		if (stack->frames[i].symbol && !stack->frames[i].shared) {
			*guess = stack->frames[i].by != FRAME_BY_CFI;
			return stack->frames[i].symbol;
		}
	return stack->frame_count ? "nameless code" : NULL;
}

void table_print_block(struct table_sink *table, const struct record *record)
{
	static const char *const classes[] = {"short", "long", "ANR"};
	static const char *const states[] = {" so far", "", ", then it died"};
	const struct record_block *block = record->block;
	double wall_ns = block->wall_ns ? (double)block->wall_ns : 1;
	const struct record_stack *top = block->top.present && block->top.value < block->stack_count
						 ? &block->stacks[block->top.value]
						 : NULL;
	struct line line = table_line_at(table, record->t_boot_ns);
	bool guess;
	const char *symbol = top_function(top, &guess);
	char name[256], where[128];

	line_put(&line, "  BLOCK %s %.1f ms%s%s", classes[block->class], table_ms(block->wall_ns),
		 states[block->state], block->merged ? " (merged)" : "");
	line_put(&line, "  run %.0f wait %.0f sleep %.0f D %.0f %%",
		 100 * (double)block->ledger.running_ns / wall_ns,
		 100 * (double)block->ledger.runnable_ns / wall_ns,
		 100 * (double)block->ledger.sleeping_ns / wall_ns,
		 100 * (double)block->ledger.uninterruptible_ns / wall_ns);
	line_end(&line);
	line_put(&line, "    %s %d:",
		 text_tail(name, sizeof(name), block->process ? block->process : "-", 26),
		 block->pid);
	line_put(&line, " %s%s%s",
		 symbol ? text_tail(where, sizeof(where), symbol, 40) : "no stack",
		 guess ? "?" : "", block->reason_count ? "," : "");
	if (block->reason_count)
		line_put(&line, " %s", block->reasons[0].reason);
	if (block->owner.present)
		line_put(&line, " held by %s",
			 text_clean(where, sizeof(where),
				    block->owner.thread[0] ? block->owner.thread : "?"));
	else if (block->waker.present)
		line_put(&line, " until %s", text_clean(where, sizeof(where), block->waker.thread));
	else if (block->ledger.runnable_ns * 5 > block->wall_ns && block->preemptor_count)
		line_put(&line, "%s after %s", symbol || block->reason_count ? "," : "",
			 text_clean(where, sizeof(where), block->preemptors[0].thread));
	line_end(&line);
}

void table_print_addition(struct table_sink *table, const struct record_addition *addition)
{
	const struct record_stack *stack = &addition->stack;
	struct line line = table_line(table);
	char name[256], at[TABLE_TIME];
	size_t shown = 0;

	line_put(&line, "    stack of the block");
	if (addition->of_boot_ns)
		line_put(&line, " at %s",
			 table_time(table, addition->of_boot_ns, at) + strspn(at, " "));
	line_put(&line, ":");
	for (size_t i = 0; i < stack->frame_count && shown < TABLE_STACK_FRAMES; i++)
		if (stack->frames[i].symbol && !stack->frames[i].shared)
			line_put(&line, "%s%s%s", shown++ ? " < " : " ",
				 text_tail(name, sizeof(name), stack->frames[i].symbol, 36),
				 stack->frames[i].by != FRAME_BY_CFI ? "?" : "");
	if (!shown)
		line_put(&line, " %s", stack->frame_count ? "nameless code" : "no frame");
	line_end(&line);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* A block as the screen keeps it: a row of the list, and the text that is read when it is frozen.
 * Each line of the text begins with the letter of its style (screen/frame.h). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/telling.h"
#include "sink/screen/model.h"
#include "sink/table_private.h"
#include "sink/text.h"

#define MAX_FRAMES 256
#define MAX_STACKS 16
/* Stacks that come later make the text no longer than this. */
#define MAX_BYTES (256u << 10)

static const char *or_unknown(const char *name)
{
	return name && name[0] ? name : "?";
}

/* A process as the table calls it, at most 60 columns. */
static const char *short_process(char text[TABLE_NAME], const char *process)
{
	char name[TABLE_NAME];

	return text_tail(text, TABLE_NAME, table_process(name, process, NULL, "?"), 60);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void put_frames(FILE *out, const struct record_stack *stack, int indent)
{
	char symbol[TABLE_NAME], clean[TABLE_NAME], module[96];

	for (size_t i = 0; i < stack->frame_count && i < MAX_FRAMES; i++) {
		const struct record_frame *frame = &stack->frames[i];

		fprintf(out, "%c%*s#%-2zu %s", frame_tells(frame) ? 'P' : 'D', indent, "", i,
			text_clean(clean, sizeof(clean),
				   frame_name(symbol, sizeof(symbol), frame)));
		if (frame->module && frame->symbol)
			fprintf(out, "  (%s)",
				text_tail(module, sizeof(module), base_name(frame->module), 60));
		if (frame->line)
			fprintf(out, " line %u", (unsigned)frame->line);
		fputc('\n', out);
	}
	if (stack->frame_count > MAX_FRAMES)
		fprintf(out, "D%*s%zu more\n", indent, "", stack->frame_count - MAX_FRAMES);
	if (!stack->frame_count)
		fprintf(out, "D%*sno frame\n", indent, "");
}

static void put_stack(FILE *out, const char *what, const struct record_stack *stack,
		      uint64_t wall_ns)
{
	static const char *const captures[] = {"snapshot", "perf", "ptrace", "kernel"};
	char reason[96];

	fprintf(out, "H%s: ", what);
	if (stack->weight_ns)
		fprintf(out, "%.1f ms, ", table_ms(stack->weight_ns));
	if (stack->weight_ns && wall_ns)
		fprintf(out, "%.0f %% of it, ", 100 * (double)stack->weight_ns / (double)wall_ns);
	fprintf(out, "%s", captures[stack->capture]);
	if (!stack->complete)
		fprintf(out, ", not complete: %s",
			text_clean(reason, sizeof(reason), or_unknown(stack->end_reason)));
	fputc('\n', out);
	put_frames(out, stack, 2);
}

static void put_reasons(FILE *out, const struct record_block *block)
{
	char name[TABLE_NAME], waker[64];

	for (size_t i = 0; i < block->reason_count; i++)
		fprintf(out, "%s%s %.1f ms", i ? ", " : "Pwaited for: ",
			text_clean(name, sizeof(name), block->reasons[i].reason),
			table_ms(block->reasons[i].ns));
	if (block->reason_count)
		fputc('\n', out);
	for (size_t i = 0; i < block->sleep_count && i < 8; i++) {
		const struct block_sleep *sleep = &block->sleeps[i];

		fprintf(out, "D  %s %.1f ms",
			text_clean(name, sizeof(name), or_unknown(sleep->reason)),
			table_ms(sleep->ns));
		if (sleep->waker_tid)
			fprintf(out, ", until %s %d",
				text_clean(waker, sizeof(waker), or_unknown(sleep->waker)),
				sleep->waker_tid);
		fputc('\n', out);
	}
}

/* Those that took a hundredth of it at least. */
static void put_preemptors(FILE *out, const struct record_block *block)
{
	char name[TABLE_NAME], process[TABLE_NAME];

	for (size_t i = 0; i < block->preemptor_count && i < 8; i++) {
		const struct block_preemptor *other = &block->preemptors[i];

		if (other->ns >= block->wall_ns / 100)
			fprintf(out, "Pwaited for a CPU behind %s %d of %s: %.1f ms\n",
				text_clean(name, sizeof(name), or_unknown(other->thread)),
				other->tid, short_process(process, other->process),
				table_ms(other->ns));
	}
}

static void put_link(FILE *out, const struct block_link *link, size_t depth)
{
	char name[TABLE_NAME], what[TABLE_NAME];
	int indent = (int)(depth < 16 ? 2 * depth : 32);

	fprintf(out, "H%*swaits for %s %d of %s, ", indent, "",
		text_clean(name, sizeof(name), link->tid ? or_unknown(link->thread) : "a thread"),
		link->tid, short_process(what, link->process));
	text_clean(what, sizeof(what),
		   link->what                 ? link->what
		   : link->how == LINK_BINDER ? "call"
					      : "lock");
	fprintf(out,
		link->how == LINK_BINDER  ? "binder %s"
		: link->how == LINK_FUTEX ? "%s"
					  : "a %s",
		what);
	if (link->queued_ns.present)
		fprintf(out, ", queued %.1f ms", table_ms(link->queued_ns.value));
	if (link->served_ns.present)
		fprintf(out, ", at work %.1f ms", table_ms(link->served_ns.value));
	if (link->served_cpu_ns.present)
		fprintf(out, " (%.1f ms on a CPU)", table_ms(link->served_cpu_ns.value));
	fputc('\n', out);
	if (link->stack)
		put_frames(out, link->stack, indent + 2);
	else
		fprintf(out, "D%*sno stack\n", indent + 2, "");
}

static void put_others(FILE *out, const struct record_block *block)
{
	const struct record_waker *waker = &block->waker;
	char name[TABLE_NAME], what[TABLE_NAME];

	if (block->owner.present && !block->chain_count) {
		fprintf(out, "Hits lock is held by %s %d of %s\n",
			text_clean(name, sizeof(name), or_unknown(block->owner.thread)),
			block->owner.tid, short_process(what, block->owner.process));
		if (block->owner_stack)
			put_frames(out, block->owner_stack, 2);
	}
	for (size_t i = 0; i < block->chain_count; i++)
		put_link(out, &block->chain[i], i);
	if (block->chain_cut)
		fprintf(out, "Dand that one for another, which was not followed\n");
	if (block->deadlock)
		fprintf(out, "Bdeadlock: each of them waits for the next for ever\n");
	if (!waker->present)
		return;
	fprintf(out, "Hwoken by %s %d of %s",
		text_clean(name, sizeof(name), or_unknown(waker->thread)), waker->tid,
		short_process(what, waker->process));
	if (waker->what)
		fprintf(out, ", %s", text_clean(what, sizeof(what), waker->what));
	fputc('\n', out);
	if (waker->stack)
		put_frames(out, waker->stack, 2);
}

/* The heaviest one where `first` is set, else the others. */
static void put_stacks(FILE *out, const struct record_block *block, bool first)
{
	size_t top = block->top.present && block->top.value < block->stack_count
			     ? (size_t)block->top.value
			     : 0;
	size_t n = 1;
	char text[64];

	for (size_t i = 0; i < block->stack_count && n < MAX_STACKS; i++) {
		if (i != top)
			n++;
		if ((i == top) != first)
			continue;
		snprintf(text, sizeof(text), "stack %zu of %zu", first ? 1 : n, block->stack_count);
		put_stack(out, text, &block->stacks[i], block->wall_ns);
	}
}

static void put_no_stack(FILE *out, const struct record_block *block)
{
	const char *why = missing_reason(&block->missing, "stacks");
	char reason[TABLE_NAME];

	if (why && !strcmp(why, MISSING_FOLLOWS))
		fprintf(out, "Dits stack follows\n");
	else
		fprintf(out, "Dno stack%s%s\n", why ? ": " : "",
			why ? text_clean(reason, sizeof(reason), why) : "");
}

static char *make_text(const struct record_block *block)
{
	static const char *const states[] = {"open", "closed", "the thread died in it"};
	char *text = NULL, process[TABLE_NAME], name[TABLE_NAME];
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	table_process(process, block->process, block->package, NULL);
	fprintf(out, "P%s, process %d, thread %d\n", text_tail(name, sizeof(name), process, 100),
		block->pid, block->tid);
	fprintf(out,
		"P%.1f ms (%s%s): run %.1f, wait for a CPU %.1f, sleep %.1f, D %.1f, "
		"stopped %.1f ms\n",
		table_ms(block->wall_ns), states[block->state], block->merged ? ", merged" : "",
		table_ms(block->ledger.running_ns), table_ms(block->ledger.runnable_ns),
		table_ms(block->ledger.sleeping_ns), table_ms(block->ledger.uninterruptible_ns),
		table_ms(block->ledger.stopped_ns));
	put_reasons(out, block);
	put_preemptors(out, block);
	if (!block->stack_count)
		put_no_stack(out, block);
	put_stacks(out, block, true);
	put_others(out, block);
	put_stacks(out, block, false);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

/* "function < caller, futex held by x": what the list says of it. */
static char *make_told(const struct record_block *block)
{
	const struct record_stack *stack = heaviest_stack(block);
	char text[SCREEN_TEXT], name[TABLE_NAME], symbol[TABLE_NAME];
	size_t frames[2], count = stack ? telling_path(stack, false, frames, 2) : 0, length = 0;
	const char *why = missing_reason(&block->missing, "stacks");
	bool slept = block->reason_count && block->reasons[0].ns >= block->wall_ns / 10;

	text[0] = 0;
	for (size_t i = 0; i < count; i++) {
		const struct record_frame *frame = &stack->frames[frames[i]];

		snprintf(text + length, sizeof(text) - length, "%s%s", i ? " < " : "",
			 table_function(name, frame_name(symbol, sizeof(symbol), frame), 60));
		length = strlen(text);
	}
	if (!count && why)
		snprintf(text, sizeof(text), "%s",
			 !strcmp(why, MISSING_FOLLOWS) ? "stack follows" : "no stack");
	length = strlen(text);
	if (slept && block->reasons[0].reason)
		snprintf(text + length, sizeof(text) - length, "%s%s", length ? ", " : "",
			 text_clean(name, sizeof(name), block->reasons[0].reason));
	length = strlen(text);
	if (slept && block->owner.present)
		snprintf(text + length, sizeof(text) - length, " held by %s",
			 text_clean(name, sizeof(name), or_unknown(block->owner.thread)));
	/* What was cut off within a character. */
	return strdup(text_clean(name, sizeof(name), text));
}

static unsigned pct_of(uint64_t part_ns, uint64_t wall_ns)
{
	return wall_ns ? (unsigned)(100 * (double)part_ns / (double)wall_ns + 0.5) : 0;
}

struct screen_block *screen_block_new(const struct screen_model *model, const struct record *record)
{
	const struct record_block *from = record->block;
	struct screen_block *block = calloc(1, sizeof(*block));
	char process[TABLE_NAME], name[TABLE_NAME];

	if (!block)
		return NULL;
	*block = (struct screen_block){
		.refs = 1,
		.seqs = {record->seq + 1},
		.pid = from->pid,
		.tid = from->tid,
		.start_boot_ns = from->start_boot_ns,
		.wall_ns = from->wall_ns,
		.state = from->state,
		.class = from->class,
		.running_pct = pct_of(from->ledger.running_ns, from->wall_ns),
		.runnable_pct = pct_of(from->ledger.runnable_ns, from->wall_ns),
		.sleeping_pct = pct_of(from->ledger.sleeping_ns, from->wall_ns),
		.uninterruptible_pct = pct_of(from->ledger.uninterruptible_ns, from->wall_ns),
		.has_stack = from->stack_count > 0,
	};
	screen_time(model, from->start_boot_ns, block->time);
	table_process(process, from->process, from->package, NULL);
	block->process = strdup(text_tail(name, sizeof(name), process, 100));
	block->told = make_told(from);
	block->text = make_text(from);
	if (block->process && block->told && block->text)
		return block;
	screen_block_drop(block);
	return NULL;
}

int screen_block_add(struct screen_block *block, const struct record_stack *stack)
{
	char *text = NULL;
	size_t size;
	FILE *out;

	if (strlen(block->text) > MAX_BYTES)
		return 0;
	out = open_memstream(&text, &size);
	if (!out)
		return -ENOMEM;
	fputs(block->text, out);
	put_stack(out, "stack", stack, block->wall_ns);
	if (fclose(out)) {
		free(text);
		return -ENOMEM;
	}
	free(block->text);
	block->text = text;
	if (!block->has_stack) {
		struct record_stack copy = *stack;
		const struct record_block one = {
			.stacks = &copy, .stack_count = 1, .top = SOME_U64(0)};
		char *told = make_told(&one);

		if (told && told[0]) {
			free(block->told);
			block->told = told;
		} else {
			free(told);
		}
	}
	block->has_stack = true;
	return 0;
}

struct screen_block *screen_block_hold(struct screen_block *block)
{
	if (block)
		block->refs++;
	return block;
}

void screen_block_drop(struct screen_block *block)
{
	if (!block || --block->refs)
		return;
	free(block->process);
	free(block->told);
	free(block->text);
	free(block);
}

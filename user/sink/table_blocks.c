/* SPDX-License-Identifier: BSD-2-Clause */
/* The table's lines about long blocks of main threads. */
#include <string.h>

#include "record/art_frames.h"
#include "record/telling.h"
#include "sink/table_private.h"

/* Of a stack: the function that tells and its caller; of one that came later, more. */
#define BLOCK_FRAMES    2
#define STACK_FRAMES    4
#define FUNCTION_WIDTH  40
#define PROCESS_COLUMNS 26

/* JIT compilers write "function path:line:column" or "function:path". NULL: there is no place. */
static const char *place_of(const char *name)
{
	static const char *const begins[] = {" /", " file:", " node:", ":/"};

	for (size_t i = 0; i < sizeof(begins) / sizeof(*begins); i++) {
		const char *place = strstr(name, begins[i]);

		if (place)
			return place;
	}
	return NULL;
}

/* The function and its file without its folders, or the function alone. */
static const char *put_script(char buffer[TABLE_NAME], const char *name, const char *place,
			      int columns)
{
	const char *slash = strrchr(place, '/'), *file = slash ? slash + 1 : place + 1;
	char function[TABLE_NAME];
	int length = (int)(place - name);

	snprintf(function, sizeof(function), "%.*s", length, name);
	snprintf(buffer, TABLE_NAME, "%.*s %.*s", length, name, TABLE_NAME - 2 - length, file);
	if (text_columns(buffer) <= columns)
		return buffer;
	/* Behind these there is no name: "JS:~ /srv/a.js:12:3". */
	if (!length || strchr(":~*^+-", name[length - 1]))
		return text_tail(buffer, TABLE_NAME, file, columns);
	return text_tail(buffer, TABLE_NAME, function, columns);
}

const char *table_function(char buffer[TABLE_NAME], const char *symbol, int columns)
{
	char name[TABLE_NAME], clean[TABLE_NAME];
	const char *rest, *place;

	function_short(name, sizeof(name), symbol);
	text_clean(clean, sizeof(clean), name);
	if (text_columns(clean) <= columns)
		return strcpy(buffer, clean);
	place = place_of(clean);
	if (place)
		return put_script(buffer, clean, place, columns);
	/* Not within the arguments, which are "(...)" by now. */
	for (rest = clean; *rest && *rest != '('; rest++) {
		const char *cut = !strncmp(rest, "::", 2) ? rest + 2
				  : *rest == '.'          ? rest + 1
							  : NULL;

		if (cut && *cut && *cut != '(' && text_columns(cut) + 2 <= columns) {
			snprintf(buffer, TABLE_NAME, "..%.*s", TABLE_NAME - 3, cut);
			return buffer;
		}
	}
	return text_tail(buffer, TABLE_NAME, clean, columns);
}

static const char *reason_of(const struct missing_list *list, const char *key)
{
	for (size_t i = 0; i < list->count; i++)
		if (!strcmp(list->items[i].key, key))
			return list->items[i].reason;
	return NULL;
}

/* ART's frames of which none was put, from the innermost one to the last of the path. */
static size_t count_art(const struct record_stack *stack, const size_t *frames, size_t count)
{
	size_t folded = 0;

	if (!stack_has_java(stack))
		return 0;
	for (size_t i = 0; i < frames[count - 1]; i++)
		folded += frame_is_art(&stack->frames[i]);
	return folded;
}

/* "function < caller", or why there is none. Returns how many functions. */
static size_t put_path(struct table_sink *table, struct line *line,
		       const struct record_stack *stack, size_t room)
{
	bool native = table->options.native;
	size_t frames[STACK_FRAMES], count, folded;
	char symbol[TABLE_NAME], name[TABLE_NAME];
	int width = line->width - 8 < FUNCTION_WIDTH ? line->width - 8 : FUNCTION_WIDTH;

	count = telling_path(stack, native, frames, room < STACK_FRAMES ? room : STACK_FRAMES);
	for (size_t i = 0; i < count; i++)
		line_put(line, "%s%s", i ? " < " : " ",
			 table_function(
				 name,
				 frame_name(symbol, sizeof(symbol), &stack->frames[frames[i]]),
				 width));
	folded = native || !count ? 0 : count_art(stack, frames, count);
	if (folded)
		line_put(line, " + %zu frame%s of ART", folded, folded == 1 ? "" : "s");
	return count;
}

static void put_no_stack(struct line *line, const struct record_block *block)
{
	const char *why = reason_of(&block->missing, "stacks");
	char text[TABLE_NAME] = " ";

	if (why && !strcmp(why, MISSING_FOLLOWS)) {
		line_put(line, " stack follows");
		return;
	}
	line_put(line, " no stack%s", why ? ":" : "");
	if (why) {
		text_clean(text + 1, sizeof(text) - 1, why);
		line_put_words(line, text);
	}
}

static void put_why(struct line *line, const struct record_block *block)
{
	char where[TABLE_NAME];
	bool slept;

	/* What the thread waited for matters where it waited for a good part of the block. */
	slept = block->reason_count && block->reasons[0].ns >= block->wall_ns / 10 &&
		block->reasons[0].ns;
	if (slept)
		line_put(line, ", %s", block->reasons[0].reason);
	if (slept && block->owner.present)
		line_put(line, " held by %s",
			 text_clean(where, sizeof(where),
				    block->owner.thread[0] ? block->owner.thread : "?"));
	else if (slept && block->waker.present)
		line_put(line, " until %s", text_clean(where, sizeof(where), block->waker.thread));
	else if (block->ledger.runnable_ns * 5 > block->wall_ns && block->preemptor_count)
		line_put(line, ", after %s",
			 text_clean(where, sizeof(where), block->preemptors[0].thread));
}

/* Which call it is, of which process, and since when; then what the thread that serves it does. */
static void put_call(struct table_sink *table, const struct record_block *block, size_t at)
{
	const struct block_link *link = &block->chain[at];
	struct line line = table_line(table);
	char name[TABLE_NAME];

	line_put(&line, "    %*swaits for ", 2 * (int)at, "");
	if (link->tid)
		line_put(&line, "%s %d",
			 text_clean(name, sizeof(name), link->thread[0] ? link->thread : "thread"),
			 link->tid);
	else
		line_put(&line, "a thread");
	if (link->process)
		line_put(&line, " of %s", text_clean(name, sizeof(name), link->process));
	else
		line_put(&line, " of process %d", link->pid);
	line_put(&line, ", binder %s",
		 link->what ? text_clean(name, sizeof(name), link->what) : "call");
	if (link->queued_ns.present)
		line_put(&line, ", queued %.1f ms", table_ms(link->queued_ns.value));
	if (link->served_ns.present)
		line_put(&line, ", at work %.1f ms", table_ms(link->served_ns.value));
	if (link->served_cpu_ns.present)
		line_put(&line, " (%.1f ms on a CPU)", table_ms(link->served_cpu_ns.value));
	if (link->threads.present) {
		if (link->at_work.present)
			line_put(&line, ", %llu of %llu threads at work",
				 (unsigned long long)link->at_work.value,
				 (unsigned long long)link->threads.value);
	}
	if (link->tid) {
		line_put(&line, ":");
		if (!link->stack || !put_path(table, &line, link->stack, BLOCK_FRAMES))
			line_put(&line, " no stack");
	}
	line_end(&line);
}

/* Who holds the lock that the thread waited for, and what that one waited for, each further in. */
static void put_chain(struct table_sink *table, const struct record_block *block)
{
	for (size_t i = 0; i < block->chain_count; i++) {
		const struct block_link *link = &block->chain[i];
		struct line line;
		char name[TABLE_NAME];

		if (link->how == LINK_BINDER) {
			put_call(table, block, i);
			continue;
		}
		line = table_line(table);
		line_put(&line, "    %*swaits for %s %d", 2 * (int)i, "",
			 text_clean(name, sizeof(name), link->thread[0] ? link->thread : "?"),
			 link->tid);
		line_put(&line, link->how == LINK_FUTEX ? ", %s:" : ", a %s:",
			 link->what ? text_clean(name, sizeof(name), link->what) : "lock");
		if (!link->stack || !put_path(table, &line, link->stack, BLOCK_FRAMES))
			line_put(&line, " no stack");
		line_end(&line);
	}
	if (block->chain_cut) {
		struct line line = table_line(table);

		line_put(&line, "    %*sand that one for another: no more than %zu are followed",
			 2 * (int)block->chain_count, "", block->chain_count);
		line_end(&line);
	}
	if (block->deadlock) {
		struct line line = table_line(table);

		line_style(&line, LINE_BAD);
		line_put(&line, "    deadlock: %s",
			 block->chain_count ? "each of them waits for the next for ever"
					    : "it waits for a lock that it holds itself");
		line_style(&line, LINE_PLAIN);
		line_end(&line);
	}
}

/* What the thread did that ended its sleep; where it waited for a lock or a call, the chain has
 * said so. */
static void put_waker(struct table_sink *table, const struct record_block *block)
{
	const struct record_waker *waker = &block->waker;
	struct line line;
	char name[TABLE_NAME];

	if (!waker->present || !waker->stack || block->chain_count)
		return;
	line = table_line(table);
	line_put(&line, "    woken by %s %d",
		 text_clean(name, sizeof(name), waker->thread[0] ? waker->thread : "?"),
		 waker->tid);
	if (waker->pid != block->pid && waker->process)
		line_put(&line, " of %s", text_clean(name, sizeof(name), waker->process));
	if (waker->what)
		line_put(&line, ", %s", text_clean(name, sizeof(name), waker->what));
	line_put(&line, ":");
	if (!put_path(table, &line, waker->stack, BLOCK_FRAMES))
		line_put(&line, " no stack");
	line_end(&line);
}

void table_print_block(struct table_sink *table, const struct record *record)
{
	static const char *const classes[] = {"short", "long", "ANR"};
	static const char *const states[] = {" so far", "", ", then it died"};
	static const enum line_style styles[] = {LINE_WARN, LINE_WARN, LINE_BAD};
	const struct record_block *block = record->block;
	double wall_ns = block->wall_ns ? (double)block->wall_ns : 1;
	const struct record_stack *top = block->top.present && block->top.value < block->stack_count
						 ? &block->stacks[block->top.value]
						 : NULL;
	struct line line = table_line_at(table, record->t_boot_ns);
	char process[TABLE_NAME], name[TABLE_NAME];

	line_style(&line, styles[block->class]);
	line_put(&line, "  BLOCK %s %.1f ms%s%s", classes[block->class], table_ms(block->wall_ns),
		 states[block->state], block->merged ? " (merged)" : "");
	line_style(&line, LINE_PLAIN);
	line_put(&line, "  run %.0f wait %.0f sleep %.0f D %.0f %%",
		 100 * (double)block->ledger.running_ns / wall_ns,
		 100 * (double)block->ledger.runnable_ns / wall_ns,
		 100 * (double)block->ledger.sleeping_ns / wall_ns,
		 100 * (double)block->ledger.uninterruptible_ns / wall_ns);
	line_end(&line);
	table_process(process, block->process, block->package, NULL);
	line_put(&line, "    %s",
		 text_tail(name, sizeof(name), process,
			   line.width - 6 < PROCESS_COLUMNS ? line.width - 6 : PROCESS_COLUMNS));
	line_put(&line, " %d:", block->pid);
	if (!top || !put_path(table, &line, top, BLOCK_FRAMES))
		put_no_stack(&line, block);
	put_why(&line, block);
	line_end(&line);
	put_chain(table, block);
	put_waker(table, block);
}

void table_print_addition(struct table_sink *table, const struct record_addition *addition)
{
	const struct record_stack *stack = &addition->stack;
	struct line line = table_line(table);
	char at[TABLE_TIME];

	line_put(&line, "    stack of the block");
	if (addition->of_boot_ns)
		line_put(&line, " at %s",
			 table_time(table, addition->of_boot_ns, at) + strspn(at, " "));
	line_put(&line, ":");
	if (!put_path(table, &line, stack, STACK_FRAMES))
		line_put(&line, " no frame");
	line_end(&line);
}

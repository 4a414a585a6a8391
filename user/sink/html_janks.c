/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/html_janks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "record/fields.h"
#include "sink/html_blocks.h"
#include "why/line.h"

#define ROWS       600
#define ROW_BYTES  (6u << 10) /* of a row; one that is longer is told without its stack */
#define ROWS_BYTES (600u << 10)
#define THREADS    8
#define CHAIN      4

struct row {
	char *json;
	size_t length;
	uint64_t late_ns;
};

/* The rows are a heap, so that the least late one is the first: of a long run most frames find no
 * room, and are to cost nothing. */
struct html_janks {
	struct row rows[ROWS];
	size_t count;
	struct why_totals totals;
};

struct html_janks *html_janks_new(void)
{
	return calloc(1, sizeof(struct html_janks));
}

void html_janks_free(struct html_janks *janks)
{
	for (size_t i = 0; janks && i < janks->count; i++)
		free(janks->rows[i].json);
	free(janks);
}

/* ---- a row ---- */

static void put_text(struct json_buffer *to, const char *key, const char *text)
{
	if (!text)
		return;
	json_put_key(to, key);
	json_put_text(to, text, 512);
}

static void put_number(struct json_buffer *to, const char *key, uint64_t value)
{
	json_put_key(to, key);
	json_put_u64(to, value);
}

static void put_thread(struct json_buffer *to, const struct jank_thread *thread)
{
	const struct jank_ledger *ledger = &thread->ledger;

	json_put_mark(to, '{');
	put_text(to, "role", record_jank_roles[thread->role]);
	json_put_key(to, "thread");
	json_put_text(to, thread->thread, sizeof(thread->thread));
	put_number(to, "tid", (uint64_t)thread->tid);
	put_text(to, "process", thread->process);
	json_put_key(to, "ledger");
	json_put_mark(to, '{');
	put_number(to, "running_ns", ledger->running_ns);
	put_number(to, "runnable_ns", ledger->runnable_ns);
	put_number(to, "sleeping_ns", ledger->sleeping_ns);
	put_number(to, "uninterruptible_ns", ledger->uninterruptible_ns);
	put_number(to, "stopped_ns", ledger->stopped_ns);
	put_number(to, "unknown_ns", ledger->unknown_ns);
	json_put_mark(to, '}');
	if (thread->reason_count)
		put_text(to, "reason", thread->reasons[0].reason);
	json_put_mark(to, '}');
}

static void put_row(struct json_buffer *to, const struct record_jank *jank, uint64_t x_ns,
		    bool stacks)
{
	char why[512];

	json_put_mark(to, '{');
	/* A frame is short: its begin is told in us. */
	put_number(to, "us", x_ns / 1000);
	put_number(to, "window_ns", jank->window_end_ns - jank->window_start_ns);
	put_number(to, "late_ns", jank->late_ns);
	put_number(to, "cause", jank->cause);
	if (jank->second_cause)
		put_number(to, "second", jank->second_cause);
	put_text(to, "process", jank->process ? jank->process : jank->package);
	put_number(to, "pid", (uint64_t)jank->pid);
	put_text(to, "layer", jank->layer);
	put_text(to, "why", why_line(jank, why, sizeof(why)));
	if (jank->dropped)
		put_number(to, "dropped", 1);
	json_put_key(to, "threads");
	json_put_mark(to, '[');
	for (size_t i = 0; i < jank->thread_count && i < THREADS; i++)
		put_thread(to, &jank->threads[i]);
	json_put_mark(to, ']');
	json_put_key(to, "chain");
	json_put_mark(to, '[');
	for (size_t i = 0; i < jank->chain_count && i < CHAIN && stacks; i++)
		html_put_link(to, &jank->chain[i]);
	json_put_mark(to, ']');
	if (stacks && jank->top.present && jank->top.value < jank->stack_count) {
		json_put_key(to, "stacks");
		json_put_mark(to, '[');
		html_put_stack(to, &jank->stacks[jank->top.value]);
		json_put_mark(to, ']');
	}
	json_put_mark(to, '}');
}

/* ---- the latest ---- */

static void swap(struct row *a, struct row *b)
{
	const struct row row = *a;

	*a = *b;
	*b = row;
}

static void sink_first(struct html_janks *janks)
{
	size_t at = 0;

	for (;;) {
		size_t least = at;

		for (size_t kid = 2 * at + 1; kid <= 2 * at + 2 && kid < janks->count; kid++)
			if (janks->rows[kid].late_ns < janks->rows[least].late_ns)
				least = kid;
		if (least == at)
			return;
		swap(&janks->rows[at], &janks->rows[least]);
		at = least;
	}
}

static void raise_last(struct html_janks *janks)
{
	for (size_t at = janks->count - 1; at; at = (at - 1) / 2) {
		if (janks->rows[at].late_ns >= janks->rows[(at - 1) / 2].late_ns)
			return;
		swap(&janks->rows[at], &janks->rows[(at - 1) / 2]);
	}
}

int html_janks_add(struct html_janks *janks, const struct record_jank *jank, uint64_t x_ns)
{
	struct json_buffer json = {0};

	why_totals_add(&janks->totals, jank);
	if (janks->count == ROWS && janks->rows[0].late_ns >= jank->late_ns)
		return 0;
	put_row(&json, jank, x_ns, true);
	if (!json.failed && json.length > ROW_BYTES) {
		free(json.text);
		json = (struct json_buffer){0};
		put_row(&json, jank, x_ns, false);
	}
	if (json.failed) {
		free(json.text);
		return -ENOMEM;
	}
	if (janks->count < ROWS) {
		janks->rows[janks->count++] = (struct row){json.text, json.length, jank->late_ns};
		raise_last(janks);
		return 0;
	}
	free(janks->rows[0].json);
	janks->rows[0] = (struct row){json.text, json.length, jank->late_ns};
	sink_first(janks);
	return 0;
}

static int later(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->late_ns < y->late_ns ? 1 : x->late_ns > y->late_ns ? -1 : 0;
}

void html_janks_put(struct html_janks *janks, struct json_buffer *to)
{
	size_t bytes = 0;

	qsort(janks->rows, janks->count, sizeof(*janks->rows), later);
	json_put_key(to, "late");
	json_put_mark(to, '{');
	put_number(to, "count", janks->totals.frames);
	put_number(to, "late_ns", janks->totals.late_ns);
	/* By the number of the cause: its words, frames, and how late they were. */
	json_put_key(to, "causes");
	json_put_mark(to, '[');
	for (int cause = 0; cause < JANK_CAUSES; cause++) {
		json_put_mark(to, '[');
		json_put_text(to, why_cause_words((enum jank_cause)cause), SIZE_MAX);
		json_put_u64(to, janks->totals.causes[cause].frames);
		json_put_u64(to, janks->totals.causes[cause].late_ns);
		json_put_mark(to, ']');
	}
	json_put_mark(to, ']');
	json_put_key(to, "rows");
	json_put_mark(to, '[');
	for (size_t i = 0; i < janks->count; i++) {
		bytes += janks->rows[i].length;
		if (bytes > ROWS_BYTES)
			break;
		if (i)
			json_put_raw(to, ",", 1);
		json_put_raw(to, janks->rows[i].json, janks->rows[i].length);
	}
	json_put_mark(to, ']');
	json_put_mark(to, '}');
}

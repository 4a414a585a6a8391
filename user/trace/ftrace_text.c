/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace/ftrace_text.h"
#include "trace/atrace.h"
#include "trace/dumpsys.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LINE   65536
#define KNOWN_TIDS 1024
#define MAX_CPUS   1024

enum dump { DUMP_NONE, DUMP_PROCESSES, DUMP_THREADS };

struct known {
	int32_t tid, tgid;
	uint32_t comm_hash;
};

struct trace_text {
	const struct trace_events *events;
	void *ctx;
	char *carry;
	size_t carry_size;
	bool overlong; /* the rest of this line is dropped */
	uint64_t understood;
	enum dump dump;
	struct dumpsys dumpsys;
	struct known known[KNOWN_TIDS]; /* what was told about a thread last */
	bool lost[MAX_CPUS];            /* events of it, since its last switch */
};

struct trace_text *trace_text_new(const struct trace_events *events, void *ctx)
{
	struct trace_text *text = calloc(1, sizeof(*text));

	if (!text)
		return NULL;
	text->events = events;
	text->ctx = ctx;
	text->dumpsys.events = events;
	text->dumpsys.ctx = ctx;
	text->carry = malloc(MAX_LINE);
	if (!text->carry) {
		free(text);
		return NULL;
	}
	return text;
}

void trace_text_free(struct trace_text *text)
{
	if (!text)
		return;
	free(text->carry);
	free(text);
}

static void loss(struct trace_text *text, const char *reason, uint64_t count)
{
	if (text->events->loss)
		text->events->loss(text->ctx, reason, count);
}

static bool is(const char *text, size_t size, const char *word)
{
	return strlen(word) == size && !memcmp(text, word, size);
}

static void tell_thread(struct trace_text *text, const struct ftrace_line *line)
{
	struct known *known = &text->known[(uint32_t)line->tid % KNOWN_TIDS];
	uint32_t hash = (uint32_t)line->comm_size;

	if (!text->events->thread)
		return;
	for (size_t i = 0; i < line->comm_size; i++)
		hash = hash * 31 + (unsigned char)line->comm[i];
	if (known->tid == line->tid && known->tgid == line->tgid && known->comm_hash == hash)
		return;
	*known = (struct known){line->tid, line->tgid, hash};
	if (is(line->comm, line->comm_size, "<...>"))
		text->events->thread(text->ctx, line->tid, line->tgid, "", 0);
	else
		text->events->thread(text->ctx, line->tid, line->tgid, line->comm, line->comm_size);
}

static void mark_line(struct trace_text *text, const struct ftrace_line *line)
{
	static const char again[] = "tracing_mark_write:";
	const char *payload = line->payload;
	size_t size = line->payload_size;
	struct trace_mark mark;

	/* trace-cmd prints the name of the function before the marker */
	while (size && *payload == ' ') {
		payload++;
		size--;
	}
	if (size > sizeof(again) && !memcmp(payload, again, sizeof(again) - 1)) {
		payload += sizeof(again) - 1;
		size -= sizeof(again) - 1;
		while (size && *payload == ' ') {
			payload++;
			size--;
		}
	}
	tell_thread(text, line);
	if (!text->events->mark)
		return;
	if (!atrace_parse(payload, size, &mark)) {
		if (size > 2 && payload[1] == '|')
			loss(text, "malformed_markers", 1);
		return;
	}
	mark.ts_ns = line->ts_ns;
	mark.tid = line->tid;
	text->events->mark(text->ctx, &mark);
}

/* The number behind " key=" or at the start; comms before it may hold anything but that key. */
static bool keyed(const char *payload, size_t size, const char *key, const char **value)
{
	const char *found = memmem(payload, size, key, strlen(key));

	if (!found)
		return false;
	*value = found + strlen(key);
	return true;
}

static int64_t leading_number(const char *p, const char *end)
{
	int64_t value = 0;
	const char *start = p;

	while (p < end && *p >= '0' && *p <= '9' && p - start < 10)
		value = value * 10 + (*p++ - '0');
	return p == start || value > INT32_MAX ? -1 : value;
}

static void switch_line(struct trace_text *text, const struct ftrace_line *line)
{
	const char *p = line->payload, *end = p + line->payload_size;
	const char *prev, *state, *next, *comm, *next_comm;
	struct trace_switch event = {.ts_ns = line->ts_ns, .cpu = line->cpu};

	if (!text->events->sched_switch)
		return;
	if (!keyed(p, line->payload_size, " prev_pid=", &prev) ||
	    !keyed(p, line->payload_size, " prev_state=", &state) ||
	    !keyed(p, line->payload_size, " ==> next_comm=", &next_comm) ||
	    !keyed(next_comm, (size_t)(end - next_comm), " next_pid=", &next)) {
		loss(text, "malformed_sched_lines", 1);
		return;
	}
	if (keyed(p, line->payload_size, "prev_comm=", &comm) && comm < prev) {
		event.prev_comm = comm;
		event.prev_comm_size = (size_t)(prev - 10 - comm);
	}
	event.next_comm = next_comm;
	event.next_comm_size = (size_t)(next - 10 - next_comm);
	event.prev_tid = (int32_t)leading_number(prev, end);
	event.next_tid = (int32_t)leading_number(next, end);
	event.prev_state = state < end && *state == 'R' ? 0 : state < end ? *state : -1;
	if (line->cpu >= 0 && line->cpu < MAX_CPUS) {
		event.lost = text->lost[line->cpu];
		text->lost[line->cpu] = false;
	}
	/* the line is of the thread that leaves: it tells whose that is */
	tell_thread(text, line);
	text->events->sched_switch(text->ctx, &event);
}

static void wakeup_line(struct trace_text *text, const struct ftrace_line *line)
{
	const char *end = line->payload + line->payload_size, *pid;
	struct trace_wakeup event = {.ts_ns = line->ts_ns,
				     .cpu = line->cpu,
				     .waker_tid = line->tid,
				     .target_cpu = -1,
				     .interrupt = line->interrupt};
	const char *cpu;

	if (!text->events->wakeup)
		return;
	/* task_newtask begins with it */
	if (!keyed(line->payload, line->payload_size, " pid=", &pid) &&
	    !(line->payload_size > 4 && !memcmp(line->payload, "pid=", 4) &&
	      keyed(line->payload, line->payload_size, "pid=", &pid))) {
		/* old kernels: comm:pid:... */
		loss(text, "malformed_sched_lines", 1);
		return;
	}
	event.tid = (int32_t)leading_number(pid, end);
	/* sched_waking comes before the run queue is chosen */
	if (!is(line->event, line->event_size, "sched_waking") &&
	    keyed(line->payload, line->payload_size, " target_cpu=", &cpu))
		event.target_cpu = (int32_t)leading_number(cpu, end);
	text->events->wakeup(text->ctx, &event);
}

/* "pid=1 iowait=0 caller=..." */
static void blocked_line(struct trace_text *text, const struct ftrace_line *line)
{
	const char *end = line->payload + line->payload_size, *pid, *wait;
	struct trace_blocked event = {.ts_ns = line->ts_ns};

	if (!text->events->blocked || !keyed(line->payload, line->payload_size, "pid=", &pid) ||
	    (!keyed(line->payload, line->payload_size, "iowait=", &wait) &&
	     !keyed(line->payload, line->payload_size, "io_wait=", &wait)))
		return;
	event.tid = (int32_t)leading_number(pid, end);
	event.io_wait = leading_number(wait, end) > 0;
	text->events->blocked(text->ctx, &event);
}

/* "transaction=1 dest_node=2 dest_proc=3 dest_thread=0 reply=0 flags=0x10 code=0x3", or the event
 * of who gets it. */
static void binder_line(struct trace_text *text, const struct ftrace_line *line, bool received)
{
	const char *p = line->payload, *end = p + line->payload_size, *value;
	struct trace_binder event = {.ts_ns = line->ts_ns, .tid = line->tid, .received = received};

	if (!text->events->binder)
		return;
	if (keyed(p, line->payload_size, "transaction=", &value))
		event.id = leading_number(value, end);
	if (keyed(p, line->payload_size, "dest_proc=", &value))
		event.to_pid = (int32_t)leading_number(value, end);
	if (keyed(p, line->payload_size, "dest_thread=", &value))
		event.to_tid = (int32_t)leading_number(value, end);
	if (keyed(p, line->payload_size, "reply=", &value))
		event.reply = leading_number(value, end) > 0;
	/* hexadecimal; the lowest digit has TF_ONE_WAY */
	if (keyed(p, line->payload_size, "flags=0x", &value)) {
		while (value + 1 < end && isxdigit((unsigned char)value[1]))
			value++;
		event.one_way = value < end && strchr("13579bdfBDF", *value) != NULL;
	}
	text->events->binder(text->ctx, &event);
}

/* systrace's `ps` output: USER PID PPID ... NAME, and USER PID TID CMD. */
static void dump_line(struct trace_text *text, const char *line, size_t size)
{
	const char *end = line + size, *field[16], *field_end[16];
	unsigned n = 0;
	int64_t pid, tid;

	for (const char *p = line; p < end && n < 16;) {
		while (p < end && (*p == ' ' || *p == '\t'))
			p++;
		if (p == end)
			break;
		field[n] = p;
		while (p < end && *p != ' ' && *p != '\t')
			p++;
		field_end[n++] = p;
	}
	if (n < 4 || !ftrace_digits(field[1], field_end[1], &pid) || pid > INT32_MAX)
		return;
	if (text->dump == DUMP_PROCESSES && text->events->process) {
		text->events->process(text->ctx, (int32_t)pid, -1, field[n - 1],
				      (size_t)(field_end[n - 1] - field[n - 1]));
	} else if (text->dump == DUMP_THREADS && ftrace_digits(field[2], field_end[2], &tid) &&
		   tid <= INT32_MAX && text->events->thread) {
		text->events->thread(text->ctx, (int32_t)tid, (int32_t)pid, field[3],
				     (size_t)(field_end[n - 1] - field[3]));
	}
	text->understood++;
}

static void note_lost(struct trace_text *text, int64_t cpu)
{
	if (cpu >= 0 && cpu < MAX_CPUS)
		text->lost[cpu] = true;
}

/* "##### CPU 3 buffer started ####": what that CPU wrote before was written over. */
static void started_line(struct trace_text *text, const char *line, size_t size)
{
	static const char words[] = "##### CPU ";

	if (size > sizeof(words) && !memcmp(line, words, sizeof(words) - 1) &&
	    memmem(line, size, " buffer started", 15))
		note_lost(text, leading_number(line + sizeof(words) - 1, line + size));
}

/* "CPU:3 [LOST 123 EVENTS]" */
static bool lost_line(struct trace_text *text, const char *line, size_t size)
{
	const char *lost;
	int64_t count;

	if (size < 5 || memcmp(line, "CPU:", 4))
		return false;
	lost = memmem(line, size, "[LOST ", 6);
	count = lost ? leading_number(lost + 6, line + size) : -1;
	loss(text, "ftrace_lost_events", count > 0 ? (uint64_t)count : 1);
	note_lost(text, leading_number(line + 4, line + size));
	return true;
}

static void take_line(struct trace_text *text, const char *line, size_t size)
{
	struct ftrace_line parsed;

	while (size && (line[size - 1] == '\r' || line[size - 1] == '\n'))
		size--;
	if (!size || line[0] == '#') {
		text->understood += size > 8 && !memcmp(line, "# tracer", 8);
		started_line(text, line, size);
		text->dump = size ? text->dump : DUMP_NONE;
		return;
	}
	if (dumpsys_line(&text->dumpsys, line, size)) {
		text->understood++;
		return;
	}
	if (ftrace_line_parse(line, size, &parsed)) {
		text->understood++;
		text->dump = DUMP_NONE;
		if (is(parsed.event, parsed.event_size, "tracing_mark_write") ||
		    is(parsed.event, parsed.event_size, "print") ||
		    is(parsed.event, parsed.event_size, "0"))
			mark_line(text, &parsed);
		else if (is(parsed.event, parsed.event_size, "sched_switch"))
			switch_line(text, &parsed);
		else if (is(parsed.event, parsed.event_size, "sched_waking") ||
			 is(parsed.event, parsed.event_size, "sched_wakeup") ||
			 is(parsed.event, parsed.event_size, "sched_wakeup_new") ||
			 is(parsed.event, parsed.event_size, "task_newtask"))
			wakeup_line(text, &parsed);
		else if (is(parsed.event, parsed.event_size, "sched_blocked_reason"))
			blocked_line(text, &parsed);
		else if (is(parsed.event, parsed.event_size, "binder_transaction"))
			binder_line(text, &parsed, false);
		else if (is(parsed.event, parsed.event_size, "binder_transaction_received"))
			binder_line(text, &parsed, true);
		return;
	}
	if (lost_line(text, line, size))
		return;
	if (size > 4 && !memcmp(line, "USER", 4) && isspace((unsigned char)line[4])) {
		text->dump = memmem(line, size, " TID", 4) ? DUMP_THREADS : DUMP_PROCESSES;
		return;
	}
	if (text->dump != DUMP_NONE)
		dump_line(text, line, size);
}

static void take_whole_line(struct trace_text *text, const char *line, size_t size)
{
	if (text->overlong)
		loss(text, "overlong_lines", 1);
	else
		take_line(text, line, size);
	text->overlong = false;
}

int trace_text_feed(struct trace_text *text, const char *data, size_t size)
{
	while (size) {
		const char *newline;

		/* empty lines end a dump and mean nothing else, however many there are */
		while (size && *data == '\n' && !text->carry_size && !text->overlong &&
		       text->dump == DUMP_NONE && !text->dumpsys.in_profile) {
			data++;
			size--;
		}
		if (!size)
			break;
		newline = memchr(data, '\n', size);
		size_t n = newline ? (size_t)(newline - data) : size;

		if (!newline || text->carry_size || text->overlong) {
			if (text->carry_size + n > MAX_LINE)
				text->overlong = true;
			if (!text->overlong) {
				memcpy(text->carry + text->carry_size, data, n);
				text->carry_size += n;
			}
			if (newline) {
				take_whole_line(text, text->carry, text->carry_size);
				text->carry_size = 0;
			}
		} else {
			take_line(text, data, n);
		}
		n += newline != NULL;
		data += n;
		size -= n;
	}
	return 0;
}

int trace_text_finish(struct trace_text *text)
{
	if (text->carry_size || text->overlong)
		take_whole_line(text, text->carry, text->carry_size);
	text->carry_size = 0;
	dumpsys_finish(&text->dumpsys);
	if (text->dumpsys.summary_lines && !text->dumpsys.rows)
		loss(text, "gfxinfo_without_framestats", 1);
	return 0;
}

uint64_t trace_text_understood(const struct trace_text *text)
{
	return text->understood + text->dumpsys.rows + text->dumpsys.summary_lines;
}

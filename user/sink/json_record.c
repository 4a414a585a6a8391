/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/json_record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/histogram.h"
#include "util/crc32c.h"

/* jansson's setters take over the value and fail on NULL, so one check at the end is enough: a node
 * that could not be made leaves its key out, and the line is then refused. */
struct builder {
	bool failed;
};

static void set(struct builder *b, json_t *object, const char *key, json_t *value)
{
	if (json_object_set_new(object, key, value))
		b->failed = true;
}

static void set_int(struct builder *b, json_t *object, const char *key, uint64_t value)
{
	set(b, object, key, json_integer((json_int_t)value));
}

static void set_text(struct builder *b, json_t *object, const char *key, const char *value)
{
	json_t *text;

	if (!value)
		return;
	text = json_string(value);
	/* A thread may be named with any bytes; JSON wants UTF-8. */
	if (!text) {
		char *copy = strdup(value);

		for (char *p = copy; p && *p; p++)
			if ((unsigned char)*p >= 0x80)
				*p = '?';
		text = copy ? json_string(copy) : NULL;
		free(copy);
	}
	set(b, object, key, text);
}

static void set_opt(struct builder *b, json_t *object, const char *key, struct opt_u64 value)
{
	if (value.present)
		set_int(b, object, key, value.value);
}

static json_t *add_object(struct builder *b, json_t *array)
{
	json_t *object = json_object();

	if (json_array_append_new(array, object))
		b->failed = true;
	return object;
}

static json_t *set_array(struct builder *b, json_t *object, const char *key)
{
	json_t *array = json_array();

	set(b, object, key, array);
	return array;
}

static json_t *set_object(struct builder *b, json_t *object, const char *key)
{
	json_t *child = json_object();

	set(b, object, key, child);
	return child;
}

static void set_counters(struct builder *b, json_t *object, const char *key,
			 const struct counter_list *list)
{
	json_t *child = set_object(b, object, key);

	for (size_t i = 0; i < list->count; i++)
		set_int(b, child, list->items[i].name, list->items[i].value);
}

static void set_missing(struct builder *b, json_t *object, const struct missing_list *list)
{
	json_t *child = set_object(b, object, "missing");

	for (size_t i = 0; i < list->count; i++)
		set_text(b, child, list->items[i].key, list->items[i].reason);
}

static void header(struct builder *b, json_t *object, const struct record_header *header)
{
	json_t *child;

	set_int(b, object, "schema", RECORD_SCHEMA);
	set_text(b, object, "version", JANKSCOPE_VERSION);
	set_text(b, object, "session", header->session);
	set_text(b, object, "boot_id", header->boot_id);
	set_text(b, object, "kernel", header->kernel);
	set_text(b, object, "arch", header->arch);
	set_text(b, object, "device", header->device);
	child = set_object(b, object, "clock");
	set_int(b, child, "boot_ns", header->clock.boot_ns);
	set_int(b, child, "mono_ns", header->clock.mono_ns);
	set_int(b, child, "unix_ns", header->clock.unix_ns);
	set_int(b, object, "interval_ns", header->interval_ns);
	set_int(b, object, "block_ns", header->block_ns);
	child = set_array(b, object, "targets");
	for (size_t i = 0; i < header->target_count; i++) {
		json_t *target = add_object(b, child);

		set_text(b, target, "package", header->targets[i].package);
		set_opt(b, target, "uid", header->targets[i].uid);
		set_opt(b, target, "pid", header->targets[i].pid);
	}
	child = set_array(b, object, "sources");
	for (size_t i = 0; i < header->source_count; i++) {
		json_t *source = add_object(b, child);

		set_text(b, source, "name", header->sources[i].name);
		set_text(b, source, "state", header->sources[i].state);
		set_text(b, source, "variant", header->sources[i].variant);
		set_text(b, source, "reason", header->sources[i].reason);
	}
}

static void task(struct builder *b, json_t *object, const struct record_task *task)
{
	set_int(b, object, "tid", (uint64_t)task->tid);
	set_int(b, object, "pid", (uint64_t)task->pid);
	set_int(b, object, "uid", task->uid);
	set_int(b, object, "start_boot_ns", task->start_boot_ns);
	set_text(b, object, "thread", task->thread);
	set_text(b, object, "process", task->process);
	set_text(b, object, "package", task->package);
	set_int(b, object, "cpu_ns", task->cpu_ns);
	set_opt(b, object, "runnable_ns", task->runnable_ns);
	set_opt(b, object, "sleeping_ns", task->sleeping_ns);
	set_opt(b, object, "uninterruptible_ns", task->uninterruptible_ns);
	set_opt(b, object, "stopped_ns", task->stopped_ns);
	set_opt(b, object, "switches_voluntary", task->switches_voluntary);
	set_opt(b, object, "switches_involuntary", task->switches_involuntary);
	if (task->exited)
		set(b, object, "exited", json_true());
}

static void cpu(struct builder *b, json_t *parent, const struct record_cpu *cpu)
{
	json_t *object = set_object(b, parent, "cpu"), *array;

	set_int(b, object, "online_cpus", cpu->online_cpus);
	set_int(b, object, "busy_ns", cpu->busy_ns);
	set_opt(b, object, "idle_ns", cpu->idle_ns);
	if (cpu->unaccounted_ns.present)
		set(b, object, "unaccounted_ns", json_integer(cpu->unaccounted_ns.value));
	set_int(b, object, "other_ns", cpu->other_ns);
	set_int(b, object, "overflow_ns", cpu->overflow_ns);
	array = set_array(b, object, "tasks");
	for (size_t i = 0; i < cpu->task_count; i++)
		task(b, add_object(b, array), &cpu->tasks[i]);
	array = set_array(b, object, "processes");
	for (size_t i = 0; i < cpu->process_count; i++) {
		const struct record_process_cpu *row = &cpu->processes[i];
		json_t *process = add_object(b, array);

		set_int(b, process, "pid", (uint64_t)row->pid);
		set_int(b, process, "uid", row->uid);
		set_text(b, process, "process", row->process);
		set_text(b, process, "package", row->package);
		set_int(b, process, "cpu_ns", row->cpu_ns);
		set_opt(b, process, "runnable_ns", row->runnable_ns);
		set_int(b, process, "threads", row->threads);
	}
	array = set_array(b, object, "uids");
	for (size_t i = 0; i < cpu->uid_count; i++) {
		json_t *uid = add_object(b, array);

		set_int(b, uid, "uid", cpu->uids[i].uid);
		set_int(b, uid, "cpu_ns", cpu->uids[i].cpu_ns);
	}
}

static void bytes(struct builder *b, json_t *object, const struct record_bytes *bytes)
{
	set_int(b, object, "rx_bytes", bytes->rx_bytes);
	set_int(b, object, "rx_packets", bytes->rx_packets);
	set_int(b, object, "tx_bytes", bytes->tx_bytes);
	set_int(b, object, "tx_packets", bytes->tx_packets);
}

static void net(struct builder *b, json_t *parent, const struct record_net *net)
{
	json_t *object = set_object(b, parent, "net"), *array = set_array(b, object, "uids"), *part;

	for (size_t i = 0; i < net->uid_count; i++) {
		json_t *uid = add_object(b, array);

		set_int(b, uid, "uid", net->uids[i].uid);
		set_text(b, uid, "package", net->uids[i].package);
		bytes(b, uid, &net->uids[i].bytes);
	}
	bytes(b, set_object(b, object, "loopback"), &net->loopback);
	part = set_object(b, object, "unattributed");
	bytes(b, part, &net->unattributed);
	bytes(b, set_object(b, part, "forwarded"), &net->forwarded);
	bytes(b, set_object(b, part, "kernel"), &net->kernel);
	bytes(b, set_object(b, part, "no_socket"), &net->no_socket);
}

struct histogram_visit {
	struct builder *b;
	json_t *array;
};

static void visit_bucket(void *ctx, uint64_t low, uint64_t high, uint64_t count)
{
	struct histogram_visit *visit = ctx;
	json_t *bucket = json_array();

	json_array_append_new(bucket, json_integer((json_int_t)low));
	json_array_append_new(bucket, json_integer((json_int_t)high));
	json_array_append_new(bucket, json_integer((json_int_t)count));
	if (json_array_append_new(visit->array, bucket))
		visit->b->failed = true;
}

static void frames(struct builder *b, json_t *parent, const struct record_frames *frames)
{
	json_t *array = set_array(b, set_object(b, parent, "frames"), "layers");

	for (size_t i = 0; i < frames->layer_count; i++) {
		const struct record_layer *row = &frames->layers[i];
		json_t *layer = add_object(b, array), *jank;

		if (row->pid > 0)
			set_int(b, layer, "pid", (uint64_t)row->pid);
		set_text(b, layer, "package", row->package);
		set_text(b, layer, "layer", row->layer);
		set_opt(b, layer, "period_ns", row->period_ns);
		set_int(b, layer, "shown", row->shown);
		set_int(b, layer, "dropped", row->dropped);
		set(b, layer, "fps_active", json_real(row->fps_active));
		set_int(b, layer, "janky", row->janky);
		jank = set_object(b, layer, "jank");
		set_int(b, jank, "app", row->jank.app);
		set_int(b, jank, "sf", row->jank.sf);
		set_int(b, jank, "hw", row->jank.hw);
		set_int(b, jank, "stuffing", row->jank.stuffing);
		set_int(b, jank, "dropped", row->jank.dropped);
		set_int(b, jank, "unknown", row->jank.unknown);
		if (row->interval_hist) {
			struct histogram_visit visit = {b, set_array(b, layer, "interval_hist")};

			histogram_each(row->interval_hist, visit_bucket, &visit);
		}
	}
}

static void interval(struct builder *b, json_t *object, const struct record_interval *interval)
{
	json_t *self;

	set_int(b, object, "dur_ns", interval->dur_ns);
	if (interval->last)
		set(b, object, "last", json_true());
	if (interval->cpu.present)
		cpu(b, object, &interval->cpu);
	if (interval->net.present)
		net(b, object, &interval->net);
	if (interval->frames.present)
		frames(b, object, &interval->frames);
	set_counters(b, object, "lost", &interval->lost);
	set_missing(b, object, &interval->missing);
	self = set_object(b, object, "self");
	set_int(b, self, "cpu_ns", interval->self.cpu_ns);
	set_opt(b, self, "anon_bytes", interval->self.anon_bytes);
	set_int(b, self, "stops", interval->self.stops);
	set_int(b, self, "stop_max_ns", interval->self.stop_max_ns);
}

static void stack(struct builder *b, json_t *object, const struct record_stack *stack)
{
	static const char *const captures[] = {"snapshot", "perf", "ptrace", "kernel"};
	static const char *const kinds[] = {"native", "jit", "dex", "kernel", "vdso"};
	json_t *array;

	set_int(b, object, "t_boot_ns", stack->t_boot_ns);
	set_int(b, object, "weight_ns", stack->weight_ns);
	set_text(b, object, "capture", captures[stack->capture]);
	set(b, object, "complete", json_boolean(stack->complete));
	set_text(b, object, "end_reason", stack->end_reason);
	array = set_array(b, object, "frames");
	for (size_t i = 0; i < stack->frame_count; i++) {
		const struct record_frame *row = &stack->frames[i];
		json_t *frame = add_object(b, array);

		set_text(b, frame, "module", row->module);
		set_text(b, frame, "build_id", row->build_id);
		set_int(b, frame, "offset", row->offset);
		set_text(b, frame, "symbol", row->symbol);
		set_text(b, frame, "kind", kinds[row->kind]);
	}
}

static void block(struct builder *b, json_t *object, const struct record_block *block)
{
	static const char *const states[] = {"open", "closed", "exited"};
	static const char *const classes[] = {"short", "long", "anr"};
	json_t *child;

	set_int(b, object, "pid", (uint64_t)block->pid);
	set_int(b, object, "tid", (uint64_t)block->tid);
	set_text(b, object, "package", block->package);
	set_text(b, object, "process", block->process);
	set_int(b, object, "start_boot_ns", block->start_boot_ns);
	set_int(b, object, "wall_ns", block->wall_ns);
	set_text(b, object, "state", states[block->state]);
	set_text(b, object, "class", classes[block->class]);
	set_text(b, object, "detector", block->detector);
	if (block->merged)
		set(b, object, "merged", json_true());
	child = set_object(b, object, "ledger");
	set_int(b, child, "running_ns", block->ledger.running_ns);
	set_int(b, child, "runnable_ns", block->ledger.runnable_ns);
	set_int(b, child, "sleeping_ns", block->ledger.sleeping_ns);
	set_int(b, child, "uninterruptible_ns", block->ledger.uninterruptible_ns);
	set_int(b, child, "stopped_ns", block->ledger.stopped_ns);
	set_opt(b, object, "cpu_ns", block->cpu_ns);
	child = set_array(b, object, "reasons");
	for (size_t i = 0; i < block->reason_count; i++) {
		json_t *reason = add_object(b, child);

		set_text(b, reason, "reason", block->reasons[i].reason);
		set_int(b, reason, "ns", block->reasons[i].ns);
	}
	if (block->waker.present) {
		child = set_object(b, object, "waker");
		set_int(b, child, "pid", (uint64_t)block->waker.pid);
		set_int(b, child, "tid", (uint64_t)block->waker.tid);
		set_text(b, child, "thread", block->waker.thread);
		set_text(b, child, "process", block->waker.process);
	}
	if (block->owner.present) {
		child = set_object(b, object, "owner");
		set_int(b, child, "pid", (uint64_t)block->owner.pid);
		set_int(b, child, "tid", (uint64_t)block->owner.tid);
		set_text(b, child, "thread", block->owner.thread);
		set_text(b, child, "process", block->owner.process);
	}
	child = set_array(b, object, "preemptors");
	for (size_t i = 0; i < block->preemptor_count; i++) {
		json_t *preemptor = add_object(b, child);

		set_int(b, preemptor, "tid", (uint64_t)block->preemptors[i].tid);
		set_text(b, preemptor, "thread", block->preemptors[i].thread);
		set_text(b, preemptor, "process", block->preemptors[i].process);
		set_int(b, preemptor, "ns", block->preemptors[i].ns);
	}
	set_opt(b, object, "faults_minor", block->faults_minor);
	set_opt(b, object, "faults_major", block->faults_major);
	child = block->sleep_count ? set_array(b, object, "sleeps") : NULL;
	for (size_t i = 0; i < block->sleep_count; i++) {
		const struct block_sleep *row = &block->sleeps[i];
		json_t *sleep = add_object(b, child), *waker;

		set_int(b, sleep, "t_boot_ns", row->t_boot_ns);
		set_int(b, sleep, "ns", row->ns);
		set_text(b, sleep, "reason", row->reason);
		if (row->syscall.present)
			set(b, sleep, "syscall", json_integer(row->syscall.value));
		if (!row->waker_tid)
			continue;
		waker = set_object(b, sleep, "waker");
		set_int(b, waker, "pid", (uint64_t)row->waker_pid);
		set_int(b, waker, "tid", (uint64_t)row->waker_tid);
		set_text(b, waker, "thread", row->waker);
	}
	set_opt(b, object, "load_dur_ns", block->load_dur_ns);
	set_opt(b, object, "machine_busy_ns", block->machine_busy_ns);
	set_opt(b, object, "app_cpu_ns", block->app_cpu_ns);
	set_opt(b, object, "app_rss_bytes", block->app_rss_bytes);
	child = set_array(b, object, "stacks");
	for (size_t i = 0; i < block->stack_count; i++)
		stack(b, add_object(b, child), &block->stacks[i]);
	set_opt(b, object, "top", block->top);
	set_opt(b, object, "unsampled_ns", block->unsampled_ns);
	if (block->owner_stack)
		stack(b, set_object(b, object, "owner_stack"), block->owner_stack);
	set_counters(b, object, "lost", &block->lost);
	set_missing(b, object, &block->missing);
}

static void event(struct builder *b, json_t *object, const struct record_event *event)
{
	set_text(b, object, "event", event->event);
	for (size_t i = 0; i < event->key_count; i++) {
		const struct event_key *key = &event->keys[i];

		if (key->text)
			set_text(b, object, key->name, key->text);
		else
			set(b, object, key->name, json_integer(key->value));
	}
}

/* The object that holds the last part of a dotted key path. */
static json_t *descend(struct builder *b, json_t *object, const char *path, const char **last)
{
	const char *dot;
	char key[64];

	while ((dot = strchr(path, '.')) && (size_t)(dot - path) < sizeof(key)) {
		json_t *child;

		memcpy(key, path, (size_t)(dot - path));
		key[dot - path] = 0;
		child = json_object_get(object, key);
		object = json_is_object(child) ? child : set_object(b, object, key);
		path = dot + 1;
	}
	*last = path;
	return object;
}

static json_t *number(double value)
{
	/* Sums of nanoseconds and bytes are whole below 2^53: no ".0" behind them. */
	if (value < 9e15 && value > -9e15 && value == (double)(json_int_t)value)
		return json_integer((json_int_t)value);
	return json_real(value);
}

static void footer(struct builder *b, json_t *object, const struct record_footer *footer)
{
	json_t *summary = set_object(b, object, "summary");
	const char *last;

	for (size_t i = 0; i < footer->total_count; i++) {
		json_t *parent = descend(b, summary, footer->totals[i].key, &last);

		set(b, parent, last, number(footer->totals[i].value));
	}
	for (size_t i = 0; i < footer->distribution_count; i++) {
		const struct record_distribution *row = &footer->distributions[i];
		json_t *parent = descend(b, summary, row->name, &last);
		json_t *child = set_object(b, parent, last);

		set_int(b, child, "n", row->n);
		set(b, child, "min", number(row->min));
		set(b, child, "max", number(row->max));
		set(b, child, "mean", json_real(row->mean));
		set(b, child, "p50", number(row->p50));
		set(b, child, "p90", number(row->p90));
		set(b, child, "p95", number(row->p95));
		set(b, child, "p99", number(row->p99));
	}
	for (size_t i = 0; i < footer->path_count; i++) {
		json_t *array = json_object_get(object, "paths"), *path;

		path = add_object(b, array ? array : set_array(b, object, "paths"));
		set_int(b, path, "weight_ns", footer->paths[i].weight_ns);
		set_int(b, path, "blocks", footer->paths[i].blocks);
		set_text(b, path, "path", footer->paths[i].path);
	}
	set_counters(b, object, "lost", &footer->lost);
	set_missing(b, object, &footer->missing);
}

json_t *record_to_json(const struct record *record)
{
	static const char *const types[] = {"header", "interval", "block", "event", "footer"};
	struct builder b = {0};
	json_t *object = json_object();

	if (!object)
		return NULL;
	set_text(&b, object, "type", types[record->type]);
	set_int(&b, object, "seq", record->seq);
	set_int(&b, object, "t_boot_ns", record->t_boot_ns);
	switch (record->type) {
	case RECORD_HEADER:
		header(&b, object, record->header);
		break;
	case RECORD_INTERVAL:
		interval(&b, object, record->interval);
		break;
	case RECORD_BLOCK:
		block(&b, object, record->block);
		break;
	case RECORD_EVENT:
		event(&b, object, record->event);
		break;
	case RECORD_FOOTER:
		footer(&b, object, record->footer);
		break;
	}
	if (b.failed) {
		json_decref(object);
		return NULL;
	}
	return object;
}

char *record_to_line(const struct record *record, size_t *length)
{
	static const char crc_key[] = ",\"crc\":\"";
	json_t *object = record_to_json(record);
	char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL,
	     *line;
	size_t n;

	json_decref(object);
	if (!text) {
		errno = ENOMEM;
		return NULL;
	}
	n = strlen(text) - 1; /* without the closing brace */
	line = realloc(text, n + sizeof(crc_key) + 8 + sizeof("\"}\n"));
	if (!line) {
		free(text);
		errno = ENOMEM;
		return NULL;
	}
	*length = n + (size_t)sprintf(line + n, "%s%08x\"}\n", crc_key, crc32c(0, line, n));
	return line;
}

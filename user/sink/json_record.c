/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/json_record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/histogram.h"
#include "sink/json_build.h"
#include "sink/json_footer.h"
#include "util/crc32c.h"

static void header(struct builder *b, json_t *object, const struct record_header *header)
{
	json_t *child;

	json_set_int(b, object, "schema", RECORD_SCHEMA);
	json_set_text(b, object, "version", JANKSCOPE_VERSION);
	json_set_text(b, object, "session", header->session);
	json_set_text(b, object, "boot_id", header->boot_id);
	json_set_text(b, object, "kernel", header->kernel);
	json_set_text(b, object, "arch", header->arch);
	json_set_text(b, object, "device", header->device);
	child = json_set_object(b, object, "clock");
	json_set_int(b, child, "boot_ns", header->clock.boot_ns);
	json_set_int(b, child, "mono_ns", header->clock.mono_ns);
	json_set_int(b, child, "unix_ns", header->clock.unix_ns);
	json_set_int(b, object, "interval_ns", header->interval_ns);
	json_set_int(b, object, "block_ns", header->block_ns);
	child = json_set_array(b, object, "targets");
	for (size_t i = 0; i < header->target_count; i++) {
		json_t *target = json_add_object(b, child);

		json_set_text(b, target, "package", header->targets[i].package);
		json_set_opt(b, target, "uid", header->targets[i].uid);
		json_set_opt(b, target, "pid", header->targets[i].pid);
	}
	child = json_set_array(b, object, "sources");
	for (size_t i = 0; i < header->source_count; i++) {
		json_t *source = json_add_object(b, child);

		json_set_text(b, source, "name", header->sources[i].name);
		json_set_text(b, source, "state", header->sources[i].state);
		json_set_text(b, source, "variant", header->sources[i].variant);
		json_set_text(b, source, "reason", header->sources[i].reason);
	}
}

static void task(struct builder *b, json_t *object, const struct record_task *task)
{
	json_set_int(b, object, "tid", (uint64_t)task->tid);
	json_set_int(b, object, "pid", (uint64_t)task->pid);
	json_set_int(b, object, "uid", task->uid);
	json_set_int(b, object, "start_boot_ns", task->start_boot_ns);
	json_set_text(b, object, "thread", task->thread);
	json_set_text(b, object, "process", task->process);
	json_set_text(b, object, "package", task->package);
	json_set_int(b, object, "cpu_ns", task->cpu_ns);
	json_set_opt(b, object, "runnable_ns", task->runnable_ns);
	json_set_opt(b, object, "sleeping_ns", task->sleeping_ns);
	json_set_opt(b, object, "uninterruptible_ns", task->uninterruptible_ns);
	json_set_opt(b, object, "stopped_ns", task->stopped_ns);
	json_set_opt(b, object, "switches_voluntary", task->switches_voluntary);
	json_set_opt(b, object, "switches_involuntary", task->switches_involuntary);
	if (task->exited)
		json_set(b, object, "exited", json_true());
}

static void cpu(struct builder *b, json_t *parent, const struct record_cpu *cpu)
{
	json_t *object = json_set_object(b, parent, "cpu"), *array;

	json_set_int(b, object, "online_cpus", cpu->online_cpus);
	if (cpu->online_ns)
		json_set_int(b, object, "online_ns", cpu->online_ns);
	json_set_int(b, object, "busy_ns", cpu->busy_ns);
	json_set_opt(b, object, "idle_ns", cpu->idle_ns);
	if (cpu->unaccounted_ns.present)
		json_set(b, object, "unaccounted_ns", json_integer(cpu->unaccounted_ns.value));
	json_set_int(b, object, "other_ns", cpu->other_ns);
	json_set_int(b, object, "overflow_ns", cpu->overflow_ns);
	array = json_set_array(b, object, "tasks");
	for (size_t i = 0; i < cpu->task_count; i++)
		task(b, json_add_object(b, array), &cpu->tasks[i]);
	array = json_set_array(b, object, "processes");
	for (size_t i = 0; i < cpu->process_count; i++) {
		const struct record_process_cpu *row = &cpu->processes[i];
		json_t *process = json_add_object(b, array);

		json_set_int(b, process, "pid", (uint64_t)row->pid);
		json_set_int(b, process, "uid", row->uid);
		if (row->start_boot_ns)
			json_set_int(b, process, "start_boot_ns", row->start_boot_ns);
		json_set_text(b, process, "process", row->process);
		json_set_text(b, process, "package", row->package);
		json_set_int(b, process, "cpu_ns", row->cpu_ns);
		json_set_opt(b, process, "runnable_ns", row->runnable_ns);
		json_set_int(b, process, "threads", row->threads);
		if (row->exited)
			json_set(b, process, "exited", json_true());
	}
	array = json_set_array(b, object, "uids");
	for (size_t i = 0; i < cpu->uid_count; i++) {
		json_t *uid = json_add_object(b, array);

		json_set_int(b, uid, "uid", cpu->uids[i].uid);
		json_set_int(b, uid, "cpu_ns", cpu->uids[i].cpu_ns);
	}
}

static void bytes(struct builder *b, json_t *object, const struct record_bytes *bytes)
{
	json_set_int(b, object, "rx_bytes", bytes->rx_bytes);
	json_set_int(b, object, "rx_packets", bytes->rx_packets);
	json_set_int(b, object, "tx_bytes", bytes->tx_bytes);
	json_set_int(b, object, "tx_packets", bytes->tx_packets);
}

static void net(struct builder *b, json_t *parent, const struct record_net *net)
{
	json_t *object = json_set_object(b, parent, "net"),
	       *array = json_set_array(b, object, "uids"), *part;

	for (size_t i = 0; i < net->uid_count; i++) {
		json_t *uid = json_add_object(b, array);

		json_set_int(b, uid, "uid", net->uids[i].uid);
		json_set_text(b, uid, "package", net->uids[i].package);
		bytes(b, uid, &net->uids[i].bytes);
	}
	bytes(b, json_set_object(b, object, "loopback"), &net->loopback);
	part = json_set_object(b, object, "unattributed");
	bytes(b, part, &net->unattributed);
	bytes(b, json_set_object(b, part, "forwarded"), &net->forwarded);
	bytes(b, json_set_object(b, part, "kernel"), &net->kernel);
	bytes(b, json_set_object(b, part, "no_socket"), &net->no_socket);
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
	json_t *object = json_set_object(b, parent, "frames");
	json_t *array = json_set_array(b, object, "layers");

	if (frames->history)
		json_set(b, object, "history", json_true());
	for (size_t i = 0; i < frames->layer_count; i++) {
		const struct record_layer *row = &frames->layers[i];
		json_t *layer = json_add_object(b, array), *jank;

		if (row->pid > 0)
			json_set_int(b, layer, "pid", (uint64_t)row->pid);
		json_set_text(b, layer, "package", row->package);
		json_set_text(b, layer, "layer", row->layer);
		json_set_opt(b, layer, "period_ns", row->period_ns);
		json_set_int(b, layer, "shown", row->shown);
		json_set_int(b, layer, "dropped", row->dropped);
		/* of one frame there is none */
		if (row->fps_active > 0)
			json_set(b, layer, "fps_active", json_real(row->fps_active));
		json_set_int(b, layer, "janky", row->janky);
		jank = json_set_object(b, layer, "jank");
		json_set_int(b, jank, "app", row->jank.app);
		json_set_int(b, jank, "sf", row->jank.sf);
		json_set_int(b, jank, "hw", row->jank.hw);
		json_set_int(b, jank, "stuffing", row->jank.stuffing);
		json_set_int(b, jank, "dropped", row->jank.dropped);
		json_set_int(b, jank, "unknown", row->jank.unknown);
		if (row->interval_hist) {
			struct histogram_visit visit = {b,
							json_set_array(b, layer, "interval_hist")};

			histogram_each(row->interval_hist, visit_bucket, &visit);
		}
	}
}

static void interval(struct builder *b, json_t *object, const struct record_interval *interval)
{
	json_t *self;

	json_set_int(b, object, "dur_ns", interval->dur_ns);
	if (interval->last)
		json_set(b, object, "last", json_true());
	if (interval->cpu.present)
		cpu(b, object, &interval->cpu);
	if (interval->net.present)
		net(b, object, &interval->net);
	if (interval->frames.present)
		frames(b, object, &interval->frames);
	json_set_losses(b, object, &interval->lost, &interval->late, &interval->repaired);
	json_set_missing(b, object, &interval->missing);
	self = json_set_object(b, object, "self");
	json_set_int(b, self, "cpu_ns", interval->self.cpu_ns);
	json_set_opt(b, self, "anon_bytes", interval->self.anon_bytes);
	json_set_opt(b, self, "memory_bytes", interval->self.memory_bytes);
	json_set_int(b, self, "stops", interval->self.stops);
	json_set_int(b, self, "stop_max_ns", interval->self.stop_max_ns);
}

/* t_boot_ns of a stack that is a line of its own stands among the keys of every line. */
static void stack_body(struct builder *b, json_t *object, const struct record_stack *stack)
{
	static const char *const found_by[] = {NULL, "fp", "lr", "scan"};
	static const char *const captures[] = {"snapshot", "perf", "ptrace", "kernel"};
	static const char *const kinds[] = {"native", "jit", "dex", "kernel", "vdso"};
	json_t *array;

	json_set_int(b, object, "weight_ns", stack->weight_ns);
	json_set_text(b, object, "capture", captures[stack->capture]);
	json_set(b, object, "complete", json_boolean(stack->complete));
	json_set_text(b, object, "end_reason", stack->end_reason);
	if (stack->in_wait)
		json_set(b, object, "in_wait", json_true());
	array = json_set_array(b, object, "frames");
	for (size_t i = 0; i < stack->frame_count; i++) {
		const struct record_frame *row = &stack->frames[i];
		json_t *frame = json_add_object(b, array);

		json_set_text(b, frame, "module", row->module);
		json_set_text(b, frame, "build_id", row->build_id);
		json_set_int(b, frame, "offset", row->offset);
		json_set_text(b, frame, "symbol", row->symbol);
		json_set_text(b, frame, "kind", kinds[row->kind]);
		json_set_text(b, frame, "by", found_by[row->by]);
		if (row->shared)
			json_set(b, frame, "shared", json_true());
	}
}

static void stack(struct builder *b, json_t *object, const struct record_stack *stack)
{
	json_set_int(b, object, "t_boot_ns", stack->t_boot_ns);
	stack_body(b, object, stack);
}

static void addition(struct builder *b, json_t *object, const struct record_addition *addition)
{
	json_set_int(b, object, "of", addition->of);
	stack_body(b, object, &addition->stack);
}

static void block(struct builder *b, json_t *object, const struct record_block *block)
{
	static const char *const states[] = {"open", "closed", "exited"};
	static const char *const classes[] = {"short", "long", "anr"};
	json_t *child;

	json_set_int(b, object, "pid", (uint64_t)block->pid);
	json_set_int(b, object, "tid", (uint64_t)block->tid);
	json_set_text(b, object, "package", block->package);
	json_set_text(b, object, "process", block->process);
	json_set_int(b, object, "start_boot_ns", block->start_boot_ns);
	json_set_int(b, object, "wall_ns", block->wall_ns);
	json_set_text(b, object, "state", states[block->state]);
	json_set_text(b, object, "class", classes[block->class]);
	json_set_text(b, object, "detector", block->detector);
	if (block->merged)
		json_set(b, object, "merged", json_true());
	child = json_set_object(b, object, "ledger");
	json_set_int(b, child, "running_ns", block->ledger.running_ns);
	json_set_int(b, child, "runnable_ns", block->ledger.runnable_ns);
	json_set_int(b, child, "sleeping_ns", block->ledger.sleeping_ns);
	json_set_int(b, child, "uninterruptible_ns", block->ledger.uninterruptible_ns);
	json_set_int(b, child, "stopped_ns", block->ledger.stopped_ns);
	json_set_opt(b, object, "cpu_ns", block->cpu_ns);
	child = json_set_array(b, object, "reasons");
	for (size_t i = 0; i < block->reason_count; i++) {
		json_t *reason = json_add_object(b, child);

		json_set_text(b, reason, "reason", block->reasons[i].reason);
		json_set_int(b, reason, "ns", block->reasons[i].ns);
	}
	if (block->waker.present) {
		child = json_set_object(b, object, "waker");
		json_set_int(b, child, "pid", (uint64_t)block->waker.pid);
		json_set_int(b, child, "tid", (uint64_t)block->waker.tid);
		json_set_text(b, child, "thread", block->waker.thread);
		json_set_text(b, child, "process", block->waker.process);
	}
	if (block->owner.present) {
		child = json_set_object(b, object, "owner");
		json_set_int(b, child, "pid", (uint64_t)block->owner.pid);
		json_set_int(b, child, "tid", (uint64_t)block->owner.tid);
		json_set_text(b, child, "thread", block->owner.thread);
		json_set_text(b, child, "process", block->owner.process);
	}
	child = json_set_array(b, object, "preemptors");
	for (size_t i = 0; i < block->preemptor_count; i++) {
		json_t *preemptor = json_add_object(b, child);

		json_set_int(b, preemptor, "tid", (uint64_t)block->preemptors[i].tid);
		json_set_text(b, preemptor, "thread", block->preemptors[i].thread);
		json_set_text(b, preemptor, "process", block->preemptors[i].process);
		json_set_int(b, preemptor, "ns", block->preemptors[i].ns);
	}
	json_set_opt(b, object, "faults_minor", block->faults_minor);
	json_set_opt(b, object, "faults_major", block->faults_major);
	child = block->sleep_count ? json_set_array(b, object, "sleeps") : NULL;
	for (size_t i = 0; i < block->sleep_count; i++) {
		const struct block_sleep *row = &block->sleeps[i];
		json_t *sleep = json_add_object(b, child), *waker;

		json_set_int(b, sleep, "t_boot_ns", row->t_boot_ns);
		json_set_int(b, sleep, "ns", row->ns);
		json_set_text(b, sleep, "reason", row->reason);
		if (row->syscall.present)
			json_set(b, sleep, "syscall", json_integer(row->syscall.value));
		if (!row->waker_tid)
			continue;
		waker = json_set_object(b, sleep, "waker");
		json_set_int(b, waker, "pid", (uint64_t)row->waker_pid);
		json_set_int(b, waker, "tid", (uint64_t)row->waker_tid);
		json_set_text(b, waker, "thread", row->waker);
	}
	json_set_opt(b, object, "load_dur_ns", block->load_dur_ns);
	json_set_opt(b, object, "machine_busy_ns", block->machine_busy_ns);
	json_set_opt(b, object, "app_cpu_ns", block->app_cpu_ns);
	json_set_opt(b, object, "app_rss_bytes", block->app_rss_bytes);
	child = json_set_array(b, object, "stacks");
	for (size_t i = 0; i < block->stack_count; i++)
		stack(b, json_add_object(b, child), &block->stacks[i]);
	json_set_opt(b, object, "top", block->top);
	json_set_opt(b, object, "unsampled_ns", block->unsampled_ns);
	if (block->owner_stack)
		stack(b, json_set_object(b, object, "owner_stack"), block->owner_stack);
	json_set_counters(b, object, "lost", &block->lost);
	json_set_missing(b, object, &block->missing);
}

static void event(struct builder *b, json_t *object, const struct record_event *event)
{
	json_set_text(b, object, "event", event->event);
	for (size_t i = 0; i < event->key_count; i++) {
		const struct event_key *key = &event->keys[i];

		if (key->text)
			json_set_text(b, object, key->name, key->text);
		else
			json_set(b, object, key->name, json_integer(key->value));
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
		object = json_is_object(child) ? child : json_set_object(b, object, key);
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
	json_t *summary = json_set_object(b, object, "summary");
	const char *last;

	for (size_t i = 0; i < footer->total_count; i++) {
		json_t *parent = descend(b, summary, footer->totals[i].key, &last);

		json_set(b, parent, last, number(footer->totals[i].value));
	}
	for (size_t i = 0; i < footer->distribution_count; i++) {
		const struct record_distribution *row = &footer->distributions[i];
		json_t *parent = descend(b, summary, row->name, &last);
		json_t *child = json_set_object(b, parent, last);

		json_set_int(b, child, "n", row->n);
		json_set(b, child, "min", number(row->min));
		json_set(b, child, "max", number(row->max));
		json_set(b, child, "mean", json_real(row->mean));
		json_set(b, child, "p50", number(row->p50));
		json_set(b, child, "p90", number(row->p90));
		json_set(b, child, "p95", number(row->p95));
		json_set(b, child, "p99", number(row->p99));
	}
	for (size_t i = 0; i < footer->path_count; i++) {
		json_t *array = json_object_get(object, "paths"), *path;

		path = json_add_object(b, array ? array : json_set_array(b, object, "paths"));
		json_set_int(b, path, "weight_ns", footer->paths[i].weight_ns);
		json_set_int(b, path, "blocks", footer->paths[i].blocks);
		json_set_text(b, path, "path", footer->paths[i].path);
	}
	json_footer_rows(b, summary, footer);
	json_set_losses(b, object, &footer->lost, &footer->late, &footer->repaired);
	json_set_missing(b, object, &footer->missing);
}

json_t *record_to_json(const struct record *record)
{
	static const char *const types[] = {"header", "interval", "block",
					    "event",  "footer",   "stack"};
	struct builder b = {0};
	json_t *object = json_object();

	if (!object)
		return NULL;
	json_set_text(&b, object, "type", types[record->type]);
	json_set_int(&b, object, "seq", record->seq);
	json_set_int(&b, object, "t_boot_ns",
		     record->type == RECORD_STACK ? record->addition->stack.t_boot_ns
						  : record->t_boot_ns);
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
	case RECORD_STACK:
		addition(&b, object, record->addition);
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

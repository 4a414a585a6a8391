/* SPDX-License-Identifier: BSD-2-Clause */
#include "summary/split.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "record/fields.h"
#include "summary/clusters.h"
#include "summary/tcp.h"

#define MAX_PROCESSES 4096
#define MAX_WAITING   256

/* Start times come in ticks of 10 ms from /proc, and in ns from the scheduler. */
#define START_NS 20000000

const char *const split_state_names[SPLIT_STATES] = {"foreground", "background", "mixed",
						     "unknown"};

struct span {
	uint64_t begin_ns, end_ns;
};

/* A process that the context knows. */
struct known {
	UT_hash_handle hh;
	pid_t pid;
	uid_t uid;
	uint64_t start_boot_ns;
	enum split_state state;
	uint64_t since_ns; /* its state was the same at each reading from here on */
	uint64_t seen_ns;  /* the last reading */
};

struct split {
	struct split_sink sink;
	struct known *processes;
	bool any; /* an interval had a context */
	/* Blocks and late frames, until the interval that they ended in says what theirs was. */
	struct waiting {
		pid_t pid;
		uint64_t start_boot_ns, wall_ns;
		bool is_frame;
		/* of a frame */
		uint64_t late_ns;
		enum jank_cause cause;
	} waiting[MAX_WAITING];
	size_t waiting_count;
	/* Blocks for which there was no room before an interval had a context. */
	uint64_t early_count, early_ns;
};

struct split *split_new(const struct split_sink *sink)
{
	struct split *split = calloc(1, sizeof(*split));

	if (split)
		split->sink = *sink;
	return split;
}

static void drop(struct split *split, struct known *known)
{
	HASH_DEL(split->processes, known);
	free(known);
}

void split_free(struct split *split)
{
	struct known *known, *next;

	if (!split)
		return;
	HASH_ITER (hh, split->processes, known, next)
		drop(split, known);
	free(split);
}

static int put(struct split *split, enum split_state bucket, const char *what, double value)
{
	char key[64];

	snprintf(key, sizeof(key), "%s.%s", split_state_names[bucket], what);
	return split->sink.add(split->sink.ctx, key, value);
}

static struct known *find(const struct split *split, pid_t pid)
{
	struct known *known;

	HASH_FIND_INT(split->processes, &pid, known);
	return known;
}

/* The same where the pid was given to nobody else meanwhile. start_boot_ns 0: not known. */
static struct known *find_same(const struct split *split, pid_t pid, uint64_t start_boot_ns)
{
	struct known *known = find(split, pid);
	uint64_t apart_ns;

	if (!known || !start_boot_ns || !known->start_boot_ns)
		return known;
	apart_ns = start_boot_ns > known->start_boot_ns ? start_boot_ns - known->start_boot_ns
							: known->start_boot_ns - start_boot_ns;
	return apart_ns < START_NS ? known : NULL;
}

static int learn(struct split *split, const struct record_process_context *row, struct span span)
{
	struct known *known = find(split, row->pid);
	enum split_state state =
		row->state == CONTEXT_FOREGROUND ? SPLIT_FOREGROUND : SPLIT_BACKGROUND;
	bool other = !known || known->start_boot_ns != row->start_boot_ns;

	if (!known) {
		if (HASH_COUNT(split->processes) >= MAX_PROCESSES)
			return 0;
		known = calloc(1, sizeof(*known));
		if (!known)
			return -ENOMEM;
		known->pid = row->pid;
		HASH_ADD_INT(split->processes, pid, known);
	}
	/* It was not this at the beginning, or a reading is missing between the two. */
	if (row->changed)
		known->since_ns = span.end_ns;
	else if (other || known->state != state || known->seen_ns != span.begin_ns)
		known->since_ns = span.begin_ns;
	known->state = state;
	known->uid = row->uid;
	known->start_boot_ns = row->start_boot_ns;
	known->seen_ns = span.end_ns;
	return 0;
}

/* What a process was from begin to end, when it was looked at last. */
static enum split_state bucket_of(const struct known *known, uint64_t begin_ns, uint64_t end_ns)
{
	if (!known || known->seen_ns != end_ns)
		return SPLIT_UNKNOWN;
	return known->since_ns <= begin_ns ? known->state : SPLIT_MIXED;
}

/* A uid is in the foreground as soon as one of its processes is. */
static bool uid_bucket(const struct split *split, uid_t uid, struct span span,
		       enum split_state *bucket)
{
	size_t of[SPLIT_STATES] = {0}, all = 0;

	for (const struct known *known = split->processes; known; known = known->hh.next) {
		if (known->uid != uid)
			continue;
		of[bucket_of(known, span.begin_ns, span.end_ns)]++;
		all++;
	}
	*bucket = of[SPLIT_FOREGROUND]          ? SPLIT_FOREGROUND
		  : of[SPLIT_BACKGROUND] == all ? SPLIT_BACKGROUND
		  : of[SPLIT_UNKNOWN] == all    ? SPLIT_UNKNOWN
						: SPLIT_MIXED;
	return all > 0;
}

static int add_cpu(struct split *split, const struct record_cpu *cpu, struct span span)
{
	int err = 0;

	for (size_t i = 0; i < cpu->process_count && !err; i++) {
		const struct record_process_cpu *row = &cpu->processes[i];
		const struct known *known = find_same(split, row->pid, row->start_boot_ns);
		enum split_state bucket = bucket_of(known, span.begin_ns, span.end_ns);

		err = put(split, bucket, "cpu_ns", (double)row->cpu_ns);
		if (!err && row->runnable_ns.present)
			err = put(split, bucket, "runnable_ns", (double)row->runnable_ns.value);
	}
	return err;
}

struct whose {
	const struct split *split;
	struct span span;
};

static int state_of_task(void *ctx, const struct record_task *task)
{
	const struct whose *whose = ctx;
	const struct known *known = find_same(whose->split, task->pid, task->process_start_boot_ns);

	return known ? (int)bucket_of(known, whose->span.begin_ns, whose->span.end_ns) : -1;
}

static int add_memory(struct split *split, const struct record_memory *memory, struct span span)
{
	int err = 0;

	for (size_t i = 0; i < memory->process_count && !err; i++) {
		const struct record_memory_process *row = &memory->processes[i];
		const struct known *known = find_same(split, row->pid, row->start_boot_ns);
		enum split_state bucket = bucket_of(known, span.begin_ns, span.end_ns);

		if (row->rss_bytes.present)
			err = split->sink.add_value(split->sink.ctx, SPLIT_RSS + bucket,
						    row->rss_bytes.value);
		if (!err && row->pss_bytes.present)
			err = split->sink.add_value(split->sink.ctx, SPLIT_PSS + bucket,
						    row->pss_bytes.value);
	}
	return err;
}

/* What the processes of that uid were; false: it is no target's, and has no state. Bytes of a
 * target's uid come also while none of its processes is there: packets of one that ended, or that
 * lived for a moment. */
static bool target_bucket(const struct split *split, uid_t uid, const char *package,
			  struct span span, enum split_state *bucket)
{
	if (uid_bucket(split, uid, span, bucket))
		return true;
	*bucket = SPLIT_UNKNOWN;
	return split->sink.is_target(split->sink.ctx, uid, package);
}

static int add_net(struct split *split, const struct record_net *net, struct span span)
{
	int err = 0;

	for (size_t i = 0; i < net->uid_count && !err; i++) {
		const struct record_uid_net *row = &net->uids[i];
		enum split_state bucket;

		if (!target_bucket(split, row->uid, row->package, span, &bucket))
			continue;
		err = put(split, bucket, "rx_bytes", (double)row->bytes.rx_bytes);
		if (!err)
			err = put(split, bucket, "tx_bytes", (double)row->bytes.tx_bytes);
	}
	return err;
}

static int add_tcp(struct split *split, const struct record_tcp *tcp, struct span span)
{
	struct summary_part parts[TCP_PARTS];
	int err = 0;

	for (size_t i = 0; i < tcp->uid_count && !err; i++) {
		enum split_state bucket;

		if (!target_bucket(split, tcp->uids[i].uid, tcp->uids[i].package, span, &bucket))
			continue;
		tcp_parts(&tcp->uids[i], parts);
		for (size_t k = 0; k < TCP_PARTS && !err; k++)
			err = put(split, bucket, parts[k].key, (double)parts[k].value);
	}
	return err;
}

struct disk_figures {
	uint64_t values[4];
};

static struct disk_figures disk_figures(const struct record_disk_sums *sums,
					const struct record_disk_sync *syncs, size_t count)
{
	struct disk_figures figures = {{sums->read_bytes, sums->write_bytes}};

	for (size_t i = 0; i < count; i++) {
		figures.values[2] += syncs[i].count + syncs[i].failed;
		figures.values[3] += syncs[i].time_ns;
	}
	return figures;
}

/* Into that part: as much of each figure as is left of the targets' sum, so that the parts are
 * that sum. */
static int put_disk(struct split *split, enum split_state bucket, struct disk_figures figures,
		    struct disk_figures *left)
{
	static const char *const names[] = {"disk_read_bytes", "disk_write_bytes", "syncs",
					    "sync_ns"};
	int err = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !err; i++) {
		uint64_t value =
			figures.values[i] < left->values[i] ? figures.values[i] : left->values[i];

		left->values[i] -= value;
		if (value || bucket != SPLIT_UNKNOWN)
			err = put(split, bucket, names[i], (double)value);
	}
	return err;
}

/* What is of no process that the context knows is of one that ended, or whose row was cut off. */
static int add_disk(struct split *split, const struct record_disk *disk, struct span span)
{
	struct disk_figures left = disk_figures(&disk->targets, &disk->targets_sync, 1);
	int err = 0;

	for (size_t i = 0; i < disk->process_count && !err; i++) {
		const struct record_disk_process *row = &disk->processes[i];
		const struct record_disk_sync syncs[] = {row->fsync, row->fdatasync, row->msync,
							 row->sync_file_range};
		const struct known *known = find_same(split, row->pid, row->start_boot_ns);

		if (known)
			err = put_disk(split, bucket_of(known, span.begin_ns, span.end_ns),
				       disk_figures(&row->sums, syncs, 4), &left);
	}
	return err ? err : put_disk(split, SPLIT_UNKNOWN, left, &left);
}

static int add_frames(struct split *split, const struct record_frames *frames, struct span span)
{
	int err = 0;

	for (size_t i = 0; frames->present && !frames->history && i < frames->layer_count && !err;
	     i++) {
		const struct record_layer *row = &frames->layers[i];
		enum split_state bucket =
			bucket_of(find(split, row->pid), span.begin_ns, span.end_ns);

		err = put(split, bucket, "frames.shown", (double)row->shown);
		if (!err)
			err = put(split, bucket, "frames.dropped", (double)row->dropped);
		if (!err)
			err = put(split, bucket, "frames.janky", (double)row->janky);
	}
	return err;
}

static int put_block(struct split *split, const struct waiting *block, enum split_state bucket)
{
	char key[48];
	int err;

	split->sink.select(split->sink.ctx, block->start_boot_ns,
			   block->start_boot_ns + block->wall_ns);
	err = put(split, bucket, block->is_frame ? "frames.late" : "blocks.count", 1);
	if (!err)
		err = block->is_frame
			      ? put(split, bucket, "frames.late_ns", (double)block->late_ns)
			      : put(split, bucket, "blocks.total_ns", (double)block->wall_ns);
	if (err || !block->is_frame)
		return err;
	snprintf(key, sizeof(key), "frames.causes.%s", record_jank_total(block->cause));
	err = put(split, bucket, key, 1);
	strcat(key, "_ns");
	return err ? err : put(split, bucket, key, (double)block->late_ns);
}

/* Where nothing is known yet, blocks of an interval that has no context are in no part of it
 * either, as its CPU time. */
static void drop_early(struct split *split, uint64_t end_ns)
{
	size_t left = 0;

	for (size_t i = 0; i < split->waiting_count; i++)
		if (split->waiting[i].start_boot_ns + split->waiting[i].wall_ns > end_ns)
			split->waiting[left++] = split->waiting[i];
	split->waiting_count = left;
	split->early_count = split->early_ns = 0;
}

static int add_early(struct split *split)
{
	int err = 0;

	if (split->early_count) {
		err = put(split, SPLIT_UNKNOWN, "blocks.count", (double)split->early_count);
		if (!err)
			err = put(split, SPLIT_UNKNOWN, "blocks.total_ns", (double)split->early_ns);
	}
	split->early_count = split->early_ns = 0;
	return err;
}

/* Blocks that ended in this interval. */
static int add_blocks(struct split *split, uint64_t end_ns)
{
	size_t left = 0;
	int err = 0;

	for (size_t i = 0; i < split->waiting_count && !err; i++) {
		const struct waiting *block = &split->waiting[i];
		const struct known *known = find(split, block->pid);

		if (block->start_boot_ns + block->wall_ns > end_ns)
			split->waiting[left++] = *block;
		else
			err = put_block(split, block,
					bucket_of(known, block->start_boot_ns, end_ns));
	}
	split->waiting_count = left;
	return err;
}

int split_block(struct split *split, const struct record_block *block)
{
	/* Blocks that end in the first interval are told before that interval is. */
	if (split->waiting_count == MAX_WAITING && !split->any) {
		split->early_count++;
		split->early_ns += block->wall_ns;
		return 0;
	}
	if (split->waiting_count == MAX_WAITING)
		return put_block(split,
				 &(struct waiting){.pid = block->pid,
						   .start_boot_ns = block->start_boot_ns,
						   .wall_ns = block->wall_ns},
				 SPLIT_UNKNOWN);
	split->waiting[split->waiting_count++] =
		(struct waiting){.pid = block->pid,
				 .start_boot_ns = block->start_boot_ns,
				 .wall_ns = block->wall_ns};
	return 0;
}

int split_jank(struct split *split, const struct record_jank *jank)
{
	const struct waiting frame = {.pid = jank->pid,
				      .start_boot_ns = jank->window_start_ns,
				      .wall_ns = jank->window_end_ns - jank->window_start_ns,
				      .is_frame = true,
				      .late_ns = jank->late_ns,
				      .cause = jank->cause};

	if (!split->any)
		return 0;
	if (split->waiting_count == MAX_WAITING)
		return put_block(split, &frame, SPLIT_UNKNOWN);
	split->waiting[split->waiting_count++] = frame;
	return 0;
}

int split_interval(struct split *split, const struct record_interval *interval,
		   uint64_t begin_boot_ns, uint64_t end_boot_ns, bool watches_blocks)
{
	const struct record_context *context = &interval->context;
	const struct span span = {begin_boot_ns, end_boot_ns};
	struct known *known, *next;
	int err = 0;

	if (!split->any && !context->process_count) {
		drop_early(split, end_boot_ns);
		return 0;
	}
	split->any = true;
	err = add_early(split);
	for (size_t i = 0; i < context->process_count && !err; i++)
		err = learn(split, &context->processes[i], span);
	for (known = split->processes; known && !err; known = known->hh.next) {
		enum split_state bucket = bucket_of(known, begin_boot_ns, end_boot_ns);

		err = put(split, bucket, "process_dur_ns", (double)interval->dur_ns);
		if (!err && watches_blocks)
			err = put(split, bucket, "blocks.count", 0);
	}
	if (!err && interval->cpu.present)
		err = add_cpu(split, &interval->cpu, span);
	if (!err && interval->cpu.present)
		err = clusters_split(split->sink.clusters, &interval->cpu, state_of_task,
				     &(struct whose){split, span}, split->sink.add,
				     split->sink.ctx);
	if (!err && interval->memory.present)
		err = add_memory(split, &interval->memory, span);
	if (!err && interval->net.present)
		err = add_net(split, &interval->net, span);
	if (!err && interval->tcp.present)
		err = add_tcp(split, &interval->tcp, span);
	if (!err && interval->disk.has_targets)
		err = add_disk(split, &interval->disk, span);
	if (!err)
		err = add_frames(split, &interval->frames, span);
	if (!err)
		err = add_blocks(split, end_boot_ns);
	split->sink.select(split->sink.ctx, begin_boot_ns, end_boot_ns);
	HASH_ITER (hh, split->processes, known, next)
		if (known->seen_ns != end_boot_ns)
			drop(split, known);
	return err;
}

int split_finish(struct split *split)
{
	int err = 0;

	for (size_t i = 0; i < split->waiting_count && split->any && !err; i++)
		err = put_block(split, &split->waiting[i], SPLIT_UNKNOWN);
	split->waiting_count = 0;
	return err;
}

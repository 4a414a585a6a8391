/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/cpu/split.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "source/cpu/watched.h"
#include "util/clock.h"

#define FULL_CAPACITY 1024
/* What a read-out may be behind the slots; more belongs to time that the record does not list. */
#define SKEW_NS (50 * NSEC_PER_MSEC)
/* Rows whose tasks are gone untold are looked for so often. */
#define SWEEP_NS (30 * NSEC_PER_SEC)

/* What was told of a row so far, words as in the row. */
struct told_row {
	pid_t tid;
	uint64_t start_boot_ns;
	uint64_t *words;
	bool over; /* its task was dead at the last read-out: all of it is told now */
};

struct cpu_split {
	struct cpu_clusters clusters;
	struct sched_kernel *kernel;
	struct told_row rows[TIME_ROWS];
	struct cpu_watched watched;
	uint64_t *row, *parts, *cluster_words; /* of words each */
	/* What the record's lists point to. */
	struct record_cpu_time *cpu_times;
	struct record_frequency_time *frequency_times;
	size_t cpu_time_count, cpu_time_room, frequency_time_count, frequency_time_room;
	struct record_cluster out[CLUSTERS_MAX];
	struct record_frequency_time out_frequencies[CLUSTERS_MAX * TIME_MAX_STEPS];
	uint64_t swept_ns;
	bool has_frequencies;
};

struct cpu_split *cpu_split_new(const char *root, unsigned cpu_count)
{
	struct cpu_split *split = calloc(1, sizeof(*split));
	size_t words;

	if (!split || cpu_clusters_read(&split->clusters, root, cpu_count)) {
		free(split);
		return NULL;
	}
	words = split->clusters.layout.words;
	split->row = calloc(words, sizeof(*split->row));
	split->parts = calloc(words, sizeof(*split->parts));
	split->cluster_words = calloc(words, sizeof(*split->cluster_words));
	if (!split->row || !split->parts || !split->cluster_words) {
		cpu_split_free(split);
		return NULL;
	}
	split->has_frequencies = split->clusters.count;
	for (unsigned cpu = 0; cpu < split->clusters.layout.cpu_count; cpu++)
		split->has_frequencies &= split->clusters.cluster_of[cpu] != 0;
	return split;
}

void cpu_split_free(struct cpu_split *split)
{
	if (!split)
		return;
	for (size_t i = 0; i < TIME_ROWS; i++)
		free(split->rows[i].words);
	cpu_clusters_free(&split->clusters);
	cpu_watched_free(&split->watched);
	free(split->row);
	free(split->parts);
	free(split->cluster_words);
	free(split->cpu_times);
	free(split->frequency_times);
	free(split);
}

const struct sched_time_layout *cpu_split_layout(const struct cpu_split *split)
{
	return &split->clusters.layout;
}

static void begin_step(struct sched_kernel *kernel, unsigned cpu, const struct cpu_cluster *cluster)
{
	sched_kernel_time_begin_step(kernel, cpu, cluster->current_step,
				     cpu_cluster_khz(cluster, cluster->current_step));
}

void cpu_split_begin(struct cpu_split *split, struct sched_kernel *kernel)
{
	split->kernel = kernel;
	for (unsigned cpu = 0; cpu < split->clusters.layout.cpu_count; cpu++) {
		unsigned cluster = split->clusters.cluster_of[cpu];

		if (cluster)
			begin_step(kernel, cpu, &split->clusters.items[cluster - 1]);
	}
}

void cpu_split_watch(struct cpu_split *split, const struct target_set *targets)
{
	cpu_watched_follow(&split->watched, split->kernel, targets);
}

/* ---- one task ---- */

uint64_t cpu_split_fit(uint64_t *parts, size_t count, uint64_t cpu_ns)
{
	uint64_t sum_ns = 0, excess_ns;

	for (size_t i = 0; i < count; i++)
		sum_ns += parts[i];
	excess_ns = sum_ns > cpu_ns ? sum_ns - cpu_ns : 0;
	while (excess_ns) {
		size_t longest = 0;
		uint64_t cut_ns;

		for (size_t i = 1; i < count; i++)
			if (parts[i] > parts[longest])
				longest = i;
		cut_ns = parts[longest] < excess_ns ? parts[longest] : excess_ns;
		parts[longest] -= cut_ns;
		excess_ns -= cut_ns;
	}
	return sum_ns < cpu_ns ? cpu_ns - sum_ns : 0;
}

/* What was told of this row; made where the row has a new owner. NULL: no memory. */
static struct told_row *told_of(struct cpu_split *split, uint32_t index,
				const struct sched_time *time)
{
	struct told_row *told = &split->rows[index];
	size_t words = split->clusters.layout.words;

	if (!told->words)
		told->words = calloc(words, sizeof(*told->words));
	if (!told->words)
		return NULL;
	if (told->tid != time->tid || told->start_boot_ns != time->start_boot_ns) {
		memset(told->words, 0, words * sizeof(*told->words));
		told->tid = time->tid;
		told->start_boot_ns = time->start_boot_ns;
	}
	return told;
}

static void add_word(struct cpu_split *split, unsigned cpu, uint32_t step, uint64_t ns)
{
	const struct sched_time_layout *layout = &split->clusters.layout;

	if (layout->base[cpu] != TIME_NO_STEPS && layout->base[cpu] + step < layout->words)
		split->row[layout->base[cpu] + step] += ns;
}

/* Add the slices that the words of the row do not have, up to a sum of the task. */
static void add_slices(struct cpu_split *split, const struct sched_time *time, uint64_t cpu_ns)
{
	unsigned cpu = TIME_PLACE_CPU(time->place);

	if (time->place & TIME_LEFT_UNSEEN && time->left_ns >= time->until_ns &&
	    time->left_ns < cpu_ns)
		cpu_ns = time->left_ns;
	if (cpu_ns <= time->until_ns || !(time->place & TIME_PLACED) ||
	    cpu >= split->clusters.layout.cpu_count)
		return;
	split->row[cpu] += cpu_ns - time->until_ns;
	add_word(split, cpu, TIME_PLACE_STEP(time->place), cpu_ns - time->until_ns);
}

/* Add what the words of the row do not have yet, the slice that is not over too. */
static void add_live(struct cpu_split *split, const struct sched_time *time, uint64_t mono_ns)
{
	for (unsigned cpu = 0; cpu < split->clusters.layout.cpu_count; cpu++) {
		const struct running_task *running = sched_kernel_running(split->kernel, cpu);
		uint64_t parts[TIME_MAX_STEPS] = {0}, begin_ns = time->until_ns, slice_ns;

		if (!running || (pid_t)running->tid != time->tid ||
		    running->start_boot_ns != time->start_boot_ns ||
		    running->sums.cpu_ns <= time->until_ns)
			continue;
		if (running->in_cpu_ns > begin_ns && running->in_cpu_ns <= running->sums.cpu_ns) {
			begin_ns = running->in_cpu_ns;
			add_slices(split, time, begin_ns);
		}
		slice_ns = running->sums.cpu_ns - begin_ns;
		split->row[cpu] += slice_ns;
		sched_kernel_time_parts(split->kernel, cpu, slice_ns, mono_ns, parts);
		for (uint32_t step = 0; step < TIME_MAX_STEPS; step++)
			add_word(split, cpu, step, parts[step]);
		return;
	}
	add_slices(split, time, time->read_ns);
}

/* Parts of the rows that are this task's; more than one where it called execve. */
static int collect(struct cpu_split *split, const struct record_task *task, uint64_t mono_ns)
{
	size_t words = split->clusters.layout.words;
	struct sched_time time;

	memset(split->parts, 0, words * sizeof(*split->parts));
	for (uint32_t way = 0; way < TIME_WAYS; way++) {
		uint32_t index = ((uint32_t)task->tid + way * 257) & (TIME_ROWS - 1);
		struct told_row *told;

		if (!sched_kernel_time_read(split->kernel, index, split->row, &time) ||
		    time.tid != task->tid || time.start_boot_ns != task->start_boot_ns)
			continue;
		told = told_of(split, index, &time);
		if (!told)
			return -ENOMEM;
		if (!time.dead)
			add_live(split, &time, mono_ns);
		for (size_t i = 0; i < words; i++)
			if (split->row[i] > told->words[i])
				split->parts[i] += split->row[i] - told->words[i];
		/* What is not told now, because the task's own sum is of a moment before, is told
		 * with the next interval: keep_rest takes it back. */
		for (size_t i = 0; i < words; i++)
			if (split->row[i] > told->words[i])
				told->words[i] = split->row[i];
	}
	return 0;
}

/* Parts that were cut stay untold, unless they are of time that is in no row of the record. */
static void keep_rest(struct cpu_split *split, const struct record_task *task,
		      const uint64_t *before, size_t from, size_t to)
{
	uint64_t rest_ns = 0;

	for (size_t i = from; i < to; i++)
		rest_ns += before[i] - split->parts[i];
	if (!rest_ns || rest_ns > SKEW_NS)
		return;
	for (uint32_t way = 0; way < TIME_WAYS; way++) {
		struct told_row *told =
			&split->rows[((uint32_t)task->tid + way * 257) & (TIME_ROWS - 1)];

		if (!told->words || told->tid != task->tid ||
		    told->start_boot_ns != task->start_boot_ns || told->over)
			continue;
		for (size_t i = from; i < to; i++) {
			uint64_t cut_ns = before[i] - split->parts[i];

			told->words[i] -= cut_ns < told->words[i] ? cut_ns : told->words[i];
		}
		return;
	}
}

static bool room_for(void **items, size_t *room, size_t count, size_t size)
{
	void *more;
	size_t wanted = *room ? *room : 256;

	while (wanted < count)
		wanted *= 2;
	if (wanted == *room)
		return true;
	more = realloc(*items, wanted * size);
	if (!more)
		return false;
	*items = more;
	*room = wanted;
	return true;
}

/* cpu_ns x frequency / max_khz x capacity / 1024, where both are known. */
static uint64_t weigh(const struct cpu_cluster *cluster, uint32_t step, uint64_t ns)
{
	uint32_t khz = cpu_cluster_khz(cluster, step);

	if (!khz || !cluster->max_khz)
		return 0;
	return (uint64_t)((double)ns * khz / cluster->max_khz * cluster->capacity / FULL_CAPACITY);
}

/* Of the frequencies that are not known nothing is weighed. */
static bool norm_is_known(uint64_t unknown_ns, uint64_t cpu_ns)
{
	return unknown_ns <= cpu_ns / 100;
}

struct split_sums {
	uint64_t fnorm_ns, unknown_ns, cpu_ns;
};

static int put_frequencies(struct cpu_split *split, struct record_task *task,
			   struct split_sums *sums)
{
	uint64_t unknown_ns = task->unplaced_ns.value, fnorm_ns = 0;

	if (!room_for((void **)&split->frequency_times, &split->frequency_time_room,
		      split->frequency_time_count + split->clusters.layout.words,
		      sizeof(*split->frequency_times)))
		return -ENOMEM;
	for (size_t i = 0; i < split->clusters.count; i++) {
		const struct cpu_cluster *cluster = &split->clusters.items[i];

		for (uint32_t step = 0; step <= cluster->count; step++) {
			uint64_t ns = split->parts[cluster->base + step];
			uint32_t khz = cpu_cluster_khz(cluster, step);

			split->cluster_words[cluster->base + step] += ns;
			if (!ns)
				continue;
			split->frequency_times[split->frequency_time_count++] =
				(struct record_frequency_time){cluster->policy, {khz, khz}, ns};
			task->frequency_count++;
			fnorm_ns += weigh(cluster, step, ns);
			if (!khz || !cluster->max_khz)
				unknown_ns += ns;
		}
	}
	sums->fnorm_ns += fnorm_ns;
	sums->unknown_ns += unknown_ns;
	sums->cpu_ns += task->cpu_ns;
	if (!split->clusters.no_capacity[0] && norm_is_known(unknown_ns, task->cpu_ns))
		task->fnorm_ns = SOME_U64(fnorm_ns);
	return 0;
}

/* Steps of all clusters must add up to what the CPUs do: what they are short of, by a change amid
 * the copy, has no known frequency. */
static void fit_steps(struct cpu_split *split, uint64_t *before)
{
	const struct cpu_clusters *clusters = &split->clusters;

	for (size_t i = 0; i < clusters->count; i++) {
		const struct cpu_cluster *cluster = &clusters->items[i];
		uint64_t placed_ns = 0;

		for (unsigned cpu = 0; cpu < clusters->layout.cpu_count; cpu++)
			if (clusters->cluster_of[cpu] == i + 1)
				placed_ns += split->parts[cpu];
		memcpy(&before[cluster->base], &split->parts[cluster->base],
		       (cluster->count + 1) * sizeof(*before));
		split->parts[cluster->base] +=
			cpu_split_fit(&split->parts[cluster->base], cluster->count + 1, placed_ns);
	}
}

static int split_task(struct cpu_split *split, struct record_task *task, uint64_t mono_ns,
		      uint64_t *before, struct split_sums *sums)
{
	unsigned cpus = split->clusters.layout.cpu_count;
	uint64_t unplaced_ns;
	int err = collect(split, task, mono_ns);

	if (err)
		return err;
	memcpy(before, split->parts, cpus * sizeof(*before));
	unplaced_ns = cpu_split_fit(split->parts, cpus, task->cpu_ns);
	keep_rest(split, task, before, 0, cpus);
	if (unplaced_ns)
		task->unplaced_ns = SOME_U64(unplaced_ns);
	if (!room_for((void **)&split->cpu_times, &split->cpu_time_room,
		      split->cpu_time_count + cpus, sizeof(*split->cpu_times)))
		return -ENOMEM;
	for (unsigned cpu = 0; cpu < cpus; cpu++) {
		if (!split->parts[cpu])
			continue;
		split->cpu_times[split->cpu_time_count++] =
			(struct record_cpu_time){cpu, split->parts[cpu]};
		task->cpu_count++;
	}
	if (!split->has_frequencies)
		return 0;
	fit_steps(split, before);
	for (size_t i = 0; i < split->clusters.count; i++) {
		const struct cpu_cluster *cluster = &split->clusters.items[i];

		/* The unknown step may have grown by what was missing: that is no cut. */
		if (before[cluster->base] < split->parts[cluster->base])
			before[cluster->base] = split->parts[cluster->base];
		keep_rest(split, task, before, cluster->base, cluster->base + cluster->count + 1);
	}
	return put_frequencies(split, task, sums);
}

/* ---- an interval ---- */

static void put_clusters(struct cpu_split *split, struct record_cpu *cpu)
{
	size_t used = 0;

	for (size_t i = 0; i < split->clusters.count; i++) {
		const struct cpu_cluster *cluster = &split->clusters.items[i];
		struct record_cluster *out = &split->out[i];

		*out = (struct record_cluster){
			.cluster = cluster->policy,
			.cpus = cluster->cpus,
			.capacity = {cluster->capacity, cluster->capacity},
			.max_khz = {cluster->max_khz, cluster->max_khz},
			.frequencies = &split->out_frequencies[used],
		};
		for (uint32_t step = 0; step <= cluster->count; step++) {
			uint64_t ns = split->cluster_words[cluster->base + step];
			uint32_t khz = cpu_cluster_khz(cluster, step);

			out->targets_ns += ns;
			if (!ns)
				continue;
			split->out_frequencies[used++] =
				(struct record_frequency_time){cluster->policy, {khz, khz}, ns};
			out->frequency_count++;
		}
	}
	cpu->clusters = split->out;
	cpu->cluster_count = split->clusters.count;
}

/* CPUs that are offline have no time of their own here: their share of online_ns is not told by
 * CPU, so the mean capacity stands for it only where all are alike or all were there. */
static void put_capacity(const struct cpu_split *split, struct record_cpu *cpu)
{
	const struct cpu_clusters *clusters = &split->clusters;
	uint64_t sum = 0;
	bool alike = true;

	if (clusters->no_capacity[0] || !clusters->layout.cpu_count)
		return;
	for (unsigned i = 0; i < clusters->layout.cpu_count; i++) {
		sum += clusters->capacities[i];
		alike &= clusters->capacities[i] == clusters->capacities[0];
	}
	if (alike || cpu->online_cpus == clusters->layout.cpu_count)
		cpu->capacity_ns = SOME_U64((uint64_t)((double)cpu->online_ns * (double)sum /
						       clusters->layout.cpu_count / FULL_CAPACITY));
}

/* A row is free again once the read-out behind its task's death has told it. */
static void free_rows(struct cpu_split *split)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	bool sweep = now_ns - split->swept_ns > SWEEP_NS;
	struct sched_time time;

	if (sweep)
		split->swept_ns = now_ns;
	for (uint32_t index = 0; index < TIME_ROWS; index++) {
		struct told_row *told = &split->rows[index];

		if (!sched_kernel_time_is_used(split->kernel, index))
			continue;
		if (!sched_kernel_time_read(split->kernel, index, split->row, &time))
			continue;
		if (!time.dead && !(sweep && kill(time.tid, 0) && errno == ESRCH))
			continue;
		if (!told->over) {
			told->over = true;
			continue;
		}
		sched_kernel_time_free(split->kernel, index);
		free(told->words);
		*told = (struct told_row){0};
	}
}

int cpu_split_fill(struct cpu_split *split, uint64_t mono_ns, struct record_cpu *cpu)
{
	size_t tasks = cpu->task_count + cpu->cut_count, words = split->clusters.layout.words;
	uint64_t *before = calloc(words, sizeof(*before));
	struct split_sums sums = {0};
	int err = before ? 0 : -ENOMEM;
	size_t cpu_at = 0, frequency_at = 0;

	split->cpu_time_count = split->frequency_time_count = 0;
	memset(split->cluster_words, 0, words * sizeof(*split->cluster_words));
	for (size_t i = 0; i < tasks && !err; i++)
		err = split_task(split, &cpu->tasks[i], mono_ns, before, &sums);
	free(before);
	/* Only now the lists stay where they are. */
	for (size_t i = 0; i < tasks && !err; i++) {
		struct record_task *task = &cpu->tasks[i];

		task->cpus = &split->cpu_times[cpu_at];
		task->frequencies = &split->frequency_times[frequency_at];
		cpu_at += task->cpu_count;
		frequency_at += task->frequency_count;
	}
	free_rows(split);
	if (err)
		return err;
	if (split->has_frequencies)
		put_clusters(split, cpu);
	put_capacity(split, cpu);
	if (split->has_frequencies && !split->clusters.no_capacity[0] &&
	    norm_is_known(sums.unknown_ns, sums.cpu_ns))
		cpu->targets_fnorm_ns = SOME_U64(sums.fnorm_ns);
	return 0;
}

void cpu_split_explain(const struct cpu_split *split, struct missing_list *missing)
{
	if (split->clusters.no_frequencies[0])
		missing_list_set(missing, "cpu.tasks.frequencies", split->clusters.no_frequencies);
	if (split->clusters.no_capacity[0])
		missing_list_set(missing, "cpu.capacity_ns", split->clusters.no_capacity);
}

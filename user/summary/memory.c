/* SPDX-License-Identifier: BSD-2-Clause */
#include "summary/memory.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "record/histogram.h"
#include "summary/koom.h"
#include "util/clock.h"
#include "util/theil_sen.h"

#define HOUR_S 3600.0
/* Of a process that has had no row for so long only what the footer tells is kept. Now and then,
 * and two long series at a time, because a slope of 256 points takes milliseconds. */
#define SETTLE_NS    (60 * NSEC_PER_SEC)
#define SETTLE_TURNS 16
#define SETTLE_PAIRS (2 * MEMORY_POINTS * MEMORY_POINTS)
#define FIRST_POINTS 16
_Static_assert(MEMORY_POINTS % FIRST_POINTS == 0 &&
		       !((MEMORY_POINTS / FIRST_POINTS) & (MEMORY_POINTS / FIRST_POINTS - 1)),
	       "doubling ends at MEMORY_POINTS");

/* Targets that die and come back take the series of those before them: in the heap they would lie
 * in ever other places. Of what a long life made of them nothing is kept. */
#define SPARE_SERIES 256

/* Seconds since the first reading, and bytes. */
struct series {
	struct theil_sen_point *points,
		sum; /* as many as a short life needs, MEMORY_POINTS at most */
	size_t count, room;
	uint64_t per_point, summed; /* readings: of a point, and in sum */
	struct histogram *histogram;
};

struct memory_run {
	struct run_key {
		uint64_t start_boot_ns;
		uint64_t pid;
		uint64_t part; /* 0; of one that is settled: a number of its own */
	} key;
	char *process, *package; /* owned */
	uint64_t first_boot_ns, last_boot_ns, turn;
	struct series pss, rss;
	/* What the series came to, which are gone then. */
	struct footer_memory settled;
	struct opt_u64 threads_max, fds_max, vss_max_bytes;
	struct koom koom;
	struct opt_u64 koom_fds, koom_threads; /* the newest since the last look */
	uint64_t koom_boot_ns;                 /* when that was due */
	unsigned koom_looks, koom_over;
	struct opt_u64 newest_pss; /* read since the last sum of all */
	UT_hash_handle hh;
};

struct memory_runs {
	struct memory_run *runs;
	uint64_t turn, dropped, parts;
	size_t settled;
	struct memory_koom koom;
	struct footer_memory *result;
	struct series spare[SPARE_SERIES]; /* empty, with their memory */
	size_t spare_count;
};

struct memory_runs *memory_runs_new(void)
{
	return calloc(1, sizeof(struct memory_runs));
}

static void end_series(struct series *series)
{
	histogram_free(series->histogram);
	free(series->points);
}

static void give_back(struct memory_runs *runs, struct series *series)
{
	if (series->histogram && series->room <= FIRST_POINTS && runs->spare_count < SPARE_SERIES) {
		histogram_clear(series->histogram);
		runs->spare[runs->spare_count++] = (struct series){.points = series->points,
								   .room = series->room,
								   .histogram = series->histogram};
	} else {
		end_series(series);
	}
	*series = (struct series){0};
}

static void drop(struct memory_runs *runs, struct memory_run *run)
{
	HASH_DEL(runs->runs, run);
	runs->settled -= run->key.part != 0;
	give_back(runs, &run->pss);
	give_back(runs, &run->rss);
	free(run->process);
	free(run->package);
	free(run);
}

void memory_runs_free(struct memory_runs *runs)
{
	struct memory_run *run, *next;

	if (!runs)
		return;
	HASH_ITER (hh, runs->runs, run, next)
		drop(runs, run);
	for (size_t i = 0; i < runs->spare_count; i++)
		end_series(&runs->spare[i]);
	free(runs->result);
	free(runs);
}

/* ---- series ---- */

static struct theil_sen_point mean_of(const struct series *series)
{
	return (struct theil_sen_point){series->sum.x / (double)series->summed,
					series->sum.y / (double)series->summed};
}

static void halve(struct series *series)
{
	for (size_t i = 0; i < MEMORY_POINTS / 2; i++) {
		const struct theil_sen_point *two = &series->points[2 * i];

		series->points[i] = (struct theil_sen_point){(two[0].x + two[1].x) / 2,
							     (two[0].y + two[1].y) / 2};
	}
	series->count = MEMORY_POINTS / 2;
	series->per_point *= 2;
}

static int make_point(struct series *series)
{
	size_t room = series->room ? 2 * series->room : FIRST_POINTS;
	struct theil_sen_point *more;

	if (series->count < series->room)
		return 0;
	more = realloc(series->points, room * sizeof(*more));
	if (!more)
		return -ENOMEM;
	series->points = more;
	series->room = room;
	return 0;
}

static int add(struct memory_runs *runs, struct series *series, double x, uint64_t bytes)
{
	if (!series->histogram) {
		if (runs->spare_count)
			*series = runs->spare[--runs->spare_count];
		else
			series->histogram = histogram_new();
		if (!series->histogram)
			return -ENOMEM;
		series->per_point = 1;
	}
	/* Only here: what is summed up is of a whole point. */
	if (series->count == MEMORY_POINTS)
		halve(series);
	if (make_point(series))
		return -ENOMEM;
	series->sum.x += x;
	series->sum.y += (double)bytes;
	if (++series->summed == series->per_point) {
		series->points[series->count++] = mean_of(series);
		series->sum = (struct theil_sen_point){0};
		series->summed = 0;
	}
	return histogram_add(series->histogram, bytes);
}

static struct opt_i64 per_hour(double per_s)
{
	double per_h = per_s * HOUR_S;

	/* Beyond that it is no memory. */
	return fabs(per_h) < 9e18 ? SOME_I64((int64_t)llround(per_h)) : (struct opt_i64){0};
}

static int take_slope(const struct series *series, struct opt_i64 *slope, struct opt_i64 *low,
		      struct opt_i64 *high)
{
	struct theil_sen_point points[MEMORY_POINTS + 1];
	size_t count = series->count;
	struct theil_sen result;
	int err;

	if (count)
		memcpy(points, series->points, count * sizeof(*points));
	if (series->summed && 2 * series->summed >= series->per_point)
		points[count++] = mean_of(series);
	err = theil_sen(points, count, &result);
	if (err)
		return err == -ENODATA ? 0 : err;
	*slope = per_hour(result.slope);
	if (result.has_interval) {
		*low = per_hour(result.low);
		*high = per_hour(result.high);
	}
	return 0;
}

static bool take_spread(const struct series *series, struct record_spread *spread)
{
	const struct histogram *histogram = series->histogram;

	if (!histogram)
		return false;
	*spread = (struct record_spread){
		.n = histogram_count(histogram),
		.min = histogram_min(histogram),
		.max = histogram_max(histogram),
		.mean = histogram_mean(histogram),
		.p50 = histogram_percentile(histogram, 50),
		.p90 = histogram_percentile(histogram, 90),
		.p95 = histogram_percentile(histogram, 95),
		.p99 = histogram_percentile(histogram, 99),
	};
	return true;
}

/* ---- processes ---- */

/* What a process is sorted by. */
static double weight(const struct memory_run *run)
{
	const struct histogram *histogram = run->pss.histogram ?: run->rss.histogram;

	if (run->key.part)
		return run->settled.has_pss ? run->settled.pss.mean : run->settled.rss.mean;
	return histogram ? histogram_mean(histogram) : 0;
}

static int heavier(const struct memory_run *a, const struct memory_run *b)
{
	double x = weight(a), y = weight(b);

	if (x != y)
		return x < y ? 1 : -1;
	if (a->key.start_boot_ns != b->key.start_boot_ns)
		return a->key.start_boot_ns < b->key.start_boot_ns ? -1 : 1;
	if (a->key.pid != b->key.pid)
		return a->key.pid < b->key.pid ? -1 : 1;
	return a->first_boot_ns < b->first_boot_ns ? -1 : a->first_boot_ns > b->first_boot_ns;
}

static bool make_room(struct memory_runs *runs)
{
	struct memory_run *lightest = NULL;

	if (HASH_COUNT(runs->runs) < MEMORY_RUNS)
		return true;
	for (struct memory_run *run = runs->runs; run; run = run->hh.next)
		if (run->turn + 1 < runs->turn && (!lightest || weight(run) < weight(lightest)))
			lightest = run;
	if (lightest) {
		drop(runs, lightest);
		runs->dropped++;
	}
	return lightest;
}

static void name_it(char **name, const char *text)
{
	if (!text || (*name && !strcmp(*name, text)))
		return;
	free(*name);
	*name = strdup(text);
}

static void keep_max(struct opt_u64 *max, struct opt_u64 value)
{
	if (value.present && (!max->present || value.value > max->value))
		*max = value;
}

/* KOOM looks each 15 s. After a gap of two looks, as a suspend or an interval of a minute makes, it
 * begins anew. How many bits an address of the process has is not known, and so not whether the
 * limit of address space is its own. */
static void look_as_koom(struct memory_runs *runs, struct memory_run *run,
			 const struct record_memory_process *process, uint64_t end_boot_ns)
{
	unsigned over;

	if (process->fds.present)
		run->koom_fds = process->fds;
	if (process->threads.present)
		run->koom_threads = process->threads;
	if (end_boot_ns < run->koom_boot_ns + KOOM_EVERY_NS)
		return;
	if (end_boot_ns >= run->koom_boot_ns + 2 * KOOM_EVERY_NS) {
		run->koom = (struct koom){0};
		run->koom_looks = 0;
		run->koom_boot_ns = end_boot_ns - KOOM_EVERY_NS;
	}
	run->koom_boot_ns += KOOM_EVERY_NS;
	over = koom_look(&run->koom, run->koom_fds, run->koom_threads, (struct opt_u64){0}, false);
	run->koom_fds = run->koom_threads = (struct opt_u64){0};
	runs->koom.judged |= ++run->koom_looks >= KOOM_HITS;
	over &= ~run->koom_over;
	run->koom_over |= over;
	runs->koom.fd_processes += over >> KOOM_LIMIT_FDS & 1;
	runs->koom.thread_processes += over >> KOOM_LIMIT_THREADS & 1;
}

static int add_process(struct memory_runs *runs, const struct record_memory_process *process,
		       uint64_t end_boot_ns)
{
	struct run_key key = {process->start_boot_ns, (uint64_t)process->pid, 0};
	uint64_t at_ns = process->t_boot_ns.present ? process->t_boot_ns.value : end_boot_ns;
	struct memory_run *run;
	int err = 0;

	HASH_FIND(hh, runs->runs, &key, sizeof(key), run);
	if (!run && !process->pss_bytes.present && !process->rss_bytes.present)
		return 0;
	if (!run) {
		/* It is one of those that the footer counts, however many intervals it has. */
		if (!make_room(runs)) {
			runs->dropped += process->pss_bytes.present;
			return 0;
		}
		run = calloc(1, sizeof(*run));
		if (!run)
			return -ENOMEM;
		run->key = key;
		run->first_boot_ns = at_ns < end_boot_ns ? at_ns : end_boot_ns;
		HASH_ADD(hh, runs->runs, key, sizeof(run->key), run);
	}
	run->turn = runs->turn;
	run->last_boot_ns = end_boot_ns;
	name_it(&run->process, process->process);
	name_it(&run->package, process->package);
	keep_max(&run->threads_max, process->threads);
	keep_max(&run->fds_max, process->fds);
	keep_max(&run->vss_max_bytes, process->vss_bytes);
	look_as_koom(runs, run, process, end_boot_ns);
	if (process->pss_bytes.present)
		run->newest_pss = process->pss_bytes;
	if (process->pss_bytes.present)
		err = add(runs, &run->pss, (double)(int64_t)(at_ns - run->first_boot_ns) / 1e9,
			  process->pss_bytes.value);
	if (!err && process->rss_bytes.present)
		err = add(runs, &run->rss,
			  (double)(int64_t)(end_boot_ns - run->first_boot_ns) / 1e9,
			  process->rss_bytes.value);
	return err;
}

static int take_sums(const struct memory_run *run, struct footer_memory *row)
{
	int err;

	row->has_pss = take_spread(&run->pss, &row->pss);
	row->has_rss = take_spread(&run->rss, &row->rss);
	err = take_slope(&run->pss, &row->pss_slope, &row->low, &row->high);
	return err ? err : take_slope(&run->rss, &row->rss_slope, &row->rss_low, &row->rss_high);
}

/* Nothing is lost: a footer tells fewer rows, the heaviest, and how many others there are. */
static void drop_lightest_settled(struct memory_runs *runs)
{
	struct memory_run *lightest = NULL;

	for (struct memory_run *run = runs->runs; run; run = run->hh.next)
		if (run->key.part && (!lightest || weight(run) < weight(lightest)))
			lightest = run;
	drop(runs, lightest);
	runs->dropped++;
}

static int settle(struct memory_runs *runs, struct memory_run *run)
{
	int err = take_sums(run, &run->settled);

	if (err)
		return err;
	give_back(runs, &run->pss);
	give_back(runs, &run->rss);
	/* Where it comes back after all, that is a row of its own. */
	HASH_DEL(runs->runs, run);
	run->key.part = ++runs->parts;
	HASH_ADD(hh, runs->runs, key, sizeof(run->key), run);
	runs->settled++;
	return 0;
}

/* A target that dies and comes back each minute would fill the memory of hundreds of processes with
 * series that nothing is added to any more. */
static int settle_some(struct memory_runs *runs, uint64_t end_boot_ns)
{
	struct memory_run *run, *next;
	size_t pairs = 0;
	int err = 0;

	HASH_ITER (hh, runs->runs, run, next) {
		if (err || pairs >= SETTLE_PAIRS)
			break;
		if (run->key.part || run->turn + 1 >= runs->turn ||
		    end_boot_ns < run->last_boot_ns + SETTLE_NS)
			continue;
		pairs += run->pss.count * run->pss.count + run->rss.count * run->rss.count;
		err = settle(runs, run);
	}
	while (runs->settled > MEMORY_SETTLED)
		drop_lightest_settled(runs);
	return err;
}

int memory_runs_add(struct memory_runs *runs, const struct record_memory *memory,
		    uint64_t end_boot_ns)
{
	int err = 0;

	runs->turn++;
	for (size_t i = 0; i < memory->process_count && !err; i++)
		err = add_process(runs, &memory->processes[i], end_boot_ns);
	if (!err && runs->turn % SETTLE_TURNS == 0)
		err = settle_some(runs, end_boot_ns);
	return err;
}

static struct memory_run *run_of(const struct memory_runs *runs,
				 const struct record_memory_process *process)
{
	struct run_key key = {process->start_boot_ns, (uint64_t)process->pid, 0};
	struct memory_run *run;

	HASH_FIND(hh, runs->runs, &key, sizeof(key), run);
	return run;
}

struct opt_u64 memory_runs_sum_pss(struct memory_runs *runs, const struct record_memory *memory)
{
	struct opt_u64 sum = {memory->process_count > 0, 0};

	for (size_t i = 0; i < memory->process_count; i++) {
		const struct memory_run *run = run_of(runs, &memory->processes[i]);

		if (!run || !run->newest_pss.present)
			return (struct opt_u64){0};
		sum.value += run->newest_pss.value;
	}
	for (size_t i = 0; i < memory->process_count; i++)
		run_of(runs, &memory->processes[i])->newest_pss.present = false;
	return sum;
}

struct memory_koom memory_runs_koom(const struct memory_runs *runs)
{
	return runs->koom;
}

static int take_row(const struct memory_runs *runs, const struct memory_run *run,
		    struct footer_memory *row)
{
	*row = run->settled;
	row->pid = (pid_t)run->key.pid;
	row->process = run->process;
	row->package = run->package;
	row->start_boot_ns = run->key.start_boot_ns;
	row->exited = run->turn < runs->turn;
	row->threads_max = run->threads_max;
	row->fds_max = run->fds_max;
	row->vss_max_bytes = run->vss_max_bytes;
	return run->key.part ? 0 : take_sums(run, row);
}

int memory_runs_take(struct memory_runs *runs, size_t count, struct record_footer *footer)
{
	struct memory_run *run;
	size_t n = 0;
	int err = 0;

	free(runs->result);
	runs->result = calloc(count + 1, sizeof(*runs->result));
	if (!runs->result)
		return -ENOMEM;
	HASH_SORT(runs->runs, heavier);
	for (run = runs->runs; run && n < count && !err; run = run->hh.next)
		err = take_row(runs, run, &runs->result[n++]);
	footer->memory = runs->result;
	footer->memory_count = n;
	footer->other_memory = HASH_COUNT(runs->runs) - n + runs->dropped;
	return err;
}

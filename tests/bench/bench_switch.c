/* SPDX-License-Identifier: BSD-2-Clause */
/* What the switch program costs: nanoseconds a switch over an empty BPF program, all ways turn by
 * turn in one run, and the same by the kernel's own count of a program's time (bpf_stats).
 * usage: bench_switch JANKSCOPE [PAIRS [OBJECT...]]
 * OBJECT: other builds' sched.bpf.o (or a prototype's); each of their programs on sched_switch is
 * one more way. So two commits are compared in one run. */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "abi/flight.h"
#include "abi/sched.h"
#include "bench_empty.skel.h"
#include "kernel/load.h"
#include "pingpong.h"
#include "sched.skel.h"

#define ROUND_TRIPS 2500
#define SLICES      8
#define TASKS       32769

struct way {
	char name[64];
	const char *target;
	struct bpf_object *object;
	struct bpf_program *program; /* NULL: nothing is attached */
	unsigned recorded;           /* how many of the players the flight recorder watches */
};

struct bench {
	struct pingpong game;
	struct way ways[BENCH_MAX_WAYS];
	size_t count;
};

static const char *name_of(const struct btf *btf, const struct btf_var_secinfo *var)
{
	return btf__name_by_offset(btf, btf__type_by_id(btf, var->type)->name_off);
}

/* Set element `index` of a variable of an object that has one of this name, before it is loaded. */
static void set_variable(struct bpf_object *object, const char *in, const char *name, size_t index,
			 uint64_t value)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, in);
	const struct btf *btf = bpf_object__btf(object);
	int id = btf ? btf__find_by_name_kind(btf, in, BTF_KIND_DATASEC) : -1;
	const struct btf_type *section = id > 0 ? btf__type_by_id(btf, id) : NULL;
	size_t bytes = 0;
	const void *initial = map ? bpf_map__initial_value(map, &bytes) : NULL;
	char *memory = initial ? malloc(bytes) : NULL;

	if (memory)
		memcpy(memory, initial, bytes);
	for (int i = 0; memory && section && i < btf_vlen(section); i++) {
		const struct btf_var_secinfo *var = &btf_var_secinfos(section)[i];
		const struct btf_type *type =
			btf__type_by_id(btf, btf__type_by_id(btf, var->type)->type);
		size_t size = btf_is_array(type) ? var->size / btf_array(type)->nelems : var->size;
		size_t offset = var->offset + index * size;

		if (!strcmp(name_of(btf, var), name) && size <= sizeof(value) &&
		    offset + size <= bytes)
			memcpy(memory + offset, &value, size);
	}
	if (memory)
		bpf_map__set_initial_value(map, memory, bytes);
	free(memory);
}

/* Set a constant of an object that has one of this name. */
static void set_constant(struct bpf_object *object, const char *name, uint64_t value)
{
	set_variable(object, ".rodata", name, 0, value);
}

/* Time by CPU and frequency, as where a target is watched: of one made-up cluster of all CPUs with
 * eight frequencies. watched: the players are the target, else another process is. */
static void split_time(struct bench *bench, struct bpf_object *object, bool watched)
{
	uint32_t cpus = (uint32_t)libbpf_num_possible_cpus(), words = cpus + 9;

	set_constant(object, "split_time", 1);
	set_constant(object, "time_words", words);
	bpf_map__set_value_size(bpf_object__find_map_by_name(object, "task_times"),
				(uint32_t)sizeof(struct task_time) + 8 * words);
	bpf_map__set_max_entries(bpf_object__find_map_by_name(object, "task_times"), TIME_ROWS);
	bpf_map__set_max_entries(bpf_object__find_map_by_name(object, "time_claims"), TIME_ROWS);
	bpf_map__set_max_entries(bpf_object__find_map_by_name(object, "time_watched"), 8);
	bpf_map__set_max_entries(bpf_object__find_map_by_name(object, "cpu_frequencies"), cpus);
	for (int i = 0; i < 2; i++)
		set_variable(object, ".bss", "time_filter",
			     (uint32_t)(watched ? bench->game.children[i] : 1) & 4095, 1);
}

static void watch(struct bench *bench, struct bpf_object *object, bool watched)
{
	int targets = bpf_object__find_map_fd_by_name(object, "time_watched");
	int frequencies = bpf_object__find_map_fd_by_name(object, "cpu_frequencies");
	uint32_t one = 1, cpus = (uint32_t)libbpf_num_possible_cpus();
	const struct cpu_frequency frequency = {.base = cpus, .step = 3, .slice = 1};

	for (uint32_t i = 0; i < cpus; i++)
		bpf_map_update_elem(frequencies, &i, &frequency, BPF_ANY);
	for (int i = 0; i < 2; i++) {
		uint32_t pid = watched ? (uint32_t)bench->game.children[i] : 1;

		bpf_map_update_elem(targets, &pid, &one, BPF_ANY);
	}
}

enum splitting { SPLIT_NONE = 0, SPLIT_OTHERS = 1, SPLIT_PLAYERS = 2 };
/* The flight recorder is loaded, and watches other threads, both players, so that each switch ends
 * a recorded run and begins one, or one of them, so that it does one of the two. */
enum recording { RECORD_NONE = 0, RECORD_OTHERS = 1, RECORD_PLAYERS = 2, RECORD_ONE = 3 };

/* As where threads that make frames are watched. */
static void size_flight(struct bpf_object *object)
{
	uint32_t cpus = (uint32_t)libbpf_num_possible_cpus();

	set_constant(object, "watch_flight", 1);
	bpf_map__set_max_entries(bpf_object__find_map_by_name(object, "flight_threads"),
				 FLIGHT_THREADS);
	bpf_map__set_max_entries(bpf_object__find_map_by_name(object, "flight_watched"),
				 FLIGHT_THREADS);
	bpf_map__set_max_entries(bpf_object__find_map_by_name(object, "flight_entries"),
				 FLIGHT_BLOCKS * FLIGHT_BLOCK_ENTRIES);
	bpf_map__set_max_entries(bpf_object__find_map_by_name(object, "flight_turns"),
				 cpus * FLIGHT_TURNS);
}

/* The recorded players have rows, and the largest rings; and the marks in their slots, which the
 * program fills anew when it first sees them. */
static void record_players(struct bench *bench, const struct way *way)
{
	int threads = bpf_object__find_map_fd_by_name(way->object, "flight_threads");
	int watched = bpf_object__find_map_fd_by_name(way->object, "flight_watched");
	int tasks = bpf_object__find_map_fd_by_name(way->object, "tasks");

	for (uint32_t i = 0; i < way->recorded; i++) {
		uint32_t tid = (uint32_t)bench->game.children[i];
		struct flight_thread row = {
			.tid = tid,
			.tgid = tid,
			.first = i * FLIGHT_MOST_BLOCKS * FLIGHT_BLOCK_ENTRIES,
			.mask = FLIGHT_MOST_BLOCKS * FLIGHT_BLOCK_ENTRIES - 1,
			.order = (uint32_t)__builtin_ctz(FLIGHT_MOST_BLOCKS * FLIGHT_BLOCK_ENTRIES),
		};
		struct task_slot slot;

		bpf_map_update_elem(threads, &i, &row, BPF_ANY);
		bpf_map_update_elem(watched, &tid, &i, BPF_ANY);
		if (bpf_map_lookup_elem(tasks, &tid, &slot))
			continue;
		slot.watch |= FLIGHT_MARK;
		bpf_map_update_elem(tasks, &tid, &slot, BPF_ANY);
	}
}

/* Load one program of an object as the recorder would: an array for all tids, both CPUs. object is
 * the way's from here on. */
static void add_way(struct bench *bench, struct bpf_object *object, const char *program,
		    const char *name, const char *target, bool direct, bool loopers,
		    enum splitting splitting, enum recording recording)
{
	struct way *way = &bench->ways[bench->count];
	struct bpf_map *tasks;

	if (!object || bench->count == BENCH_MAX_WAYS)
		return;
	way->object = object;
	way->program = bpf_object__find_program_by_name(object, program);
	way->target = target;
	snprintf(way->name, sizeof(way->name), "%s", name);
	tasks = bpf_object__find_map_by_name(object, "tasks");
	if (tasks)
		bpf_map__set_max_entries(tasks, TASKS);
	if (bpf_object__find_map_by_name(object, "fast_cpus"))
		bpf_map__set_max_entries(bpf_object__find_map_by_name(object, "fast_cpus"),
					 (uint32_t)libbpf_num_possible_cpus());
	set_constant(object, "cpu_count", (uint64_t)libbpf_num_possible_cpus());
	set_constant(object, "array_slots", TASKS);
	set_constant(object, "watch_uids", direct);
	set_constant(object, "has_prev_state", 1);
	set_constant(object, "death_wakeup_bytes", 1 << 19);
	set_constant(object, "watch_loopers", loopers);
	way->recorded = recording == RECORD_PLAYERS ? 2 : recording == RECORD_ONE ? 1 : 0;
	if (recording)
		size_flight(object);
	for (uint32_t i = 0; i < way->recorded; i++)
		set_variable(object, ".bss", "flight_near",
			     (uint32_t)bench->game.children[i] & (FLIGHT_NEAR - 1), i + 1);
	if (splitting)
		split_time(bench, object, splitting == SPLIT_PLAYERS);
	bpf_program__set_autoload(way->program, true);
	if (!bpf_object__load(object)) {
		if (splitting)
			watch(bench, object, splitting == SPLIT_PLAYERS);
		bench->count++;
		return;
	}
	bench_row(name, "-", "does not load", target);
	bpf_object__close(object);
}

static struct bpf_object *our_object(void)
{
	struct sched_bpf *skeleton = sched_bpf__open();

	/* The skeleton itself stays for good: it owns nothing else that matters here. */
	return skeleton ? skeleton->obj : NULL;
}

static void add_others(struct bench *bench, const char *path)
{
	struct bpf_object *first = bpf_object__open_file(path, NULL);
	struct bpf_program *program;
	char name[64];

	if (!first) {
		bench_row(path, "-", "cannot be opened", "");
		return;
	}
	bpf_object__for_each_program (program, first) {
		const char *section = bpf_program__section_name(program);
		const char *at = strstr(section, "/sched_switch"), *base = strrchr(path, '/');

		if (!at || at[strlen("/sched_switch")])
			continue;
		snprintf(name, sizeof(name), "%.24s: %.32s", base ? base + 1 : path,
			 bpf_program__name(program));
		add_way(bench, bpf_object__open_file(path, NULL), bpf_program__name(program), name,
			"", strstr(section, "tp_btf") != NULL, false, SPLIT_NONE, RECORD_NONE);
	}
	bpf_object__close(first);
}

static double slice(void *ctx, size_t way)
{
	struct bench *bench = ctx;
	struct bpf_program *program = bench->ways[way].program;
	struct bpf_link *link = program ? bpf_program__attach(program) : NULL;
	double ns;

	if (bench->ways[way].recorded) {
		/* The program has seen them before it is told to watch them. */
		pingpong_slice(&bench->game, 10);
		record_players(bench, &bench->ways[way]);
	}
	ns = pingpong_slice(&bench->game, ROUND_TRIPS);
	bpf_link__destroy(link);
	return ns;
}

/* Nanoseconds a run by the kernel's own clocks around the program. */
static double run_ns(void *ctx, size_t way)
{
	struct bench *bench = ctx;
	struct bpf_prog_info before = {0}, after = {0};
	uint32_t length = sizeof(before);
	struct bpf_program *program = bench->ways[way].program;

	if (!program)
		return 0;
	bpf_obj_get_info_by_fd(bpf_program__fd(program), &before, &length);
	slice(ctx, way);
	length = sizeof(after);
	bpf_obj_get_info_by_fd(bpf_program__fd(program), &after, &length);
	return after.run_cnt == before.run_cnt ? 0
					       : (double)(after.run_time_ns - before.run_time_ns) /
							 (double)(after.run_cnt - before.run_cnt);
}

static void show(const struct bench *bench, const struct bench_ways *end_to_end,
		 const struct bench_ways *stats)
{
	char value[32], spread[64];

	snprintf(value, sizeof(value), "%.0f ns", bench_over(end_to_end, 0, -1, 0.5));
	snprintf(spread, sizeof(spread), "[%.0f..%.0f]", bench_over(end_to_end, 0, -1, 0.25),
		 bench_over(end_to_end, 0, -1, 0.75));
	bench_row("a switch of the ping-pong, nothing attached", value, spread, "");
	snprintf(value, sizeof(value), "%+.1f ns", bench_over(end_to_end, 1, 0, 0.5));
	snprintf(spread, sizeof(spread), "[%+.1f..%+.1f]", bench_over(end_to_end, 1, 0, 0.25),
		 bench_over(end_to_end, 1, 0, 0.75));
	bench_row("an empty program over nothing", value, spread, "");
	for (size_t i = 2; i < bench->count; i++) {
		snprintf(value, sizeof(value), "%+.1f ns", bench_over(end_to_end, i, 1, 0.5));
		snprintf(spread, sizeof(spread), "[%+.1f..%+.1f] stats %+.1f",
			 bench_over(end_to_end, i, 1, 0.25), bench_over(end_to_end, i, 1, 0.75),
			 bench_over(stats, i, 1, 0.5));
		bench_row(bench->ways[i].name, value, spread, bench->ways[i].target);
	}
}

static void show_split(const struct bench_ways *end_to_end, const struct bench_ways *stats,
		       size_t way, size_t base, const char *name, const char *target)
{
	char value[32], spread[64];

	snprintf(value, sizeof(value), "%+.1f ns", bench_over(end_to_end, way, (int)base, 0.5));
	snprintf(spread, sizeof(spread), "[%+.1f..%+.1f] stats %+.1f",
		 bench_over(end_to_end, way, (int)base, 0.25),
		 bench_over(end_to_end, way, (int)base, 0.75),
		 bench_over(stats, way, (int)base, 0.5));
	bench_row(name, value, spread, target);
}

int main(int argc, char **argv)
{
	static struct bench bench;
	static struct bench_ways end_to_end, stats;
	struct bench_empty_bpf *empty = bench_empty_bpf__open_and_load();
	size_t pairs = argc > 2 ? (size_t)atoi(argv[2]) : 21, first;
	int stats_fd;

	if (pairs < 1 || pairs > BENCH_MAX_PAIRS)
		pairs = 21;
	kernel_log_init(false);
	printf("a switch over an empty BPF program (medians of %zu pairs [quartiles]; stats: the "
	       "program's own time by bpf_stats over the empty one's)\n",
	       pairs);
	if (!empty) {
		bench_row("switch", "-", "BPF refused", "");
		return 0;
	}
	bench.ways[1].program = empty->progs.empty_switch;
	bench.count = 2;
	pingpong_start(&bench.game);
	add_way(&bench, our_object(), "sched_switch_btf", "tp_btf", "<= 15 ns", true, false,
		SPLIT_NONE, RECORD_NONE);
	add_way(&bench, our_object(), "sched_switch_raw", "raw_tp", "<= 110 ns", false, false,
		SPLIT_NONE, RECORD_NONE);
	first = bench.count;
	add_way(&bench, our_object(), "sched_switch_btf", "tp_btf, threads can be watched", "",
		true, true, SPLIT_NONE, RECORD_NONE);
	add_way(&bench, our_object(), "sched_switch_btf", "tp_btf, time of others is split", "",
		true, true, SPLIT_OTHERS, RECORD_NONE);
	add_way(&bench, our_object(), "sched_switch_btf", "tp_btf, its time is split", "", true,
		true, SPLIT_PLAYERS, RECORD_NONE);
	add_way(&bench, our_object(), "sched_switch_raw", "raw_tp, threads can be watched", "",
		false, true, SPLIT_NONE, RECORD_NONE);
	add_way(&bench, our_object(), "sched_switch_raw", "raw_tp, time of others is split", "",
		false, true, SPLIT_OTHERS, RECORD_NONE);
	add_way(&bench, our_object(), "sched_switch_raw", "raw_tp, its time is split", "", false,
		true, SPLIT_PLAYERS, RECORD_NONE);
	add_way(&bench, our_object(), "sched_switch_btf", "tp_btf, others are recorded", "", true,
		true, SPLIT_NONE, RECORD_OTHERS);
	add_way(&bench, our_object(), "sched_switch_btf", "tp_btf, it is recorded", "", true, true,
		SPLIT_NONE, RECORD_PLAYERS);
	add_way(&bench, our_object(), "sched_switch_raw", "raw_tp, others are recorded", "", false,
		true, SPLIT_NONE, RECORD_OTHERS);
	add_way(&bench, our_object(), "sched_switch_raw", "raw_tp, it is recorded", "", false, true,
		SPLIT_NONE, RECORD_PLAYERS);
	for (int i = 0; i < 2; i++) {
		const char *program = i ? "sched_switch_raw" : "sched_switch_btf";

		add_way(&bench, our_object(), program,
			i ? "raw_tp, one of both is recorded" : "tp_btf, one of both is recorded",
			"", !i, true, SPLIT_NONE, RECORD_ONE);
		add_way(&bench, our_object(), program,
			i ? "raw_tp, split and one recorded" : "tp_btf, split and one recorded", "",
			!i, true, SPLIT_PLAYERS, RECORD_ONE);
	}
	for (int i = 3; i < argc; i++)
		add_others(&bench, argv[i]);
	bench_pin(0); /* not between the players */
	pingpong_slice(&bench.game, ROUND_TRIPS);
	end_to_end = (struct bench_ways){.count = bench.count, .pairs = pairs, .slices = SLICES};
	bench_turns(&end_to_end, slice, &bench);
	stats = (struct bench_ways){.count = bench.count, .pairs = (pairs + 1) / 2, .slices = 2};
	stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	bench_turns(&stats, run_ns, &bench);
	if (stats_fd >= 0)
		close(stats_fd);
	pingpong_end(&bench.game);
	show(&bench, &end_to_end, &stats);
	/* Over the same program that splits no time and records nothing. */
	if (first + 5 < bench.count) {
		show_split(&end_to_end, &stats, first + 1, first,
			   "tp_btf, not watched: splitting adds", "0");
		show_split(&end_to_end, &stats, first + 2, first, "tp_btf, watched: splitting adds",
			   "<= 10 ns");
		show_split(&end_to_end, &stats, first + 4, first + 3,
			   "raw_tp, not watched: splitting adds", "0");
		show_split(&end_to_end, &stats, first + 5, first + 3,
			   "raw_tp, watched: splitting adds", "");
	}
	if (first + 9 < bench.count) {
		show_split(&end_to_end, &stats, first + 6, first,
			   "tp_btf, not recorded: the recorder adds", "0");
		show_split(&end_to_end, &stats, first + 7, first,
			   "tp_btf, recorded: the recorder adds", "");
		show_split(&end_to_end, &stats, first + 8, first + 3,
			   "raw_tp, not recorded: the recorder adds", "0");
		show_split(&end_to_end, &stats, first + 9, first + 3,
			   "raw_tp, recorded: the recorder adds", "");
	}
	if (first + 13 < bench.count) {
		show_split(&end_to_end, &stats, first + 10, first,
			   "tp_btf, one of both: the recorder adds", "<= 60 ns");
		show_split(&end_to_end, &stats, first + 11, first + 2,
			   "tp_btf, one of both, split: it adds", "<= 60 ns");
		show_split(&end_to_end, &stats, first + 12, first + 3,
			   "raw_tp, one of both: the recorder adds", "<= 60 ns");
		show_split(&end_to_end, &stats, first + 13, first + 5,
			   "raw_tp, one of both, split: it adds", "<= 60 ns");
	}
	return 0;
}

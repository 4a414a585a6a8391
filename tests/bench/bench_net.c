/* SPDX-License-Identifier: BSD-2-Clause */
/* What network accounting costs: CPU time of a UDP ping-pong between two namespaces, with and
 * without it, beside empty hooks and a pair of cgroup_skb programs (netd's way), turn by turn in
 * one run; and the read-out. Both ends and all softirq work run on one CPU, and each packet passes
 * both hooks. usage: bench_net JANKSCOPE [PAIRS] */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdatomic.h>
#include "kernel/net_rig.h"
#include "kernel/net_traffic.h"

#include "bench/bench.h"
#include "jankscope/source.h"
#include "kernel/load.h"
#include "net_truth.skel.h"
#include "source/net/diag.h"
#include "source/net/private.h"

#define ROUND_TRIPS 1000
#define SLICES      6

struct game {
	struct rig rig;
	pid_t pids[2];
	struct {
		atomic_uint go, done, round_trips;
		uint64_t cpu_ns[2];
	} * shared;
	int cgroup_fd;
	struct net_truth_bpf *programs;
	struct net_bpf *ours[BENCH_MAX_WAYS];
};

enum way {
	WAY_NONE,
	WAY_EMPTY,
	WAY_CGROUP,
	WAY_TP_BTF,
	WAY_WIRE,
	WAY_BY_INTERFACE,
	WAY_RAW_TP,
	WAY_RAW_BY_INTERFACE,
	WAY_COUNT
};

static const struct {
	const char *name;
	enum net_variant variant; /* of ours */
	bool wire, by_interface;
	double limit; /* of the cgroup pair's cost; 0: none is set */
} ways[WAY_COUNT] = {
	[WAY_NONE] = {"nothing", 0, 0, 0, 0},
	[WAY_EMPTY] = {"empty hooks", 0, 0, 0, 0},
	[WAY_CGROUP] = {"cgroup_skb pair, netd's way", 0, 0, 0, 0},
	[WAY_TP_BTF] = {"jankscope tp_btf, netd's formula", NET_VARIANT_TP_BTF, false, false, 1.2},
	[WAY_WIRE] = {"jankscope tp_btf, wire", NET_VARIANT_TP_BTF, true, false, 0},
	[WAY_BY_INTERFACE] = {"jankscope tp_btf, by interface", NET_VARIANT_TP_BTF, false, true, 0},
	[WAY_RAW_TP] = {"jankscope raw_tp, netd's formula", NET_VARIANT_RAW_TP, false, false, 1.5},
	[WAY_RAW_BY_INTERFACE] = {"jankscope raw_tp, by interface", NET_VARIANT_RAW_TP, false, true,
				  0},
};

/* One side of the ping-pong; arg is the game, side 1 answers. */
static int play(struct game *game, int side, int fd, const struct sockaddr_storage *peer,
		socklen_t length)
{
	unsigned round = 0;
	char ball[64] = {0};
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	sched_setaffinity(0, sizeof(set), &set);
	alarm(600);
	for (;;) {
		uint64_t begin_ns;

		while (atomic_load(&game->shared->go) == round)
			usleep(500);
		round = atomic_load(&game->shared->go);
		begin_ns = bench_now_ns(CLOCK_PROCESS_CPUTIME_ID);
		for (unsigned i = atomic_load(&game->shared->round_trips); i; i--) {
			if (side == 0 && sendto(fd, ball, 64, 0, (void *)peer, length) != 64)
				return 1;
			if (recv(fd, ball, 64, 0) != 64)
				return 1;
			if (side == 1 && sendto(fd, ball, 64, 0, (void *)peer, length) != 64)
				return 1;
		}
		game->shared->cpu_ns[side] = bench_now_ns(CLOCK_PROCESS_CPUTIME_ID) - begin_ns;
		atomic_fetch_add(&game->shared->done, 1);
	}
}

static int play_side(struct game *game, int side)
{
	struct sockaddr_storage own, peer;
	socklen_t length = traffic_address(&own, AF_INET, side ? RIG_PEER4 : RIG_DEVICE4, 7007);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	traffic_address(&peer, AF_INET, side ? RIG_DEVICE4 : RIG_PEER4, 7007);
	if (bind(fd, (void *)&own, length))
		return 1;
	return play(game, side, fd, &peer, length);
}

static int play_device(const void *arg, int ready)
{
	return play_side(*(struct game *const *)arg, 0);
}

static int play_peer(const void *arg, int ready)
{
	return play_side(*(struct game *const *)arg, 1);
}

/* CPU nanoseconds a packet: one sent and one received of each round trip on either side. */
static double play_slice(struct game *game, unsigned round_trips)
{
	atomic_store(&game->shared->done, 0);
	atomic_store(&game->shared->round_trips, round_trips);
	atomic_fetch_add(&game->shared->go, 1);
	while (atomic_load(&game->shared->done) < 2)
		usleep(500);
	return (double)(game->shared->cpu_ns[0] + game->shared->cpu_ns[1]) / (2.0 * round_trips);
}

/* The programs of a way of ours, loaded as the source loads them. */
static struct net_bpf *load_ours(enum way way)
{
	struct net_bpf *skeleton = net_bpf__open();
	struct net_twins twins;

	if (!skeleton)
		return NULL;
	skeleton->rodata->wire_length = ways[way].wire;
	skeleton->rodata->netns_by_cookie = net_diag_has_cookies();
	skeleton->rodata->by_interface = ways[way].by_interface;
	skeleton->rodata->interface_places = 1024;
	twins = net_twins_of(skeleton, ways[way].variant);
	for (int i = 0; i < NET_PROGRAMS; i++)
		bpf_program__set_autoload(twins.programs[i], true);
	if (!net_bpf__load(skeleton))
		return skeleton;
	net_bpf__destroy(skeleton);
	return NULL;
}

/* The two programs of a way; NULL: nothing is attached. */
static void programs_of(const struct game *game, size_t way, struct bpf_program *programs[2])
{
	programs[0] = programs[1] = NULL;
	if (way == WAY_EMPTY) {
		programs[0] = game->programs->progs.empty_transmit;
		programs[1] = game->programs->progs.empty_receive;
	} else if (way == WAY_CGROUP) {
		programs[0] = game->programs->progs.netd_egress;
		programs[1] = game->programs->progs.netd_ingress;
	} else if (game->ours[way]) {
		struct net_twins twins = net_twins_of(game->ours[way], ways[way].variant);

		programs[0] = twins.programs[0];
		programs[1] = twins.programs[1];
	}
}

/* Attached for the slice only. Its first packets load caches, and the flow's owner is looked up
 * anew as after a read-out. */
static double slice(void *ctx, size_t way)
{
	struct game *game = ctx;
	struct bpf_program *programs[2];
	struct bpf_link *links[2] = {0};
	double ns;

	programs_of(game, way, programs);
	if (game->ours[way])
		game->ours[way]->bss->epoch++;
	for (int i = 0; i < 2 && programs[i]; i++)
		links[i] = way == WAY_CGROUP
				   ? bpf_program__attach_cgroup(programs[i], game->cgroup_fd)
				   : bpf_program__attach(programs[i]);
	play_slice(game, ROUND_TRIPS / 10);
	ns = play_slice(game, ROUND_TRIPS);
	bpf_link__destroy(links[0]);
	bpf_link__destroy(links[1]);
	return ns;
}

/* A run of the two programs, by the kernel's own clocks around them. */
static double run_ns(void *ctx, size_t way)
{
	struct game *game = ctx;
	struct bpf_program *programs[2];
	struct bpf_prog_info before[2] = {0}, after[2] = {0};
	double sum_ns = 0;

	programs_of(game, way, programs);
	for (int i = 0; i < 2 && programs[i]; i++)
		bpf_obj_get_info_by_fd(bpf_program__fd(programs[i]), &before[i],
				       &(uint32_t){sizeof(before[i])});
	slice(ctx, way);
	for (int i = 0; i < 2 && programs[i]; i++) {
		bpf_obj_get_info_by_fd(bpf_program__fd(programs[i]), &after[i],
				       &(uint32_t){sizeof(after[i])});
		if (after[i].run_cnt > before[i].run_cnt)
			sum_ns += (double)(after[i].run_time_ns - before[i].run_time_ns) /
				  (double)(after[i].run_cnt - before[i].run_cnt);
	}
	return sum_ns;
}

static void compare(struct game *game, size_t pairs)
{
	static struct bench_ways values, stats;
	char value[32], spread[96], target[32] = "";
	double cgroup;
	int stats_fd;

	for (enum way way = WAY_TP_BTF; way < WAY_COUNT; way++) {
		game->ours[way] = load_ours(way);
		if (!game->ours[way])
			bench_row(ways[way].name, "-", "does not load", "");
	}
	values = (struct bench_ways){.count = WAY_COUNT, .pairs = pairs, .slices = SLICES};
	bench_turns(&values, slice, game);
	stats = (struct bench_ways){.count = WAY_COUNT, .pairs = (pairs + 1) / 2, .slices = 2};
	stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	bench_turns(&stats, run_ns, game);
	if (stats_fd >= 0)
		close(stats_fd);
	snprintf(value, sizeof(value), "%.0f ns", bench_over(&values, WAY_NONE, -1, 0.5));
	bench_row("a packet, nothing attached", value, "", "");
	cgroup = bench_over(&values, WAY_CGROUP, WAY_NONE, 0.5);
	for (enum way way = WAY_EMPTY; way < WAY_COUNT; way++) {
		double over = bench_over(&values, way, WAY_NONE, 0.5);

		if (way >= WAY_TP_BTF && !game->ours[way])
			continue;
		snprintf(value, sizeof(value), "%+.0f ns", over);
		snprintf(spread, sizeof(spread), "[%+.0f..%+.0f] %.2f x, stats %+.0f",
			 bench_over(&values, way, WAY_NONE, 0.25),
			 bench_over(&values, way, WAY_NONE, 0.75), over / cgroup,
			 bench_over(&stats, way, WAY_EMPTY, 0.5));
		if (ways[way].limit > 0)
			snprintf(target, sizeof(target), "<= %.1f x", ways[way].limit);
		else
			*target = 0;
		bench_row(ways[way].name, value, spread, target);
		net_bpf__destroy(game->ours[way]);
	}
}

static bool open_source(struct source **source)
{
	static const struct net_options options = {.variant = NET_VARIANT_TP_BTF};
	static const struct source_context context;

	*source = net_source_new(&options);
	return *source && !(*source)->ops->open(*source, &context);
}

/* Open, and sample with nothing and with one flow to tell. */
static void bench_read_out(struct game *game)
{
	double open_ms[5], idle_us[5], busy_us[5];
	char value[32], spread[64];

	for (int i = 0; i < 5; i++) {
		struct source *source;
		struct record_interval interval = {0};
		uint64_t begin = bench_now_ns(CLOCK_MONOTONIC);

		if (!open_source(&source)) {
			if (source)
				source->ops->close(source);
			return;
		}
		open_ms[i] = (double)(bench_now_ns(CLOCK_MONOTONIC) - begin) / 1e6;
		source->ops->sample(source, &interval);
		begin = bench_now_ns(CLOCK_MONOTONIC);
		source->ops->sample(source, &interval);
		idle_us[i] = (double)(bench_now_ns(CLOCK_MONOTONIC) - begin) / 1e3;
		play_slice(game, ROUND_TRIPS);
		begin = bench_now_ns(CLOCK_MONOTONIC);
		source->ops->sample(source, &interval);
		busy_us[i] = (double)(bench_now_ns(CLOCK_MONOTONIC) - begin) / 1e3;
		counter_list_free(&interval.lost);
		missing_list_free(&interval.missing);
		source->ops->close(source);
	}
	snprintf(value, sizeof(value), "%.1f ms", bench_quantile(open_ms, 5, 0.5));
	snprintf(spread, sizeof(spread), "max %.1f", bench_quantile(open_ms, 5, 1));
	bench_row("open: load, attach, dump all namespaces", value, spread, "");
	snprintf(value, sizeof(value), "%.0f us", bench_quantile(idle_us, 5, 0.5));
	snprintf(spread, sizeof(spread), "max %.0f", bench_quantile(idle_us, 5, 1));
	bench_row("read-out, idle", value, spread, "");
	snprintf(value, sizeof(value), "%.0f us", bench_quantile(busy_us, 5, 0.5));
	snprintf(spread, sizeof(spread), "max %.0f", bench_quantile(busy_us, 5, 1));
	bench_row("read-out, one known flow", value, spread, "");
}

int main(int argc, char **argv)
{
	size_t pairs = argc > 2 ? (size_t)atoi(argv[2]) : 21;
	struct game game = {0}, *self = &game;
	const char *why = "";

	if (pairs < 1 || pairs > BENCH_MAX_PAIRS)
		pairs = 21;
	kernel_log_init(false);
	printf("network accounting: UDP of 64 bytes, CPU time a packet over nothing attached "
	       "(medians "
	       "of %zu pairs [quartiles]; x: of the cgroup_skb pair's; stats: the two programs' "
	       "own "
	       "time by bpf_stats over the empty ones')\n",
	       pairs);
	if (rig_up(&game.rig, &why)) {
		printf("  skipped: %s\n", why);
		goto cleanup;
	}
	game.cgroup_fd = open(game.rig.cgroup, O_RDONLY | O_CLOEXEC);
	game.programs = net_truth_bpf__open();
	if (game.programs) {
		bpf_program__set_autoload(game.programs->progs.empty_transmit, true);
		bpf_program__set_autoload(game.programs->progs.empty_receive, true);
		bpf_program__set_autoload(game.programs->progs.netd_egress, true);
		bpf_program__set_autoload(game.programs->progs.netd_ingress, true);
	}
	if (!game.programs || net_truth_bpf__load(game.programs)) {
		printf("  skipped: the peers' programs do not load\n");
		goto cleanup;
	}
	game.shared = mmap(NULL, sizeof(*game.shared), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	game.pids[0] = rig_spawn(&game.rig, RIG_DEVICE, 10001, play_device, &self, NULL);
	game.pids[1] = rig_spawn(&game.rig, RIG_PEER, 20001, play_peer, &self, NULL);
	usleep(200000);
	play_slice(&game, ROUND_TRIPS);
	compare(&game, pairs);
	bench_read_out(&game);
cleanup:
	for (int i = 0; i < 2; i++) {
		if (game.pids[i] > 0) {
			kill(game.pids[i], SIGKILL);
			rig_wait(game.pids[i]);
		}
	}
	net_truth_bpf__destroy(game.programs);
	rig_down(&game.rig);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* What network accounting costs: CPU time of a UDP ping-pong between two namespaces, with and
 * without it, beside empty hooks and a pair of cgroup_skb programs (netd's way), in one run; and
 * the read-out. Both ends and all softirq work run on one CPU, and each packet passes both hooks.
 * usage: bench_net JANKSCOPE [PAIRS] */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdatomic.h>
#include "kernel/net_rig.h"
#include "kernel/net_traffic.h"

#include "bench/bench.h"
#include "jankscope/source.h"
#include "kernel/load.h"
#include "net_truth.skel.h"
#include "source/net/net.h"

#define ROUND_TRIPS 4000
#define MAX_PAIRS   101

struct game {
	struct rig rig;
	pid_t pids[2];
	struct {
		atomic_uint go, done;
		uint64_t cpu_ns[2];
	} * shared;
	int cgroup_fd;
	struct net_truth_bpf *programs;
};

enum tool { TOOL_NONE, TOOL_EMPTY, TOOL_CGROUP, TOOL_TP_BTF, TOOL_WIRE, TOOL_RAW_TP, TOOL_COUNT };

static const struct {
	const char *name;
	struct net_options options;
} tools[TOOL_COUNT] = {
	[TOOL_NONE] = {"nothing (the noise)", {0}},
	[TOOL_EMPTY] = {"empty hooks", {0}},
	[TOOL_CGROUP] = {"cgroup_skb pair, netd's way", {0}},
	[TOOL_TP_BTF] = {"jankscope tp_btf, netd's formula", {.variant = NET_VARIANT_TP_BTF}},
	[TOOL_WIRE] = {"jankscope tp_btf, wire", {.variant = NET_VARIANT_TP_BTF, .wire = true}},
	[TOOL_RAW_TP] = {"jankscope raw_tp, netd's formula", {.variant = NET_VARIANT_RAW_TP}},
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
			usleep(1000);
		round = atomic_load(&game->shared->go);
		begin_ns = bench_now_ns(CLOCK_PROCESS_CPUTIME_ID);
		for (int i = 0; i < ROUND_TRIPS; i++) {
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
static double slice(struct game *game)
{
	atomic_store(&game->shared->done, 0);
	atomic_fetch_add(&game->shared->go, 1);
	while (atomic_load(&game->shared->done) < 2)
		usleep(2000);
	return (double)(game->shared->cpu_ns[0] + game->shared->cpu_ns[1]) / (2.0 * ROUND_TRIPS);
}

struct armed {
	struct source *source;
	struct bpf_link *links[2];
};

static bool arm(struct game *game, enum tool tool, struct armed *armed)
{
	static const struct source_context context;
	struct net_truth_bpf *programs = game->programs;

	*armed = (struct armed){0};
	if (tool == TOOL_EMPTY) {
		armed->links[0] = bpf_program__attach(programs->progs.empty_transmit);
		armed->links[1] = bpf_program__attach(programs->progs.empty_receive);
	} else if (tool == TOOL_CGROUP) {
		armed->links[0] =
			bpf_program__attach_cgroup(programs->progs.netd_egress, game->cgroup_fd);
		armed->links[1] =
			bpf_program__attach_cgroup(programs->progs.netd_ingress, game->cgroup_fd);
	} else if (tool != TOOL_NONE) {
		armed->source = net_source_new(&tools[tool].options);
		return armed->source && !armed->source->ops->open(armed->source, &context);
	}
	return tool == TOOL_NONE || (armed->links[0] && armed->links[1]);
}

static void disarm(struct armed *armed)
{
	if (armed->source)
		armed->source->ops->close(armed->source);
	bpf_link__destroy(armed->links[0]);
	bpf_link__destroy(armed->links[1]);
}

static bool measure(struct game *game, enum tool tool, bool with, double *value)
{
	struct armed armed;
	bool fine = true;

	if (!with) {
		*value = slice(game);
		return true;
	}
	fine = arm(game, tool, &armed);
	if (fine) {
		slice(game); /* the first packets load caches and learn the flow */
		*value = slice(game);
	}
	disarm(&armed);
	return fine;
}

static void compare(struct game *game, enum tool tool, size_t pairs)
{
	double over[MAX_PAIRS], base[MAX_PAIRS];
	char value[32], spread[64];

	for (size_t i = 0; i < pairs; i++) {
		double with, without;
		bool order = i & 1;

		if (!measure(game, tool, order, order ? &with : &without) ||
		    !measure(game, tool, !order, order ? &without : &with)) {
			bench_row(tools[tool].name, "-", "cannot be attached here", "");
			return;
		}
		over[i] = with - without;
		base[i] = without;
	}
	snprintf(value, sizeof(value), "%+.0f ns", bench_quantile(over, pairs, 0.5));
	snprintf(spread, sizeof(spread), "[%+.0f..%+.0f] of %.0f",
		 bench_quantile(over, pairs, 0.25), bench_quantile(over, pairs, 0.75),
		 bench_quantile(base, pairs, 0.5));
	bench_row(tools[tool].name, value, spread, "");
}

/* Open, and sample with nothing and with one flow to tell. */
static void bench_read_out(struct game *game)
{
	double open_ms[15], idle_us[15], busy_us[15];
	char value[32], spread[64];

	for (int i = 0; i < 15; i++) {
		struct armed armed;
		struct record_interval interval = {0};
		uint64_t begin = bench_now_ns(CLOCK_MONOTONIC);

		if (!arm(game, TOOL_TP_BTF, &armed)) {
			disarm(&armed);
			return;
		}
		open_ms[i] = (double)(bench_now_ns(CLOCK_MONOTONIC) - begin) / 1e6;
		armed.source->ops->sample(armed.source, &interval);
		begin = bench_now_ns(CLOCK_MONOTONIC);
		armed.source->ops->sample(armed.source, &interval);
		idle_us[i] = (double)(bench_now_ns(CLOCK_MONOTONIC) - begin) / 1e3;
		slice(game);
		begin = bench_now_ns(CLOCK_MONOTONIC);
		armed.source->ops->sample(armed.source, &interval);
		busy_us[i] = (double)(bench_now_ns(CLOCK_MONOTONIC) - begin) / 1e3;
		counter_list_free(&interval.lost);
		missing_list_free(&interval.missing);
		disarm(&armed);
	}
	snprintf(value, sizeof(value), "%.1f ms", bench_quantile(open_ms, 15, 0.5));
	snprintf(spread, sizeof(spread), "max %.1f", bench_quantile(open_ms, 15, 1));
	bench_row("open: load, attach, dump all namespaces", value, spread, "");
	snprintf(value, sizeof(value), "%.0f us", bench_quantile(idle_us, 15, 0.5));
	snprintf(spread, sizeof(spread), "max %.0f", bench_quantile(idle_us, 15, 1));
	bench_row("read-out, idle", value, spread, "");
	snprintf(value, sizeof(value), "%.0f us", bench_quantile(busy_us, 15, 0.5));
	snprintf(spread, sizeof(spread), "max %.0f", bench_quantile(busy_us, 15, 1));
	bench_row("read-out, one known flow", value, spread, "");
}

int main(int argc, char **argv)
{
	size_t pairs = argc > 2 ? (size_t)atoi(argv[2]) : 21;
	struct game game = {0}, *self = &game;
	const char *why = "";

	if (pairs < 1 || pairs > MAX_PAIRS)
		pairs = 21;
	kernel_log_init(false);
	printf("network accounting: UDP of 64 bytes, CPU time a packet (medians of %zu pairs "
	       "[quartiles] of the base)\n",
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
	slice(&game);
	for (enum tool tool = TOOL_NONE; tool < TOOL_COUNT; tool++)
		compare(&game, tool, pairs);
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

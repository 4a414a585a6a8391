/* SPDX-License-Identifier: BSD-2-Clause */
/* What --tcp costs: CPU time of a TCP ping-pong over loopback, and of connections that are made and
 * closed, with the programs attached and without, turn by turn in one run. Both ends and all
 * softirq work run on one CPU. usage: bench_tcp JANKSCOPE [PAIRS] */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "bench/bench.h"
#include "kernel/load.h"
#include "tcp.skel.h"

#define ROUND_TRIPS 1000
#define CONNECTIONS 200
#define SLICES      6
#define PROGRAMS    5

enum way { WAY_NONE, WAY_TCP, WAY_COUNT };

struct game {
	pid_t pid; /* answers */
	int fd, listener;
	struct sockaddr_in address;
	struct tcp_bpf *ours;
	bool connects;
	struct {
		_Atomic uint64_t cpu_ns;
	} * shared;
};

static void pin(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void __attribute__((noreturn)) answer(const struct game *game)
{
	int peer = -1;
	char ball[64];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin();
	for (;;) {
		ssize_t got = peer < 0 ? 0 : recv(peer, ball, sizeof(ball), 0);

		if (got > 0) {
			if (send(peer, ball, (size_t)got, MSG_NOSIGNAL) != got)
				_exit(1);
		} else {
			int one = 1;

			close(peer);
			peer = accept(game->listener, NULL, NULL);
			setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		}
		atomic_store(&game->shared->cpu_ns, bench_now_ns(CLOCK_PROCESS_CPUTIME_ID));
	}
}

static int meet(const struct game *game)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (!connect(fd, (void *)&game->address, sizeof(game->address)))
		return fd;
	close(fd);
	return -1;
}

static void round_trips(int fd, unsigned count)
{
	char ball[64] = {0};

	while (count--)
		if (send(fd, ball, sizeof(ball), MSG_NOSIGNAL) != sizeof(ball) ||
		    recv(fd, ball, sizeof(ball), MSG_WAITALL) != sizeof(ball))
			return;
}

static double slice(void *ctx, size_t way)
{
	struct game *game = ctx;
	struct bpf_program *programs[PROGRAMS] = {
		game->ours->progs.tcp_received, game->ours->progs.tcp_changed,
		game->ours->progs.tcp_retransmitted, game->ours->progs.tcp_answered_again,
		game->ours->progs.tcp_was_reset};
	struct bpf_link *links[PROGRAMS] = {0};
	uint64_t begin_ns;
	double ns;

	for (int i = 0; way == WAY_TCP && i < PROGRAMS; i++)
		links[i] = bpf_program__attach(programs[i]);
	if (!game->connects)
		round_trips(game->fd, ROUND_TRIPS / 10);
	begin_ns = bench_now_ns(CLOCK_PROCESS_CPUTIME_ID) + atomic_load(&game->shared->cpu_ns);
	if (!game->connects)
		round_trips(game->fd, ROUND_TRIPS);
	for (int i = 0; game->connects && i < CONNECTIONS; i++) {
		int fd = meet(game);

		round_trips(fd, 1);
		close(fd);
	}
	ns = (double)(bench_now_ns(CLOCK_PROCESS_CPUTIME_ID) + atomic_load(&game->shared->cpu_ns) -
		      begin_ns);
	for (int i = 0; i < PROGRAMS; i++)
		bpf_link__destroy(links[i]);
	/* Each side receives one segment a round trip. */
	return ns / (game->connects ? CONNECTIONS : 2.0 * ROUND_TRIPS);
}

static void compare(struct game *game, size_t pairs, const char *what)
{
	static struct bench_ways values;
	char name[64], value[32], spread[64];

	values = (struct bench_ways){.count = WAY_COUNT, .pairs = pairs, .slices = SLICES};
	bench_turns(&values, slice, game);
	snprintf(name, sizeof(name), "%s, nothing attached", what);
	snprintf(value, sizeof(value), "%.0f ns", bench_over(&values, WAY_NONE, -1, 0.5));
	bench_row(name, value, "", "");
	snprintf(name, sizeof(name), "%s, --tcp", what);
	snprintf(value, sizeof(value), "%+.0f ns", bench_over(&values, WAY_TCP, WAY_NONE, 0.5));
	snprintf(spread, sizeof(spread), "[%+.0f..%+.0f]",
		 bench_over(&values, WAY_TCP, WAY_NONE, 0.25),
		 bench_over(&values, WAY_TCP, WAY_NONE, 0.75));
	bench_row(name, value, spread, "");
}

int main(int argc, char **argv)
{
	size_t pairs = argc > 2 ? (size_t)atoi(argv[2]) : 21;
	struct game game = {.address = {.sin_family = AF_INET}};
	socklen_t length = sizeof(game.address);

	if (pairs < 1 || pairs > BENCH_MAX_PAIRS)
		pairs = 21;
	kernel_log_init(false);
	printf("--tcp: TCP over loopback, CPU time over nothing attached (medians of %zu pairs "
	       "[quartiles])\n",
	       pairs);
	game.shared = mmap(NULL, sizeof(*game.shared), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	game.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	game.listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(game.listener, (void *)&game.address, length) || listen(game.listener, 16) ||
	    getsockname(game.listener, (void *)&game.address, &length)) {
		printf("  skipped: no loopback\n");
		return 0;
	}
	game.ours = tcp_bpf__open();
	if (game.ours) {
		struct bpf_program *program;

		bpf_object__for_each_program (program, game.ours->obj)
			bpf_program__set_autoload(program, true);
	}
	if (!game.ours || tcp_bpf__load(game.ours)) {
		printf("  skipped: the programs do not load\n");
		return 0;
	}
	game.pid = fork();
	if (!game.pid)
		answer(&game);
	pin();
	game.fd = meet(&game);
	compare(&game, pairs, "a segment");
	close(game.fd);
	game.connects = true;
	compare(&game, pairs, "a connection");
	kill(game.pid, SIGKILL);
	waitpid(game.pid, NULL, 0);
	tcp_bpf__destroy(game.ours);
	return 0;
}

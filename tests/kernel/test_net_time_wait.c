/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections of TCP that follow each other between the same two ports, over what the first one
 * left behind (TIME_WAIT, bytes that still wait for their owner): each uid equals a cgroup_skb
 * counter to the byte. */
/* Runs beside others (17 s) */
#include "kernel/net_measure.h"
#include "util/clock.h"

#define CLIENT_PORT 7200
#define DEADLINE_NS (15 * NSEC_PER_SEC)
#define ANSWER_US   400000 /* a dump takes 1 ms, and 200 in an emulated guest */
#define LATE_US     100000 /* more than the 40 ms after which an ACK goes alone */

/* What a server received. What it sent is its client's to compare: old kernels leave an IPv6
 * SYN-ACK out of cgroup egress (add_synacks), and one that goes astray has no receiver. */
static void check_received(struct bench *bench, uid_t uid, const char *what)
{
	struct truth_bytes truth = truth_of(bench, uid, false, false);
	const struct record_bytes *found = measured_uid(&bench->measured, uid);

	if (!tap_ok(truth.rx_bytes && truth.rx_bytes == found->rx_bytes &&
			    truth.rx_packets == found->rx_packets,
		    "%s: received, equal to the byte (rx %lu)", what, found->rx_bytes)) {
		show(what, &truth, found);
		show_elsewhere(what, &bench->measured);
	}
}

/* What the client sent is no part of this test: since 6.12 the IPv6 RST that the kernel sends in
 * its name has its socket and passes no cgroup filter. */
static void note_sent(struct bench *bench, uid_t uid, const char *what)
{
	struct truth_bytes truth = truth_of(bench, uid, false, false);
	const struct record_bytes *found = measured_uid(&bench->measured, uid);

	if (truth.tx_bytes == found->tx_bytes)
		return;
	tap_note("%s: sent %lu B of %llu", what, found->tx_bytes, truth.tx_bytes);
	show_elsewhere(what, &bench->measured);
}

/* ---- one end's port is always the same ---- */
/* While the last socket of this port still waits for its last ACK, or for its TIME_WAIT to be a
 * second old (tcp_tw_reuse), connect() says so. */
static int connect_from(const struct traffic *traffic, uint64_t deadline_ns)
{
	struct sockaddr_storage to, own;
	socklen_t length = traffic_address(&to, traffic->family, traffic->address, traffic->port);
	int one = 1;

	while (clock_now_ns(CLOCK_MONOTONIC) < deadline_ns) {
		int fd = socket(traffic->family, SOCK_STREAM, 0), err = 0;

		traffic_timeout(fd, 20);
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(fd, (void *)&own,
			 traffic_address(&own, traffic->family, NULL, traffic->source_port)) ||
		    connect(fd, (void *)&to, length))
			err = errno;
		if (!err)
			return fd;
		close(fd);
		if (err != EADDRNOTAVAIL && err != EADDRINUSE)
			return -err;
		usleep(1000);
	}
	return -ETIMEDOUT;
}

static void wait_for_samples(const struct traffic *traffic, int more)
{
	int from = atomic_load(traffic->samples);

	while (atomic_load(traffic->samples) - from < more)
		usleep(2000);
}

struct again {
	struct traffic traffic;
	bool held; /* stay open for longer than anything waits for its owner */
	bool late; /* close late: the last segment meets TIME_WAIT */
};

static int client_again(const void *arg, int ready)
{
	const struct again *again = arg;
	const struct traffic *traffic = &again->traffic;
	uint64_t deadline_ns = clock_now_ns(CLOCK_MONOTONIC) + DEADLINE_NS;
	char end;

	for (int i = 0; i < traffic->count; i++) {
		int fd = connect_from(traffic, deadline_ns);

		if (fd < 0 || traffic_move(fd, traffic->up, true))
			return 1;
		if (again->held)
			wait_for_samples(traffic, 4);
		if (traffic_move(fd, traffic->up, true) || traffic_move(fd, traffic->down, false))
			return 1;
		if (traffic->server_closes && recv(fd, &end, 1, 0) != 0)
			return 1;
		if (again->late)
			usleep(LATE_US);
		close(fd);
	}
	return 0;
}

static int client_refused(const void *arg, int ready)
{
	const struct again *again = arg;

	return connect_from(&again->traffic, clock_now_ns(CLOCK_MONOTONIC) + DEADLINE_NS) !=
	       -ECONNREFUSED;
}

/* The server lives at the device, so that both its SYNs and its late segments come in there. */
static int pair_again(const struct bench *bench, struct again *again, uid_t device, uid_t peer)
{
	struct traffic server = again->traffic;
	int ready = -1, status;
	pid_t pid;

	server.up *= 2;
	pid = rig_spawn(&bench->rig, RIG_DEVICE, device, tcp_server, &server, &ready);
	if (read(ready, &again->traffic.port, sizeof(again->traffic.port)) != 2)
		return 1;
	close(ready);
	status = rig_wait(rig_spawn(&bench->rig, RIG_PEER, peer, client_again, again, NULL));
	if (status)
		kill(pid, SIGKILL);
	return status | rig_wait(pid);
}

static struct again again_of(const struct bench *bench, const struct net_case *net_case)
{
	struct again again = {.traffic = traffic_of(bench, net_case, RIG_DEVICE4, RIG_DEVICE6)};

	again.traffic.source_port = CLIENT_PORT;
	return again;
}

static int run_again(const struct bench *bench, const struct net_case *net_case, uid_t device,
		     uid_t peer)
{
	struct again again = again_of(bench, net_case);

	return pair_again(bench, &again, device, peer);
}

static int run_late(const struct bench *bench, const struct net_case *net_case, uid_t device,
		    uid_t peer)
{
	struct again again = again_of(bench, net_case);

	again.late = true;
	return pair_again(bench, &again, device, peer);
}

static int run_held(const struct bench *bench, const struct net_case *net_case, uid_t device,
		    uid_t peer)
{
	struct again again = again_of(bench, net_case);

	again.held = again.late = true;
	return pair_again(bench, &again, device, peer);
}

/* The second listener has another owner; the client's ports and address stay. */
static int run_next_owner(const struct bench *bench, const struct net_case *net_case, uid_t device,
			  uid_t peer)
{
	struct again again = again_of(bench, net_case);

	again.late = true;
	return pair_again(bench, &again, device, peer) |
	       pair_again(bench, &again, device + 1, peer);
}

/* The listener is gone when the client comes again; its SYN meets TIME_WAIT and then nobody. */
static int run_then_refused(const struct bench *bench, const struct net_case *net_case,
			    uid_t device, uid_t peer)
{
	struct again again = again_of(bench, net_case);
	int status = pair_again(bench, &again, device, peer);

	return status |
	       rig_wait(rig_spawn(&bench->rig, RIG_PEER, peer, client_refused, &again, NULL));
}

/* ---- a question about a SYN that is answered when its connection is over ---- */
static bool wait_for_syn(struct bench *bench, uid_t uid)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + DEADLINE_NS;

	while (!truth_of(bench, uid, false, false).rx_syns)
		if (clock_now_ns(CLOCK_MONOTONIC) > until_ns)
			return false;
		else
			usleep(500);
	return true;
}

static int steer_answers(const struct bench *bench, const char *client, const void *mac)
{
	int err = setns(bench->rig.ns[RIG_DEVICE], CLONE_NEWNET);

	if (!err)
		err = rig_neighbour("wl0", client, mac);
	setns(bench->rig.home, CLONE_NEWNET);
	return err;
}

/* The SYN-ACK goes astray at first, so that the read-out meets a SYN whose owner nothing tells yet.
 * The process that dumps sleeps until the connection is in TIME_WAIT. */
static void test_answer_late(struct bench *bench, int family, uid_t uid)
{
	static const unsigned char astray[6] = {2, 0, 0, 0, 0, 0x99};
	const char *client_address = family == AF_INET ? RIG_PEER4 : RIG_PEER6;
	uid_t peer = uid - DEVICE_UID + PEER_UID;
	struct traffic traffic = {.family = family,
				  .address = family == AF_INET ? RIG_DEVICE4 : RIG_DEVICE6,
				  .up = 1000,
				  .down = 2000,
				  .count = 1,
				  .server_closes = true};
	pid_t asker = asker_of(bench), server, client;
	int ready = -1, status = steer_answers(bench, client_address, astray);
	char name[96];

	drain(bench);
	server = rig_spawn(&bench->rig, RIG_DEVICE, uid, tcp_server, &traffic, &ready);
	if (read(ready, &traffic.port, 2) != 2)
		status = 1;
	close(ready);
	client = rig_spawn(&bench->rig, RIG_PEER, peer, tcp_client, &traffic, NULL);
	if (!wait_for_syn(bench, uid) || asker <= 0 || kill(asker, SIGSTOP))
		status = 1;
	sample(bench);
	if (!bench->pending)
		status = 1;
	status |= steer_answers(bench, client_address, NULL) | rig_wait(client) | rig_wait(server);
	if (asker > 0)
		kill(asker, SIGCONT);
	usleep(ANSWER_US);
	drain(bench);
	snprintf(name, sizeof(name), "IPv%d: asked about a SYN, answered in TIME_WAIT",
		 family == AF_INET ? 4 : 6);
	tap_ok(!status, "%s: traffic", name);
	check_received(bench, peer, name);
	check_received(bench, uid, name);
}

/* ---- all ---- */
static const struct {
	struct net_case net_case;
	int uids;
} cases[] = {
	{{"port again, server closes", run_again, AF_INET, 100, 2000, 100, true}, 1},
	{{"port again, server closes, IPv6", run_again, AF_INET6, 100, 2000, 100, true}, 1},
	{{"port again, late", run_late, AF_INET, 100, 2000, 10, true}, 1},
	{{"port again, late, IPv6", run_late, AF_INET6, 100, 2000, 10, true}, 1},
	{{"port again, client closes", run_again, AF_INET, 100, 2000, 2}, 1},
	{{"port again, client closes, IPv6", run_again, AF_INET6, 100, 2000, 2}, 1},
	{{"port again after long, server closes", run_held, AF_INET, 100, 2000, 4, true}, 1},
	{{"port again after long, server closes, IPv6", run_held, AF_INET6, 100, 2000, 4, true}, 1},
	{{"port again, another owner listens", run_next_owner, AF_INET, 100, 2000, 1, true}, 2},
	{{"port again, another owner listens, IPv6", run_next_owner, AF_INET6, 100, 2000, 1, true},
	 2},
	{{"port again, nobody listens", run_then_refused, AF_INET, 100, 2000, 1, true}, 1},
	{{"port again, nobody listens, IPv6", run_then_refused, AF_INET6, 100, 2000, 1, true}, 1},
};

static void run_loads(struct bench *bench)
{
	setns(bench->rig.ns[RIG_PEER], CLONE_NEWNET);
	rig_write("/proc/sys/net/ipv4/tcp_tw_reuse", "1");
	setns(bench->rig.home, CLONE_NEWNET);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uid_t uid = DEVICE_UID + 140 + (uid_t)i * 2, peer = PEER_UID + 140 + (uid_t)i * 2;
		const char *name = cases[i].net_case.name;

		tap_ok(!run_case(bench, &cases[i].net_case, uid, peer), "%s: traffic", name);
		check_received(bench, peer, name);
		note_sent(bench, peer, name);
		for (int other = 0; other < cases[i].uids; other++)
			check_received(bench, uid + (uid_t)other, name);
	}
	/* Last, when the client knows the server's link address, which would go astray, too. */
	test_answer_late(bench, AF_INET, DEVICE_UID + 130);
	test_answer_late(bench, AF_INET6, DEVICE_UID + 131);
}

int main(int argc, char **argv)
{
	return run_with_twins("net TIME_WAIT", run_loads);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices and routes that show a packet twice, late, or under another address: each uid equals a
 * cgroup_skb counter to the byte, and nothing is in a sum where it does not belong. */
/* Runs beside others (13 s) */
#include "kernel/net_measure.h"

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

/* Run a command in that namespace. 0: it went well. */
static int in_namespace(const struct bench *bench, enum rig_place place, const char *command)
{
	char quiet_command[512];
	int status;

	snprintf(quiet_command, sizeof(quiet_command), "%s >/dev/null 2>&1", command);
	setns(bench->rig.ns[place], CLONE_NEWNET);
	status = system(quiet_command);
	setns(bench->rig.home, CLONE_NEWNET);
	return status;
}

/* ---- macvlan ---- */
/* The far namespace gets a macvlan on the device's own link: a container. */
#define MACVLAN4 "10.77.1.3"
#define MACVLAN6 "fd77:1::3"

static bool add_macvlan(const struct bench *bench)
{
	char command[256];

	snprintf(command, sizeof(command),
		 "ip link add link wl0 name mv0 netns %d type macvlan mode bridge",
		 bench->rig.holder[RIG_FAR]);
	return !in_namespace(bench, RIG_DEVICE, command) &&
	       !in_namespace(bench, RIG_FAR,
			     "ip addr add " MACVLAN4 "/24 dev mv0 && ip addr add " MACVLAN6
			     "/64 dev mv0 nodad && ip link set mv0 up");
}

static int macvlan_client(const struct bench *bench, const struct net_case *net_case, uid_t device,
			  uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_PEER, peer, tcp_server, RIG_FAR, device, tcp_client,
			    traffic_of(bench, net_case, RIG_PEER4, RIG_PEER6));
}

static int macvlan_receiver(const struct bench *bench, const struct net_case *net_case,
			    uid_t device, uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_FAR, device, udp_receiver, RIG_PEER, peer, udp_sender,
			    traffic_of(bench, net_case, MACVLAN4, MACVLAN6));
}

static void test_macvlan(struct bench *bench)
{
	static const struct net_case cases[] = {
		{"TCP", macvlan_client, AF_INET, 300000, 300000, 1},
		{"TCP, IPv6", macvlan_client, AF_INET6, 300000, 300000, 1},
		{"UDP receive-only", macvlan_receiver, AF_INET, 700, 0, 200},
		{"beside it, TCP", tcp_out, AF_INET, 300000, 300000, 1},
	};
	struct record_bytes before;
	uint64_t forwarded;
	char name[64];
	int lock;
	size_t i;

	if (!add_macvlan(bench)) {
		tap_skip("macvlan", "`ip link add type macvlan` is refused here");
		return;
	}
	lock = bench_lock();
	drain(bench);
	before = bench->measured.forwarded;
	for (i = 0; i < 4; i++) {
		uid_t uid = DEVICE_UID + 20 + (uid_t)i, peer = PEER_UID + 20 + (uid_t)i;

		snprintf(name, sizeof(name), "macvlan: %s", cases[i].name);
		tap_ok(!run_case(bench, &cases[i], uid, peer), "%s: traffic", name);
		check_uid(bench, uid, name);
		check_uid(bench, peer, name);
	}
	forwarded = bench->measured.forwarded.tx_bytes - before.tx_bytes +
		    bench->measured.forwarded.rx_bytes - before.rx_bytes;
	tap_ok(forwarded < 10000, "macvlan: nothing is forwarded besides (%lu)", forwarded);
	bench_unlock(lock);
	in_namespace(bench, RIG_FAR, "ip link del mv0");
}

/* ---- ifb ---- */
#define ALL "u32 match u32 0 0 action mirred egress redirect dev ifb0"
static const struct {
	const char *name, *set, *clear;
	/* The filter sends a clone on, and a clone has no socket (__skb_clone): what is sent is in
	 * the forwarded row, as README says, and so is the answer to a SYN. */
	bool clones;
} shapers[] = {
	{"ifb at ingress",
	 "tc qdisc add dev wl0 ingress && tc filter add dev wl0 parent ffff: protocol all " ALL,
	 "tc qdisc del dev wl0 ingress"},
	{"ifb at clsact egress",
	 "tc qdisc add dev wl0 clsact && tc filter add dev wl0 egress protocol all " ALL,
	 "tc qdisc del dev wl0 clsact", true},
	{"ifb at a qdisc",
	 "tc qdisc add dev wl0 root handle 1: htb default 10 && "
	 "tc class add dev wl0 parent 1: classid 1:10 htb rate 10gbit && "
	 "tc filter add dev wl0 parent 1: protocol all " ALL,
	 "tc qdisc del dev wl0 root"},
};

static void test_ifb(struct bench *bench)
{
	static const struct net_case both = {"", tcp_out, AF_INET, 300000, 2000000, 1};
	struct record_bytes before;
	size_t i;

	if (in_namespace(bench, RIG_DEVICE, "ip link add ifb0 type ifb && ip link set ifb0 up")) {
		tap_skip("ifb", "`ip link add type ifb` is refused here");
		return;
	}
	for (i = 0; i < sizeof(shapers) / sizeof(shapers[0]); i++) {
		uid_t uid = DEVICE_UID + 30 + (uid_t)i, peer = PEER_UID + 30 + (uid_t)i;
		int lock = bench_lock();
		uint64_t forwarded;

		if (in_namespace(bench, RIG_DEVICE, shapers[i].set)) {
			tap_skip(shapers[i].name, "tc refuses the filter here");
			bench_unlock(lock);
			continue;
		}
		drain(bench);
		before = bench->measured.forwarded;
		tap_ok(!run_case(bench, &both, uid, peer), "%s: traffic", shapers[i].name);
		forwarded = bench->measured.forwarded.tx_bytes - before.tx_bytes;
		check_uid(bench, peer, shapers[i].name);
		if (shapers[i].clones) {
			struct truth_bytes truth = truth_of(bench, uid, false, false);
			struct record_bytes *found = measured_uid(&bench->measured, uid);

			tap_ok(found->rx_bytes + 60 == truth.rx_bytes &&
				       forwarded >= truth.tx_bytes,
			       "%s: received is equal but for the SYN-ACK (%lu), sent is forwarded "
			       "(%lu of %llu)",
			       shapers[i].name, found->rx_bytes, forwarded, truth.tx_bytes);
		} else {
			check_uid(bench, uid, shapers[i].name);
			tap_ok(forwarded < 10000, "%s: nothing is forwarded besides (%lu)",
			       shapers[i].name, forwarded);
		}
		bench_unlock(lock);
		in_namespace(bench, RIG_DEVICE, shapers[i].clear);
	}
	in_namespace(bench, RIG_DEVICE, "ip link del ifb0");
}

/* ---- AnyIP ---- */
static int anyip_receiver(const struct bench *bench, const struct net_case *net_case, uid_t device,
			  uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_DEVICE, device, udp_receiver, RIG_PEER, peer,
			    udp_sender, traffic_of(bench, net_case, "10.99.3.4", "fd99::3:4"));
}

static void test_anyip(struct bench *bench)
{
	static const struct net_case cases[] = {
		{"AnyIP, UDP receive-only", anyip_receiver, AF_INET, 486, 0, 200},
		{"AnyIP, UDP receive-only, IPv6", anyip_receiver, AF_INET6, 486, 0, 200},
	};
	size_t i;

	if (in_namespace(bench, RIG_DEVICE,
			 "ip route add local 10.99.0.0/16 dev lo && "
			 "ip -6 route add local fd99::/64 dev lo")) {
		tap_skip("AnyIP", "`ip route add local` is refused here");
		return;
	}
	for (i = 0; i < 2; i++) {
		uid_t uid = DEVICE_UID + 40 + (uid_t)i;

		tap_ok(!run_case(bench, &cases[i], uid, PEER_UID + 40 + (uid_t)i), "%s: traffic",
		       cases[i].name);
		check_uid(bench, uid, cases[i].name);
	}
}

/* ---- a host that masquerades ---- */
static int behind_nat(const struct bench *bench, const struct net_case *net_case, uid_t device,
		      uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_PEER, peer, tcp_server, RIG_FAR, device, tcp_client,
			    traffic_of(bench, net_case, RIG_PEER4, RIG_PEER6)) |
	       traffic_pair(
		       &bench->rig, RIG_PEER, peer, udp_echo_server, RIG_FAR, device,
		       udp_echo_client,
		       (struct traffic){
			       .family = AF_INET, .address = RIG_PEER4, .up = 400, .count = 100});
}

static void test_nat(struct bench *bench)
{
	static const struct net_case nat = {"", behind_nat, AF_INET, 300000, 2000000, 1};
	uid_t uid = DEVICE_UID + 45, peer = PEER_UID + 45;
	struct record_bytes forwarded, no_socket;
	struct truth_bytes truth;
	uint64_t rx;
	int lock;

	if (in_namespace(bench, RIG_DEVICE,
			 "nft 'table ip jankscope { chain post { type nat hook postrouting "
			 "priority 100; oifname wl0 masquerade; }; }'")) {
		tap_skip("masquerading", "nft is not there or refuses it");
		return;
	}
	lock = bench_lock();
	drain(bench);
	forwarded = bench->measured.forwarded;
	no_socket = bench->measured.no_socket;
	tap_ok(!run_case(bench, &nat, uid, peer), "masquerading: traffic");
	check_uid(bench, uid, "masquerading: the client behind it");
	check_uid(bench, peer, "masquerading: the server");
	truth = truth_of(bench, uid, false, false);
	rx = bench->measured.forwarded.rx_bytes - forwarded.rx_bytes;
	tap_ok(rx >= truth.rx_bytes + truth.tx_bytes,
	       "masquerading: both ways are in the forwarded row (rx %lu of %llu)", rx,
	       truth.rx_bytes + truth.tx_bytes);
	tap_ok(bench->measured.no_socket.rx_bytes - no_socket.rx_bytes < 1000,
	       "masquerading: the answers are not without a socket (%lu)",
	       bench->measured.no_socket.rx_bytes - no_socket.rx_bytes);
	bench_unlock(lock);
	in_namespace(bench, RIG_DEVICE, "nft delete table ip jankscope");
}

/* ---- a host that redirects one of its ports to another ---- */
#define SHOWN_PORT  7301
#define SERVED_PORT 7300

static int redirected(const struct bench *bench, const struct net_case *net_case, uid_t device,
		      uid_t peer)
{
	struct traffic traffic = traffic_of(bench, net_case, RIG_DEVICE4, RIG_DEVICE6);
	int ready = -1, status;
	pid_t server;

	traffic.port = SERVED_PORT;
	server = rig_spawn(&bench->rig, RIG_DEVICE, device, tcp_server, &traffic, &ready);
	if (read(ready, &traffic.port, 2) != 2)
		return 1;
	close(ready);
	traffic.port = SHOWN_PORT;
	status = rig_wait(rig_spawn(&bench->rig, RIG_PEER, peer, tcp_client, &traffic, NULL));
	if (status)
		kill(server, SIGKILL);
	return status | rig_wait(server);
}

static void test_redirected(struct bench *bench)
{
	static const struct net_case cases[] = {
		{"redirected to another port", redirected, AF_INET, 300000, 300000, 3},
		{"redirected to another port, IPv6", redirected, AF_INET6, 300000, 300000, 3},
	};

	if (in_namespace(bench, RIG_DEVICE,
			 "nft 'table inet jankscope { chain pre { type nat hook prerouting "
			 "priority -100; tcp dport 7301 redirect to :7300; }; }'")) {
		tap_skip("redirected to another port", "nft is not there or refuses it");
		return;
	}
	for (uid_t i = 0; i < 2; i++) {
		uid_t uid = DEVICE_UID + 60 + i, peer = PEER_UID + 60 + i;

		tap_ok(!run_case(bench, &cases[i], uid, peer), "%s: traffic", cases[i].name);
		check_uid(bench, uid, cases[i].name);
		check_uid(bench, peer, cases[i].name);
	}
	in_namespace(bench, RIG_DEVICE, "nft delete table inet jankscope");
}

/* ---- MPTCP ---- */
static int mptcp_server(const void *arg, int ready)
{
	const struct traffic *traffic = arg;
	struct sockaddr_storage own;
	int listener = socket(traffic->family, SOCK_STREAM, IPPROTO_MPTCP), fd;
	uint16_t port = 0;
	char end;

	if (listener >= 0) {
		if (bind(listener, (void *)&own, traffic_address(&own, traffic->family, NULL, 0)) ||
		    listen(listener, 8))
			return 1;
		port = traffic_port(listener);
	}
	if (write(ready, &port, 2) != 2 || listener < 0)
		return 77;
	traffic_timeout(listener, 20);
	fd = accept(listener, NULL, NULL);
	traffic_timeout(fd, 20);
	return fd < 0 || traffic_move(fd, traffic->up, false) ||
	       traffic_move(fd, traffic->down, true) || recv(fd, &end, 1, 0) != 0;
}

static int mptcp_client(const void *arg, int ready)
{
	const struct traffic *traffic = arg;
	struct sockaddr_storage to;
	socklen_t length = traffic_address(&to, traffic->family, traffic->address, traffic->port);
	int fd = socket(traffic->family, SOCK_STREAM, IPPROTO_MPTCP);

	if (fd < 0)
		return 77;
	traffic_timeout(fd, 20);
	if (connect(fd, (void *)&to, length) || traffic_move(fd, traffic->up, true) ||
	    traffic_move(fd, traffic->down, false))
		return 1;
	return close(fd);
}

static int run_mptcp(const struct bench *bench, const struct net_case *net_case, uid_t device,
		     uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_PEER, peer, mptcp_server, RIG_DEVICE, device,
			    mptcp_client, traffic_of(bench, net_case, RIG_PEER4, RIG_PEER6));
}

static void test_mptcp(struct bench *bench)
{
	static const struct net_case cases[] = {
		{"MPTCP", run_mptcp, AF_INET, 5000000, 100000, 1},
		{"MPTCP, IPv6", run_mptcp, AF_INET6, 100000, 5000000, 1},
	};
	int probe = socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP);
	size_t i;

	if (probe < 0) {
		tap_skip("MPTCP", strerror(errno));
		return;
	}
	close(probe);
	for (i = 0; i < 2; i++) {
		uid_t uid = DEVICE_UID + 50 + (uid_t)i, peer = PEER_UID + 50 + (uid_t)i;

		tap_ok(!run_case(bench, &cases[i], uid, peer), "%s: traffic", cases[i].name);
		check_uid(bench, uid, cases[i].name);
		check_uid(bench, peer, cases[i].name);
	}
}

static void run_loads(struct bench *bench)
{
	test_macvlan(bench);
	test_ifb(bench);
	test_anyip(bench);
	test_nat(bench);
	test_redirected(bench);
	test_mptcp(bench);
	in_namespace(bench, RIG_DEVICE,
		     "ip route del local 10.99.0.0/16 dev lo; "
		     "ip -6 route del local fd99::/64 dev lo");
}

int main(int argc, char **argv)
{
	return run_with_twins("net devices", run_loads);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The network source against cgroup_skb counters in a cgroup of the test's own: per uid, to the
 * byte, for each variant and each length formula. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/ip.h>
#include "jankscope/source.h"
#include "kernel/net_rig.h"
#include "kernel/net_traffic.h"
#include "kernel/truth/net_truth.h"
#include "net_truth.skel.h"
#include "source/net.h"
#include "tap.h"

#define DEVICE_UID   10001
#define PEER_UID     20001
#define SAMPLE_US    50000
#define MAX_UIDS     256
#define ABORTS       20
#define ABORT_WINDOW 65536

struct measured {
	struct {
		uid_t uid;
		struct record_bytes bytes;
	} uids[MAX_UIDS];
	size_t count;
	struct record_bytes loopback, unattributed, forwarded, kernel, no_socket;
	struct counter_list lost;
};

struct shared {
	atomic_int go, up_count, samples;
};

struct bench {
	struct rig rig;
	struct net_truth_bpf *truth;
	struct bpf_link *links[2];
	struct source *source;
	struct measured measured;
	struct shared *shared;
	/* An emulated machine: a tenth of the traffic, so that the test ends in a minute. */
	bool slow;
	/* Kernels before 521ff842bd2a leave the IPv6 SYN-ACK out of cgroup egress, netd with them:
	 * that many bytes of each accepted connection are missing in the truth. */
	unsigned synack6;
};

/* ---- measuring ---- */
static void add(struct record_bytes *to, const struct record_bytes *from)
{
	to->rx_bytes += from->rx_bytes;
	to->rx_packets += from->rx_packets;
	to->tx_bytes += from->tx_bytes;
	to->tx_packets += from->tx_packets;
}

static struct record_bytes *measured_uid(struct measured *measured, uid_t uid)
{
	size_t i;

	for (i = 0; i < measured->count; i++)
		if (measured->uids[i].uid == uid)
			return &measured->uids[i].bytes;
	if (measured->count == MAX_UIDS)
		return &measured->uids[MAX_UIDS - 1].bytes;
	measured->uids[measured->count].uid = uid;
	return &measured->uids[measured->count++].bytes;
}

static int sample(struct bench *bench)
{
	struct record_interval interval = {0};
	struct measured *measured = &bench->measured;
	int err = bench->source->ops->sample(bench->source, &interval);
	size_t i;

	for (i = 0; i < interval.net.uid_count; i++)
		add(measured_uid(measured, interval.net.uids[i].uid), &interval.net.uids[i].bytes);
	add(&measured->loopback, &interval.net.loopback);
	add(&measured->unattributed, &interval.net.unattributed);
	add(&measured->forwarded, &interval.net.forwarded);
	add(&measured->kernel, &interval.net.kernel);
	add(&measured->no_socket, &interval.net.no_socket);
	atomic_fetch_add(&bench->shared->samples, 1);
	counter_list_merge(&measured->lost, &interval.lost);
	counter_list_free(&interval.lost);
	missing_list_free(&interval.missing);
	return err;
}

static int start(struct bench *bench, const struct net_options *options)
{
	static const struct source_context context;
	int err;

	counter_list_free(&bench->measured.lost);
	memset(&bench->measured, 0, sizeof(bench->measured));
	bench->source = net_source_new(options);
	if (!bench->source)
		return -ENOMEM;
	err = bench->source->ops->open(bench->source, &context);
	if (err)
		tap_note("%s", bench->source->reason);
	return err;
}

static void stop(struct bench *bench)
{
	if (bench->source)
		bench->source->ops->close(bench->source);
	bench->source = NULL;
}

static struct truth_bytes truth_of(struct bench *bench, uid_t uid, bool wire, bool loopback)
{
	struct truth_key key = {
		.uid = uid, .formula = wire ? TRUTH_WIRE : TRUTH_NETD, .loopback = loopback};
	struct truth_bytes bytes = {0};

	bpf_map_lookup_elem(bpf_map__fd(bench->truth->maps.truth), &key, &bytes);
	return bytes;
}

static void clear_truth(struct bench *bench)
{
	int fd = bpf_map__fd(bench->truth->maps.truth);
	struct truth_key key;

	while (!bpf_map_get_next_key(fd, NULL, &key))
		bpf_map_delete_elem(fd, &key);
}

/* ---- cases ---- */
struct net_case;
typedef int (*case_fn)(const struct bench *bench, const struct net_case *net_case, uid_t device,
		       uid_t peer);

struct net_case {
	const char *name;
	case_fn run;
	int family;
	uint64_t up, down;
	int count;
	bool server_closes;
	bool gso;      /* see test_cases */
	bool segments; /* super-packets: where the two length formulas differ */
};

static struct traffic traffic_of(const struct bench *bench, const struct net_case *net_case,
				 const char *v4, const char *v6)
{
	return (struct traffic){.family = net_case->family,
				.address = net_case->family == AF_INET ? v4 : v6,
				.up = net_case->up,
				.down = net_case->down,
				.count = net_case->count,
				.server_closes = net_case->server_closes,
				.samples = &bench->shared->samples};
}

static int tcp_out(const struct bench *bench, const struct net_case *net_case, uid_t device,
		   uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_PEER, peer, tcp_server, RIG_DEVICE, device, tcp_client,
			    traffic_of(bench, net_case, RIG_PEER4, RIG_PEER6));
}

static int tcp_in(const struct bench *bench, const struct net_case *net_case, uid_t device,
		  uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_DEVICE, device, tcp_server, RIG_PEER, peer, tcp_client,
			    traffic_of(bench, net_case, RIG_DEVICE4, RIG_DEVICE6));
}

/* IPv4 into an IPv6 socket. */
static int tcp_in_dual(const struct bench *bench, const struct net_case *net_case, uid_t device,
		       uid_t peer)
{
	struct traffic server = traffic_of(bench, net_case, RIG_DEVICE4, RIG_DEVICE6),
		       client = server;
	int ready = -1, status;
	pid_t pid;

	server.family = AF_INET6;
	server.dual = true;
	pid = rig_spawn(&bench->rig, RIG_DEVICE, device, tcp_server, &server, &ready);
	if (read(ready, &client.port, sizeof(client.port)) != 2)
		return 1;
	close(ready);
	client.family = AF_INET;
	client.address = RIG_DEVICE4;
	status = rig_wait(rig_spawn(&bench->rig, RIG_PEER, peer, tcp_client, &client, NULL));
	return status | rig_wait(pid);
}

static int udp_out(const struct bench *bench, const struct net_case *net_case, uid_t device,
		   uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_PEER, peer, udp_echo_server, RIG_DEVICE, device,
			    udp_echo_client, traffic_of(bench, net_case, RIG_PEER4, RIG_PEER6));
}

static int udp_in(const struct bench *bench, const struct net_case *net_case, uid_t device,
		  uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_DEVICE, device, udp_echo_server, RIG_PEER, peer,
			    udp_echo_client, traffic_of(bench, net_case, RIG_DEVICE4, RIG_DEVICE6));
}

static int udp_gso(const struct bench *bench, const struct net_case *net_case, uid_t device,
		   uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_PEER, peer, udp_receiver, RIG_DEVICE, device,
			    udp_sender, traffic_of(bench, net_case, RIG_PEER4, RIG_PEER6));
}

static int udp_receive(const struct bench *bench, const struct net_case *net_case, uid_t device,
		       uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_DEVICE, device, udp_receiver, RIG_PEER, peer,
			    udp_sender, traffic_of(bench, net_case, RIG_DEVICE4, RIG_DEVICE6));
}

static int udp_receive_connected(const struct bench *bench, const struct net_case *net_case,
				 uid_t device, uid_t peer)
{
	struct traffic traffic = traffic_of(bench, net_case, RIG_DEVICE4, RIG_DEVICE6);

	traffic.source = net_case->family == AF_INET ? RIG_PEER4 : RIG_PEER6;
	traffic.source_port = 7001;
	return traffic_pair(&bench->rig, RIG_DEVICE, device, udp_receiver, RIG_PEER, peer,
			    udp_sender, traffic);
}

static int multicast(const struct bench *bench, const struct net_case *net_case, uid_t device,
		     uid_t peer)
{
	struct traffic receiver = traffic_of(bench, net_case, "239.77.0.1", NULL),
		       sender = receiver;
	int ready = -1, status;
	pid_t pid;

	receiver.device = "wl0";
	sender.device = "wl1";
	pid = rig_spawn(&bench->rig, RIG_DEVICE, device, udp_receiver, &receiver, &ready);
	if (read(ready, &sender.port, sizeof(sender.port)) != 2)
		return 1;
	close(ready);
	status = rig_wait(rig_spawn(&bench->rig, RIG_PEER, peer, udp_sender, &sender, NULL));
	return status | rig_wait(pid);
}

static int ping(const struct bench *bench, const struct net_case *net_case, uid_t device,
		uid_t peer)
{
	struct traffic traffic = traffic_of(bench, net_case, RIG_PEER4, RIG_PEER6);

	return rig_wait(rig_spawn(&bench->rig, RIG_DEVICE, device, ping_client, &traffic, NULL));
}

static int refused(const struct bench *bench, const struct net_case *net_case, uid_t device,
		   uid_t peer)
{
	struct traffic traffic = traffic_of(bench, net_case, RIG_PEER4, RIG_PEER6);

	traffic.port = 9;
	return rig_wait(rig_spawn(&bench->rig, RIG_DEVICE, device, tcp_refused, &traffic, NULL));
}

static int forwarded(const struct bench *bench, const struct net_case *net_case, uid_t device,
		     uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_FAR, device, tcp_server, RIG_PEER, peer, tcp_client,
			    traffic_of(bench, net_case, RIG_FAR4, RIG_FAR6));
}

static int loopback(const struct bench *bench, const struct net_case *net_case, uid_t device,
		    uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_DEVICE, device, tcp_server, RIG_DEVICE, peer,
			    tcp_client, traffic_of(bench, net_case, "127.0.0.1", "::1"));
}

static int aborts(const struct bench *bench, const struct net_case *net_case, uid_t device,
		  uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_PEER, peer, tcp_flooder, RIG_DEVICE, device,
			    tcp_aborter, traffic_of(bench, net_case, RIG_PEER4, RIG_PEER6));
}

static int closed_port(const struct bench *bench, const struct net_case *net_case, uid_t device,
		       uid_t peer)
{
	struct traffic traffic = traffic_of(bench, net_case, RIG_DEVICE4, RIG_DEVICE6);

	traffic.port = 9;
	return rig_wait(rig_spawn(&bench->rig, RIG_PEER, peer, udp_sender, &traffic, NULL));
}

static const struct net_case cases[] = {
	{"TCP up", tcp_out, AF_INET, 20000000, 1000, 1, .segments = true},
	{"TCP down, IPv6", tcp_out, AF_INET6, 1000, 20000000, 1, .segments = true},
	{"TCP accepted", tcp_in, AF_INET, 5000000, 5000000, 3},
	{"TCP accepted, IPv6", tcp_in, AF_INET6, 5000000, 5000000, 3},
	{"TCP accepted, IPv4 in an IPv6 socket", tcp_in_dual, AF_INET, 1000000, 1000000, 3},
	{"UDP request and response", udp_out, AF_INET, 500, 0, 500},
	{"UDP request and response, IPv6", udp_out, AF_INET6, 500, 0, 500},
	{"UDP server", udp_in, AF_INET, 900, 0, 500},
	{"UDP GSO", udp_gso, AF_INET, 12000, 1200, 100, .gso = true, .segments = true},
	{"UDP GSO, IPv6", udp_gso, AF_INET6, 12000, 1200, 100, .gso = true, .segments = true},
	{"UDP receive-only, connected", udp_receive_connected, AF_INET, 700, 0, 300},
	{"UDP receive-only", udp_receive, AF_INET, 700, 0, 300},
	{"UDP receive-only, IPv6", udp_receive, AF_INET6, 700, 0, 300},
	{"multicast", multicast, AF_INET, 600, 0, 200},
	{"ICMP socket", ping, AF_INET, 0, 0, 100},
	{"ICMP socket, IPv6", ping, AF_INET6, 0, 0, 100},
	{"SYN to a closed port", refused, AF_INET, 0, 0, 50},
	{"SYN to a closed port, IPv6", refused, AF_INET6, 0, 0, 50},
	{"short connections out", tcp_out, AF_INET, 100, 2000, 300},
	{"short connections out, IPv6", tcp_out, AF_INET6, 100, 2000, 300},
	{"short connections in", tcp_in, AF_INET, 100, 2000, 300},
	{"short connections in, server closes", tcp_in, AF_INET, 100, 2000, 300, true},
	{"short connections out, server closes", tcp_out, AF_INET6, 100, 2000, 300, true},
};

static struct net_case scaled(const struct bench *bench, const struct net_case *net_case)
{
	struct net_case less = *net_case;

	if (bench->slow && less.count >= 50)
		less.count /= 10;
	if (bench->slow && less.up >= 100000)
		less.up /= 10;
	if (bench->slow && less.down >= 100000)
		less.down /= 10;
	return less;
}

/* What the servers of TCP over IPv6 sent, as it would be with the SYN-ACKs. */
static void add_synacks(const struct bench *bench, const struct net_case *net_case,
			struct truth_bytes *truth)
{
	if (net_case->family != AF_INET6 || !bench->synack6)
		return;
	truth->tx_bytes += bench->synack6 * (unsigned)net_case->count;
	truth->tx_packets += (unsigned)net_case->count;
}

/* Sample until the child ends; its exit status, -1 for a signal. */
static int sample_until(struct bench *bench, pid_t pid)
{
	int status = -1;

	while (pid > 0 && waitpid(pid, &status, WNOHANG) == 0) {
		usleep(SAMPLE_US);
		if (bench->source)
			sample(bench);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Run one case in a child of its own and sample meanwhile. */
static int run_case(struct bench *bench, const struct net_case *wanted, uid_t device, uid_t peer)
{
	const struct net_case less = scaled(bench, wanted), *net_case = &less;
	pid_t pid = fork();
	int status, i;

	if (pid == 0)
		_exit(net_case->run(bench, net_case, device, peer) & 0xff);
	status = sample_until(bench, pid);
	if (!bench->source)
		return status;
	/* FINs and their ACKs come after the last process; two read-outs drain what waits. */
	for (i = 0; i < 3; i++) {
		usleep(SAMPLE_US);
		sample(bench);
	}
	return status;
}

static bool equal(const struct truth_bytes *truth, const struct record_bytes *measured)
{
	return truth->rx_bytes == measured->rx_bytes && truth->tx_bytes == measured->tx_bytes &&
	       truth->rx_packets == measured->rx_packets &&
	       truth->tx_packets == measured->tx_packets;
}

static void show(const char *who, const struct truth_bytes *truth,
		 const struct record_bytes *measured)
{
	tap_note("%s: truth rx %llu B %llu p, tx %llu B %llu p", who, truth->rx_bytes,
		 truth->rx_packets, truth->tx_bytes, truth->tx_packets);
	tap_note("%s: found rx %lu B %lu p, tx %lu B %lu p", who, measured->rx_bytes,
		 measured->rx_packets, measured->tx_bytes, measured->tx_packets);
}

static void test_case(struct bench *bench, const char *label, bool wire,
		      const struct net_case *net_case, uid_t device, uid_t peer)
{
	const struct net_case one = scaled(bench, net_case);
	struct record_bytes before = bench->measured.unattributed;
	int status = run_case(bench, net_case, device, peer);
	struct truth_bytes truth = truth_of(bench, device, wire, false);
	struct truth_bytes peer_truth = truth_of(bench, peer, wire, false);
	const struct record_bytes *found = measured_uid(&bench->measured, device);
	const struct record_bytes *peer_found = measured_uid(&bench->measured, peer);
	char name[160];

	snprintf(name, sizeof(name), "%s: %s", label, net_case->name);
	if (status == 77) {
		tap_skip(name, "this kernel has no such socket or option");
		return;
	}
	if (status) {
		tap_ok(false, "%s: the traffic itself failed (%d)", name, status);
		return;
	}
	if (one.run == tcp_in)
		add_synacks(bench, &one, &truth);
	else if (one.run == tcp_out)
		add_synacks(bench, &one, &peer_truth);
	/* veth hands on the super-packet; a socket without UDP_GRO gets it in segments only after
	 * the tracepoint, so that netd's formula sees what the sender's did. */
	if (net_case->gso && !wire) {
		peer_truth.rx_bytes = truth.tx_bytes;
		peer_truth.rx_packets = truth.tx_packets;
	}
	if (tap_ok(truth.tx_bytes + truth.rx_bytes && equal(&truth, found) &&
			   equal(&peer_truth, peer_found),
		   "%s: equal to the byte (rx %lu, tx %lu)", name, found->rx_bytes,
		   found->tx_bytes))
		return;
	show("device", &truth, found);
	show("peer", &peer_truth, peer_found);
	tap_note("unattributed: rx +%lu tx +%lu",
		 bench->measured.unattributed.rx_bytes - before.rx_bytes,
		 bench->measured.unattributed.tx_bytes - before.tx_bytes);
}

static void test_cases(struct bench *bench, const char *label, bool wire)
{
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!wire || !bench->slow || cases[i].segments)
			test_case(bench, label, wire, &cases[i], DEVICE_UID + (uid_t)i,
				  PEER_UID + (uid_t)i);
}

/* ---- what has no uid, and what is not exact ---- */
static void test_loopback(struct bench *bench, const char *label, bool wire)
{
	static const struct net_case both[] = {
		{"loopback", loopback, AF_INET, 3000000, 3000000, 2},
		{"loopback, IPv6", loopback, AF_INET6, 3000000, 3000000, 2},
	};
	uid_t uid = DEVICE_UID + 100, peer = PEER_UID + 100;
	struct record_bytes before = bench->measured.loopback, *found, *peer_found;
	struct truth_bytes truth, peer_truth;
	int status = run_case(bench, &both[0], uid, peer) | run_case(bench, &both[1], uid, peer);
	uint64_t rx, tx;

	truth = truth_of(bench, uid, wire, true);
	peer_truth = truth_of(bench, peer, wire, true);
	found = measured_uid(&bench->measured, uid);
	peer_found = measured_uid(&bench->measured, peer);
	rx = bench->measured.loopback.rx_bytes - before.rx_bytes;
	tx = bench->measured.loopback.tx_bytes - before.tx_bytes;
	tap_ok(!status && !found->rx_bytes && !found->tx_bytes && !peer_found->rx_bytes &&
		       !peer_found->tx_bytes,
	       "%s: loopback: in no uid's row", label);
	/* Other processes of this machine may use loopback, too. */
	tap_ok(truth.tx_bytes && rx >= truth.rx_bytes + peer_truth.rx_bytes &&
		       tx >= truth.tx_bytes + peer_truth.tx_bytes,
	       "%s: loopback: all in its own row (rx %lu of %llu, tx %lu of %llu)", label, rx,
	       truth.rx_bytes + peer_truth.rx_bytes, tx, truth.tx_bytes + peer_truth.tx_bytes);
}

static void test_forwarded(struct bench *bench, const char *label, bool wire)
{
	static const struct net_case both[] = {
		{"forwarded", forwarded, AF_INET, 3000000, 3000000, 2},
		{"forwarded, IPv6", forwarded, AF_INET6, 3000000, 3000000, 2},
	};
	uid_t uid = DEVICE_UID + 101, peer = PEER_UID + 101;
	struct record_bytes before = bench->measured.forwarded;
	int status = run_case(bench, &both[0], uid, peer) | run_case(bench, &both[1], uid, peer);
	struct truth_bytes truth = truth_of(bench, uid, wire, false);
	struct truth_bytes peer_truth = truth_of(bench, peer, wire, false);
	struct record_bytes *found = measured_uid(&bench->measured, uid);
	struct record_bytes *peer_found = measured_uid(&bench->measured, peer);
	const struct net_case ipv6 = scaled(bench, &both[1]);
	uint64_t rx = bench->measured.forwarded.rx_bytes - before.rx_bytes;
	uint64_t tx = bench->measured.forwarded.tx_bytes - before.tx_bytes;

	add_synacks(bench, &ipv6, &truth);
	if (!tap_ok(!status && equal(&truth, found) && equal(&peer_truth, peer_found),
		    "%s: forwarded: its two ends%s are equal to the byte", label,
		    bench->rig.bridge ? ", one on a bridge," : "")) {
		show("far", &truth, found);
		show("peer", &peer_truth, peer_found);
	}
	/* What either end sent or got went through the device; late ACKs have no uid. */
	tap_ok(tx >= truth.rx_bytes + peer_truth.rx_bytes &&
		       rx >= truth.rx_bytes + peer_truth.rx_bytes &&
		       tx <= truth.tx_bytes + peer_truth.tx_bytes + 4096,
	       "%s: forwarded: in the forwarded row (rx %lu, tx %lu of %llu)", label, rx, tx,
	       truth.tx_bytes + peer_truth.tx_bytes);
}

static void test_no_socket(struct bench *bench, const char *label)
{
	static const struct net_case closed = {"", closed_port, AF_INET, 700, 0, 50};
	uint64_t before = bench->measured.no_socket.rx_bytes;
	uint64_t kernel = bench->measured.kernel.tx_bytes;
	int status = run_case(bench, &closed, DEVICE_UID + 102, PEER_UID + 102);
	unsigned sent = (unsigned)scaled(bench, &closed).count * 728;

	tap_ok(!status && bench->measured.no_socket.rx_bytes - before >= sent,
	       "%s: datagrams to a closed port: in the no-socket row (%lu of %u)", label,
	       bench->measured.no_socket.rx_bytes - before, sent);
	tap_ok(bench->measured.kernel.tx_bytes > kernel,
	       "%s: the ICMP errors in answer: in the kernel's row", label);
}

/* A packet that passes the tracepoint while another CPU resets its connection has no socket any
 * more when TCP looks for one: at most a receive window per reset is counted above the truth. */
static void test_aborts(struct bench *bench, const char *label, bool wire)
{
	static const struct net_case reset = {"", aborts, AF_INET, 0, 65536, ABORTS};
	uid_t uid = DEVICE_UID + 103, peer = PEER_UID + 103;
	int status = run_case(bench, &reset, uid, peer);
	struct truth_bytes truth = truth_of(bench, uid, wire, false);
	struct truth_bytes peer_truth = truth_of(bench, peer, wire, false);
	struct record_bytes *found = measured_uid(&bench->measured, uid);
	struct record_bytes *peer_found = measured_uid(&bench->measured, peer);

	tap_ok(!status && truth.tx_bytes == found->tx_bytes &&
		       peer_truth.tx_bytes == peer_found->tx_bytes,
	       "%s: aborted connections: sent bytes equal (%lu)", label, found->tx_bytes);
	tap_ok(found->rx_bytes >= truth.rx_bytes &&
		       found->rx_bytes <= truth.rx_bytes + (uint64_t)ABORTS * ABORT_WINDOW,
	       "%s: aborted connections: received +%lld B of %llu", label,
	       (long long)(found->rx_bytes - truth.rx_bytes), truth.rx_bytes);
}

/* netd sees a datagram before it is cut; on the wire each of the 6 fragments has its header. */
static void test_fragments(struct bench *bench, const char *label, bool wire)
{
	static const struct net_case big[] = {
		{"", udp_out, AF_INET, 8000, 0, 100},
		{"", udp_out, AF_INET6, 8000, 0, 100},
	};
	/* 8008 bytes behind the IP header: 6 of 1480 at most, or of 1448 with IPv6's fragment
	 * header of 8 bytes in all of them. */
	static const unsigned extra[] = {5 * 20, 5 * 40 + 6 * 8};
	int i;

	for (i = 0; i < 2; i++) {
		uid_t uid = DEVICE_UID + 104 + (uid_t)i, peer = PEER_UID + 104 + (uid_t)i;
		int status = run_case(bench, &big[i], uid, peer);
		struct truth_bytes truth = truth_of(bench, uid, wire, false);
		struct record_bytes *found = measured_uid(&bench->measured, uid);

		if (wire) {
			unsigned datagrams = (unsigned)scaled(bench, &big[i]).count;

			truth.rx_bytes += datagrams * extra[i];
			truth.tx_bytes += datagrams * extra[i];
			truth.rx_packets *= 6;
			truth.tx_packets *= 6;
		}
		if (!tap_ok(!status && equal(&truth, found),
			    "%s: fragmented datagrams, IPv%d: %s (rx %lu, tx %lu)", label,
			    i ? 6 : 4, wire ? "with the headers of all fragments" : "as one each",
			    found->rx_bytes, found->tx_bytes))
			show("device", &truth, found);
	}
}

/* ---- sockets that are older than the source ---- */
struct early {
	uid_t uid;
	const char *name;
	pid_t pids[2];
};

#define EARLY_SOCKETS 4

static void start_early(struct bench *bench, struct early early[EARLY_SOCKETS])
{
	struct rig *rig = &bench->rig;
	struct traffic connection = {.family = AF_INET,
				     .address = RIG_PEER4,
				     .up = 1000000,
				     .down = 1000000,
				     .count = 1,
				     .go = &bench->shared->go,
				     .up_count = &bench->shared->up_count,
				     .samples = &bench->shared->samples};
	struct traffic inbound = connection, datagrams = connection, listening = connection;
	int ready = -1;

	atomic_store(&bench->shared->go, 0);
	atomic_store(&bench->shared->up_count, 0);
	early[0] = (struct early){DEVICE_UID + 110, "an open connection", {0}};
	early[0].pids[0] =
		rig_spawn(rig, RIG_PEER, PEER_UID + 110, tcp_server, &connection, &ready);
	read(ready, &connection.port, 2);
	early[0].pids[1] = rig_spawn(rig, RIG_DEVICE, early[0].uid, tcp_client, &connection, NULL);
	close(ready);
	early[1] = (struct early){DEVICE_UID + 111, "an accepted connection, IPv6", {0}};
	inbound.family = AF_INET6;
	inbound.address = RIG_DEVICE6;
	early[1].pids[0] = rig_spawn(rig, RIG_DEVICE, early[1].uid, tcp_server, &inbound, &ready);
	read(ready, &inbound.port, 2);
	early[1].pids[1] = rig_spawn(rig, RIG_PEER, PEER_UID + 111, tcp_client, &inbound, NULL);
	close(ready);
	early[2] = (struct early){DEVICE_UID + 112, "a receive-only UDP socket", {0}};
	datagrams.address = RIG_DEVICE4;
	datagrams.up = 700;
	datagrams.down = 0;
	datagrams.count = 200;
	early[2].pids[0] =
		rig_spawn(rig, RIG_DEVICE, early[2].uid, udp_receiver, &datagrams, &ready);
	read(ready, &datagrams.port, 2);
	early[2].pids[1] = rig_spawn(rig, RIG_PEER, PEER_UID + 112, udp_sender, &datagrams, NULL);
	close(ready);
	early[3] = (struct early){DEVICE_UID + 113, "a listener", {0}};
	listening.address = RIG_DEVICE4;
	listening.port = 7003;
	early[3].pids[0] = rig_spawn(rig, RIG_DEVICE, early[3].uid, tcp_server, &listening, &ready);
	read(ready, &listening.port, 2);
	close(ready);
	while (atomic_load(&bench->shared->up_count) < 3)
		usleep(5000);
	usleep(200000); /* the accepting side is past its handshake, too */
}

/* Before the source is opened handshakes were sent; from there on both must agree. */
static void finish_early(struct bench *bench, struct early early[EARLY_SOCKETS], const char *label,
			 bool wire)
{
	struct traffic listening = {.family = AF_INET,
				    .address = RIG_DEVICE4,
				    .port = 7003,
				    .up = 1000000,
				    .down = 1000000,
				    .count = 1};
	struct truth_bytes before[EARLY_SOCKETS];
	int i, status[EARLY_SOCKETS] = {0};

	for (i = 0; i < EARLY_SOCKETS; i++)
		before[i] = truth_of(bench, early[i].uid, wire, false);
	atomic_store(&bench->shared->go, 1);
	early[3].pids[1] =
		rig_spawn(&bench->rig, RIG_PEER, PEER_UID + 113, tcp_client, &listening, NULL);
	for (i = 0; i < EARLY_SOCKETS; i++)
		status[i] = sample_until(bench, early[i].pids[0]) |
			    sample_until(bench, early[i].pids[1]);
	for (i = 0; i < 3; i++) {
		usleep(SAMPLE_US);
		sample(bench);
	}
	for (i = 0; i < EARLY_SOCKETS; i++) {
		struct truth_bytes truth = truth_of(bench, early[i].uid, wire, false);
		struct record_bytes *found = measured_uid(&bench->measured, early[i].uid);

		truth.rx_bytes -= before[i].rx_bytes;
		truth.rx_packets -= before[i].rx_packets;
		truth.tx_bytes -= before[i].tx_bytes;
		truth.tx_packets -= before[i].tx_packets;
		if (!tap_ok(!status[i] && truth.rx_bytes && equal(&truth, found),
			    "%s: older than jankscope: %s: equal to the byte (rx %lu, tx %lu)",
			    label, early[i].name, found->rx_bytes, found->tx_bytes)) {
			tap_note("status %d", status[i]);
			show("device", &truth, found);
		}
	}
}

/* The source did not open: let them go. */
static void end_early(struct bench *bench, struct early early[EARLY_SOCKETS])
{
	int i, side;

	for (i = 0; i < EARLY_SOCKETS; i++)
		for (side = 0; side < 2; side++)
			if (early[i].pids[side] > 0) {
				kill(early[i].pids[side], SIGKILL);
				rig_wait(early[i].pids[side]);
			}
}

/* ---- never attach to a cgroup ---- */
static const int cgroup_types[] = {
	BPF_CGROUP_INET_INGRESS,    BPF_CGROUP_INET_EGRESS,       BPF_CGROUP_INET_SOCK_CREATE,
	BPF_CGROUP_SOCK_OPS,        BPF_CGROUP_INET4_BIND,        BPF_CGROUP_INET6_BIND,
	BPF_CGROUP_INET4_CONNECT,   BPF_CGROUP_INET6_CONNECT,     BPF_CGROUP_INET4_POST_BIND,
	BPF_CGROUP_INET6_POST_BIND, BPF_CGROUP_UDP4_SENDMSG,      BPF_CGROUP_UDP6_SENDMSG,
	BPF_CGROUP_UDP4_RECVMSG,    BPF_CGROUP_UDP6_RECVMSG,      BPF_CGROUP_GETSOCKOPT,
	BPF_CGROUP_SETSOCKOPT,      BPF_CGROUP_INET_SOCK_RELEASE, BPF_CGROUP_DEVICE,
	BPF_CGROUP_SYSCTL,
};
#define CGROUP_TYPES (sizeof(cgroup_types) / sizeof(cgroup_types[0]))

struct attached {
	uint32_t ids[CGROUP_TYPES][64], counts[CGROUP_TYPES];
	unsigned readable;
};

static void read_attached(const struct rig *rig, struct attached *attached)
{
	int fd = open(rig->mount, O_RDONLY | O_CLOEXEC);
	size_t i;

	memset(attached, 0, sizeof(*attached));
	for (i = 0; i < CGROUP_TYPES; i++) {
		uint32_t flags = 0;

		attached->counts[i] = 64;
		if (bpf_prog_query(fd, (enum bpf_attach_type)cgroup_types[i], 0, &flags,
				   attached->ids[i], &attached->counts[i]))
			attached->counts[i] = UINT32_MAX;
		else
			attached->readable++;
	}
	close(fd);
}

/* A namespace of somebody else's that went meanwhile is not our loss, so not all are summed. */
static void test_nothing_lost(struct bench *bench, const char *label)
{
	static const char *const names[] = {"net_uid_map_full",     "net_flow_map_full",
					    "net_waiting_map_full", "net_header_unreadable",
					    "net_missed_runs",      "net_lost_bytes"};
	uint64_t total = 0;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		total += counter_list_get(&bench->measured.lost, names[i]);
	tap_ok(total == 0, "%s: nothing was lost", label);
}

static void test_variant(struct bench *bench, const char *label, const struct net_options *options)
{
	static struct attached before, during, after;
	struct early early[EARLY_SOCKETS];
	int err;

	clear_truth(bench);
	start_early(bench, early);
	read_attached(&bench->rig, &before);
	err = start(bench, options);
	if (err && options->variant == NET_VARIANT_TP_BTF &&
	    access("/sys/kernel/btf/vmlinux", R_OK)) {
		tap_skip(label, "tp_btf needs a kernel with BTF");
		end_early(bench, early);
		stop(bench);
		return;
	}
	if (!tap_ok(!err, "%s: opens as %s %s", label, bench->source->variant,
		    bench->source->reason)) {
		end_early(bench, early);
		stop(bench);
		return;
	}
	finish_early(bench, early, label, options->wire);
	test_cases(bench, label, options->wire);
	read_attached(&bench->rig, &during);
	test_loopback(bench, label, options->wire);
	if (!options->wire || !bench->slow) {
		test_forwarded(bench, label, options->wire);
		test_no_socket(bench, label);
		test_aborts(bench, label, options->wire);
	}
	test_fragments(bench, label, options->wire);
	test_nothing_lost(bench, label);
	stop(bench);
	read_attached(&bench->rig, &after);
	tap_ok(before.readable && !memcmp(&before, &during, sizeof(before)) &&
		       !memcmp(&before, &after, sizeof(before)),
	       "%s: the cgroup root's %u attach lists are the same before, while and after", label,
	       before.readable);
}

/* ---- losses: tiny maps ---- */
static void test_uid_map_full(struct bench *bench)
{
	const struct net_options options = {.test_entries.uids = 2};
	struct truth_bytes truth = {0}, one;
	struct record_bytes *found;
	uint64_t sums = 0, lost;
	int status = 0, i;

	clear_truth(bench);
	if (start(bench, &options)) {
		tap_ok(false, "full uid map: opens");
		stop(bench);
		return;
	}
	for (i = 0; i < 4; i++)
		status |= run_case(bench, &cases[5], DEVICE_UID + (uid_t)i, PEER_UID + (uid_t)i);
	for (i = 0; i < 8; i++) {
		uid_t uid = (i & 1 ? DEVICE_UID : PEER_UID) + (uid_t)i / 2;

		one = truth_of(bench, uid, false, false);
		truth.rx_bytes += one.rx_bytes;
		truth.tx_bytes += one.tx_bytes;
		found = measured_uid(&bench->measured, uid);
		sums += found->rx_bytes + found->tx_bytes;
	}
	lost = counter_list_get(&bench->measured.lost, "net_lost_bytes");
	tap_ok(!status && counter_list_get(&bench->measured.lost, "net_uid_map_full") > 0,
	       "full uid map: counted (%lu packets)",
	       counter_list_get(&bench->measured.lost, "net_uid_map_full"));
	tap_ok(sums < truth.rx_bytes + truth.tx_bytes &&
		       sums + lost >= truth.rx_bytes + truth.tx_bytes &&
		       bench->measured.unattributed.rx_bytes +
				       bench->measured.unattributed.tx_bytes >=
			       lost,
	       "full uid map: totals stay right: %lu in rows + %lu unattributed of %llu", sums,
	       lost, truth.rx_bytes + truth.tx_bytes);
	stop(bench);
}

/* Owners that cannot be noted are found at read-out, so the sums are the same; only dearer. */
static void test_flow_map_full(struct bench *bench)
{
	const struct net_options options = {.test_entries.flows = 1};
	static const int picks[] = {1, 3, 5, 11};
	size_t i;

	clear_truth(bench);
	if (start(bench, &options)) {
		tap_ok(false, "full flow map: opens");
		stop(bench);
		return;
	}
	for (i = 0; i < 4; i++) {
		uid_t uid = DEVICE_UID + (uid_t)i;
		int status = run_case(bench, &cases[picks[i]], uid, PEER_UID + (uid_t)i);
		struct truth_bytes truth = truth_of(bench, uid, false, false);
		struct record_bytes *found = measured_uid(&bench->measured, uid);
		const struct net_case one = scaled(bench, &cases[picks[i]]);

		if (one.run == tcp_in)
			add_synacks(bench, &one, &truth);
		if (!tap_ok(!status && equal(&truth, found), "full flow map: %s: still equal",
			    cases[picks[i]].name))
			show("device", &truth, found);
	}
	tap_ok(counter_list_get(&bench->measured.lost, "net_flow_map_full") > 0,
	       "full flow map: counted (%lu)",
	       counter_list_get(&bench->measured.lost, "net_flow_map_full"));
	stop(bench);
}

static void test_waiting_map_full(struct bench *bench)
{
	const struct net_options options = {.test_entries.waiting = 1};
	static const struct net_case inbound = {"", tcp_in, AF_INET, 100, 2000, 300};
	struct truth_bytes truth;
	struct record_bytes *found;
	uint64_t lost;
	int status;

	clear_truth(bench);
	if (start(bench, &options)) {
		tap_ok(false, "full waiting map: opens");
		stop(bench);
		return;
	}
	status = run_case(bench, &inbound, DEVICE_UID, PEER_UID);
	truth = truth_of(bench, DEVICE_UID, false, false);
	found = measured_uid(&bench->measured, DEVICE_UID);
	lost = counter_list_get(&bench->measured.lost, "net_lost_bytes");
	tap_ok(!status && counter_list_get(&bench->measured.lost, "net_waiting_map_full") > 0,
	       "full waiting map: counted (%lu packets)",
	       counter_list_get(&bench->measured.lost, "net_waiting_map_full"));
	tap_ok(found->tx_bytes == truth.tx_bytes && found->rx_bytes < truth.rx_bytes &&
		       found->rx_bytes + lost >= truth.rx_bytes,
	       "full waiting map: totals stay right: rx %lu in the row + %lu unattributed of %llu",
	       found->rx_bytes, lost, truth.rx_bytes);
	stop(bench);
}

/* Frames from a transmit ring have only the link header in their linear part. */
static int send_from_ring(const void *arg, int ready)
{
	const char *device = arg;
	struct tpacket_req ring = {
		.tp_block_size = 4096, .tp_block_nr = 1, .tp_frame_size = 2048, .tp_frame_nr = 2};
	struct sockaddr_ll to = {.sll_family = AF_PACKET,
				 .sll_protocol = htons(ETH_P_IP),
				 .sll_ifindex = (int)if_nametoindex(device)};
	int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_IP)), version = TPACKET_V2, i;
	char *map;

	if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
	    setsockopt(fd, SOL_PACKET, PACKET_TX_RING, &ring, sizeof(ring)) ||
	    bind(fd, (void *)&to, sizeof(to)))
		return 1;
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return 1;
	for (i = 0; i < 10; i++) {
		struct tpacket2_hdr *header = (void *)(map + (i & 1) * 2048);
		unsigned char *frame =
			(unsigned char *)header + TPACKET2_HDRLEN - sizeof(struct sockaddr_ll);
		struct iphdr ip = {.version = 4,
				   .ihl = 5,
				   .tot_len = htons(128),
				   .ttl = 9,
				   .protocol = IPPROTO_UDP};

		memset(frame, 0, 14 + 128);
		memset(frame, 0xff, 6); /* broadcast: whoever is there */
		frame[12] = 0x08;
		inet_pton(AF_INET, RIG_PEER4, &ip.saddr);
		inet_pton(AF_INET, RIG_DEVICE4, &ip.daddr);
		memcpy(frame + 14, &ip, sizeof(ip));
		header->tp_len = 14 + 128;
		header->tp_status = TP_STATUS_SEND_REQUEST;
		if (send(fd, NULL, 0, 0) < 0)
			return 1;
	}
	return 0;
}

static int headers_in_fragments(const struct bench *bench, const struct net_case *net_case,
				uid_t device, uid_t peer)
{
	/* A packet socket needs root. */
	return rig_wait(rig_spawn(&bench->rig, RIG_PEER, 0, send_from_ring, "wl1", NULL));
}

static void test_headers_unreadable(struct bench *bench)
{
	static const struct net_case ring = {"", headers_in_fragments};
	const struct net_options options = {0};
	int status;

	if (start(bench, &options)) {
		tap_ok(false, "headers in page fragments: opens");
		stop(bench);
		return;
	}
	status = run_case(bench, &ring, 0, 0);
	tap_ok(!status && counter_list_get(&bench->measured.lost, "net_header_unreadable") == 10 &&
		       counter_list_get(&bench->measured.lost, "net_lost_bytes") >= 1280,
	       "headers in page fragments: 10 of 10 received packets counted as lost (%lu)",
	       counter_list_get(&bench->measured.lost, "net_header_unreadable"));
	stop(bench);
}

static int far_closed_port(const struct bench *bench, const struct net_case *net_case, uid_t device,
			   uid_t peer)
{
	struct traffic traffic = traffic_of(bench, net_case, RIG_FAR4, RIG_FAR6);

	traffic.port = 9;
	return rig_wait(rig_spawn(&bench->rig, RIG_PEER, peer, udp_sender, &traffic, NULL));
}

/* Nothing but a descriptor of this process keeps the namespace now, so it cannot be found. */
static void test_namespace_unreadable(struct bench *bench)
{
	static const struct net_case far = {"", far_closed_port, AF_INET, 700, 0, 20};
	const struct net_options options = {0};
	uint64_t known, unattributed;
	int status;

	kill(bench->rig.holder[RIG_FAR], SIGKILL);
	waitpid(bench->rig.holder[RIG_FAR], NULL, 0);
	bench->rig.holder[RIG_FAR] = 0;
	if (start(bench, &options)) {
		tap_ok(false, "namespace out of sight: opens");
		stop(bench);
		return;
	}
	status = run_case(bench, &far, DEVICE_UID, PEER_UID);
	known = bench->measured.no_socket.rx_bytes + bench->measured.kernel.rx_bytes +
		bench->measured.forwarded.rx_bytes;
	unattributed = bench->measured.unattributed.rx_bytes;
	tap_ok(!status && counter_list_get(&bench->measured.lost, "net_namespace_unreadable") > 0,
	       "namespace out of sight: counted (%lu)",
	       counter_list_get(&bench->measured.lost, "net_namespace_unreadable"));
	tap_ok(unattributed - known >= 20 * 728,
	       "namespace out of sight: its bytes are unattributed and in no part (%lu)",
	       unattributed - known);
	stop(bench);
}

/* ---- netd's map ---- */
struct netd_value {
	uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes;
};

static bool netd_row(struct bench *bench, uid_t uid, uint64_t rx_packets, uint64_t rx_bytes,
		     uint64_t tx_packets, uint64_t tx_bytes)
{
	struct record_bytes *found = measured_uid(&bench->measured, uid);

	return found->rx_packets == rx_packets && found->rx_bytes == rx_bytes &&
	       found->tx_packets == tx_packets && found->tx_bytes == tx_bytes;
}

static void put_netd(int map, uint32_t uid, struct netd_value value)
{
	bpf_map_update_elem(map, &uid, &value, BPF_ANY);
}

static void test_netd_at(struct bench *bench, const char *bpffs, const char *name)
{
	const struct net_options options = {.bpffs = bpffs};
	struct record_interval interval = {0};
	char path[128];
	int map = bpf_map_create(BPF_MAP_TYPE_HASH, "netd_app_uid", 4, sizeof(struct netd_value),
				 100, NULL);

	snprintf(path, sizeof(path), "%s/%s", bpffs, name);
	if (map < 0 || bpf_obj_pin(map, path)) {
		tap_skip("netd's map", "a map cannot be pinned here");
		return;
	}
	put_netd(map, 10001, (struct netd_value){5, 500, 7, 700});
	put_netd(map, 10002, (struct netd_value){1, 100, 1, 100});
	if (!tap_ok(!start(bench, &options) && !strcmp(bench->source->variant, "netd"),
		    "netd: auto takes the pinned map at %s", name))
		goto cleanup;
	sample(bench);
	tap_ok(netd_row(bench, 10001, 0, 0, 0, 0), "netd: what was before is not counted");
	put_netd(map, 10001, (struct netd_value){6, 1500, 9, 2700});
	put_netd(map, 10002, (struct netd_value){1, 60, 0, 0});
	put_netd(map, 10003, (struct netd_value){2, 222, 0, 0});
	sample(bench);
	tap_ok(netd_row(bench, 10001, 1, 1000, 2, 2000), "netd: the difference is");
	tap_ok(netd_row(bench, 10002, 1, 60, 0, 0), "netd: a row that began anew counts from 0");
	tap_ok(netd_row(bench, 10003, 2, 222, 0, 0), "netd: a new row counts from 0");
	bench->source->ops->sample(bench->source, &interval);
	tap_ok(interval.net.present && interval.net.uid_count == 0 && interval.missing.count == 2,
	       "netd: what it does not know is missing, not 0");
	missing_list_free(&interval.missing);
cleanup:
	stop(bench);
	unlink(path);
	close(map);
}

static void test_netd(struct bench *bench)
{
	char bpffs[] = "/tmp/jankscope-bpffs-XXXXXX", path[64];
	struct net_options options = {.bpffs = bpffs, .variant = NET_VARIANT_NETD};
	int other, err;

	if (!mkdtemp(bpffs) || mount("none", bpffs, "bpf", 0, NULL)) {
		tap_skip("netd", "bpffs cannot be mounted");
		return;
	}
	snprintf(path, sizeof(path), "%s/netd_shared", bpffs);
	err = start(bench, &options);
	tap_ok(err == -ENOENT && bench->source->state == SOURCE_ABSENT,
	       "netd: forced, but there is no map: %s", bench->source->reason);
	stop(bench);
	test_netd_at(bench, bpffs, "map_netd_app_uid_stats_map");
	mkdir(path, 0755);
	test_netd_at(bench, bpffs, "netd_shared/map_netd_app_uid_stats_map");
	rmdir(path);
	/* Another map of that name: not believed. */
	other = bpf_map_create(BPF_MAP_TYPE_HASH, "other", 8, 8, 10, NULL);
	snprintf(path, sizeof(path), "%s/map_netd_app_uid_stats_map", bpffs);
	bpf_obj_pin(other, path);
	options.variant = NET_VARIANT_AUTO;
	err = start(bench, &options);
	tap_ok(!err && bench->source->state == SOURCE_DEGRADED &&
		       strcmp(bench->source->variant, "netd"),
	       "netd: a map of another shape is not read: %s, %s", bench->source->variant,
	       bench->source->reason);
	stop(bench);
	unlink(path);
	close(other);
	umount(bpffs);
	rmdir(bpffs);
}

/* A kernel without BTF gives its types by a file; auto must not need its own. */
static void test_btf_file(struct bench *bench)
{
	struct net_options options = {.variant = NET_VARIANT_RAW_TP,
				      .btf = "/sys/kernel/btf/vmlinux"};
	int err;

	if (access(options.btf, R_OK)) {
		tap_skip("types from a file", "no /sys/kernel/btf/vmlinux to take");
		return;
	}
	tap_ok(!start(bench, &options), "types from a file: raw_tp opens");
	stop(bench);
	options.btf = "/proc/version";
	err = start(bench, &options);
	tap_ok(err < 0 && bench->source->state == SOURCE_ABSENT,
	       "types from a file that has none: %s", bench->source->reason);
	stop(bench);
}

/* Whether the truth of this kernel knows SYN-ACKs of IPv6. */
static void calibrate(struct bench *bench)
{
	static const struct net_case few = {"", tcp_out, AF_INET6, 100, 100, 20};
	struct truth_bytes client, server;

	run_case(bench, &few, DEVICE_UID, PEER_UID);
	usleep(100000);
	client = truth_of(bench, DEVICE_UID, false, false);
	server = truth_of(bench, PEER_UID, false, false);
	if (client.rx_packets >= server.tx_packets + 20)
		bench->synack6 = 80;
	tap_note("%s; the truth %s IPv6 SYN-ACKs",
		 bench->slow ? "in a guest: a tenth of the traffic" : "full traffic",
		 bench->synack6 ? "lacks" : "has");
}

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	return 0;
}

int main(int argc, char **argv)
{
	struct bench bench = {0};
	const char *why = "";
	int fd = -1;

	if (!getenv("LIBBPF_TALK"))
		libbpf_set_print(quiet);
	if (getuid()) {
		tap_skip("net", "needs root");
		return tap_done();
	}
	if (rig_up(&bench.rig, &why)) {
		tap_skip("net", why);
		goto cleanup;
	}
	bench.shared = mmap(NULL, sizeof(*bench.shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bench.truth = net_truth_bpf__open_and_load();
	fd = open(bench.rig.cgroup, O_RDONLY | O_CLOEXEC);
	if (bench.truth && fd >= 0) {
		bench.links[0] = bpf_program__attach_cgroup(bench.truth->progs.truth_egress, fd);
		bench.links[1] = bpf_program__attach_cgroup(bench.truth->progs.truth_ingress, fd);
	}
	if (!bench.links[0] || !bench.links[1]) {
		tap_skip("net", "no cgroup_skb to take the truth from");
		goto cleanup;
	}
	bench.slow = getenv("GUEST"); /* tests/vm: emulated */
	calibrate(&bench);
	test_variant(&bench, "tp_btf, netd", &(struct net_options){.variant = NET_VARIANT_TP_BTF});
	test_variant(&bench, "raw_tp, netd", &(struct net_options){.variant = NET_VARIANT_RAW_TP});
	test_variant(&bench, "tp_btf, wire",
		     &(struct net_options){.variant = NET_VARIANT_TP_BTF, .wire = true});
	test_variant(&bench, "raw_tp, wire",
		     &(struct net_options){.variant = NET_VARIANT_RAW_TP, .wire = true});
	test_uid_map_full(&bench);
	test_flow_map_full(&bench);
	test_waiting_map_full(&bench);
	test_headers_unreadable(&bench);
	test_btf_file(&bench);
	test_netd(&bench);
	test_namespace_unreadable(&bench);
cleanup:
	counter_list_free(&bench.measured.lost);
	bpf_link__destroy(bench.links[0]);
	bpf_link__destroy(bench.links[1]);
	net_truth_bpf__destroy(bench.truth);
	if (fd >= 0)
		close(fd);
	rig_down(&bench.rig);
	return tap_done();
}

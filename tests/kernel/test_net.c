/* SPDX-License-Identifier: BSD-2-Clause */
/* The network source against cgroup_skb counters in a cgroup of the test's own: per uid, to the
 * byte, for each variant and each length formula. What cannot be exact has its documented size. */
/* Runs beside others (38 s, 6 s of CPU) */
#include "kernel/net_early.h"
#include "kernel/net_measure.h"

#define ABORTS       20
#define ABORT_WINDOW 65536
#define NEXT_TRY     1000 /* to uids of no other case */

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

static int tcp_handover(const struct bench *bench, const struct net_case *net_case, uid_t device,
			uid_t peer)
{
	struct traffic traffic = traffic_of(bench, net_case, RIG_DEVICE4, RIG_DEVICE6);

	traffic.accept_uid = device;
	return traffic_pair(&bench->rig, RIG_DEVICE, 0, tcp_handed_over, RIG_PEER, peer,
			    tcp_listens_first, traffic);
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
	/* Most of it leaves in interrupts, whoever they meet. */
	{"TCP up, paced", tcp_out, AF_INET, 4000000, 1000, 1, .segments = true, .pacing = 20000000},
	{"TCP down, IPv6", tcp_out, AF_INET6, 1000, 20000000, 1, .segments = true},
	{"TCP accepted", tcp_in, AF_INET, 5000000, 5000000, 3},
	{"TCP accepted, IPv6", tcp_in, AF_INET6, 5000000, 5000000, 3},
	{"TCP accepted, IPv4 in an IPv6 socket", tcp_in_dual, AF_INET, 1000000, 1000000, 3},
	{"TCP accepted by another uid", tcp_handover, AF_INET, 3000000, 1000000, 3},
	{"TCP accepted by another uid, IPv6", tcp_handover, AF_INET6, 3000000, 1000000, 3},
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

/* A socket changes hands in accept(): who owns what came before is told by the handshake alone.
 * Where a busy machine sent a part of it again, that came at any moment. */
static bool is_ambiguous(const struct bench *bench, const struct net_case *net_case,
			 const struct truth_bytes *client)
{
	unsigned count = (unsigned)scaled(bench, net_case).count;

	return net_case->run == tcp_handover &&
	       (client->tx_syns != count || client->rx_syns != count);
}

static void case_truths(struct bench *bench, bool wire, const struct net_case *net_case,
			uid_t device, uid_t peer, struct truth_bytes *truth,
			struct truth_bytes *peer_truth)
{
	*truth = truth_of(bench, device, wire, false);
	*peer_truth = truth_of(bench, peer, wire, false);
	if (net_case->run == tcp_in)
		add_synacks(truth, peer_truth);
	else if (net_case->run == tcp_out)
		add_synacks(peer_truth, truth);
	/* veth hands on the super-packet; a socket without UDP_GRO gets it in segments only after
	 * the tracepoint, so that netd's formula sees what the sender's did. */
	if (net_case->gso && !wire) {
		peer_truth->rx_bytes = truth->tx_bytes;
		peer_truth->rx_packets = truth->tx_packets;
	}
}

static void test_case(struct bench *bench, const char *label, bool wire,
		      const struct net_case *net_case, uid_t device, uid_t peer, int tries)
{
	struct record_bytes before = bench->measured.unattributed;
	int status = run_case(bench, net_case, device, peer), reads = 0;
	struct truth_bytes truth, peer_truth;
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
	do
		case_truths(bench, wire, net_case, device, peer, &truth, &peer_truth);
	while (!(equal(&truth, found) && equal(&peer_truth, peer_found)) &&
	       read_again(bench, &reads));
	if (is_ambiguous(bench, net_case, &peer_truth) && tries > 1) {
		tap_note("%s: a handshake was sent twice: once more", name);
		test_case(bench, label, wire, net_case, device + NEXT_TRY, peer + NEXT_TRY,
			  tries - 1);
		return;
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
				  PEER_UID + (uid_t)i, 5);
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
	struct truth_bytes truth, peer_truth;
	struct record_bytes before, *found, *peer_found;
	int lock = bench_lock(), status, reads = 0;
	uint64_t rx, tx;

	/* What another run forwarded while this one waited for the lock is read out before. */
	drain(bench);
	before = bench->measured.forwarded;
	status = run_case(bench, &both[0], uid, peer) | run_case(bench, &both[1], uid, peer);
	found = measured_uid(&bench->measured, uid);
	peer_found = measured_uid(&bench->measured, peer);
	do {
		truth = truth_of(bench, uid, wire, false);
		peer_truth = truth_of(bench, peer, wire, false);
		add_synacks(&truth, &peer_truth);
	} while (!(equal(&truth, found) && equal(&peer_truth, peer_found)) &&
		 read_again(bench, &reads));
	rx = bench->measured.forwarded.rx_bytes - before.rx_bytes;
	tx = bench->measured.forwarded.tx_bytes - before.tx_bytes;
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
	bench_unlock(lock);
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

/* Not all losses are summed: a namespace of somebody else's that went meanwhile is not ours, and
 * a softirq can change a socket's state while its CPU is in that very program (the kernel then
 * skips the inner run and counts it; the read-out finds the owner all the same). */
static void test_nothing_lost(struct bench *bench, const char *label)
{
	static const char *const names[] = {"net_uid_map_full", "net_flow_map_full",
					    "net_waiting_map_full", "net_header_unreadable",
					    "net_lost_bytes"};
	uint64_t total = 0;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint64_t lost = counter_list_get(&bench->measured.lost, names[i]);

		if (lost)
			printf("# %s %lu\n", names[i], lost);
		total += lost;
	}
	tap_ok(total == 0, "%s: nothing was lost (%lu runs skipped)", label,
	       counter_list_get(&bench->measured.lost, "net_missed_runs"));
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

int main(int argc, char **argv)
{
	struct bench bench = {0};

	if (bench_up(&bench, "net")) {
		test_variant(&bench, "tp_btf, netd",
			     &(struct net_options){.variant = NET_VARIANT_TP_BTF});
		/* A guest has seconds: each twin and each formula once. */
		if (!bench.slow) {
			test_variant(&bench, "raw_tp, netd",
				     &(struct net_options){.variant = NET_VARIANT_RAW_TP});
			test_variant(
				&bench, "tp_btf, wire",
				&(struct net_options){.variant = NET_VARIANT_TP_BTF, .wire = true});
		}
		test_variant(&bench, "raw_tp, wire",
			     &(struct net_options){.variant = NET_VARIANT_RAW_TP, .wire = true});
	}
	bench_down(&bench);
	return tap_done();
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The network source against cgroup_skb counters in a cgroup of the test's own: per uid, to the
 * byte, for each variant and each length formula. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
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
	atomic_int go, up_count;
};

struct bench {
	struct rig rig;
	struct net_truth_bpf *truth;
	struct bpf_link *links[2];
	struct source *source;
	struct measured measured;
	struct shared *shared;
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
};

static struct traffic traffic_of(const struct net_case *net_case, const char *v4, const char *v6)
{
	return (struct traffic){.family = net_case->family,
				.address = net_case->family == AF_INET ? v4 : v6,
				.up = net_case->up,
				.down = net_case->down,
				.count = net_case->count,
				.server_closes = net_case->server_closes};
}

static int tcp_out(const struct bench *bench, const struct net_case *net_case, uid_t device,
		   uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_PEER, peer, tcp_server, RIG_DEVICE, device, tcp_client,
			    traffic_of(net_case, RIG_PEER4, RIG_PEER6));
}

static int tcp_in(const struct bench *bench, const struct net_case *net_case, uid_t device,
		  uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_DEVICE, device, tcp_server, RIG_PEER, peer, tcp_client,
			    traffic_of(net_case, RIG_DEVICE4, RIG_DEVICE6));
}

/* IPv4 into an IPv6 socket. */
static int tcp_in_dual(const struct bench *bench, const struct net_case *net_case, uid_t device,
		       uid_t peer)
{
	struct traffic server = traffic_of(net_case, RIG_DEVICE4, RIG_DEVICE6), client = server;
	int ready, status;
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
			    udp_echo_client, traffic_of(net_case, RIG_PEER4, RIG_PEER6));
}

static int udp_in(const struct bench *bench, const struct net_case *net_case, uid_t device,
		  uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_DEVICE, device, udp_echo_server, RIG_PEER, peer,
			    udp_echo_client, traffic_of(net_case, RIG_DEVICE4, RIG_DEVICE6));
}

static int udp_gso(const struct bench *bench, const struct net_case *net_case, uid_t device,
		   uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_PEER, peer, udp_receiver, RIG_DEVICE, device,
			    udp_sender, traffic_of(net_case, RIG_PEER4, RIG_PEER6));
}

static int udp_receive(const struct bench *bench, const struct net_case *net_case, uid_t device,
		       uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_DEVICE, device, udp_receiver, RIG_PEER, peer,
			    udp_sender, traffic_of(net_case, RIG_DEVICE4, RIG_DEVICE6));
}

static int udp_receive_connected(const struct bench *bench, const struct net_case *net_case,
				 uid_t device, uid_t peer)
{
	struct traffic traffic = traffic_of(net_case, RIG_DEVICE4, RIG_DEVICE6);

	traffic.source = net_case->family == AF_INET ? RIG_PEER4 : RIG_PEER6;
	traffic.source_port = 7001;
	return traffic_pair(&bench->rig, RIG_DEVICE, device, udp_receiver, RIG_PEER, peer,
			    udp_sender, traffic);
}

static int multicast(const struct bench *bench, const struct net_case *net_case, uid_t device,
		     uid_t peer)
{
	struct traffic receiver = traffic_of(net_case, "239.77.0.1", NULL), sender = receiver;
	int ready, status;
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
	struct traffic traffic = traffic_of(net_case, RIG_PEER4, RIG_PEER6);

	return rig_wait(rig_spawn(&bench->rig, RIG_DEVICE, device, ping_client, &traffic, NULL));
}

static int refused(const struct bench *bench, const struct net_case *net_case, uid_t device,
		   uid_t peer)
{
	struct traffic traffic = traffic_of(net_case, RIG_PEER4, RIG_PEER6);

	traffic.port = 9;
	return rig_wait(rig_spawn(&bench->rig, RIG_DEVICE, device, tcp_refused, &traffic, NULL));
}

static int forwarded(const struct bench *bench, const struct net_case *net_case, uid_t device,
		     uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_FAR, device, tcp_server, RIG_PEER, peer, tcp_client,
			    traffic_of(net_case, RIG_FAR4, RIG_FAR6));
}

static int loopback(const struct bench *bench, const struct net_case *net_case, uid_t device,
		    uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_DEVICE, device, tcp_server, RIG_DEVICE, peer,
			    tcp_client, traffic_of(net_case, "127.0.0.1", "::1"));
}

static int aborts(const struct bench *bench, const struct net_case *net_case, uid_t device,
		  uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_PEER, peer, tcp_flooder, RIG_DEVICE, device,
			    tcp_aborter, traffic_of(net_case, RIG_PEER4, RIG_PEER6));
}

static int closed_port(const struct bench *bench, const struct net_case *net_case, uid_t device,
		       uid_t peer)
{
	struct traffic traffic = traffic_of(net_case, RIG_DEVICE4, RIG_DEVICE6);

	traffic.port = 9;
	return rig_wait(rig_spawn(&bench->rig, RIG_PEER, peer, udp_sender, &traffic, NULL));
}

static const struct net_case cases[] = {
	{"TCP up", tcp_out, AF_INET, 20000000, 1000, 1},
	{"TCP down, IPv6", tcp_out, AF_INET6, 1000, 20000000, 1},
	{"TCP accepted", tcp_in, AF_INET, 5000000, 5000000, 3},
	{"TCP accepted, IPv6", tcp_in, AF_INET6, 5000000, 5000000, 3},
	{"TCP accepted, IPv4 in an IPv6 socket", tcp_in_dual, AF_INET, 1000000, 1000000, 3},
	{"UDP request and response", udp_out, AF_INET, 500, 0, 500},
	{"UDP request and response, IPv6", udp_out, AF_INET6, 500, 0, 500},
	{"UDP server", udp_in, AF_INET, 900, 0, 500},
	{"UDP GSO", udp_gso, AF_INET, 12000, 1200, 100},
	{"UDP GSO, IPv6", udp_gso, AF_INET6, 12000, 1200, 100},
	{"UDP receive-only, connected", udp_receive_connected, AF_INET, 700, 0, 300},
	{"UDP receive-only", udp_receive, AF_INET, 700, 0, 300},
	{"UDP receive-only, IPv6", udp_receive, AF_INET6, 700, 0, 300},
	{"multicast", multicast, AF_INET, 600, 0, 200},
	{"ICMP socket", ping, AF_INET, 0, 0, 100},
	{"ICMP socket, IPv6", ping, AF_INET6, 0, 0, 100},
	{"SYN to a closed port", refused, AF_INET, 0, 0, 50},
	{"SYN to a closed port, IPv6", refused, AF_INET6, 0, 0, 50},
	{"300 short connections out", tcp_out, AF_INET, 100, 2000, 300},
	{"300 short connections out, IPv6", tcp_out, AF_INET6, 100, 2000, 300},
	{"300 short connections in", tcp_in, AF_INET, 100, 2000, 300},
	{"300 short connections in, server closes", tcp_in, AF_INET, 100, 2000, 300, true},
	{"300 short connections out, server closes", tcp_out, AF_INET6, 100, 2000, 300, true},
};

/* Run one case in a child of its own and sample meanwhile. */
static int run_case(struct bench *bench, const struct net_case *net_case, uid_t device, uid_t peer)
{
	pid_t pid = fork();
	int status, i;

	if (pid == 0)
		_exit(net_case->run(bench, net_case, device, peer) & 0xff);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		usleep(SAMPLE_US);
		sample(bench);
	}
	/* FINs and their ACKs come after the last process; two read-outs drain what waits. */
	for (i = 0; i < 3; i++) {
		usleep(SAMPLE_US);
		sample(bench);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
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

static void test_cases(struct bench *bench, const char *label, bool wire)
{
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uid_t device = DEVICE_UID + (uid_t)i, peer = PEER_UID + (uid_t)i;
		struct record_bytes before = bench->measured.unattributed;
		int status = run_case(bench, &cases[i], device, peer);
		struct truth_bytes truth = truth_of(bench, device, wire, false);
		struct truth_bytes peer_truth = truth_of(bench, peer, wire, false);
		const struct record_bytes *found = measured_uid(&bench->measured, device);
		const struct record_bytes *peer_found = measured_uid(&bench->measured, peer);
		char name[160];

		snprintf(name, sizeof(name), "%s: %s", label, cases[i].name);
		if (status == 77) {
			tap_skip(name, "this kernel has no such socket or option");
			continue;
		}
		if (status) {
			tap_ok(false, "%s: the traffic itself failed (%d)", name, status);
			continue;
		}
		if (!tap_ok(truth.tx_bytes + truth.rx_bytes && equal(&truth, found) &&
				    equal(&peer_truth, peer_found),
			    "%s: equal to the byte (rx %lu, tx %lu)", name, found->rx_bytes,
			    found->tx_bytes)) {
			show("device", &truth, found);
			show("peer", &peer_truth, peer_found);
			tap_note("unattributed: rx +%lu tx +%lu",
				 bench->measured.unattributed.rx_bytes - before.rx_bytes,
				 bench->measured.unattributed.tx_bytes - before.tx_bytes);
		}
	}
}

static void test_variant(struct bench *bench, const char *label, const struct net_options *options)
{
	clear_truth(bench);
	if (start(bench, options)) {
		tap_ok(false, "%s: opens: %s", label, bench->source->reason);
		stop(bench);
		return;
	}
	test_cases(bench, label, options->wire);
	stop(bench);
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
	test_variant(&bench, "tp_btf, netd", &(struct net_options){.variant = NET_VARIANT_TP_BTF});
	test_variant(&bench, "raw_tp, netd", &(struct net_options){.variant = NET_VARIANT_RAW_TP});
	test_variant(&bench, "tp_btf, wire",
		     &(struct net_options){.variant = NET_VARIANT_TP_BTF, .wire = true});
	test_variant(&bench, "raw_tp, wire",
		     &(struct net_options){.variant = NET_VARIANT_RAW_TP, .wire = true});
cleanup:
	bpf_link__destroy(bench.links[0]);
	bpf_link__destroy(bench.links[1]);
	net_truth_bpf__destroy(bench.truth);
	if (fd >= 0)
		close(fd);
	rig_down(&bench.rig);
	return tap_done();
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* 464XLAT at tc, as on a phone in a network of IPv6 only: an app speaks IPv4, and what leaves the
 * device is IPv6 (truth/net_clat.bpf.c). Both ends of the rig translate. What an app receives is
 * its cgroup_skb counter's to the byte; what it sends is that and 20 bytes for each packet, because
 * no other tracepoint than that of the IPv6 device sees it. */
/* Runs beside others (5 s) */
#include "kernel/net_measure.h"
#include "net_clat.skel.h"

#define CLAT_DEVICE4 "10.99.0.1"
#define CLAT_PEER4   "10.99.0.2"
#define IPV6_MORE    20 /* bytes of an IPv6 header beyond those of IPv4's */

static int sh(const char *format, const char *outside, const char *inside)
{
	char command[512];

	snprintf(command, sizeof(command), format, outside, inside);
	return system(command);
}

static int hook(int fd, unsigned device, enum bpf_tc_attach_point point)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)device, .attach_point = point);
	LIBBPF_OPTS(bpf_tc_opts, options, .prog_fd = fd);
	int err = bpf_tc_hook_create(&hook);

	return err && err != -EEXIST ? err : bpf_tc_attach(&hook, &options);
}

/* In the namespace of the caller. The filters hold the programs, and the namespace the filters. */
static int translate(const char *outside, const char *address, const char *next6)
{
	struct net_clat_bpf *programs = net_clat_bpf__open();
	char format[512];
	int err;

	if (!programs)
		return -errno;
	/* A veth whose other end nobody has; no ARP, and the link address of the device outside,
	 * for which what comes in was meant. */
	if (sh("ip link add clat0 mtu 1400 type veth peer name clat1 && "
	       "ip link set clat0 arp off address $(ip -o link show dev %s | "
	       "sed 's/.*ether //; s/ .*//') && ip link set clat0 up && ip link set clat1 up%s",
	       outside, "") ||
	    rig_address("clat0", address, 24)) {
		net_clat_bpf__destroy(programs);
		return -ENODEV;
	}
	snprintf(format, sizeof(format), "ip -6 route add fd77:9:27f::/96 via %s dev %%s%%s",
		 next6);
	programs->rodata->outside = if_nametoindex(outside);
	programs->rodata->inside = if_nametoindex("clat0");
	err = sh(format, outside, "") ? -EHOSTUNREACH : net_clat_bpf__load(programs);
	if (!err)
		err = hook(bpf_program__fd(programs->progs.translate_out), if_nametoindex("clat0"),
			   BPF_TC_EGRESS);
	if (!err)
		err = hook(bpf_program__fd(programs->progs.translate_in), if_nametoindex(outside),
			   BPF_TC_INGRESS);
	net_clat_bpf__destroy(programs);
	return err;
}

static int clat_up(const struct bench *bench)
{
	int err;

	setns(bench->rig.ns[RIG_DEVICE], CLONE_NEWNET);
	err = translate("wl0", CLAT_DEVICE4, RIG_PEER6);
	setns(bench->rig.ns[RIG_PEER], CLONE_NEWNET);
	err = err ?: translate("wl1", CLAT_PEER4, RIG_DEVICE6);
	setns(bench->rig.home, CLONE_NEWNET);
	return err;
}

static int echo(const struct bench *bench, const struct net_case *net_case, uid_t device,
		uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_PEER, peer, udp_echo_server, RIG_DEVICE, device,
			    udp_echo_client, traffic_of(bench, net_case, CLAT_PEER4, NULL));
}

static int fetch(const struct bench *bench, const struct net_case *net_case, uid_t device,
		 uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_PEER, peer, tcp_server, RIG_DEVICE, device, tcp_client,
			    traffic_of(bench, net_case, CLAT_PEER4, NULL));
}

/* As Java does: a socket of IPv6 for an IPv4 address. */
static int fetch_mapped(const struct bench *bench, const struct net_case *net_case, uid_t device,
			uid_t peer)
{
	struct traffic traffic = traffic_of(bench, net_case, NULL, "::ffff:" CLAT_PEER4);

	traffic.dual = true;
	return traffic_pair(&bench->rig, RIG_PEER, peer, tcp_server, RIG_DEVICE, device, tcp_client,
			    traffic);
}

static void check(struct bench *bench, uid_t uid, const char *what, bool small)
{
	const struct record_bytes *found = measured_uid(&bench->measured, uid);
	struct truth_bytes truth;
	int reads = 0;

	do
		truth = truth_of(bench, uid, false, false);
	while (truth.rx_bytes != found->rx_bytes && read_again(bench, &reads));
	tap_ok(truth.rx_bytes && truth.rx_bytes == found->rx_bytes &&
		       truth.rx_packets == found->rx_packets,
	       "%s: received is equal to the byte (%lu)", what, found->rx_bytes);
	/* Super-packets are cut by a formula that knows the header's length. */
	if (small)
		tap_ok(found->tx_bytes == truth.tx_bytes + IPV6_MORE * truth.tx_packets &&
			       truth.tx_packets == found->tx_packets,
		       "%s: sent is as IPv6 to the byte (%lu)", what, found->tx_bytes);
	if (truth.rx_bytes != found->rx_bytes || small)
		show(what, &truth, found);
}

static void loads(struct bench *bench)
{
	static const struct net_case udp = {"UDP", echo, AF_INET, 700, 0, 200},
				     tcp = {"TCP", fetch, AF_INET, 300000, 2000000, 1},
				     mapped = {"mapped", fetch_mapped, AF_INET6,
					       300000,   2000000,      1};
	struct record_bytes before;
	struct truth_bytes device, peer;
	uint64_t nobody;

	drain(bench);
	before = bench->measured.unattributed;
	tap_ok(!run_case(bench, &udp, DEVICE_UID, PEER_UID), "UDP: traffic");
	check(bench, DEVICE_UID, "UDP, client", true);
	check(bench, PEER_UID, "UDP, server", true);
	/* In front of the translation nobody's socket is there: README says so. */
	device = truth_of(bench, DEVICE_UID, false, false);
	peer = truth_of(bench, PEER_UID, false, false);
	nobody =
		device.rx_bytes + peer.rx_bytes + IPV6_MORE * (device.rx_packets + peer.rx_packets);
	/* Others on this machine have some, too. */
	tap_ok(bench->measured.unattributed.rx_bytes - before.rx_bytes >= nobody,
	       "UDP: and once more as nobody's (%lu of %lu)",
	       bench->measured.unattributed.rx_bytes - before.rx_bytes, nobody);
	tap_ok(!run_case(bench, &tcp, DEVICE_UID + 1, PEER_UID + 1), "TCP: traffic");
	check(bench, DEVICE_UID + 1, "TCP, client", false);
	check(bench, PEER_UID + 1, "TCP, server", false);
	tap_ok(!run_case(bench, &mapped, DEVICE_UID + 2, PEER_UID + 2), "TCP, mapped: traffic");
	check(bench, DEVICE_UID + 2, "TCP, mapped, client", false);
	check(bench, PEER_UID + 2, "TCP, mapped, server", false);
}

static void with_clat(struct bench *bench)
{
	static bool tried;
	static int err;

	if (!tried)
		err = clat_up(bench);
	tried = true;
	if (err == -ENODEV)
		tap_skip("464XLAT", "`ip link add type veth` is refused here");
	else if (tap_ok(!err, "both ends translate: %s", strerror(-err)))
		loads(bench);
}

int main(void)
{
	return run_with_twins("464XLAT", with_clat);
}

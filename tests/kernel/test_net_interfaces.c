/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes of a uid by interface: each load goes by one interface, so that the row of that interface
 * is what cgroup_skb counted meanwhile, to the byte; and the rows of a uid are its sum in each
 * interval. Interfaces that are renamed, that go and come again, and that have the same number in
 * another namespace. */
/* Runs beside others (14 s) */
#include "kernel/net_measure.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

/* A name that the kernel takes. */
#define HOSTILE "wl\x1b[31m\xff"

struct place {
	uint32_t ifindex;
	uint64_t netns; /* 0: cannot be asked for here */
};

/* Of an interface in that namespace. */
static struct place find_place(const struct bench *bench, enum rig_place place, const char *name)
{
	struct place found = {0};
	socklen_t length = sizeof(found.netns);
	struct stat status;
	int fd;

	setns(bench->rig.ns[place], CLONE_NEWNET);
	found.ifindex = if_nametoindex(name);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &found.netns, &length) &&
	    !stat("/proc/thread-self/ns/net", &status))
		found.netns = status.st_ino;
	close(fd);
	setns(bench->rig.home, CLONE_NEWNET);
	return found;
}

static int tcp_far(const struct bench *bench, const struct net_case *net_case, uid_t device,
		   uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_FAR, peer, tcp_server, RIG_DEVICE, device, tcp_client,
			    traffic_of(bench, net_case, RIG_FAR4, RIG_FAR6));
}

static int udp_far(const struct bench *bench, const struct net_case *net_case, uid_t device,
		   uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_DEVICE, device, udp_receiver, RIG_FAR, peer,
			    udp_sender,
			    traffic_of(bench, net_case, RIG_DEVICE_FAR4, RIG_DEVICE_FAR6));
}

static int tcp_loop(const struct bench *bench, const struct net_case *net_case, uid_t device,
		    uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_DEVICE, peer, tcp_server, RIG_DEVICE, device,
			    tcp_client, traffic_of(bench, net_case, "127.0.0.1", "::1"));
}

static const struct net_case loads[] = {
	{"TCP", tcp_out, AF_INET, 300000, 700000, 2},
	{"TCP, IPv6", tcp_out, AF_INET6, 200000, 300000, 2},
	{"accepted", tcp_in, AF_INET, 100000, 50000, 5},
	{"UDP, received only", udp_receive, AF_INET6, 600, 0, 200},
};
static const struct net_case far_loads[] = {
	{"TCP", tcp_far, AF_INET, 200000, 400000, 2},
	{"UDP", udp_far, AF_INET, 900, 0, 150},
};

static void run_all(struct bench *bench, const struct net_case *cases, size_t count, uid_t uid)
{
	for (size_t i = 0; i < count; i++) {
		int err = run_case(bench, &cases[i], uid, PEER_UID + (uid - DEVICE_UID));

		if (err)
			tap_ok(false, "%s: traffic (%d)", cases[i].name, err);
	}
}

static struct record_bytes grown(const struct truth_bytes *now, const struct truth_bytes *before)
{
	return (struct record_bytes){.rx_bytes = now->rx_bytes - before->rx_bytes,
				     .rx_packets = now->rx_packets - before->rx_packets,
				     .tx_bytes = now->tx_bytes - before->tx_bytes,
				     .tx_packets = now->tx_packets - before->tx_packets};
}

/* What uid did by that interface is what the truth saw between the two readings of it. */
static void check(struct bench *bench, uid_t uid, struct place place, const char *name,
		  const struct truth_bytes *before, const char *what)
{
	struct measured_interface *row;
	struct record_bytes wanted;
	struct truth_bytes now;
	int reads = 0;

	do {
		now = truth_of(bench, uid, false, false);
		wanted = grown(&now, before);
		row = measured_interface(&bench->measured, uid, place.ifindex, place.netns);
	} while (memcmp(&wanted, &row->bytes, sizeof(wanted)) && read_again(bench, &reads));
	tap_ok(wanted.rx_bytes && !memcmp(&wanted, &row->bytes, sizeof(wanted)) &&
		       !strcmp(row->name, name),
	       "%s: by %s (%s) to the byte: rx %lu of %lu, tx %lu of %lu", what, row->name, name,
	       row->bytes.rx_bytes, wanted.rx_bytes, row->bytes.tx_bytes, wanted.tx_bytes);
}

static void show_rows(const struct bench *bench, uid_t uid)
{
	for (size_t i = 0; i < bench->measured.interface_count; i++) {
		const struct measured_interface *row = &bench->measured.interfaces[i];

		if (row->uid == uid)
			tap_note("uid %u by %s, number %u in %lu: rx %lu, tx %lu", uid, row->name,
				 row->ifindex, row->netns, row->bytes.rx_bytes,
				 row->bytes.tx_bytes);
	}
}

static size_t rows_of(const struct bench *bench, uid_t uid)
{
	size_t count = 0;

	for (size_t i = 0; i < bench->measured.interface_count; i++)
		count += bench->measured.interfaces[i].uid == uid;
	return count;
}

static int rename_link(const char *from, const char *to)
{
	struct rig_message msg = {.nlh = {.nlmsg_len = NLMSG_HDRLEN, .nlmsg_type = RTM_NEWLINK}};
	struct ifinfomsg *info = rig_put(&msg, sizeof(*info));

	info->ifi_index = (int)if_nametoindex(from);
	info->ifi_change = IFF_UP; /* down: only then it can be renamed before 6.2 */
	if (rig_send(&msg))
		return -1;
	rig_attr(&msg, IFLA_IFNAME, to, strlen(to) + 1);
	info->ifi_flags = IFF_UP;
	if (rig_send(&msg))
		return -1;
	return rig_link_up(to);
}

static int delete_link(const char *name)
{
	struct rig_message msg = {.nlh = {.nlmsg_len = NLMSG_HDRLEN, .nlmsg_type = RTM_DELLINK}};
	struct ifinfomsg *info = rig_put(&msg, sizeof(*info));

	info->ifi_index = (int)if_nametoindex(name);
	return rig_send(&msg);
}

/* The link between the device and its peer, again. */
static int make_again(const struct bench *bench, const char *name)
{
	int err;

	setns(bench->rig.ns[RIG_DEVICE], CLONE_NEWNET);
	err = delete_link(name) || rig_veth("wl0", "wl1", bench->rig.ns[RIG_PEER]) ||
	      rig_address("wl0", RIG_DEVICE4, 24) || rig_address("wl0", RIG_DEVICE6, 64) ||
	      rig_link_up("wl0");
	setns(bench->rig.ns[RIG_PEER], CLONE_NEWNET);
	err = err || rig_address("wl1", RIG_PEER4, 24) || rig_address("wl1", RIG_PEER6, 64) ||
	      rig_link_up("wl1") || rig_route(RIG_DEVICE4) || rig_route(RIG_DEVICE6);
	setns(bench->rig.home, CLONE_NEWNET);
	return err;
}

static int rename_near(const struct bench *bench, const char *from, const char *to)
{
	int err;

	setns(bench->rig.ns[RIG_DEVICE], CLONE_NEWNET);
	err = rename_link(from, to);
	setns(bench->rig.home, CLONE_NEWNET);
	return err;
}

/* The row had bytes before. */
static void check_more(struct bench *bench, uid_t uid, struct place place, const char *name,
		       const struct truth_bytes *before, const char *what)
{
	struct measured_interface *row =
		measured_interface(&bench->measured, uid, place.ifindex, place.netns);
	struct truth_bytes all = truth_of(bench, uid, false, false);
	struct record_bytes sum;
	int reads = 0;

	do {
		all = truth_of(bench, uid, false, false);
		memset(&sum, 0, sizeof(sum));
		for (size_t i = 0; i < bench->measured.interface_count; i++)
			if (bench->measured.interfaces[i].uid == uid)
				add(&sum, &bench->measured.interfaces[i].bytes);
	} while (!equal(&all, &sum) && read_again(bench, &reads));
	tap_ok(equal(&all, &sum) && !strcmp(row->name, name) && all.rx_bytes > before->rx_bytes,
	       "%s: its row goes on under the new name, and all rows are the truth", what);
}

static void with_twin(struct bench *bench, uid_t uid)
{
	static const struct net_case loop = {"loopback", tcp_loop, AF_INET, 100000, 100000, 1};
	const struct truth_bytes nothing = {0};
	struct place near = find_place(bench, RIG_DEVICE, "wl0"),
		     peer = find_place(bench, RIG_PEER, "wl1"),
		     far = find_place(bench, RIG_DEVICE, "us0"), again;
	struct truth_bytes before;
	int err;

	run_all(bench, loads, sizeof(loads) / sizeof(*loads), uid);
	check(bench, uid, near, "wl0", &nothing, "one interface");
	check(bench, PEER_UID + (uid - DEVICE_UID), peer, "wl1", &nothing, "its other end");
	before = truth_of(bench, uid, false, false);
	run_all(bench, far_loads, sizeof(far_loads) / sizeof(*far_loads), uid);
	check(bench, uid, far, "us0", &before, "another interface");
	err = run_case(bench, &loop, uid, uid + 1);
	tap_ok(!err && rows_of(bench, uid) == 2 && !rows_of(bench, uid + 1),
	       "loopback is in no row of an interface");

	before = truth_of(bench, uid, false, false);
	err = rename_near(bench, "wl0", HOSTILE);
	tap_ok(!err && !run_case(bench, &loads[0], uid, PEER_UID + (uid - DEVICE_UID)),
	       "traffic by an interface that was renamed");
	check_more(bench, uid, near, HOSTILE, &before, "renamed");
	before = truth_of(bench, uid, false, false);
	err = make_again(bench, HOSTILE);
	again = find_place(bench, RIG_DEVICE, "wl0");
	tap_ok(!err && again.ifindex != near.ifindex &&
		       !run_case(bench, &loads[0], uid, PEER_UID + (uid - DEVICE_UID)),
	       "traffic by an interface that was deleted and made again (%u, %u)", near.ifindex,
	       again.ifindex);
	check(bench, uid, again, "wl0", &before, "made again");
	tap_ok(!bench->measured.uneven, "the rows of each uid were its sum in each interval");
	show_rows(bench, uid);
}

int main(void)
{
	static const enum net_variant variants[] = {NET_VARIANT_TP_BTF, NET_VARIANT_RAW_TP};
	struct bench *bench = calloc(1, sizeof(*bench));
	bool up = bench_up(bench, "bytes by interface");

	for (unsigned i = 0; up && i < 2; i++) {
		const struct net_options options = {.variant = variants[i], .by_interface = true};
		int err;

		clear_truth(bench);
		err = start(bench, &options);
		if (tap_ok(!err, "opens as %s", bench->source->variant))
			with_twin(bench, DEVICE_UID + 10 * i);
		stop(bench);
	}
	if (bench)
		bench_down(bench);
	return tap_done();
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Every loss of the network source is reached, counted, and leaves the totals right; and its other
 * sources: netd's pinned map, and kernel types from a file. */
/* Runs beside others (5 s) */
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/ip.h>
#include "kernel/net_measure.h"

/* ---- losses: tiny maps ---- */
static void test_uid_map_full(struct bench *bench)
{
	static const struct net_case echo = {"", udp_out, AF_INET, 500, 0, 500};
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
		status |= run_case(bench, &echo, DEVICE_UID + (uid_t)i, PEER_UID + (uid_t)i);
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
	static const struct net_case cases[] = {
		{"TCP down, IPv6", tcp_out, AF_INET6, 1000, 20000000, 1},
		{"TCP accepted, IPv6", tcp_in, AF_INET6, 5000000, 5000000, 3},
		{"UDP request and response", udp_out, AF_INET, 500, 0, 500},
		{"UDP receive-only", udp_receive, AF_INET, 700, 0, 300},
	};
	size_t i;

	clear_truth(bench);
	if (start(bench, &options)) {
		tap_ok(false, "full flow map: opens");
		stop(bench);
		return;
	}
	for (i = 0; i < 4; i++) {
		uid_t uid = DEVICE_UID + (uid_t)i;
		int status = run_case(bench, &cases[i], uid, PEER_UID + (uid_t)i);
		struct truth_bytes truth = truth_of(bench, uid, false, false);
		struct truth_bytes peer = truth_of(bench, PEER_UID + (uid_t)i, false, false);
		struct record_bytes *found = measured_uid(&bench->measured, uid);

		if (cases[i].run == tcp_in)
			add_synacks(&truth, &peer);
		if (!tap_ok(!status && equal(&truth, found), "full flow map: %s: still equal",
			    cases[i].name))
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
	uint64_t lost, late;
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
	/* The one packet that waits may find its socket closed: the ACK of a FIN sent twice. */
	late = bench->measured.no_socket.rx_bytes;
	tap_ok(found->tx_bytes == truth.tx_bytes && found->rx_bytes < truth.rx_bytes &&
		       found->rx_bytes + lost + late >= truth.rx_bytes,
	       "full waiting map: totals stay right: rx %lu in the row + %lu lost + %lu without a "
	       "socket of %llu",
	       found->rx_bytes, lost, late, truth.rx_bytes);
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

	/* Each recorder of the machine counts these packets as lost. */
	bench_alone(bench->machine);
	if (start(bench, &options)) {
		tap_ok(false, "headers in page fragments: opens");
		stop(bench);
		bench_beside_others(bench->machine);
		return;
	}
	status = run_case(bench, &ring, 0, 0);
	bench_beside_others(bench->machine);
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

/* What a SYN belongs to only a dump can tell. */
static int far_refused(const struct bench *bench, const struct net_case *net_case, uid_t device,
		       uid_t peer)
{
	struct traffic traffic = traffic_of(bench, net_case, RIG_FAR4, RIG_FAR6);

	traffic.port = 9;
	return rig_wait(rig_spawn(&bench->rig, RIG_PEER, peer, tcp_refused, &traffic, NULL));
}

/* Nothing but a descriptor of this process keeps the namespace now, so it cannot be found. */
static void test_namespace_unreadable(struct bench *bench)
{
	static const struct net_case far = {"", far_closed_port, AF_INET, 700, 0, 20},
				     syns = {"", far_refused, AF_INET, 0, 0, 20};
	const struct net_options options = {0};
	uint64_t known, unattributed, lost;
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
	lost = counter_list_get(&bench->measured.lost, "net_unresolved_bytes");
	tap_ok(lost < 20 * 728, "namespace out of sight: what no socket took is not lost (%lu)",
	       lost);
	status = run_case(bench, &syns, DEVICE_UID + 1, PEER_UID + 1);
	lost = counter_list_get(&bench->measured.lost, "net_unresolved_bytes") - lost;
	tap_ok(!status && lost >= 20 * 60,
	       "namespace out of sight: what a socket may have taken is counted as lost (%lu)",
	       lost);
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

/* Hooks count, and netd's map stands beside them: the same bytes there make no difference. */
static void test_netd_check(struct bench *bench, const char *bpffs)
{
	const struct net_options options = {.bpffs = bpffs, .check = true};
	static const struct net_case upload = {"", tcp_out, AF_INET, 20000, 300, 50};
	struct record_interval interval = {0};
	struct truth_bytes truth;
	struct record_bytes *found;
	char path[128];
	int map, status;
	bool good = false;

	if (!tap_ok(!start(bench, &options) && strcmp(bench->source->variant, "netd"),
		    "netd check: without a map packets are counted"))
		return stop(bench);
	sample(bench);
	bench->source->ops->sample(bench->source, &interval);
	tap_ok(interval.net.present && !interval.net.netd_present &&
		       missing_reason(&interval.missing, "net.netd"),
	       "netd check: that there is no map is said");
	missing_list_free(&interval.missing);
	counter_list_free(&interval.lost);
	stop(bench);
	map = bpf_map_create(BPF_MAP_TYPE_HASH, "netd_app_uid", 4, sizeof(struct netd_value), 100,
			     NULL);
	snprintf(path, sizeof(path), "%s/map_netd_app_uid_stats_map", bpffs);
	if (map < 0 || bpf_obj_pin(map, path)) {
		tap_skip("netd check", "a map cannot be pinned here");
		return;
	}
	clear_truth(bench);
	put_netd(map, DEVICE_UID, (struct netd_value){70, 70000, 80, 80000});
	status = start(bench, &options);
	if (!tap_ok(!status && strcmp(bench->source->variant, "netd"),
		    "netd check: with a map, too: %s", bench->source->variant))
		goto cleanup;
	status = run_case(bench, &upload, DEVICE_UID, PEER_UID);
	truth = truth_of(bench, DEVICE_UID, false, false);
	found = measured_uid(&bench->measured, DEVICE_UID);
	tap_ok(!status && equal(&truth, found) && truth.tx_bytes >= 20000,
	       "netd check: what the hooks count is the truth");
	put_netd(map, DEVICE_UID,
		 (struct netd_value){70 + truth.rx_packets, 70000 + truth.rx_bytes,
				     80 + truth.tx_packets, 80000 + truth.tx_bytes});
	put_netd(map, 10777, (struct netd_value){1, 60, 0, 0});
	interval = (struct record_interval){0};
	bench->source->ops->sample(bench->source, &interval);
	for (size_t i = 0; i < interval.net.uid_count; i++) {
		const struct record_uid_net *row = &interval.net.uids[i];

		if (row->uid == DEVICE_UID)
			good = row->netd_present && row->netd.rx_bytes == found->rx_bytes &&
			       row->netd.tx_bytes == found->tx_bytes &&
			       row->netd.rx_packets == found->rx_packets &&
			       row->netd.tx_packets == found->tx_packets;
	}
	tap_ok(good, "netd check: the map's bytes of the uid are those of the hooks");
	tap_ok(interval.net.netd_present && interval.net.netd.rx_bytes == truth.rx_bytes + 60 &&
		       interval.net.netd.tx_bytes == truth.tx_bytes,
	       "netd check: of all uids, also of one that no hook saw: %lu",
	       interval.net.netd.rx_bytes);
	missing_list_free(&interval.missing);
	counter_list_free(&interval.lost);
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
	test_netd_check(bench, bpffs);
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

int main(int argc, char **argv)
{
	struct bench bench = {0};

	if (bench_up(&bench, "net losses")) {
		test_uid_map_full(&bench);
		test_flow_map_full(&bench);
		test_waiting_map_full(&bench);
		test_headers_unreadable(&bench);
		test_btf_file(&bench);
		test_netd(&bench);
		test_namespace_unreadable(&bench);
	}
	bench_down(&bench);
	return tap_done();
}

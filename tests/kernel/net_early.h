/* SPDX-License-Identifier: BSD-2-Clause */
/* What must hold around a run of the network source: sockets that are older than it, and the
 * cgroup root's attach lists. */
#pragma once
#include "kernel/net_measure.h"

/* ---- sockets that are older than the source ---- */
struct early {
	uid_t uid;
	const char *name;
	pid_t pids[2];
};

#define EARLY_SOCKETS 4

static inline void start_early(struct bench *bench, struct early early[EARLY_SOCKETS])
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
static inline void finish_early(struct bench *bench, struct early early[EARLY_SOCKETS],
				const char *label, bool wire)
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
	for (i = 0; i < 3 || (bench->pending && i < MAX_ROUNDS); i++) {
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
static inline void end_early(struct bench *bench, struct early early[EARLY_SOCKETS])
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

static inline void read_attached(const struct rig *rig, struct attached *attached)
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

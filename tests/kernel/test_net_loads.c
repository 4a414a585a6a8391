/* SPDX-License-Identifier: BSD-2-Clause */
/* Ways to send and to receive: each uid equals a cgroup_skb counter to the byte. */
/* Runs beside others (4 s) */
#include <netinet/udp.h>
#include <sys/sendfile.h>
#include "kernel/net_measure.h"

#ifndef MSG_ZEROCOPY
#define MSG_ZEROCOPY 0x4000000
#endif
#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/* ---- like QUIC ---- */
#define QUIC_PACKET   1200
#define QUIC_PACKETS  600
#define QUIC_BURST    10
#define QUIC_REQUESTS 3

/* A server that answers each request by bursts of full packets and waits for an acknowledgement of
 * every other one; where the client is does not matter, only what it says (connection id). */
static int quic_server(const void *arg, int ready)
{
	const struct traffic *traffic = arg;
	int fd = traffic_bound(traffic, SOCK_DGRAM, NULL, ready), request, sent, acknowledged;
	char packet[QUIC_PACKET] = {0}, answer[QUIC_PACKET];

	for (request = 0; fd >= 0 && request < QUIC_REQUESTS; request++) {
		struct sockaddr_storage client;
		socklen_t length = sizeof(client);

		if (recvfrom(fd, answer, sizeof(answer), 0, (void *)&client, &length) <= 0)
			return 1;
		for (sent = acknowledged = 0; sent < QUIC_PACKETS; sent++) {
			if (sendto(fd, packet, sizeof(packet), 0, (void *)&client, length) < 0)
				return 1;
			for (; sent - acknowledged * 2 >= QUIC_BURST; acknowledged++)
				if (recv(fd, answer, sizeof(answer), 0) <= 0)
					return 1;
		}
		for (; acknowledged < QUIC_PACKETS / 2; acknowledged++)
			if (recv(fd, answer, sizeof(answer), 0) <= 0)
				return 1;
	}
	return fd < 0;
}

/* The client has a connected socket, takes another one for each request (it moved to another
 * network), and leaves it to the kernel to put packets together (UDP_GRO). */
static int quic_client(const void *arg, int ready)
{
	const struct traffic *traffic = arg;
	char buffer[65536], acknowledgement[40] = {0}, hello[QUIC_PACKET] = {0};
	int request, one = 1;

	for (request = 0; request < QUIC_REQUESTS; request++) {
		struct sockaddr_storage to;
		socklen_t length =
			traffic_address(&to, traffic->family, traffic->address, traffic->port);
		int fd = socket(traffic->family, SOCK_DGRAM, 0);
		size_t received = 0, due = 0;

		traffic_timeout(fd, 20);
		setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
		if (connect(fd, (void *)&to, length) || send(fd, hello, sizeof(hello), 0) < 0)
			return 1;
		while (received < QUIC_PACKETS * QUIC_PACKET) {
			ssize_t got = recv(fd, buffer, sizeof(buffer), 0);

			if (got <= 0)
				return 1;
			received += (size_t)got;
			for (due += (size_t)got; due >= 2 * QUIC_PACKET; due -= 2 * QUIC_PACKET)
				if (send(fd, acknowledgement, sizeof(acknowledgement), 0) < 0)
					return 1;
		}
		close(fd);
	}
	return 0;
}

static int quic_out(const struct bench *bench, const struct net_case *net_case, uid_t device,
		    uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_PEER, peer, quic_server, RIG_DEVICE, device,
			    quic_client, traffic_of(bench, net_case, RIG_PEER4, RIG_PEER6));
}

/* ---- IPv6 extension headers ---- */
struct with_uid {
	struct traffic traffic;
	uid_t uid;
};

/* Hop-by-hop and destination options of 8 bytes each before every datagram; only root may. */
static int extended_sender(const void *arg, int ready)
{
	const struct with_uid *with = arg;
	const unsigned char padding[8] = {0, 0, 1, 4}; /* PadN */
	struct sockaddr_storage to;
	socklen_t length = traffic_address(&to, AF_INET6, RIG_PEER6, with->traffic.port);
	int fd = socket(AF_INET6, SOCK_DGRAM, 0), i;
	char data[400] = {0};

	if (setsockopt(fd, IPPROTO_IPV6, IPV6_HOPOPTS, padding, sizeof(padding)) ||
	    setsockopt(fd, IPPROTO_IPV6, IPV6_DSTOPTS, padding, sizeof(padding)))
		return 77;
	if (fchown(fd, with->uid, (gid_t)-1))
		return 1;
	for (i = 0; i < with->traffic.count; i++) {
		if (sendto(fd, data, with->traffic.up, 0, (void *)&to, length) < 0)
			return 1;
		if (i % 8 == 7)
			usleep(1000);
	}
	return 0;
}

static int extended(const struct bench *bench, const struct net_case *net_case, uid_t device,
		    uid_t peer)
{
	struct with_uid with = {traffic_of(bench, net_case, RIG_PEER4, RIG_PEER6), device};
	int ready = -1, status;
	pid_t receiver =
		rig_spawn(&bench->rig, RIG_PEER, peer, udp_receiver, &with.traffic, &ready);

	if (read(ready, &with.traffic.port, 2) != 2)
		return 1;
	close(ready);
	status = rig_wait(rig_spawn(&bench->rig, RIG_DEVICE, 0, extended_sender, &with, NULL));
	if (status)
		kill(receiver, SIGKILL);
	return rig_wait(receiver) && !status ? 1 : status;
}

/* ---- TCP without copies ---- */
static int source_file(uint64_t bytes)
{
	int fd = memfd_create("source", MFD_CLOEXEC);

	return fd < 0 || ftruncate(fd, (off_t)bytes) ? -1 : fd;
}

static int send_file(int fd, uint64_t bytes)
{
	int file = source_file(bytes);

	while (bytes) {
		ssize_t done = sendfile(fd, file, NULL, bytes);

		if (done <= 0)
			return -1;
		bytes -= (uint64_t)done;
	}
	return close(file);
}

static int send_spliced(int fd, uint64_t bytes)
{
	int file = source_file(bytes), ends[2];

	if (pipe(ends))
		return -1;
	while (bytes) {
		ssize_t filled = splice(file, NULL, ends[1], NULL, 65536, 0);

		if (filled <= 0)
			return -1;
		bytes -= (uint64_t)filled;
		while (filled > 0) {
			ssize_t done =
				splice(ends[0], NULL, fd, NULL, (size_t)filled, SPLICE_F_MORE);

			if (done <= 0)
				return -1;
			filled -= done;
		}
	}
	return 0;
}

static int send_without_copy(int fd, uint64_t bytes)
{
	static char buffer[65536];
	int one = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)))
		return 77;
	while (bytes) {
		size_t want = bytes < sizeof(buffer) ? bytes : sizeof(buffer);
		ssize_t done = send(fd, buffer, want, MSG_ZEROCOPY);
		char control[128];
		struct msghdr msg = {.msg_control = control, .msg_controllen = sizeof(control)};

		recvmsg(fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT);
		if (done < 0 && errno == ENOBUFS)
			continue;
		if (done <= 0)
			return -1;
		bytes -= (uint64_t)done;
	}
	return 0;
}

/* Into a pipe, and from there into nothing. */
static int receive_spliced(int fd, uint64_t bytes)
{
	int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC), ends[2];

	if (pipe(ends))
		return -1;
	while (bytes) {
		ssize_t got = splice(fd, NULL, ends[1], NULL, 65536, 0);

		if (got <= 0 || splice(ends[0], NULL, nothing, NULL, (size_t)got, 0) != got)
			return -1;
		bytes -= (uint64_t)got;
	}
	return 0;
}

typedef int (*mover)(int fd, uint64_t bytes);

static int move_client(const struct traffic *traffic, mover send_it)
{
	int fd = traffic_connect(traffic), err;

	if (fd < 0)
		return 1;
	err = send_it(fd, traffic->up);
	if (err)
		return err == 77 ? 77 : 1;
	return receive_spliced(fd, traffic->down) ? 1 : close(fd);
}

static int sendfile_client(const void *arg, int ready)
{
	return move_client(arg, send_file);
}

static int splice_client(const void *arg, int ready)
{
	return move_client(arg, send_spliced);
}

static int zerocopy_client(const void *arg, int ready)
{
	return move_client(arg, send_without_copy);
}

static int run_moved(const struct bench *bench, const struct net_case *net_case, uid_t device,
		     uid_t peer, rig_fn client)
{
	return traffic_pair(&bench->rig, RIG_PEER, peer, tcp_server, RIG_DEVICE, device, client,
			    traffic_of(bench, net_case, RIG_PEER4, RIG_PEER6));
}

static int run_sendfile(const struct bench *bench, const struct net_case *net_case, uid_t device,
			uid_t peer)
{
	return run_moved(bench, net_case, device, peer, sendfile_client);
}

static int run_splice(const struct bench *bench, const struct net_case *net_case, uid_t device,
		      uid_t peer)
{
	return run_moved(bench, net_case, device, peer, splice_client);
}

static int run_zerocopy(const struct bench *bench, const struct net_case *net_case, uid_t device,
			uid_t peer)
{
	return run_moved(bench, net_case, device, peer, zerocopy_client);
}

static const struct net_case cases[] = {
	{"like QUIC", quic_out, AF_INET},
	{"like QUIC, IPv6", quic_out, AF_INET6},
	{"IPv6 extension headers", extended, AF_INET6, 300, 0, 200},
	{"sendfile", run_sendfile, AF_INET, 3000000, 100000, 1},
	{"splice both ways", run_splice, AF_INET6, 3000000, 3000000, 1},
	{"MSG_ZEROCOPY", run_zerocopy, AF_INET, 3000000, 100000, 1},
};

int main(int argc, char **argv)
{
	static const enum net_variant variants[] = {NET_VARIANT_TP_BTF, NET_VARIANT_RAW_TP};
	struct bench bench = {0};
	size_t i, which;

	for (i = 0; i < 2 && bench_up(&bench, "net loads"); i++) {
		const struct net_options options = {.variant = variants[i]};
		int err = start(&bench, &options);

		tap_ok(!err, "opens as %s", bench.source->variant);
		for (which = 0; !err && which < sizeof(cases) / sizeof(cases[0]); which++) {
			uid_t uid = DEVICE_UID + 60 + (uid_t)which;
			uid_t peer = PEER_UID + 60 + (uid_t)which;
			int status = run_case(&bench, &cases[which], uid, peer);

			if (status == 77) {
				tap_skip(cases[which].name, "the socket option is refused here");
				continue;
			}
			tap_ok(!status, "%s: traffic", cases[which].name);
			check_uid(&bench, uid, cases[which].name);
			check_uid(&bench, peer, cases[which].name);
		}
		stop(&bench);
		bench_down(&bench);
	}
	return tap_done();
}

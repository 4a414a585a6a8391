/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients and servers for the network tests; each runs as a child of rig_spawn. */
#pragma once
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#include "kernel/net_rig.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

struct traffic {
	int family;
	const char *address; /* of the server */
	uint16_t port;       /* of the server, host order; 0: chosen, and told through ready */
	uint64_t up, down;   /* bytes of one connection; of one datagram: up */
	int count;           /* connections or datagrams */
	uint32_t pacing; /* bytes a second of a TCP client, sent by its timer; 0: as they come */
	bool server_closes;
	bool dual;                 /* an IPv6 server that also speaks IPv4 */
	uid_t accept_uid;          /* a server that root started becomes this one, then accepts */
	uint16_t source_port;      /* of a UDP sender; 0: any */
	const char *source;        /* who a UDP receiver connects to, or NULL */
	const char *device;        /* for multicast */
	const atomic_int *go;      /* start with the traffic when set */
	atomic_int *up_count;      /* counts those that are ready to go */
	const atomic_int *samples; /* counts read-outs */
};

static inline socklen_t traffic_address(struct sockaddr_storage *to, int family,
					const char *address, uint16_t port)
{
	struct sockaddr_in *in = (void *)to;
	struct sockaddr_in6 *in6 = (void *)to;

	memset(to, 0, sizeof(*to));
	to->ss_family = family;
	if (family == AF_INET) {
		in->sin_port = htons(port);
		if (address)
			inet_pton(AF_INET, address, &in->sin_addr);
		return sizeof(*in);
	}
	in6->sin6_port = htons(port);
	if (address)
		inet_pton(AF_INET6, address, &in6->sin6_addr);
	return sizeof(*in6);
}

static inline uint16_t traffic_port(int fd)
{
	struct sockaddr_storage own;
	socklen_t length = sizeof(own);

	getsockname(fd, (void *)&own, &length);
	return ntohs(((struct sockaddr_in *)&own)->sin_port); /* at the same place in IPv6 */
}

static inline void traffic_timeout(int fd, int seconds)
{
	struct timeval timeout = {.tv_sec = seconds};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
}

/* A bound socket whose port was told to the parent. */
static inline int traffic_bound(const struct traffic *traffic, int type, const char *address,
				int ready)
{
	struct sockaddr_storage own;
	int fd = socket(traffic->family, type, 0), one = 1, off = !traffic->dual;
	socklen_t length = traffic_address(&own, traffic->family, address, traffic->port);
	uint16_t port;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (traffic->family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	traffic_timeout(fd, 20);
	if (bind(fd, (void *)&own, length) || (type == SOCK_STREAM && listen(fd, 512)))
		return -1;
	port = traffic_port(fd);
	if (ready >= 0 && write(ready, &port, sizeof(port)) != sizeof(port))
		return -1;
	return fd;
}

static inline int traffic_move(int fd, uint64_t bytes, bool send_it)
{
	static char buffer[65536];

	while (bytes) {
		size_t want = bytes < sizeof(buffer) ? bytes : sizeof(buffer);
		ssize_t done =
			send_it ? send(fd, buffer, want, MSG_NOSIGNAL) : recv(fd, buffer, want, 0);

		if (done <= 0)
			return -1;
		bytes -= (uint64_t)done;
	}
	return 0;
}

static inline void traffic_wait(const struct traffic *traffic)
{
	if (traffic->up_count)
		atomic_fetch_add(traffic->up_count, 1);
	while (traffic->go && !atomic_load(traffic->go))
		usleep(2000);
}

static inline int tcp_server(const void *arg, int ready)
{
	const struct traffic *traffic = arg;
	int listener = traffic_bound(traffic, SOCK_STREAM, NULL, ready), i;
	char end;

	if (listener < 0)
		return 1;
	for (i = 0; i < traffic->count; i++) {
		int fd = accept(listener, NULL, NULL);

		traffic_timeout(fd, 20);
		if (fd < 0 || traffic_move(fd, traffic->up, false) ||
		    traffic_move(fd, traffic->down, true))
			return 1;
		if (!traffic->server_closes && recv(fd, &end, 1, 0) != 0)
			return 1;
		close(fd);
	}
	return 0;
}

/* The listener is root's, as with a daemon that drops its rights; the server speaks first, so that
 * nothing comes before the accept but the handshake. */
static inline int tcp_handed_over(const void *arg, int ready)
{
	const struct traffic *traffic = arg;
	int listener = traffic_bound(traffic, SOCK_STREAM, NULL, ready), i;
	char end;

	if (listener < 0 ||
	    setresuid(traffic->accept_uid, traffic->accept_uid, traffic->accept_uid))
		return 1;
	for (i = 0; i < traffic->count; i++) {
		int fd = accept(listener, NULL, NULL);

		traffic_timeout(fd, 20);
		if (fd < 0 || traffic_move(fd, traffic->down, true) ||
		    traffic_move(fd, traffic->up, false) || recv(fd, &end, 1, 0) != 0)
			return 1;
		close(fd);
	}
	return 0;
}

static inline int traffic_connect(const struct traffic *traffic);

static inline int tcp_listens_first(const void *arg, int ready)
{
	const struct traffic *traffic = arg;

	for (int i = 0; i < traffic->count; i++) {
		int fd = traffic_connect(traffic);

		if (fd < 0 || traffic_move(fd, traffic->down, false) ||
		    traffic_move(fd, traffic->up, true))
			return 1;
		close(fd);
	}
	return 0;
}

static inline int traffic_connect(const struct traffic *traffic)
{
	struct sockaddr_storage to;
	socklen_t length = traffic_address(&to, traffic->family, traffic->address, traffic->port);
	int fd = socket(traffic->family, SOCK_STREAM, 0);

	if (traffic->pacing)
		setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &traffic->pacing,
			   sizeof(traffic->pacing));
	traffic_timeout(fd, 20);
	if (connect(fd, (void *)&to, length)) {
		close(fd);
		return -1;
	}
	return fd;
}

static inline int tcp_client(const void *arg, int ready)
{
	const struct traffic *traffic = arg;
	char end;
	int i;

	for (i = 0; i < traffic->count; i++) {
		int fd = traffic_connect(traffic);

		if (fd < 0)
			return 1;
		if (i == 0)
			traffic_wait(traffic);
		if (traffic_move(fd, traffic->up, true) || traffic_move(fd, traffic->down, false))
			return 1;
		if (traffic->server_closes && recv(fd, &end, 1, 0) != 0)
			return 1;
		close(fd);
	}
	return 0;
}

/* Connections that the other side refuses. */
static inline int tcp_refused(const void *arg, int ready)
{
	const struct traffic *traffic = arg;
	int i, fd;

	for (i = 0; i < traffic->count; i++) {
		fd = traffic_connect(traffic);
		if (fd >= 0 || errno != ECONNREFUSED)
			return 1;
	}
	return 0;
}

/* Read a little, then reset the connection while the other side still sends. */
static inline int tcp_aborter(const void *arg, int ready)
{
	const struct traffic *traffic = arg;
	struct linger linger = {.l_onoff = 1};
	int i;

	for (i = 0; i < traffic->count; i++) {
		int fd = traffic_connect(traffic);

		if (fd < 0 || traffic_move(fd, traffic->down, false))
			return 1;
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
		close(fd);
	}
	return 0;
}

static inline int tcp_flooder(const void *arg, int ready)
{
	const struct traffic *traffic = arg;
	int listener = traffic_bound(traffic, SOCK_STREAM, NULL, ready), i;

	for (i = 0; i < traffic->count; i++) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			return 1;
		traffic_move(fd, 1ull << 40, true); /* until it is reset */
		close(fd);
	}
	return 0;
}

static inline int udp_echo_server(const void *arg, int ready)
{
	const struct traffic *traffic = arg;
	int fd = traffic_bound(traffic, SOCK_DGRAM, NULL, ready), i;
	static char buffer[65536];

	for (i = 0; i < traffic->count; i++) {
		struct sockaddr_storage from;
		socklen_t length = sizeof(from);
		ssize_t got = recvfrom(fd, buffer, sizeof(buffer), 0, (void *)&from, &length);

		if (got < 0 || sendto(fd, buffer, (size_t)got, 0, (void *)&from, length) != got)
			return 1;
	}
	return 0;
}

static inline int udp_echo_client(const void *arg, int ready)
{
	const struct traffic *traffic = arg;
	struct sockaddr_storage to;
	socklen_t length = traffic_address(&to, traffic->family, traffic->address, traffic->port);
	int fd = socket(traffic->family, SOCK_DGRAM, 0), i;
	static char buffer[65536];

	traffic_timeout(fd, 20);
	for (i = 0; i < traffic->count; i++)
		if (sendto(fd, buffer, traffic->up, 0, (void *)&to, length) < 0 ||
		    recv(fd, buffer, sizeof(buffer), 0) != (ssize_t)traffic->up)
			return 1;
	return 0;
}

/* Sends and never listens; up bytes a datagram, down of them a segment where not 0 (UDP GSO). */
static inline int udp_sender(const void *arg, int ready)
{
	const struct traffic *traffic = arg;
	struct sockaddr_storage to, own;
	socklen_t length = traffic_address(&to, traffic->family, traffic->address, traffic->port);
	int fd = socket(traffic->family, SOCK_DGRAM, 0), segment = (int)traffic->down, i;
	static char buffer[65536];

	if (traffic->source_port &&
	    bind(fd, (void *)&own,
		 traffic_address(&own, traffic->family, NULL, traffic->source_port)))
		return 1;
	if (segment && setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment)))
		return 77;
	if (traffic->device) {
		struct ip_mreqn group = {.imr_ifindex = (int)if_nametoindex(traffic->device)};

		setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &group, sizeof(group));
	}
	traffic_wait(traffic);
	for (i = 0; i < traffic->count; i++) {
		/* A closed port answers by ICMP, and that is an error of the next send. */
		if (sendto(fd, buffer, traffic->up, 0, (void *)&to, length) < 0 &&
		    errno != ECONNREFUSED)
			return 1;
		if (i % 8 == 7)
			usleep(1000);
	}
	return 0;
}

/* Receives and never sends: nothing but the socket itself says whose this flow is. */
static inline int udp_receiver(const void *arg, int ready)
{
	const struct traffic *traffic = arg;
	int fd = traffic_bound(traffic, SOCK_DGRAM, NULL, -1), big = 1 << 20, last;
	uint64_t bytes = 0, whole = traffic->up * (uint64_t)traffic->count;
	struct sockaddr_storage from;
	static char buffer[65536];
	uint16_t port;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &big, sizeof(big));
	if (traffic->device) {
		struct ip_mreqn group = {.imr_ifindex = (int)if_nametoindex(traffic->device)};

		inet_pton(AF_INET, traffic->address, &group.imr_multiaddr);
		if (setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof(group)))
			return 1;
	}
	if (traffic->source &&
	    connect(fd, (void *)&from,
		    traffic_address(&from, traffic->family, traffic->source, traffic->source_port)))
		return 1;
	port = traffic_port(fd);
	if (ready >= 0 && write(ready, &port, sizeof(port)) != sizeof(port))
		return 1;
	while (bytes < whole) {
		ssize_t got = recv(fd, buffer, sizeof(buffer), 0);

		if (got <= 0)
			return 1;
		bytes += (uint64_t)got;
	}
	/* Stay for a whole read-out: it must find who received. */
	for (last = traffic->samples ? atomic_load(traffic->samples) : 0;
	     traffic->samples && atomic_load(traffic->samples) - last < 2;)
		usleep(5000);
	return 0;
}

static inline int ping_client(const void *arg, int ready)
{
	const struct traffic *traffic = arg;
	bool ipv6 = traffic->family == AF_INET6;
	struct sockaddr_storage to;
	socklen_t length = traffic_address(&to, traffic->family, traffic->address, 0);
	int fd = socket(traffic->family, SOCK_DGRAM, ipv6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP), i;
	char echo[128] = {0}, reply[256];

	if (fd < 0)
		return 77;
	traffic_timeout(fd, 20);
	echo[0] = ipv6 ? (char)ICMP6_ECHO_REQUEST : ICMP_ECHO;
	for (i = 0; i < traffic->count; i++)
		if (sendto(fd, echo, sizeof(echo), 0, (void *)&to, length) < 0 ||
		    recv(fd, reply, sizeof(reply), 0) <= 0)
			return 1;
	return 0;
}

/* A server and a client in their places; 0 if both are content, 77 if one says it cannot. */
static inline int traffic_pair(const struct rig *rig, enum rig_place server_place, uid_t server_uid,
			       rig_fn server, enum rig_place client_place, uid_t client_uid,
			       rig_fn client, struct traffic traffic)
{
	int ready = -1, server_status, client_status;
	pid_t server_pid = rig_spawn(rig, server_place, server_uid, server, &traffic, &ready);
	pid_t client_pid;

	if (server_pid < 0 || read(ready, &traffic.port, sizeof(traffic.port)) != 2) {
		rig_wait(server_pid);
		return 1;
	}
	close(ready);
	client_pid = rig_spawn(rig, client_place, client_uid, client, &traffic, NULL);
	client_status = rig_wait(client_pid);
	if (client_status)
		kill(server_pid, SIGKILL);
	server_status = rig_wait(server_pid);
	return client_status ? client_status : server_status;
}

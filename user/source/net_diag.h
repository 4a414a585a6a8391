/* SPDX-License-Identifier: BSD-2-Clause */
/* Who owns which socket, and which addresses are local, asked of the kernel by NETLINK_SOCK_DIAG
 * and rtnetlink in every network namespace that can be entered. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Network byte order throughout; an IPv4 address is in word 0. */
struct net_diag_socket {
	uint32_t netns;
	uint8_t protocol; /* IPPROTO_TCP, IPPROTO_UDP */
	uint8_t state;    /* TCP_ESTABLISHED ... as in the kernel, for UDP too */
	bool ipv6, v6only;
	uint16_t local_port, remote_port;
	uint32_t local[4], remote[4];
	uint32_t uid;
	uint32_t inode; /* 0: no file (orphan, TIME_WAIT, not accepted yet), and uid is moot */
};

struct net_diag_address {
	uint32_t netns;
	bool ipv6;
	uint32_t address[4];
};

struct net_diag_namespace {
	uint32_t netns;
	int error; /* why it could not be read, or 0 */
};

struct net_diag {
	struct net_diag_socket *sockets; /* sorted by namespace, protocol, local port */
	size_t socket_count;
	struct net_diag_address *addresses;
	size_t address_count;
	struct net_diag_namespace *namespaces; /* those asked for, or all */
	size_t namespace_count;
};

struct net_diag_request {
	const uint32_t *namespaces; /* inode numbers; NULL: all that can be found */
	size_t namespace_count;
	bool tcp, udp;
};

/* Read the sockets and addresses of these namespaces. They are found through our own, then
 * /proc/PID/ns/net, then nsfs mounts; a thread of its own enters them one after the other and
 * ends, so that the caller never leaves its namespace and none is kept alive. Each answer is
 * waited for 2 s at most. 0, or -ENOMEM, -EAGAIN (no thread); what could not be read is said in
 * `namespaces`. Free with net_diag_free in either case. */
int net_diag_read(struct net_diag *diag, const struct net_diag_request *request);
void net_diag_free(struct net_diag *diag);

/* Read a part of one dump (netlink messages) into diag; what is malformed is skipped. For the unit
 * tests. 0 at its end (NLMSG_DONE), 1: more to come, or a negative errno. */
int net_diag_parse(struct net_diag *diag, uint32_t netns, uint8_t protocol, const void *data,
		   size_t length);
/* Sort, which a lookup needs; net_diag_read does it. */
void net_diag_index(struct net_diag *diag);

/* The namespace was read without an error. */
bool net_diag_has_namespace(const struct net_diag *diag, uint32_t netns);
/* The address is one of the namespace's own, one of its broadcasts, loopback or multicast. */
bool net_diag_is_local(const struct net_diag *diag, uint32_t netns, bool ipv6,
		       const uint32_t address[4]);

struct net_diag_query {
	uint32_t netns;
	bool ipv6;
	uint8_t protocol;
	uint16_t local_port, remote_port;
	uint32_t local[4], remote[4];
};

/* The socket that the kernel would hand such a packet to: the connected one before the one bound
 * to the address before the wildcard; for TCP a listener where there is no connection. NULL: none,
 * or only one whose owner is not known (TIME_WAIT). */
const struct net_diag_socket *net_diag_find(const struct net_diag *diag,
					    const struct net_diag_query *query);

/* Some socket of this uid would take such a packet, if not as the first one. */
bool net_diag_has_owner(const struct net_diag *diag, const struct net_diag_query *query,
			uint32_t uid);

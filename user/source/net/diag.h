/* SPDX-License-Identifier: BSD-2-Clause */
/* Who owns which socket, and which addresses are local, asked of the kernel by NETLINK_SOCK_DIAG
 * and rtnetlink in every network namespace that can be entered. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Network byte order throughout; an IPv4 address is in word 0. netns names a namespace as
 * include/abi/net.h does, or by its inode number (struct net_diag_request). The structs cross a
 * process border as they are: fixed width, padded by hand. */
struct net_diag_socket {
	uint64_t netns;
	uint8_t protocol; /* IPPROTO_TCP, IPPROTO_UDP, IPPROTO_UDPLITE */
	uint8_t state;    /* TCP_ESTABLISHED ... as in the kernel, for UDP too */
	uint8_t ipv6, v6only;
	uint16_t local_port, remote_port;
	uint32_t local[4], remote[4];
	uint32_t uid;
	uint32_t inode; /* 0: no file (orphan, TIME_WAIT, not accepted yet), and uid is moot */
};

/* Addresses that are the namespace's own: its local and broadcast routes, so with AnyIP whole
 * networks. */
struct net_diag_address {
	uint64_t netns;
	uint32_t address[4];
	uint8_t ipv6;
	uint8_t prefix; /* leading bits that count */
	uint8_t reserved[6];
};

struct net_diag_namespace {
	uint64_t netns;
	int32_t error; /* why it could not be read, or 0 */
	uint32_t reserved;
};

struct net_diag {
	struct net_diag_socket *sockets; /* sorted by namespace, protocol, local port */
	size_t socket_count;
	struct net_diag_address *addresses;
	size_t address_count;
	struct net_diag_namespace *namespaces; /* those asked for, or all */
	size_t namespace_count;
	void *mapping; /* the arrays lie in it; NULL: each is its own */
	size_t mapping_bytes;
};

#define NET_DIAG_MAX_NAMESPACES 1024

struct net_diag_request {
	const uint64_t *namespaces; /* NULL: all that can be found */
	size_t namespace_count;
	bool by_cookie; /* namespaces are cookies (net_diag_has_cookies), else inode numbers */
	bool tcp, udp, udplite;
};

/* The kernel tells the cookie of a namespace (e8b9eab99232, 5.14). */
bool net_diag_has_cookies(void);

/* Read the sockets and addresses of these namespaces. They are found through our own, then
 * /proc/PID/ns/net, then nsfs mounts; a thread of its own enters them one after the other and
 * ends, so that the caller never leaves its namespace and none is kept alive. Each answer is
 * waited for 2 s at most: not for the recorder's own thread, which asks through net_asker.h. 0, or
 * -ENOMEM, -EAGAIN (no thread); what could not be read is said in `namespaces`. Free with
 * net_diag_free in either case. */
int net_diag_read(struct net_diag *diag, const struct net_diag_request *request);
void net_diag_free(struct net_diag *diag);

/* Read a part of one dump (netlink messages) into diag; what is malformed is skipped. For the unit
 * tests. 0 at its end (NLMSG_DONE), 1: more to come, or a negative errno. */
int net_diag_parse(struct net_diag *diag, uint64_t netns, uint8_t protocol, const void *data,
		   size_t length);
/* Sort, which a lookup needs; net_diag_read does it. */
void net_diag_index(struct net_diag *diag);

/* Why the namespace could not be read, or 0. -ENOENT: it was not found. */
int net_diag_namespace_error(const struct net_diag *diag, uint64_t netns);
/* The namespace was read without an error. */
bool net_diag_has_namespace(const struct net_diag *diag, uint64_t netns);
/* The address is one of the namespace's own, one of its broadcasts, loopback or multicast. */
bool net_diag_is_local(const struct net_diag *diag, uint64_t netns, bool ipv6,
		       const uint32_t address[4]);

struct net_diag_query {
	uint64_t netns;
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

/* SPDX-License-Identifier: BSD-2-Clause */
/* Who gets a packet, by the sockets of a dump; and dumps that are torn. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "source/net/diag.h"
#include "source/net/diag_wire.h"

#define NETNS 4026531840u

struct dump {
	char data[8192];
	size_t length;
};

static void *append(struct dump *dump, unsigned short type, size_t payload)
{
	struct nlmsghdr *nlh = (void *)(dump->data + dump->length);

	memset(nlh, 0, NLMSG_SPACE(payload));
	nlh->nlmsg_type = type;
	nlh->nlmsg_len = (unsigned)NLMSG_LENGTH(payload);
	dump->length += NLMSG_SPACE(payload);
	return NLMSG_DATA(nlh);
}

static void append_socket(struct dump *dump, int family, uint8_t state, const char *local,
			  uint16_t local_port, const char *remote, uint16_t remote_port,
			  uint32_t uid, uint32_t inode, int v6only)
{
	struct inet_diag_msg *msg =
		append(dump, SOCK_DIAG_BY_FAMILY, sizeof(*msg) + (v6only >= 0 ? 8 : 0));

	msg->idiag_family = (uint8_t)family;
	msg->idiag_state = state;
	msg->id.idiag_sport = htons(local_port);
	msg->id.idiag_dport = htons(remote_port);
	inet_pton(family, local, msg->id.idiag_src);
	inet_pton(family, remote, msg->id.idiag_dst);
	msg->idiag_uid = uid;
	msg->idiag_inode = inode;
	if (v6only >= 0) {
		struct rtattr *attr = (void *)(msg + 1);

		attr->rta_type = INET_DIAG_SKV6ONLY;
		attr->rta_len = RTA_LENGTH(1);
		*(uint8_t *)RTA_DATA(attr) = (uint8_t)v6only;
	}
}

static struct net_diag_query query(int family, uint8_t protocol, const char *local,
				   uint16_t local_port, const char *remote, uint16_t remote_port)
{
	struct net_diag_query wanted = {.netns = NETNS,
					.ipv6 = family == AF_INET6,
					.protocol = protocol,
					.local_port = htons(local_port),
					.remote_port = htons(remote_port)};

	inet_pton(family, local, wanted.local);
	inet_pton(family, remote, wanted.remote);
	return wanted;
}

static long owner(const struct net_diag *diag, struct net_diag_query wanted)
{
	const struct net_diag_socket *sock = net_diag_find(diag, &wanted);

	return sock ? (long)sock->uid : -1;
}

Test(net_diag, connected_before_bound_before_wildcard)
{
	struct dump dump = {.length = 0};
	struct net_diag diag = {0};

	append_socket(&dump, AF_INET, TCP_CLOSE, "0.0.0.0", 53, "0.0.0.0", 0, 1, 11, -1);
	append_socket(&dump, AF_INET, TCP_CLOSE, "10.0.0.1", 53, "0.0.0.0", 0, 2, 12, -1);
	append_socket(&dump, AF_INET, TCP_ESTABLISHED, "10.0.0.1", 53, "10.0.0.9", 99, 3, 13, -1);
	cr_assert_eq(net_diag_parse(&diag, NETNS, IPPROTO_UDP, dump.data, dump.length), 1);
	net_diag_index(&diag);
	cr_assert_eq(owner(&diag, query(AF_INET, IPPROTO_UDP, "10.0.0.1", 53, "10.0.0.9", 99)), 3);
	cr_assert_eq(owner(&diag, query(AF_INET, IPPROTO_UDP, "10.0.0.1", 53, "10.0.0.9", 98)), 2);
	cr_assert_eq(owner(&diag, query(AF_INET, IPPROTO_UDP, "10.0.0.2", 53, "10.0.0.9", 99)), 1);
	cr_assert_eq(owner(&diag, query(AF_INET, IPPROTO_UDP, "10.0.0.1", 54, "10.0.0.9", 99)), -1);
	cr_assert_eq(owner(&diag, query(AF_INET, IPPROTO_TCP, "10.0.0.1", 53, "10.0.0.9", 99)), -1);
	struct net_diag_query wildcard =
		query(AF_INET, IPPROTO_UDP, "10.0.0.1", 53, "10.0.0.9", 99);

	wildcard.netns++;
	cr_assert_eq(owner(&diag, wildcard), -1, "another namespace has other sockets");
	net_diag_free(&diag);
}

Test(net_diag, ipv6_sockets_that_speak_ipv4)
{
	struct dump dump = {.length = 0};
	struct net_diag diag = {0};

	append_socket(&dump, AF_INET6, TCP_LISTEN, "::", 80, "::", 0, 1, 11, 0);
	append_socket(&dump, AF_INET6, TCP_LISTEN, "::", 81, "::", 0, 2, 12, 1);
	append_socket(&dump, AF_INET6, TCP_ESTABLISHED, "::ffff:10.0.0.1", 82, "::ffff:10.0.0.9",
		      99, 3, 13, -1);
	net_diag_parse(&diag, NETNS, IPPROTO_TCP, dump.data, dump.length);
	net_diag_index(&diag);
	cr_assert_eq(owner(&diag, query(AF_INET, IPPROTO_TCP, "10.0.0.1", 80, "10.0.0.9", 5)), 1);
	cr_assert_eq(owner(&diag, query(AF_INET6, IPPROTO_TCP, "fd00::1", 80, "fd00::9", 5)), 1);
	cr_assert_eq(owner(&diag, query(AF_INET, IPPROTO_TCP, "10.0.0.1", 81, "10.0.0.9", 5)), -1);
	cr_assert_eq(owner(&diag, query(AF_INET6, IPPROTO_TCP, "fd00::1", 81, "fd00::9", 5)), 2);
	cr_assert_eq(owner(&diag, query(AF_INET, IPPROTO_TCP, "10.0.0.1", 82, "10.0.0.9", 99)), 3);
	net_diag_free(&diag);
}

/* TIME_WAIT and what is not accepted yet carry no uid: reading 0 as root's would be a lie. */
Test(net_diag, sockets_without_a_file)
{
	struct dump dump = {.length = 0};
	struct net_diag diag = {0};

	append_socket(&dump, AF_INET, TCP_LISTEN, "0.0.0.0", 80, "0.0.0.0", 0, 7, 11, -1);
	append_socket(&dump, AF_INET, TCP_TIME_WAIT, "10.0.0.1", 80, "10.0.0.9", 1, 0, 0, -1);
	append_socket(&dump, AF_INET, TCP_ESTABLISHED, "10.0.0.1", 80, "10.0.0.9", 2, 0, 0, -1);
	net_diag_parse(&diag, NETNS, IPPROTO_TCP, dump.data, dump.length);
	net_diag_index(&diag);
	cr_assert_eq(owner(&diag, query(AF_INET, IPPROTO_TCP, "10.0.0.1", 80, "10.0.0.9", 1)), -1,
		     "TIME_WAIT takes the segment from the listener");
	cr_assert_eq(owner(&diag, query(AF_INET, IPPROTO_TCP, "10.0.0.1", 80, "10.0.0.9", 2)), 7,
		     "a connection that waits to be accepted is its listener's");
	cr_assert_eq(owner(&diag, query(AF_INET, IPPROTO_TCP, "10.0.0.1", 80, "10.0.0.9", 3)), 7);
	net_diag_free(&diag);
}

static void append_route(struct dump *dump, int family, unsigned char type, const char *address,
			 unsigned char prefix)
{
	size_t bytes = family == AF_INET6 ? 16 : 4;
	struct rtmsg *msg = append(dump, RTM_NEWROUTE, sizeof(*msg) + RTA_SPACE(bytes));
	struct rtattr *attr = (void *)(msg + 1);

	msg->rtm_family = (unsigned char)family;
	msg->rtm_type = type;
	msg->rtm_dst_len = prefix;
	attr->rta_type = RTA_DST;
	attr->rta_len = (unsigned short)RTA_LENGTH(bytes);
	inet_pton(family, address, RTA_DATA(attr));
}

static bool is_local(const struct net_diag *diag, int family, const char *text)
{
	uint32_t address[4] = {0};

	inet_pton(family, text, address);
	return net_diag_is_local(diag, NETNS, family == AF_INET6, address);
}

/* Local routes, so that a whole network can be local (AnyIP). */
Test(net_diag, local_addresses)
{
	struct dump dump = {.length = 0};
	struct net_diag diag = {0};
	uint32_t address[4] = {0};

	append_route(&dump, AF_INET, RTN_LOCAL, "10.0.0.1", 32);
	append_route(&dump, AF_INET, RTN_BROADCAST, "10.0.0.255", 32);
	append_route(&dump, AF_INET, RTN_LOCAL, "10.99.0.0", 17);
	append_route(&dump, AF_INET, RTN_UNICAST, "10.98.0.0", 16);
	append_route(&dump, AF_INET, RTN_LOCAL, "10.97.0.0", 200);
	append_route(&dump, AF_INET6, RTN_LOCAL, "fd00:0:0:1::", 64);
	cr_assert_eq(net_diag_parse(&diag, NETNS, 0, dump.data, dump.length), 1);
	cr_assert_eq(diag.address_count, 4);
	cr_assert(is_local(&diag, AF_INET, "10.0.0.1"));
	cr_assert(is_local(&diag, AF_INET, "10.0.0.255"));
	cr_assert_not(is_local(&diag, AF_INET, "10.0.0.2"));
	cr_assert(is_local(&diag, AF_INET, "10.99.127.4"));
	cr_assert_not(is_local(&diag, AF_INET, "10.99.128.4"));
	cr_assert_not(is_local(&diag, AF_INET, "10.98.0.1"));
	cr_assert(is_local(&diag, AF_INET, "239.1.2.3"));
	cr_assert(is_local(&diag, AF_INET6, "ff02::fb"));
	cr_assert(is_local(&diag, AF_INET6, "fd00:0:0:1::77"));
	cr_assert_not(is_local(&diag, AF_INET6, "fd00:0:0:2::77"));
	inet_pton(AF_INET, "10.0.0.1", address);
	cr_assert_not(net_diag_is_local(&diag, NETNS + 1, false, address));
	net_diag_free(&diag);
}

/* The blob that crosses a process border. */
Test(net_diag, packed)
{
	struct dump dump = {.length = 0};
	struct net_diag diag = {0}, copy;
	struct net_diag_namespace namespace = {.netns = NETNS};
	size_t bytes, cut, at;
	uint64_t *blob;

	append_socket(&dump, AF_INET, TCP_LISTEN, "0.0.0.0", 80, "0.0.0.0", 0, 7, 11, -1);
	append_route(&dump, AF_INET, RTN_LOCAL, "10.0.0.1", 32);
	net_diag_parse(&diag, NETNS, IPPROTO_TCP, dump.data, dump.length);
	net_diag_index(&diag);
	diag.namespaces = malloc(sizeof(namespace));
	diag.namespaces[0] = namespace;
	diag.namespace_count = 1;
	bytes = net_diag_packed_bytes(&diag);
	blob = calloc(1, bytes + 8);
	net_diag_pack(&diag, blob);
	cr_assert_eq(net_diag_unpack(&copy, blob, bytes), 0);
	cr_assert(net_diag_has_namespace(&copy, NETNS));
	cr_assert(is_local(&copy, AF_INET, "10.0.0.1"));
	cr_assert_eq(owner(&copy, query(AF_INET, IPPROTO_TCP, "10.0.0.1", 80, "10.0.0.9", 3)), 7);
	for (cut = 0; cut < bytes; cut++)
		cr_assert_eq(net_diag_unpack(&copy, blob, cut), -EBADMSG, "cut at %zu", cut);
	cr_assert_eq(net_diag_unpack(&copy, blob, bytes + 8), -EBADMSG, "too long");
	/* Any byte of the head changed: refused, and never read past the end (run with SAN=1). */
	for (at = 0; at < 16; at++) {
		((unsigned char *)blob)[at] ^= 0x81;
		cr_assert_eq(net_diag_unpack(&copy, blob, bytes), -EBADMSG, "byte %zu", at);
		((unsigned char *)blob)[at] ^= 0x81;
	}
	/* Any byte behind it: lookups give something else, and stay in it. */
	for (at = 16; at < bytes; at++) {
		((unsigned char *)blob)[at] ^= 0xff;
		cr_assert_eq(net_diag_unpack(&copy, blob, bytes), 0);
		is_local(&copy, AF_INET, "10.0.0.1");
		owner(&copy, query(AF_INET, IPPROTO_TCP, "10.0.0.1", 80, "10.0.0.9", 3));
		((unsigned char *)blob)[at] ^= 0xff;
	}
	free(blob);
	net_diag_free(&diag);
}

Test(net_diag, served)
{
	struct net_diag_request_wire *request = calloc(1, sizeof(*request));
	struct net_diag diag;
	int fd = -1;

	request->flags = NET_DIAG_WIRE_ALL | NET_DIAG_WIRE_UDP;
	cr_assert_eq(net_diag_serve(request, 4, &fd), -EBADMSG);
	request->namespace_count = NET_DIAG_MAX_NAMESPACES + 1;
	cr_assert_eq(net_diag_serve(request, sizeof(*request), &fd), -EBADMSG);
	request->namespace_count = 0;
	cr_assert_eq(net_diag_serve(request, sizeof(*request), &fd), -EBADMSG, "longer than said");
	cr_assert_eq(net_diag_serve(request, net_diag_request_bytes(0), &fd), 0);
	cr_assert_eq(net_diag_map(&diag, fd), 0);
	cr_assert_geq(diag.namespace_count, 1, "our own");
	net_diag_free(&diag);
	/* A file that could shrink under its reader. */
	fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	cr_assert_eq(ftruncate(fd, 4096), 0);
	cr_assert_eq(net_diag_map(&diag, fd), -EBADMSG);
	free(request);
}

/* Cut anywhere, and with any one byte changed: never past the end, never a crash (run it with
 * SAN=1). */
Test(net_diag, torn_dumps)
{
	struct dump dump = {.length = 0};
	size_t cut, at;

	append_socket(&dump, AF_INET6, TCP_LISTEN, "::", 80, "::", 0, 1, 11, 1);
	append_socket(&dump, AF_INET, TCP_ESTABLISHED, "10.0.0.1", 80, "10.0.0.9", 2, 3, 4, -1);
	append_route(&dump, AF_INET6, RTN_LOCAL, "fd00::1", 128);
	for (cut = 0; cut <= dump.length; cut++) {
		char *copy = malloc(cut ? cut : 1);
		struct net_diag diag = {0};

		memcpy(copy, dump.data, cut);
		cr_assert_eq(net_diag_parse(&diag, NETNS, IPPROTO_TCP, copy, cut), 1);
		net_diag_free(&diag);
		free(copy);
	}
	for (at = 0; at < dump.length; at++) {
		char *copy = malloc(dump.length);
		struct net_diag diag = {0};

		memcpy(copy, dump.data, dump.length);
		copy[at] = (char)(copy[at] ^ 0xff);
		net_diag_parse(&diag, NETNS, IPPROTO_TCP, copy, dump.length);
		net_diag_free(&diag);
		free(copy);
	}
}

Test(net_diag, errors_and_the_end)
{
	struct dump dump = {.length = 0};
	struct net_diag diag = {0};
	struct nlmsgerr *error = append(&dump, NLMSG_ERROR, sizeof(*error));

	error->error = -EPERM;
	cr_assert_eq(net_diag_parse(&diag, NETNS, IPPROTO_TCP, dump.data, dump.length), -EPERM);
	error->error = 12; /* an error is negative; this is nonsense */
	cr_assert_eq(net_diag_parse(&diag, NETNS, IPPROTO_TCP, dump.data, dump.length), -EBADMSG);
	dump.length = 0;
	append(&dump, NLMSG_DONE, 4);
	cr_assert_eq(net_diag_parse(&diag, NETNS, IPPROTO_TCP, dump.data, dump.length), 0);
	net_diag_free(&diag);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* A WireGuard device and its one peer, by generic netlink (linux/wireguard.h). */
#pragma once
#include <linux/genetlink.h>
#include <linux/wireguard.h>
#include "kernel/net_rig.h"

#define WIREGUARD_PORT 51820

struct wireguard_answer {
	struct nlmsghdr nlh;
	struct genlmsghdr genl;
	char data[8192];
};

/* The answer, or the acknowledgement; 0 or -errno. */
static inline int wireguard_ask(struct rig_message *msg, struct wireguard_answer *answer)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC), err = 0;
	struct timeval limit = {.tv_sec = 5};
	ssize_t got;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	msg->nlh.nlmsg_flags |= NLM_F_REQUEST;
	if (send(fd, msg, msg->nlh.nlmsg_len, 0) < 0)
		err = -errno;
	got = err ? 0 : recv(fd, answer, sizeof(*answer), 0);
	if (got < 0)
		err = -errno;
	else if (!err && answer->nlh.nlmsg_type == NLMSG_ERROR)
		err = ((struct nlmsgerr *)NLMSG_DATA(&answer->nlh))->error;
	close(fd);
	return err;
}

static inline struct rig_message wireguard_message(uint16_t family, uint8_t command)
{
	struct rig_message msg = {.nlh = {.nlmsg_len = NLMSG_HDRLEN, .nlmsg_type = family}};
	struct genlmsghdr *genl = rig_put(&msg, sizeof(*genl));

	*genl = (struct genlmsghdr){.cmd = command, .version = 1};
	return msg;
}

/* The attribute of an answer, or NULL. */
static inline const void *wireguard_attr(const struct wireguard_answer *answer, unsigned short type,
					 size_t size)
{
	const struct rtattr *attr = (const void *)answer->data;
	int left = (int)answer->nlh.nlmsg_len - (int)NLMSG_LENGTH(GENL_HDRLEN);

	for (; RTA_OK(attr, left); attr = RTA_NEXT(attr, left))
		if (attr->rta_type == type && RTA_PAYLOAD(attr) >= size)
			return RTA_DATA(attr);
	return NULL;
}

/* The number of the family, or -errno. */
static inline int wireguard_family(void)
{
	struct rig_message msg = wireguard_message(GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
	struct wireguard_answer answer;
	const void *id;
	uint16_t family;
	int err;

	rig_attr(&msg, CTRL_ATTR_FAMILY_NAME, WG_GENL_NAME, sizeof(WG_GENL_NAME));
	err = wireguard_ask(&msg, &answer);
	if (err)
		return err;
	id = wireguard_attr(&answer, CTRL_ATTR_FAMILY_ID, sizeof(family));
	if (!id)
		return -ENOENT;
	memcpy(&family, id, sizeof(family));
	return family;
}

/* A key of its own for a device of this namespace, and what the kernel makes the public one of it.
 */
static inline int wireguard_key(const char *name, uint8_t seed, uint8_t public_key[WG_KEY_LEN])
{
	int family = wireguard_family(), err;
	uint8_t key[WG_KEY_LEN];
	uint16_t port = WIREGUARD_PORT;
	struct wireguard_answer answer;
	struct rig_message msg;
	const void *found;

	if (family < 0)
		return family;
	memset(key, seed, sizeof(key));
	msg = wireguard_message((uint16_t)family, WG_CMD_SET_DEVICE);
	msg.nlh.nlmsg_flags = NLM_F_ACK;
	rig_attr(&msg, WGDEVICE_A_IFNAME, name, strlen(name) + 1);
	rig_attr(&msg, WGDEVICE_A_PRIVATE_KEY, key, sizeof(key));
	rig_attr(&msg, WGDEVICE_A_LISTEN_PORT, &port, sizeof(port));
	err = wireguard_ask(&msg, &answer);
	if (err)
		return err;
	msg = wireguard_message((uint16_t)family, WG_CMD_GET_DEVICE);
	msg.nlh.nlmsg_flags = NLM_F_DUMP;
	rig_attr(&msg, WGDEVICE_A_IFNAME, name, strlen(name) + 1);
	err = wireguard_ask(&msg, &answer);
	if (err)
		return err;
	found = wireguard_attr(&answer, WGDEVICE_A_PUBLIC_KEY, WG_KEY_LEN);
	if (!found)
		return -ENOKEY;
	memcpy(public_key, found, WG_KEY_LEN);
	return 0;
}

/* All addresses are behind the peer at this one (network order). */
static inline int wireguard_peer(const char *name, const uint8_t public_key[WG_KEY_LEN],
				 uint32_t address)
{
	static const uint16_t families[] = {AF_INET, AF_INET6};
	static const uint8_t anything[16], no_bits;
	struct sockaddr_in endpoint = {.sin_family = AF_INET,
				       .sin_port = htons(WIREGUARD_PORT),
				       .sin_addr.s_addr = address};
	int family = wireguard_family();
	struct rtattr *peers, *peer, *all, *one;
	struct wireguard_answer answer;
	struct rig_message msg;

	if (family < 0)
		return family;
	msg = wireguard_message((uint16_t)family, WG_CMD_SET_DEVICE);
	msg.nlh.nlmsg_flags = NLM_F_ACK;
	rig_attr(&msg, WGDEVICE_A_IFNAME, name, strlen(name) + 1);
	peers = rig_attr(&msg, WGDEVICE_A_PEERS | NLA_F_NESTED, NULL, 0);
	peer = rig_attr(&msg, NLA_F_NESTED, NULL, 0);
	rig_attr(&msg, WGPEER_A_PUBLIC_KEY, public_key, WG_KEY_LEN);
	rig_attr(&msg, WGPEER_A_ENDPOINT, &endpoint, sizeof(endpoint));
	all = rig_attr(&msg, WGPEER_A_ALLOWEDIPS | NLA_F_NESTED, NULL, 0);
	for (size_t i = 0; i < 2; i++) {
		one = rig_attr(&msg, NLA_F_NESTED, NULL, 0);
		rig_attr(&msg, WGALLOWEDIP_A_FAMILY, &families[i], sizeof(families[i]));
		rig_attr(&msg, WGALLOWEDIP_A_IPADDR, anything, families[i] == AF_INET ? 4 : 16);
		rig_attr(&msg, WGALLOWEDIP_A_CIDR_MASK, &no_bits, sizeof(no_bits));
		rig_end(&msg, one);
	}
	rig_end(&msg, all);
	rig_end(&msg, peer);
	rig_end(&msg, peers);
	return wireguard_ask(&msg, &answer);
}

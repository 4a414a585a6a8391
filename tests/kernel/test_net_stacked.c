/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices that stand on other devices: VLAN, bond, tunnels of the kernel's and of a VPN app. A
 * packet passes both tracepoints once for each of the two; each uid equals a cgroup_skb counter to
 * the byte all the same, and what a tunnel of the kernel's carries besides is in the kernel's row.
 */
/* Runs beside others (11 s) */
#include <linux/if_tun.h>
#include <poll.h>
#include <sys/ioctl.h>
#include "kernel/net_measure.h"
#include "kernel/net_team.h"
#include "kernel/net_wireguard.h"

#ifndef IFLA_BOND_MODE
#define IFLA_BOND_MODE 1
#endif
#define VLAN_ID  7
#define BACKUP   1 /* BOND_MODE_ACTIVEBACKUP */
#define NEAR4    "10.88.1.1"
#define FAR4     "10.88.1.2"
#define NEAR6    "fd88:1::1"
#define FAR6     "fd88:1::2"
#define VPN_PORT 4800
#define MTU      1400
#define SMALL    700 /* bytes of a datagram that fits */

/* ---- devices ---- */
struct ends {
	uint32_t link, near, far; /* index of the lower device; addresses, in network order */
};

typedef void (*fill_fn)(struct rig_message *msg, const struct ends *ends);

static void fill_vlan(struct rig_message *msg, const struct ends *ends)
{
	uint16_t id = VLAN_ID;

	rig_attr(msg, IFLA_VLAN_ID, &id, sizeof(id));
}

static void fill_bond(struct rig_message *msg, const struct ends *ends)
{
	uint8_t mode = BACKUP;

	rig_attr(msg, IFLA_BOND_MODE, &mode, sizeof(mode));
}

static void fill_ipip(struct rig_message *msg, const struct ends *ends)
{
	rig_attr(msg, 2 /* IFLA_IPTUN_LOCAL */, &ends->near, 4);
	rig_attr(msg, 3 /* IFLA_IPTUN_REMOTE */, &ends->far, 4);
}

static void fill_vxlan(struct rig_message *msg, const struct ends *ends)
{
	uint32_t id = 77;
	uint16_t port = htons(4789);

	rig_attr(msg, IFLA_VXLAN_ID, &id, sizeof(id));
	rig_attr(msg, IFLA_VXLAN_LOCAL, &ends->near, 4);
	rig_attr(msg, IFLA_VXLAN_GROUP, &ends->far, 4);
	rig_attr(msg, IFLA_VXLAN_PORT, &port, sizeof(port));
}

/* Its keys and its peer come later, by a protocol of its own. */
static void fill_wireguard(struct rig_message *msg, const struct ends *ends)
{
}

/* How it shares packets out is set later, by a protocol of its own. */
static void fill_team(struct rig_message *msg, const struct ends *ends)
{
}

static const struct stacked {
	const char *name, *kind;
	fill_fn fill;
	bool on_link;     /* names its lower device */
	bool alone;       /* at one end: the other has the plain link */
	bool keys;        /* both ends need each other's */
	bool mode;        /* says how it shares packets out */
	bool only_ipv4;   /* carries nothing else */
	uint32_t outside; /* bytes that a tunnel puts around each packet; 0: it is none */
} stacks[] = {
	{"VLAN", "vlan", fill_vlan, .on_link = true},
	{"bond", "bond", fill_bond, .alone = true},
	{"team", "team", fill_team, .alone = true, .mode = true},
	{"IPIP", "ipip", fill_ipip, .only_ipv4 = true, .outside = 20},
	{"VXLAN", "vxlan", fill_vxlan, .outside = 50},
	/* IPv4, UDP, its header and tag, and 728 bytes are filled up to a multiple of 16. */
	{"WireGuard", "wireguard", fill_wireguard, .keys = true, .outside = 20 + 8 + 32 + 8},
};

/* "st0" in the namespace that the caller is in. */
static int make_device(const struct stacked *stack, const struct ends *ends)
{
	struct rig_message msg = {.nlh = {.nlmsg_len = NLMSG_HDRLEN,
					  .nlmsg_type = RTM_NEWLINK,
					  .nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL}};
	struct rtattr *info, *data;
	uint32_t mtu = MTU;

	rig_put(&msg, sizeof(struct ifinfomsg));
	rig_attr(&msg, IFLA_IFNAME, "st0", 4);
	rig_attr(&msg, IFLA_MTU, &mtu, sizeof(mtu));
	if (stack->on_link)
		rig_attr(&msg, IFLA_LINK, &ends->link, sizeof(ends->link));
	info = rig_attr(&msg, IFLA_LINKINFO, NULL, 0);
	rig_attr(&msg, IFLA_INFO_KIND, stack->kind, strlen(stack->kind));
	data = rig_attr(&msg, IFLA_INFO_DATA, NULL, 0);
	stack->fill(&msg, ends);
	rig_end(&msg, data);
	rig_end(&msg, info);
	return rig_send(&msg);
}

static int set_mtu(const char *name)
{
	struct rig_message msg = {.nlh = {.nlmsg_len = NLMSG_HDRLEN, .nlmsg_type = RTM_NEWLINK}};
	struct ifinfomsg *info = rig_put(&msg, sizeof(*info));
	uint32_t mtu = MTU;

	info->ifi_index = (int)if_nametoindex(name);
	rig_attr(&msg, IFLA_MTU, &mtu, sizeof(mtu));
	return rig_send(&msg);
}

static void remove_device(const char *name)
{
	struct rig_message msg = {.nlh = {.nlmsg_len = NLMSG_HDRLEN, .nlmsg_type = RTM_DELLINK}};
	struct ifinfomsg *info = rig_put(&msg, sizeof(*info));

	info->ifi_index = (int)if_nametoindex(name);
	if (info->ifi_index)
		rig_send(&msg);
}

static int name_end(const char *device, bool far)
{
	return rig_address(device, far ? FAR4 : NEAR4, 24) |
	       rig_address(device, far ? FAR6 : NEAR6, 64) | rig_link_up(device);
}

/* Both ends; a bond or a team gets a link of its own, because the rig's must not go down. */
static int stand(const struct bench *bench, const struct stacked *stack)
{
	struct ends near = {0}, far;
	int err;

	inet_pton(AF_INET, RIG_DEVICE4, &near.near);
	inet_pton(AF_INET, RIG_PEER4, &near.far);
	far = (struct ends){.near = near.far, .far = near.near};
	setns(bench->rig.ns[RIG_DEVICE], CLONE_NEWNET);
	near.link = if_nametoindex("wl0");
	err = make_device(stack, &near);
	if (!err && stack->mode)
		err = team_mode(if_nametoindex("st0"), "roundrobin");
	if (!err && stack->alone) {
		err = rig_veth("bd0", "bd1", bench->rig.ns[RIG_PEER]);
		if (!err)
			err = rig_enslave("bd0", "st0");
		if (!err)
			err = rig_link_up("bd0");
	}
	if (!err)
		err = name_end("st0", false);
	setns(bench->rig.ns[RIG_PEER], CLONE_NEWNET);
	far.link = if_nametoindex("wl1");
	if (!err)
		err = stack->alone ? set_mtu("bd1") : make_device(stack, &far);
	if (!err)
		err = name_end(stack->alone ? "bd1" : "st0", true);
	setns(bench->rig.home, CLONE_NEWNET);
	return err;
}

/* Each end is told of the other. */
static int exchange_keys(const struct bench *bench)
{
	static const enum rig_place places[] = {RIG_DEVICE, RIG_PEER};
	static const char *const addresses[] = {RIG_DEVICE4, RIG_PEER4};
	uint8_t keys[2][WG_KEY_LEN];
	uint32_t other;
	int err = 0;

	for (uint8_t i = 0; i < 2 && !err; i++) {
		setns(bench->rig.ns[places[i]], CLONE_NEWNET);
		err = wireguard_key("st0", i + 1, keys[i]);
	}
	for (int i = 0; i < 2 && !err; i++) {
		setns(bench->rig.ns[places[i]], CLONE_NEWNET);
		inet_pton(AF_INET, addresses[!i], &other);
		err = wireguard_peer("st0", keys[!i], other);
	}
	setns(bench->rig.home, CLONE_NEWNET);
	return err;
}

static void fall(const struct bench *bench)
{
	static const enum rig_place places[] = {RIG_DEVICE, RIG_PEER};

	for (size_t i = 0; i < 2; i++) {
		setns(bench->rig.ns[places[i]], CLONE_NEWNET);
		remove_device("st0");
		remove_device("bd0");
	}
	setns(bench->rig.home, CLONE_NEWNET);
}

/* ---- traffic over them ---- */
static int stacked_tcp(const struct bench *bench, const struct net_case *net_case, uid_t device,
		       uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_PEER, peer, tcp_server, RIG_DEVICE, device, tcp_client,
			    traffic_of(bench, net_case, FAR4, FAR6));
}

static int stacked_udp(const struct bench *bench, const struct net_case *net_case, uid_t device,
		       uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_PEER, peer, udp_echo_server, RIG_DEVICE, device,
			    udp_echo_client, traffic_of(bench, net_case, FAR4, FAR6));
}

/* Its socket is for what comes by that device alone. */
static int bound_client(const void *arg, int ready)
{
	const struct traffic *traffic = arg;
	struct sockaddr_storage to;
	socklen_t length = traffic_address(&to, traffic->family, traffic->address, traffic->port);
	int fd = socket(traffic->family, SOCK_DGRAM, 0);
	char buffer[SMALL] = {0};

	traffic_timeout(fd, 20);
	if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "st0", 4))
		return 1;
	for (int i = 0; i < traffic->count; i++)
		if (sendto(fd, buffer, traffic->up, 0, (void *)&to, length) < 0 ||
		    recv(fd, buffer, sizeof(buffer), 0) != (ssize_t)traffic->up)
			return 1;
	return 0;
}

static int stacked_bound(const struct bench *bench, const struct net_case *net_case, uid_t device,
			 uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_PEER, peer, udp_echo_server, RIG_DEVICE, device,
			    bound_client, traffic_of(bench, net_case, FAR4, FAR6));
}

/* The other end is its kernel. */
static int stacked_ping(const struct bench *bench, const struct net_case *net_case, uid_t device,
			uid_t peer)
{
	struct traffic traffic = traffic_of(bench, net_case, FAR4, FAR6);

	return rig_wait(rig_spawn(&bench->rig, RIG_DEVICE, device, ping_client, &traffic, NULL));
}

/* In parts, and from an ICMP socket, a datagram has its checksum before it comes to the device. */
static const struct net_case cases[] = {
	{"TCP", stacked_tcp, AF_INET, 300000, 300000, 1},
	{"TCP, IPv6", stacked_tcp, AF_INET6, 300000, 300000, 1},
	{"UDP", stacked_udp, AF_INET, SMALL, 0, 200},
	{"UDP in parts", stacked_udp, AF_INET, 3000, 0, 50},
	{"UDP in parts, IPv6", stacked_udp, AF_INET6, 3000, 0, 50},
	{"ICMP socket", stacked_ping, AF_INET, 0, 0, 50},
	{"UDP of a socket bound to the device", stacked_bound, AF_INET, 300, 0, 100},
};

/* Each small datagram, of both ends, has passed outside as well. */
static void check_outside(struct bench *bench, const struct net_case *net_case, const char *name,
			  uint32_t around, const struct record_bytes *before)
{
	const struct record_bytes *now = &bench->measured.kernel;
	uint64_t most = 2 * (uint64_t)scaled(bench, net_case).count * (SMALL + 28 + around),
		 sent = now->tx_bytes - before->tx_bytes,
		 received = now->rx_bytes - before->rx_bytes;

	tap_ok(sent >= most && sent < most + 10000 && received >= most && received < most + 10000,
	       "%s: outside it is the kernel's (tx %lu, rx %lu of %lu)", name, sent, received,
	       most);
}

static void run_cases(struct bench *bench, const char *what, bool only_ipv4, uint32_t outside,
		      uid_t uid)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++, uid++) {
		uid_t peer = uid - DEVICE_UID + PEER_UID;
		struct record_bytes before = bench->measured.kernel;
		char name[64];

		if (only_ipv4 && cases[i].family == AF_INET6)
			continue;
		snprintf(name, sizeof(name), "%s: %s", what, cases[i].name);
		tap_ok(!run_case(bench, &cases[i], uid, peer), "%s: traffic", name);
		if (outside && cases[i].up == SMALL)
			check_outside(bench, &cases[i], name, outside, &before);
		check_uid(bench, uid, name);
		if (cases[i].run != stacked_ping)
			check_uid(bench, peer, name);
	}
}

/* Whoever has no device of that kind says so by this error, and by no other. */
static void test_stack(struct bench *bench, const struct stacked *stack, uid_t uid)
{
	int err = stand(bench, stack), lock;
	char why[96];

	if (!err && stack->keys)
		err = exchange_keys(bench);
	if (err == -EOPNOTSUPP) {
		snprintf(why, sizeof(why), "RTM_NEWLINK of kind %s: %s", stack->kind,
			 strerror(-err));
		tap_skip(stack->name, why);
	} else if (tap_ok(!err, "%s: stands (%d)", stack->name, err)) {
		lock = bench_lock();
		drain(bench);
		run_cases(bench, stack->name, stack->only_ipv4, stack->outside, uid);
		bench_unlock(lock);
	}
	fall(bench);
}

/* ---- a VPN app: a device whose packets a process carries in datagrams of its own ---- */
struct vpn {
	int tun;
	uint32_t own, other; /* network order */
};

static int open_tun(void)
{
	struct ifreq request = {.ifr_name = "st0", .ifr_flags = IFF_TUN | IFF_NO_PI};
	int fd = open("/dev/net/tun", O_RDWR), err = 0;

	if (fd < 0 || ioctl(fd, TUNSETIFF, &request))
		err = -errno;
	if (!err)
		err = set_mtu("st0");
	if (!err)
		return fd;
	if (fd >= 0)
		close(fd);
	return err;
}

static int carry(const void *arg, int ready)
{
	const struct vpn *vpn = arg;
	struct sockaddr_in own = {.sin_family = AF_INET,
				  .sin_port = htons(VPN_PORT),
				  .sin_addr.s_addr = vpn->own},
			   other = own;
	int sock = socket(AF_INET, SOCK_DGRAM, 0), big = 4 << 20;
	struct pollfd wait[] = {{.fd = vpn->tun, .events = POLLIN}, {.fd = sock, .events = POLLIN}};
	static char packet[65536];
	uint16_t port = VPN_PORT;

	other.sin_addr.s_addr = vpn->other;
	setsockopt(sock, SOL_SOCKET, SO_RCVBUF, &big, sizeof(big));
	if (bind(sock, (void *)&own, sizeof(own)) || connect(sock, (void *)&other, sizeof(other)) ||
	    write(ready, &port, 2) != 2)
		return 1;
	for (;;) {
		ssize_t got;

		poll(wait, 2, -1);
		if (wait[0].revents) {
			got = read(vpn->tun, packet, sizeof(packet));
			if (got > 0 && send(sock, packet, (size_t)got, 0) < 0 &&
			    errno != ECONNREFUSED)
				return 1;
		}
		if (wait[1].revents) {
			got = recv(sock, packet, sizeof(packet), 0);
			if (got > 0 && write(vpn->tun, packet, (size_t)got) < 0 && errno != EINVAL)
				return 1;
		}
	}
}

static void test_vpn(struct bench *bench, uid_t uid)
{
	static const enum rig_place places[] = {RIG_DEVICE, RIG_PEER};
	static const char *const addresses[] = {RIG_DEVICE4, RIG_PEER4};
	struct vpn vpn[2] = {{.tun = -1}, {.tun = -1}};
	uid_t carriers[] = {uid + 10, uid + 10 - DEVICE_UID + PEER_UID};
	pid_t pids[2] = {0};
	int err = 0;

	for (int i = 0; i < 2 && !err; i++) {
		int ready = -1;
		uint16_t port;

		inet_pton(AF_INET, addresses[i], &vpn[i].own);
		inet_pton(AF_INET, addresses[!i], &vpn[i].other);
		setns(bench->rig.ns[places[i]], CLONE_NEWNET);
		vpn[i].tun = open_tun();
		err = vpn[i].tun < 0 ? vpn[i].tun : name_end("st0", i);
		setns(bench->rig.home, CLONE_NEWNET);
		if (err)
			break;
		pids[i] = rig_spawn(&bench->rig, places[i], carriers[i], carry, &vpn[i], &ready);
		err = read(ready, &port, 2) == 2 ? 0 : -EPIPE;
		close(ready);
	}
	if (err == -ENOENT || err == -ENODEV)
		tap_skip("VPN app", "this kernel has no /dev/net/tun");
	else if (tap_ok(!err, "VPN app: stands (%d)", err)) {
		run_cases(bench, "VPN app: its user", false, 0, uid);
		check_uid(bench, carriers[0], "VPN app: what it sends and receives itself");
		check_uid(bench, carriers[1], "VPN app: the other end");
	}
	for (int i = 0; i < 2; i++) {
		if (pids[i] > 0) {
			kill(pids[i], SIGKILL);
			rig_wait(pids[i]);
		}
		if (vpn[i].tun >= 0)
			close(vpn[i].tun);
	}
}

static void run_loads(struct bench *bench)
{
	for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++)
		test_stack(bench, &stacks[i], DEVICE_UID + 200 + (uid_t)i * 10);
	test_vpn(bench, DEVICE_UID + 300);
}

int main(int argc, char **argv)
{
	return run_with_twins("net stacked", run_loads);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* What the network tests stand on: namespaces joined by veth (by rtnetlink alone, so that a guest
 * without iproute2 can run them), and children in a namespace, a cgroup and a uid of their own. */
#pragma once
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- rtnetlink ---- */
struct rig_message {
	struct nlmsghdr nlh;
	char data[1024];
};

static inline void *rig_put(struct rig_message *msg, size_t size)
{
	void *at = (char *)msg + NLMSG_ALIGN(msg->nlh.nlmsg_len);

	memset(at, 0, size);
	msg->nlh.nlmsg_len = NLMSG_ALIGN(msg->nlh.nlmsg_len) + size;
	return at;
}

static inline struct rtattr *rig_attr(struct rig_message *msg, unsigned short type,
				      const void *data, size_t size)
{
	struct rtattr *attr = rig_put(msg, RTA_LENGTH(0));

	attr->rta_type = type;
	attr->rta_len = RTA_LENGTH(size);
	if (size)
		memcpy(rig_put(msg, size), data, size);
	return attr;
}

/* Close a nested attribute that was begun with an empty rig_attr. */
static inline void rig_end(struct rig_message *msg, struct rtattr *attr)
{
	attr->rta_len = (char *)msg + msg->nlh.nlmsg_len - (char *)attr;
}

static inline int rig_send(struct rig_message *msg)
{
	struct {
		struct nlmsghdr nlh;
		struct nlmsgerr error;
		char rest[1024];
	} answer;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), err = 0;

	if (fd < 0)
		return -errno;
	msg->nlh.nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	if (send(fd, msg, msg->nlh.nlmsg_len, 0) < 0 || recv(fd, &answer, sizeof(answer), 0) < 0)
		err = -errno;
	close(fd);
	return err ? err : answer.error.error;
}

static inline int rig_link_up(const char *name)
{
	struct rig_message msg = {.nlh = {.nlmsg_len = NLMSG_HDRLEN, .nlmsg_type = RTM_NEWLINK}};
	struct ifinfomsg *info = rig_put(&msg, sizeof(*info));

	info->ifi_index = (int)if_nametoindex(name);
	info->ifi_flags = info->ifi_change = IFF_UP;
	return rig_send(&msg);
}

/* name in this namespace, peer in that of the descriptor. */
static inline int rig_veth(const char *name, const char *peer, int peer_ns)
{
	struct rig_message msg = {.nlh = {.nlmsg_len = NLMSG_HDRLEN,
					  .nlmsg_type = RTM_NEWLINK,
					  .nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL}};
	struct rtattr *info, *data, *other;

	rig_put(&msg, sizeof(struct ifinfomsg));
	rig_attr(&msg, IFLA_IFNAME, name, strlen(name) + 1);
	info = rig_attr(&msg, IFLA_LINKINFO, NULL, 0);
	rig_attr(&msg, IFLA_INFO_KIND, "veth", 5);
	data = rig_attr(&msg, IFLA_INFO_DATA, NULL, 0);
	other = rig_attr(&msg, VETH_INFO_PEER, NULL, 0);
	rig_put(&msg, sizeof(struct ifinfomsg));
	rig_attr(&msg, IFLA_IFNAME, peer, strlen(peer) + 1);
	rig_attr(&msg, IFLA_NET_NS_FD, &peer_ns, sizeof(peer_ns));
	rig_end(&msg, other);
	rig_end(&msg, data);
	rig_end(&msg, info);
	return rig_send(&msg);
}

static inline int rig_bridge(const char *name)
{
	struct rig_message msg = {.nlh = {.nlmsg_len = NLMSG_HDRLEN,
					  .nlmsg_type = RTM_NEWLINK,
					  .nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL}};
	struct rtattr *info;

	rig_put(&msg, sizeof(struct ifinfomsg));
	rig_attr(&msg, IFLA_IFNAME, name, strlen(name) + 1);
	info = rig_attr(&msg, IFLA_LINKINFO, NULL, 0);
	rig_attr(&msg, IFLA_INFO_KIND, "bridge", 7);
	rig_end(&msg, info);
	return rig_send(&msg);
}

static inline int rig_enslave(const char *name, const char *master)
{
	struct rig_message msg = {.nlh = {.nlmsg_len = NLMSG_HDRLEN, .nlmsg_type = RTM_NEWLINK}};
	struct ifinfomsg *info = rig_put(&msg, sizeof(*info));
	int index = (int)if_nametoindex(master);

	info->ifi_index = (int)if_nametoindex(name);
	rig_attr(&msg, IFLA_MASTER, &index, sizeof(index));
	return rig_send(&msg);
}

static inline int rig_address(const char *name, const char *address, unsigned char prefix)
{
	struct rig_message msg = {.nlh = {.nlmsg_len = NLMSG_HDRLEN,
					  .nlmsg_type = RTM_NEWADDR,
					  .nlmsg_flags = NLM_F_CREATE | NLM_F_REPLACE}};
	struct ifaddrmsg *info = rig_put(&msg, sizeof(*info));
	bool ipv6 = strchr(address, ':');
	unsigned char bytes[16];

	info->ifa_family = ipv6 ? AF_INET6 : AF_INET;
	info->ifa_prefixlen = prefix;
	info->ifa_flags = ipv6 ? IFA_F_NODAD : 0;
	info->ifa_index = if_nametoindex(name);
	inet_pton(info->ifa_family, address, bytes);
	rig_attr(&msg, IFA_LOCAL, bytes, ipv6 ? 16 : 4);
	rig_attr(&msg, IFA_ADDRESS, bytes, ipv6 ? 16 : 4);
	return rig_send(&msg);
}

/* Where the frames for an address go, whatever its owner answers; mac NULL: as its owner answers.
 */
static inline int rig_neighbour(const char *name, const char *address, const void *mac)
{
	struct rig_message msg = {.nlh = {.nlmsg_len = NLMSG_HDRLEN,
					  .nlmsg_type = mac ? RTM_NEWNEIGH : RTM_DELNEIGH,
					  .nlmsg_flags = mac ? NLM_F_CREATE | NLM_F_REPLACE : 0}};
	struct ndmsg *info = rig_put(&msg, sizeof(*info));
	bool ipv6 = strchr(address, ':');
	unsigned char bytes[16];

	info->ndm_family = ipv6 ? AF_INET6 : AF_INET;
	info->ndm_ifindex = (int)if_nametoindex(name);
	info->ndm_state = NUD_PERMANENT;
	inet_pton(info->ndm_family, address, bytes);
	rig_attr(&msg, NDA_DST, bytes, ipv6 ? 16 : 4);
	if (mac)
		rig_attr(&msg, NDA_LLADDR, mac, 6);
	return rig_send(&msg);
}

/* The default route of a family. */
static inline int rig_route(const char *gateway)
{
	struct rig_message msg = {.nlh = {.nlmsg_len = NLMSG_HDRLEN,
					  .nlmsg_type = RTM_NEWROUTE,
					  .nlmsg_flags = NLM_F_CREATE | NLM_F_REPLACE}};
	struct rtmsg *info = rig_put(&msg, sizeof(*info));
	bool ipv6 = strchr(gateway, ':');
	unsigned char bytes[16];

	info->rtm_family = ipv6 ? AF_INET6 : AF_INET;
	info->rtm_table = RT_TABLE_MAIN;
	info->rtm_protocol = RTPROT_STATIC;
	info->rtm_scope = RT_SCOPE_UNIVERSE;
	info->rtm_type = RTN_UNICAST;
	inet_pton(info->rtm_family, gateway, bytes);
	rig_attr(&msg, RTA_GATEWAY, bytes, ipv6 ? 16 : 4);
	return rig_send(&msg);
}

static inline int rig_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		err = -errno;
	close(fd);
	return err;
}

/* ---- namespaces ---- */
enum rig_place { RIG_DEVICE = 0, RIG_PEER = 1, RIG_FAR = 2, RIG_PLACES = 3 };

struct rig {
	int home;                 /* where the test itself lives */
	int ns[RIG_PLACES];       /* the device, who it talks to, who is behind it */
	pid_t holder[RIG_PLACES]; /* keeps the namespace visible in /proc */
	char mount[64], cgroup[96];
	bool mounted;
	bool bridge; /* the far end has one */
};

#define RIG_DEVICE4     "10.77.1.1"
#define RIG_PEER4       "10.77.1.2"
#define RIG_DEVICE_FAR4 "10.77.2.1"
#define RIG_FAR4        "10.77.2.2"
#define RIG_DEVICE6     "fd77:1::1"
#define RIG_PEER6       "fd77:1::2"
#define RIG_DEVICE_FAR6 "fd77:2::1"
#define RIG_FAR6        "fd77:2::2"

/* A new namespace with loopback up; the caller ends in it. */
static inline int rig_new_ns(void)
{
	if (unshare(CLONE_NEWNET))
		return -errno;
	if (rig_link_up("lo"))
		return -EOPNOTSUPP;
	rig_write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647");
	return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

static inline pid_t rig_hold(int ns)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setns(ns, CLONE_NEWNET))
			_exit(1);
		for (;;)
			pause();
	}
	return pid;
}

/* cgroup2 of the machine, or one mounted for the test; the test's own group below it. */
static inline int rig_cgroup(struct rig *rig)
{
	static const char *const known[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
	char path[96];
	size_t i;

	rig->mount[0] = '\0';
	for (i = 0; i < 2 && !rig->mount[0]; i++) {
		snprintf(path, sizeof(path), "%s/cgroup.procs", known[i]);
		if (!access(path, W_OK))
			strcpy(rig->mount, known[i]);
	}
	if (!rig->mount[0]) {
		strcpy(rig->mount, "/tmp/jankscope-cgroup-XXXXXX");
		if (!mkdtemp(rig->mount) && mkdir("/tmp", 0755) == 0)
			strcpy(rig->mount, mkdtemp(strcpy(path, "/tmp/jankscope-cgroup-XXXXXX")));
		if (mount("none", rig->mount, "cgroup2", 0, NULL))
			return -errno;
		rig->mounted = true;
	}
	snprintf(rig->cgroup, sizeof(rig->cgroup), "%s/jankscope-test-%d", rig->mount, getpid());
	return mkdir(rig->cgroup, 0755) ? -errno : 0;
}

static inline void rig_down(struct rig *rig)
{
	int i;

	for (i = 0; i < RIG_PLACES; i++) {
		if (rig->holder[i] > 0) {
			kill(rig->holder[i], SIGKILL);
			waitpid(rig->holder[i], NULL, 0);
		}
		if (rig->ns[i] > 0)
			close(rig->ns[i]);
	}
	if (rig->cgroup[0]) {
		for (i = 0; rmdir(rig->cgroup) && errno == EBUSY && i < 50; i++)
			usleep(20000);
	}
	if (rig->mounted) {
		umount(rig->mount);
		rmdir(rig->mount);
	}
	if (rig->home > 0)
		close(rig->home);
}

/* The three namespaces, their links, addresses and routes. 0, or a negative errno with what
 * is missing here in *why. */
static inline int rig_up(struct rig *rig, const char **why)
{
	const char *far;
	int i, err;

	memset(rig, 0, sizeof(*rig));
	rig->home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	*why = "network namespaces cannot be made";
	for (i = 0; i < RIG_PLACES; i++) {
		rig->ns[i] = rig_new_ns();
		if (rig->ns[i] < 0)
			return rig->ns[i];
		rig->holder[i] = rig_hold(rig->ns[i]);
	}
	*why = "no veth in this kernel";
	setns(rig->ns[RIG_DEVICE], CLONE_NEWNET);
	err = rig_veth("wl0", "wl1", rig->ns[RIG_PEER]);
	if (!err)
		err = rig_veth("us0", "us1", rig->ns[RIG_FAR]);
	if (err)
		goto home;
	*why = "addresses or routes cannot be set";
	err = rig_address("wl0", RIG_DEVICE4, 24) | rig_address("wl0", RIG_DEVICE6, 64) |
	      rig_address("us0", RIG_DEVICE_FAR4, 24) | rig_address("us0", RIG_DEVICE_FAR6, 64) |
	      rig_link_up("wl0") | rig_link_up("us0");
	rig_write("/proc/sys/net/ipv4/ip_forward", "1");
	rig_write("/proc/sys/net/ipv6/conf/all/forwarding", "1");
	setns(rig->ns[RIG_PEER], CLONE_NEWNET);
	err |= rig_address("wl1", RIG_PEER4, 24) | rig_address("wl1", RIG_PEER6, 64) |
	       rig_link_up("wl1") | rig_route(RIG_DEVICE4) | rig_route(RIG_DEVICE6);
	setns(rig->ns[RIG_FAR], CLONE_NEWNET);
	/* A bridge over the link, where the kernel has bridges: packets pass both. */
	rig->bridge = !rig_bridge("br0") && !rig_enslave("us1", "br0");
	far = rig->bridge ? "br0" : "us1";
	err |= rig_link_up("us1") | rig_link_up(far) | rig_address(far, RIG_FAR4, 24) |
	       rig_address(far, RIG_FAR6, 64) | rig_route(RIG_DEVICE_FAR4) |
	       rig_route(RIG_DEVICE_FAR6);
	if (err) {
		err = -EOPNOTSUPP;
		goto home;
	}
	*why = "no cgroup2";
	err = rig_cgroup(rig);
home:
	setns(rig->home, CLONE_NEWNET);
	return err;
}

/* ---- children ---- */
/* Runs as the child; what it writes to ready is what rig_spawn's caller reads. Returns 0 or not. */
typedef int (*rig_fn)(const void *arg, int ready);

/* fn in that namespace, in the test's cgroup, as that uid. *ready: read end of its pipe. */
static inline pid_t rig_spawn(const struct rig *rig, enum rig_place place, uid_t uid, rig_fn fn,
			      const void *arg, int *ready)
{
	char path[128], pid_text[16];
	int pipes[2];
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (pid != 0) {
		close(pipes[1]);
		if (ready)
			*ready = pipes[0];
		else
			close(pipes[0]);
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(pipes[0]);
	snprintf(path, sizeof(path), "%s/cgroup.procs", rig->cgroup);
	snprintf(pid_text, sizeof(pid_text), "%d", getpid());
	if (rig_write(path, pid_text) || setns(rig->ns[place], CLONE_NEWNET) ||
	    setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
		_exit(99);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(60);
	_exit(fn(arg, pipes[1]) ? 1 : 0);
}

static inline int rig_wait(pid_t pid)
{
	int status = -1;

	if (pid <= 0 || waitpid(pid, &status, 0) != pid)
		return -ECHILD;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EINTR;
}

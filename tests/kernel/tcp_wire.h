/* SPDX-License-Identifier: BSD-2-Clause */
/* Two network namespaces and a wire between them that a process of the test makes of two tun
 * devices: it delays each packet by the same time and drops those that it is told to. So the test
 * needs no netem, which few kernels have, and knows what was lost. */
#pragma once
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include "kernel/net_rig.h"

#define WIRE_MTU   1500
#define WIRE_QUEUE 4096

#define WIRE_NEAR4 "10.88.1.1"
#define WIRE_FAR4  "10.88.1.2"
#define WIRE_NEAR6 "fd88:1::1"
#define WIRE_FAR6  "fd88:1::2"
#define WIRE_LOST4 "10.88.9.9" /* the far end knows no way there, and says so */

/* What the process of the wire is told, and what it tells. */
struct wire_shared {
	atomic_uint delay_us;
	atomic_uint drop_each; /* of so many packets of TCP one is dropped; 0: none */
	atomic_bool cut;       /* all are */
	atomic_ulong dropped;
};

struct wire {
	int home, ns[2]; /* the near and the far end */
	int tun[2];
	pid_t pid;
	struct wire_shared *shared;
};

static inline uint64_t wire_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

struct wire_packet {
	uint64_t due_ns;
	size_t bytes;
	char data[WIRE_MTU];
};

struct wire_queue {
	struct wire_packet *packets;
	size_t first, count;
};

static inline bool wire_is_tcp(const unsigned char *packet)
{
	return (packet[0] >> 4 == 4 && packet[9] == IPPROTO_TCP) ||
	       (packet[0] >> 4 == 6 && packet[6] == IPPROTO_TCP);
}

static inline void wire_take(struct wire_shared *shared, struct wire_queue *queue, int tun,
			     unsigned *seen)
{
	for (;;) {
		struct wire_packet *packet =
			&queue->packets[(queue->first + queue->count) % WIRE_QUEUE];
		unsigned each = atomic_load(&shared->drop_each);
		ssize_t got = queue->count < WIRE_QUEUE ? read(tun, packet->data, WIRE_MTU) : -1;

		if (got <= 0)
			return;
		if (wire_is_tcp((void *)packet->data) &&
		    (atomic_load(&shared->cut) || (each && ++*seen % each == 0))) {
			atomic_fetch_add(&shared->dropped, 1);
			continue;
		}
		packet->bytes = (size_t)got;
		packet->due_ns = wire_now_ns() + atomic_load(&shared->delay_us) * 1000ull;
		queue->count++;
	}
}

static inline void __attribute__((noreturn)) wire_serve(const struct wire *wire)
{
	struct wire_queue queues[2] = {0};
	unsigned seen[2] = {0};

	for (int i = 0; i < 2; i++)
		queues[i].packets = calloc(WIRE_QUEUE, sizeof(*queues[i].packets));
	for (;;) {
		struct pollfd wait[2] = {{.fd = wire->tun[0], .events = POLLIN},
					 {.fd = wire->tun[1], .events = POLLIN}};
		uint64_t now_ns = wire_now_ns(), due_ns = now_ns + 100000000;
		struct timespec rest;

		for (int i = 0; i < 2; i++)
			if (queues[i].count && queues[i].packets[queues[i].first].due_ns < due_ns)
				due_ns = queues[i].packets[queues[i].first].due_ns;
		rest = (struct timespec){.tv_nsec = due_ns > now_ns ? (long)(due_ns - now_ns) : 0};
		ppoll(wait, 2, &rest, NULL);
		for (int i = 0; i < 2; i++)
			wire_take(wire->shared, &queues[i], wire->tun[i], &seen[i]);
		now_ns = wire_now_ns();
		for (int i = 0; i < 2; i++)
			for (struct wire_queue *queue = &queues[i];
			     queue->count && queue->packets[queue->first].due_ns <= now_ns;
			     queue->first = (queue->first + 1) % WIRE_QUEUE, queue->count--)
				if (write(wire->tun[!i], queue->packets[queue->first].data,
					  queue->packets[queue->first].bytes) < 0)
					continue; /* the other end is not up yet */
	}
}

static inline int wire_tun(const char *address4, const char *address6)
{
	struct ifreq request = {.ifr_name = "wire", .ifr_flags = IFF_TUN | IFF_NO_PI};
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return -errno;
	if (ioctl(fd, TUNSETIFF, &request) || rig_address("wire", address4, 24) ||
	    rig_address("wire", address6, 64) || rig_link_up("wire")) {
		close(fd);
		return -EOPNOTSUPP;
	}
	return fd;
}

static inline void wire_down(struct wire *wire)
{
	if (wire->pid > 0) {
		kill(wire->pid, SIGKILL);
		waitpid(wire->pid, NULL, 0);
	}
	for (int i = 0; i < 2; i++) {
		if (wire->tun[i] > 0)
			close(wire->tun[i]);
		if (wire->ns[i] > 0)
			close(wire->ns[i]);
	}
	if (wire->home > 0)
		close(wire->home);
}

static inline int wire_unreachable(const char *address)
{
	struct rig_message msg = {.nlh = {.nlmsg_len = NLMSG_HDRLEN,
					  .nlmsg_type = RTM_NEWROUTE,
					  .nlmsg_flags = NLM_F_CREATE | NLM_F_REPLACE}};
	struct rtmsg *info = rig_put(&msg, sizeof(*info));
	unsigned char bytes[4];

	info->rtm_family = AF_INET;
	info->rtm_dst_len = 32;
	info->rtm_table = RT_TABLE_MAIN;
	info->rtm_protocol = RTPROT_STATIC;
	info->rtm_type = RTN_UNREACHABLE;
	inet_pton(AF_INET, address, bytes);
	rig_attr(&msg, RTA_DST, bytes, 4);
	return rig_send(&msg);
}

/* 0, or a negative errno with what is missing here in *why. */
static inline int wire_up(struct wire *wire, const char **why)
{
	int err = 0;

	memset(wire, 0, sizeof(*wire));
	wire->home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	wire->shared = mmap(NULL, sizeof(*wire->shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 2 && !err; i++) {
		*why = "network namespaces cannot be made";
		wire->ns[i] = rig_new_ns();
		if (wire->ns[i] < 0) {
			err = wire->ns[i];
			break;
		}
		*why = "no /dev/net/tun";
		wire->tun[i] =
			i ? wire_tun(WIRE_FAR4, WIRE_FAR6) : wire_tun(WIRE_NEAR4, WIRE_NEAR6);
		if (wire->tun[i] < 0)
			err = wire->tun[i];
		else if (i)
			err = rig_write("/proc/sys/net/ipv4/ip_forward", "1") ||
					      wire_unreachable(WIRE_LOST4)
				      ? -EOPNOTSUPP
				      : 0;
		else
			err = rig_route(WIRE_FAR4);
	}
	setns(wire->home, CLONE_NEWNET);
	if (err)
		return err;
	wire->pid = fork();
	if (wire->pid)
		return wire->pid < 0 ? -errno : 0;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	wire_serve(wire);
}

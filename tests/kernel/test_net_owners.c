/* SPDX-License-Identifier: BSD-2-Clause */
/* Whose bytes they are where sockets and namespaces change hands: each uid equals a cgroup_skb
 * counter to the byte. */
/* Runs beside others (8 s) */
#include <poll.h>
#include <sys/syscall.h>
#include "kernel/net_measure.h"

#define TURNS 12

/* ---- a port that goes from uid to uid ---- */
/* One datagram socket at a time on one port, each of another uid; the sender is always the same. */
static void hand_port_on(struct bench *bench, uid_t first, uid_t second, enum rig_place place,
			 const char *to, uint16_t port)
{
	struct traffic traffic = {.family = AF_INET,
				  .address = to,
				  .port = port,
				  .up = 486,
				  .count = 200,
				  .source_port = 7099};
	int turn, status = 0;

	for (turn = 0; turn < TURNS; turn++) {
		int ready = -1;
		pid_t receiver = rig_spawn(&bench->rig, place, turn & 1 ? second : first,
					   udp_receiver, &traffic, &ready);

		if (read(ready, &traffic.port, 2) != 2)
			status = 1;
		close(ready);
		status |= rig_wait(
			rig_spawn(&bench->rig, RIG_PEER, PEER_UID, udp_sender, &traffic, NULL));
		status |= rig_wait(receiver);
		if (turn % 3 == 2)
			sample(bench);
	}
	drain(bench);
	tap_ok(!status, "port handed on: %d sockets in turn received all", TURNS);
}

static void test_port_handed_on(struct bench *bench)
{
	uid_t first = DEVICE_UID + 1, second = DEVICE_UID + 2;

	hand_port_on(bench, first, second, RIG_DEVICE, RIG_DEVICE4, 7100);
	check_uid(bench, first, "port handed on: the first uid");
	check_uid(bench, second, "port handed on: the second uid");
}

/* ---- a namespace that goes and one that comes ---- */
static int namespace_inode(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : (int)st.st_ino;
}

/* A namespace joined to the peer's; the receiver is in it. */
static int receive_in_new(struct bench *bench, uid_t uid, int *inode, int wanted)
{
	struct traffic traffic = {.family = AF_INET,
				  .address = "10.78.1.2",
				  .port = 7101,
				  .up = 486,
				  .count = 200,
				  .source_port = 7098};
	int old = bench->rig.ns[RIG_FAR], ns = -1, tries, ready = -1, status = 1;
	pid_t holder, receiver;

	for (tries = 0; tries < 300; tries++) {
		ns = rig_new_ns();
		*inode = namespace_inode(ns);
		if (!wanted || *inode == wanted)
			break;
		setns(bench->rig.home, CLONE_NEWNET);
		close(ns);
		ns = -1;
		usleep(20000);
	}
	if (ns < 0)
		return 77;
	holder = rig_hold(ns);
	setns(bench->rig.ns[RIG_PEER], CLONE_NEWNET);
	status = rig_veth("again0", "again1", ns) | rig_address("again0", "10.78.1.1", 24) |
		 rig_link_up("again0");
	setns(ns, CLONE_NEWNET);
	status |= rig_address("again1", "10.78.1.2", 24) | rig_link_up("again1");
	setns(bench->rig.home, CLONE_NEWNET);
	bench->rig.ns[RIG_FAR] = ns;
	receiver = rig_spawn(&bench->rig, RIG_FAR, uid, udp_receiver, &traffic, &ready);
	bench->rig.ns[RIG_FAR] = old;
	if (read(ready, &traffic.port, 2) != 2)
		status = 1;
	close(ready);
	status |= rig_wait(
		rig_spawn(&bench->rig, RIG_PEER, PEER_UID + 3, udp_sender, &traffic, NULL));
	status |= rig_wait(receiver);
	/* Its addresses are asked for while it lives, however long a dump takes and rests here. */
	drain(bench);
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
	close(ns);
	return status;
}

static void test_namespace_again(struct bench *bench)
{
	uid_t first = DEVICE_UID + 3, second = DEVICE_UID + 4;
	int inode = 0, again = 0, status = receive_in_new(bench, first, &inode, 0);

	status |= receive_in_new(bench, second, &again, inode);
	drain(bench);
	if (status == 77) {
		tap_skip("namespace of the same number", "its number was not given again");
		return;
	}
	tap_ok(!status && inode == again, "namespace of the same number: %d is there again", again);
	check_uid(bench, first, "namespace of the same number: the first one's uid");
	check_uid(bench, second, "namespace of the same number: the second one's uid");
}

/* ---- fchown ---- */
struct handed {
	struct traffic traffic;
	uid_t first, second;
};

static int tcp_chowned(const void *arg, int ready)
{
	const struct handed *handed = arg;
	struct sockaddr_storage to;
	socklen_t length = traffic_address(&to, AF_INET, RIG_PEER4, handed->traffic.port);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fchown(fd, handed->first, (gid_t)-1) || connect(fd, (void *)&to, length))
		return 1;
	if (traffic_move(fd, handed->traffic.up / 2, true))
		return 1;
	usleep(300000); /* until all is acknowledged */
	if (fchown(fd, handed->second, (gid_t)-1) ||
	    traffic_move(fd, handed->traffic.up / 2, true) ||
	    traffic_move(fd, handed->traffic.down, false))
		return 1;
	return close(fd);
}

/* A server at the peer, and a client at the device that runs as root and hands its socket from the
 * first of two uids to the second. */
static int run_handed(const struct bench *bench, const struct net_case *net_case, uid_t device,
		      uid_t peer, rig_fn client)
{
	struct handed handed = {
		.traffic = traffic_of(bench, net_case, RIG_PEER4, RIG_PEER6),
		.first = device,
		.second = device + 1,
	};
	int ready = -1, status;
	pid_t server = rig_spawn(&bench->rig, RIG_PEER, peer, tcp_server, &handed.traffic, &ready);

	if (read(ready, &handed.traffic.port, 2) != 2)
		return 1;
	close(ready);
	status = rig_wait(rig_spawn(&bench->rig, RIG_DEVICE, 0, client, &handed, NULL));
	return status | rig_wait(server);
}

static int run_chowned(const struct bench *bench, const struct net_case *net_case, uid_t device,
		       uid_t peer)
{
	return run_handed(bench, net_case, device, peer, tcp_chowned);
}

static void test_chowned(struct bench *bench)
{
	static const struct net_case both = {"", run_chowned, AF_INET, 400000, 400000, 1};
	uid_t first = DEVICE_UID + 5;

	tap_ok(!run_case(bench, &both, first, PEER_UID + 5), "fchown of a live socket: traffic");
	check_uid(bench, first, "fchown of a live socket: the first owner");
	check_uid(bench, first + 1, "fchown of a live socket: the second owner");
}

/* ---- SO_REUSEPORT of two uids ---- */
#define GROUP_CLIENTS 20
#define GROUP_ROUNDS  10

/* Two sockets on one port, one of each uid; the kernel shares the remote ends out among them. */
static int udp_group(const void *arg, int ready)
{
	const struct handed *handed = arg;
	struct pollfd fds[2];
	struct sockaddr_storage own;
	uint16_t port = 0;
	int i, one = 1, echoed;

	for (i = 0; i < 2; i++) {
		fds[i] = (struct pollfd){socket(AF_INET, SOCK_DGRAM, 0), POLLIN, 0};
		setsockopt(fds[i].fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
		if (bind(fds[i].fd, (void *)&own, traffic_address(&own, AF_INET, NULL, port)))
			return 1;
		port = traffic_port(fds[i].fd);
	}
	if (fchown(fds[0].fd, handed->first, (gid_t)-1) ||
	    fchown(fds[1].fd, handed->second, (gid_t)-1) || write(ready, &port, 2) != 2)
		return 1;
	for (echoed = 0; echoed < GROUP_CLIENTS * GROUP_ROUNDS;) {
		if (poll(fds, 2, 20000) <= 0)
			return 1;
		for (i = 0; i < 2; i++) {
			struct sockaddr_storage from;
			socklen_t length = sizeof(from);
			char buffer[1024];
			ssize_t got;

			if (!(fds[i].revents & POLLIN))
				continue;
			got = recvfrom(fds[i].fd, buffer, sizeof(buffer), 0, (void *)&from,
				       &length);
			if (got < 0 ||
			    sendto(fds[i].fd, buffer, (size_t)got, 0, (void *)&from, length) < 0)
				return 1;
			echoed++;
		}
	}
	return 0;
}

static int udp_clients(const void *arg, int ready)
{
	const struct traffic *traffic = arg;
	struct traffic one = *traffic;

	one.count = GROUP_ROUNDS;
	for (int i = 0; i < GROUP_CLIENTS; i++)
		if (udp_echo_client(&one, ready))
			return 1;
	return 0;
}

static int run_group(const struct bench *bench, const struct net_case *net_case, uid_t device,
		     uid_t peer)
{
	struct traffic traffic = traffic_of(bench, net_case, RIG_DEVICE4, RIG_DEVICE6);
	struct handed handed = {.traffic = traffic, .first = device, .second = device + 1};
	int ready = -1, status;
	pid_t server = rig_spawn(&bench->rig, RIG_DEVICE, 0, udp_group, &handed, &ready);

	if (read(ready, &traffic.port, 2) != 2)
		return 1;
	close(ready);
	status = rig_wait(rig_spawn(&bench->rig, RIG_PEER, peer, udp_clients, &traffic, NULL));
	return status | rig_wait(server);
}

static void test_group(struct bench *bench)
{
	static const struct net_case group = {"", run_group, AF_INET, 300, 0, 1};
	uid_t first = DEVICE_UID + 7;

	tap_ok(!run_case(bench, &group, first, PEER_UID + 7), "SO_REUSEPORT of two uids: traffic");
	check_uid(bench, first, "SO_REUSEPORT of two uids: the first");
	check_uid(bench, first + 1, "SO_REUSEPORT of two uids: the second");
}

/* ---- a connection that is passed on by SCM_RIGHTS ---- */
static int send_socket(int to, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
	struct iovec part = {&byte, 1};
	struct msghdr msg = {.msg_iov = &part,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(int));
	return sendmsg(to, &msg, 0) == 1 ? 0 : -1;
}

static int receive_socket(int from)
{
	char control[CMSG_SPACE(sizeof(int))] = {0}, byte;
	struct iovec part = {&byte, 1};
	struct msghdr msg = {.msg_iov = &part,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	int fd = -1;

	if (recvmsg(from, &msg, 0) == 1 && CMSG_FIRSTHDR(&msg))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(int));
	return fd;
}

/* Root forks both: the one connects as the first uid, the other uses the connection as the second.
 */
static int tcp_passed(const void *arg, int ready)
{
	const struct handed *handed = arg;
	int pair[2], fd, status = -1;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return 1;
	pid = fork();
	if (pid == 0) {
		if (setresuid(handed->first, handed->first, handed->first))
			_exit(1);
		fd = traffic_connect(&handed->traffic);
		_exit(fd < 0 || send_socket(pair[0], fd));
	}
	if (setresuid(handed->second, handed->second, handed->second))
		return 1;
	fd = receive_socket(pair[1]);
	waitpid(pid, &status, 0);
	return status || fd < 0 || traffic_move(fd, handed->traffic.up, true) ||
	       traffic_move(fd, handed->traffic.down, false);
}

static int run_passed(const struct bench *bench, const struct net_case *net_case, uid_t device,
		      uid_t peer)
{
	return run_handed(bench, net_case, device, peer, tcp_passed);
}

static void test_passed(struct bench *bench)
{
	static const struct net_case passed = {"", run_passed, AF_INET, 300000, 300000, 1};
	uid_t first = DEVICE_UID + 9;

	tap_ok(!run_case(bench, &passed, first, PEER_UID + 9), "SCM_RIGHTS: traffic");
	check_uid(bench, first, "SCM_RIGHTS: who made the socket has all");
	tap_ok(!measured_uid(&bench->measured, first + 1)->tx_bytes,
	       "SCM_RIGHTS: who uses it has nothing, as with netd");
}

/* ---- a PID namespace ---- */
static int in_pid_namespace(const void *arg, int ready)
{
	const struct handed *handed = arg;
	int status = -1;
	pid_t pid;

	if (unshare(CLONE_NEWPID))
		return 1;
	pid = fork();
	if (pid == 0) {
		if (setresuid(handed->first, handed->first, handed->first))
			_exit(1);
		_exit(getpid() != 1 || udp_receiver(&handed->traffic, ready));
	}
	waitpid(pid, &status, 0);
	return status;
}

static int run_in_pid_namespace(const struct bench *bench, const struct net_case *net_case,
				uid_t device, uid_t peer)
{
	struct traffic traffic = traffic_of(bench, net_case, RIG_DEVICE4, RIG_DEVICE6);
	struct handed handed = {.traffic = traffic, .first = device};
	int ready = -1, status;
	pid_t server = rig_spawn(&bench->rig, RIG_DEVICE, 0, in_pid_namespace, &handed, &ready);

	if (read(ready, &traffic.port, 2) != 2)
		return 1;
	close(ready);
	status = rig_wait(rig_spawn(&bench->rig, RIG_PEER, peer, udp_sender, &traffic, NULL));
	return status | rig_wait(server);
}

static void test_pid_namespace(struct bench *bench)
{
	static const struct net_case inside = {"", run_in_pid_namespace, AF_INET6, 700, 0, 200};

	tap_ok(!run_case(bench, &inside, DEVICE_UID + 11, PEER_UID + 11), "PID namespace: traffic");
	check_uid(bench, DEVICE_UID + 11, "PID namespace: a receiver in it");
}

/* ---- what is for the kernel itself ---- */
#define OWN_EACH 50

/* What a host sends without a socket of anybody's, byte by byte and without an answer: reports of
 * groups, and the neighbours' solicitations. */
static const struct {
	int family, protocol;
	const char *to;
	unsigned char type;
	size_t bytes;
} own_packets[] = {
	{AF_INET, IPPROTO_IGMP, "224.0.0.22", 0x22, 16},
	{AF_INET, IPPROTO_IGMP, "224.0.0.1", 0x11, 12},
	{AF_INET6, IPPROTO_ICMPV6, "ff02::16", 143, 48}, /* MLDv2, two records */
	{AF_INET6, IPPROTO_ICMPV6, "ff02::2", 133, 16},
	{AF_INET6, IPPROTO_ICMPV6, "ff02::1:ff00:1", 135, 24},
	{AF_INET6, IPPROTO_ICMPV6, RIG_DEVICE6, 136, 24},
	{AF_INET, IPPROTO_ICMP, RIG_DEVICE4, 13, 20}, /* what is the time? */
};

static int send_own(const void *arg, int ready)
{
	unsigned char packet[64] = {0};

	for (size_t i = 0; i < sizeof(own_packets) / sizeof(own_packets[0]); i++) {
		struct sockaddr_storage to;
		socklen_t length =
			traffic_address(&to, own_packets[i].family, own_packets[i].to, 0);
		int fd = socket(own_packets[i].family, SOCK_RAW, own_packets[i].protocol);
		struct ip_mreqn group = {.imr_ifindex = (int)if_nametoindex("wl1")};

		setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &group, sizeof(group));
		setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &group.imr_ifindex, sizeof(int));
		packet[0] = own_packets[i].type;
		for (int n = 0; n < OWN_EACH; n++)
			if (sendto(fd, packet, own_packets[i].bytes, 0, (void *)&to, length) < 0)
				return 1;
		close(fd);
	}
	return 0;
}

/* Nobody is asked whose that is: whoever could be asked sleeps. */
static void test_kernels_own(struct bench *bench)
{
	size_t kinds = sizeof(own_packets) / sizeof(own_packets[0]);
	uint64_t bytes = 0, packets = kinds * OWN_EACH;
	pid_t asker = asker_of(bench), pid;
	struct record_bytes before, found;
	int lock = bench_lock();
	bool asleep;

	for (size_t i = 0; i < kinds; i++)
		bytes += OWN_EACH *
			 (own_packets[i].bytes + (own_packets[i].family == AF_INET ? 20 : 40));
	drain(bench);
	asleep = asker > 0 && !kill(asker, SIGSTOP);
	sample(bench);
	before = bench->measured.kernel;
	pid = rig_spawn(&bench->rig, RIG_PEER, 0, send_own, NULL, NULL);
	tap_ok(asleep && !rig_wait(pid), "the kernel's own: traffic, and nobody can be asked");
	usleep(SAMPLE_US);
	sample(bench);
	found = bench->measured.kernel;
	if (asker > 0)
		kill(asker, SIGCONT);
	found.rx_bytes -= before.rx_bytes;
	found.rx_packets -= before.rx_packets;
	tap_ok(found.rx_packets >= packets && found.rx_packets < packets + 20 &&
		       found.rx_bytes >= bytes && found.rx_bytes < bytes + 2000,
	       "the kernel's own: told as such at once (%lu packets of %lu, %lu B of %lu)",
	       found.rx_packets, packets, found.rx_bytes, bytes);
	drain(bench);
	bench_unlock(lock);
}

static void run_loads(struct bench *bench)
{
	test_port_handed_on(bench);
	test_namespace_again(bench);
	test_chowned(bench);
	test_group(bench);
	test_passed(bench);
	test_pid_namespace(bench);
	test_kernels_own(bench);
}

int main(int argc, char **argv)
{
	return run_with_twins("net owners", run_loads);
}

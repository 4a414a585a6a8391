/* SPDX-License-Identifier: BSD-2-Clause */
/* What apps seldom do: sockets that change whom they listen to, datagrams that come in pieces out
 * of order, many extension headers, connections that begin in odd ways. Each uid equals a
 * cgroup_skb counter to the byte. */
#include "kernel/net_measure.h"

#define ROUND 40 /* datagrams of a step: all steps are over long before the next read-out */
#define BYTES 300

struct odd {
	const struct rig *rig;
	uid_t device, peer;
	int family;
};

static const char *address_of(const struct odd *odd, enum rig_place place)
{
	if (place == RIG_DEVICE)
		return odd->family == AF_INET ? RIG_DEVICE4 : RIG_DEVICE6;
	return odd->family == AF_INET ? RIG_PEER4 : RIG_PEER6;
}

/* Bound in that namespace, and owned by that uid; the caller is root and ends in the namespace. */
static int open_in(const struct odd *odd, enum rig_place place, int type, uid_t uid, uint16_t port)
{
	struct sockaddr_storage own;
	const char *address = address_of(odd, place);
	int fd, one = 1;

	if (setns(odd->rig->ns[place], CLONE_NEWNET))
		return -1;
	fd = socket(odd->family, type, 0);
	traffic_timeout(fd, 5);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fchown(fd, uid, (gid_t)-1) ||
	    bind(fd, (void *)&own, traffic_address(&own, odd->family, address, port)))
		return -1;
	return fd;
}

static int point(int fd, const struct odd *odd, const char *address, uint16_t port)
{
	struct sockaddr_storage to;

	return connect(fd, (void *)&to, traffic_address(&to, odd->family, address, port));
}

static int send_round(int fd, const struct odd *odd, uint16_t port)
{
	struct sockaddr_storage to;
	socklen_t length = traffic_address(&to, odd->family, address_of(odd, RIG_DEVICE), port);
	char data[BYTES] = {0};

	for (int i = 0; i < ROUND; i++)
		if (sendto(fd, data, sizeof(data), 0, (void *)&to, length) < 0)
			return 1;
	return 0;
}

/* ---- a UDP socket that changes whom it listens to, with packets of one sender all along ---- */
#define SHARED_PORT 7400
#define MOVING_PORT 7401
#define DEVICE_PORT 7402
#define SENDER_PORT 7403

static int udp_moves(const void *arg, int ready)
{
	const struct odd *odd = arg;
	const char *away = odd->family == AF_INET ? RIG_FAR4 : RIG_FAR6;
	const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
	int first = open_in(odd, RIG_DEVICE, SOCK_DGRAM, odd->device, SHARED_PORT);
	int second = open_in(odd, RIG_DEVICE, SOCK_DGRAM, odd->device + 1, SHARED_PORT);
	int moving = open_in(odd, RIG_DEVICE, SOCK_DGRAM, odd->device + 2, MOVING_PORT);
	int bound = open_in(odd, RIG_DEVICE, SOCK_DGRAM, odd->device + 3, DEVICE_PORT);
	int sender = open_in(odd, RIG_PEER, SOCK_DGRAM, odd->peer, SENDER_PORT);

	/* Two sockets on one port: the newer one has what comes, until the older one connects. */
	if (first < 0 || second < 0 || send_round(sender, odd, SHARED_PORT) ||
	    point(first, odd, address_of(odd, RIG_PEER), SENDER_PORT) ||
	    send_round(sender, odd, SHARED_PORT) || connect(first, &nobody, sizeof(nobody)) ||
	    send_round(sender, odd, SHARED_PORT))
		return 1;
	/* One that connects to somebody else, and comes back. */
	if (moving < 0 || send_round(sender, odd, MOVING_PORT) ||
	    point(moving, odd, away, SENDER_PORT) || send_round(sender, odd, MOVING_PORT) ||
	    connect(moving, &nobody, sizeof(nobody)) || send_round(sender, odd, MOVING_PORT))
		return 1;
	/* And one that is bound to another device. */
	return bound < 0 || send_round(sender, odd, DEVICE_PORT) ||
	       setsockopt(bound, SOL_SOCKET, SO_BINDTODEVICE, "us0", 4) ||
	       send_round(sender, odd, DEVICE_PORT);
}

/* ---- rows ---- */
static int run_odd(const struct bench *bench, const struct net_case *net_case, uid_t device,
		   uid_t peer, rig_fn fn)
{
	struct odd odd = {
		.rig = &bench->rig, .device = device, .peer = peer, .family = net_case->family};

	return rig_wait(rig_spawn(&bench->rig, RIG_DEVICE, 0, fn, &odd, NULL));
}

static int run_moves(const struct bench *bench, const struct net_case *net_case, uid_t device,
		     uid_t peer)
{
	return run_odd(bench, net_case, device, peer, udp_moves);
}

static const struct {
	struct net_case net_case;
	const char *who[4]; /* whose the uids from the first one on are */
} rows[] = {
	{{"UDP that changes its remote end", run_moves, AF_INET},
	 {"the one that connects", "the one beside it", "the one that moves",
	  "the one on a device"}},
	{{"UDP that changes its remote end, IPv6", run_moves, AF_INET6},
	 {"the one that connects", "the one beside it", "the one that moves",
	  "the one on a device"}},
};

static void run_loads(struct bench *bench)
{
	char name[160];

	for (uid_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uid_t uid = DEVICE_UID + 400 + i * 10, peer = PEER_UID + 400 + i * 10;
		int status = run_case(bench, &rows[i].net_case, uid, peer);

		if (status == 77) {
			tap_skip(rows[i].net_case.name, "this kernel refuses it");
			continue;
		}
		tap_ok(!status, "%s: traffic (%d)", rows[i].net_case.name, status);
		for (uid_t j = 0; j < 4 && rows[i].who[j]; j++) {
			snprintf(name, sizeof(name), "%s: %s", rows[i].net_case.name,
				 rows[i].who[j]);
			check_uid(bench, uid + j, name);
		}
		if (truth_of(bench, peer, false, false).tx_bytes) {
			snprintf(name, sizeof(name), "%s: the peer", rows[i].net_case.name);
			check_uid(bench, peer, name);
		}
	}
}

int main(int argc, char **argv)
{
	return run_with_twins("net odd", run_loads);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* What apps seldom do: sockets that change whom they listen to, datagrams that come in pieces out
 * of order, many extension headers, connections that begin in odd ways. Each uid equals a
 * cgroup_skb counter to the byte. */
/* Runs beside others (6 s) */
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include "kernel/net_measure.h"

#define ROUND 40 /* datagrams of a step: all steps are over long before the next read-out */
#define BYTES 300

struct odd {
	const struct rig *rig;
	uid_t device, peer;
	int family;
	const atomic_int *samples; /* counts read-outs */
};

static const char *address_of(const struct odd *odd, enum rig_place place)
{
	if (place == RIG_DEVICE)
		return odd->family == AF_INET ? RIG_DEVICE4 : RIG_DEVICE6;
	return odd->family == AF_INET ? RIG_PEER4 : RIG_PEER6;
}

/* Bound in that namespace, and owned by that uid; the caller is root and ends in the namespace. */
static int open_protocol(const struct odd *odd, enum rig_place place, int type, int protocol,
			 uid_t uid, uint16_t port)
{
	struct sockaddr_storage own;
	const char *address = address_of(odd, place);
	int fd, one = 1;

	if (setns(odd->rig->ns[place], CLONE_NEWNET))
		return -1;
	fd = socket(odd->family, type, protocol);
	traffic_timeout(fd, 5);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fchown(fd, uid, (gid_t)-1) ||
	    bind(fd, (void *)&own, traffic_address(&own, odd->family, address, port)))
		return -1;
	return fd;
}

static int open_in(const struct odd *odd, enum rig_place place, int type, uid_t uid, uint16_t port)
{
	return open_protocol(odd, place, type, 0, uid, port);
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

/* ---- UDP-Lite, whose ports are not those of UDP: a uid has the one, another uid the other ---- */
#define LITE_PORT   7404
#define LITE_ROUNDS 3 /* read-outs until a dump was asked for and its answer was heard */

static int udp_lite(const void *arg, int ready)
{
	const struct odd *odd = arg;
	int lite =
		open_protocol(odd, RIG_DEVICE, SOCK_DGRAM, IPPROTO_UDPLITE, odd->device, LITE_PORT);
	int beside = open_in(odd, RIG_DEVICE, SOCK_DGRAM, odd->device + 1, LITE_PORT);
	int sender =
		open_protocol(odd, RIG_PEER, SOCK_DGRAM, IPPROTO_UDPLITE, odd->peer, SENDER_PORT);
	int udp_sender = open_in(odd, RIG_PEER, SOCK_DGRAM, odd->peer, SENDER_PORT);
	int now = atomic_load(odd->samples);

	if (lite < 0 || sender < 0)
		return 77;
	if (beside < 0 || send_round(sender, odd, LITE_PORT) ||
	    send_round(sender, odd, LITE_PORT) || send_round(udp_sender, odd, LITE_PORT))
		return 1;
	/* Nothing but a dump tells whose the one is, so that it must be there for a dump. */
	while (atomic_load(odd->samples) - now < LITE_ROUNDS)
		usleep(1000);
	return 0;
}

/* ---- packets made by hand ---- */
#define PIECES_PORT  7410
#define OPTIONS_PORT 7411
#define PIECE        1000 /* bytes of UDP in one fragment */
#define PIECES       3
#define DATAGRAMS    10 /* with as many extension headers */
#define ALL_PIECES   (PIECE * PIECES)
#define OPTIONS      8 /* bytes of an extension header */

/* A socket that sends whole packets, and where to. */
struct by_hand {
	const struct odd *odd;
	int fd;
	uint32_t id;
	unsigned char source[16], dest[16];
};

static int open_by_hand(struct by_hand *hand, const struct odd *odd)
{
	int one = 1;

	*hand = (struct by_hand){.odd = odd, .id = 0x4a530001};
	inet_pton(odd->family, address_of(odd, RIG_PEER), hand->source);
	inet_pton(odd->family, address_of(odd, RIG_DEVICE), hand->dest);
	if (setns(odd->rig->ns[RIG_PEER], CLONE_NEWNET))
		return -1;
	hand->fd = socket(odd->family, SOCK_RAW, IPPROTO_RAW);
	if (odd->family == AF_INET6 &&
	    setsockopt(hand->fd, IPPROTO_IPV6, 36 /* IPV6_HDRINCL */, &one, sizeof(one)))
		return -1;
	return hand->fd;
}

static uint32_t sum_words(uint32_t sum, const unsigned char *data, size_t bytes)
{
	for (size_t i = 0; i + 1 < bytes; i += 2)
		sum += (uint32_t)data[i] << 8 | data[i + 1];
	return sum;
}

/* A datagram of that many bytes with its header, for a port of the device. */
static void make_datagram(const struct by_hand *hand, unsigned char *data, size_t bytes,
			  uint16_t port)
{
	struct udphdr udp = {
		.source = htons(SENDER_PORT), .dest = htons(port), .len = htons((uint16_t)bytes)};
	uint32_t sum;

	memset(data, 0x5a, bytes);
	memcpy(data, &udp, sizeof(udp));
	if (hand->odd->family == AF_INET)
		return; /* without a checksum */
	sum = sum_words((uint32_t)bytes + IPPROTO_UDP, hand->source, 16);
	sum = sum_words(sum, hand->dest, 16);
	sum = sum_words(sum, data, bytes);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	udp.check = htons((uint16_t)~sum);
	memcpy(data, &udp, sizeof(udp));
}

static int send_packet(const struct by_hand *hand, uint8_t next, const void *payload, size_t bytes,
		       uint16_t offset)
{
	unsigned char packet[2048];
	struct sockaddr_storage to;
	socklen_t length =
		traffic_address(&to, hand->odd->family, address_of(hand->odd, RIG_DEVICE), 0);
	size_t header;

	if (hand->odd->family == AF_INET) {
		struct iphdr ip = {.version = 4,
				   .ihl = 5,
				   .ttl = 9,
				   .protocol = next,
				   .id = htons((uint16_t)hand->id),
				   .frag_off = htons(offset)};

		memcpy(&ip.saddr, hand->source, 4);
		memcpy(&ip.daddr, hand->dest, 4);
		header = sizeof(ip);
		memcpy(packet, &ip, header);
	} else {
		struct ip6_hdr ip = {.ip6_flow = htonl(6u << 28),
				     .ip6_nxt = next,
				     .ip6_hlim = 9,
				     .ip6_plen = htons((uint16_t)bytes)};

		memcpy(&ip.ip6_src, hand->source, 16);
		memcpy(&ip.ip6_dst, hand->dest, 16);
		header = sizeof(ip);
		memcpy(packet, &ip, header);
	}
	memcpy(packet + header, payload, bytes);
	return sendto(hand->fd, packet, header + bytes, 0, (void *)&to, length) < 0;
}

/* Piece `which` of a datagram; with_options: IPv6 has an extension header behind the one that says
 * that it is a piece, which is then in the first piece alone. */
static int send_piece(const struct by_hand *hand, const unsigned char *datagram, int which,
		      bool with_options)
{
	bool last = which == PIECES - 1;
	size_t from = (size_t)which * PIECE, bytes = PIECE;
	unsigned char payload[8 + PIECE];
	struct ip6_frag fragment = {.ip6f_nxt = with_options ? IPPROTO_DSTOPTS : IPPROTO_UDP,
				    .ip6f_ident = htonl(hand->id)};

	if (hand->odd->family == AF_INET)
		return send_packet(hand, IPPROTO_UDP, datagram + from, bytes,
				   (uint16_t)(from / 8 | (last ? 0 : 0x2000)));
	fragment.ip6f_offlg = htons((uint16_t)(from | !last));
	memcpy(payload, &fragment, sizeof(fragment));
	memcpy(payload + sizeof(fragment), datagram + from, bytes);
	return send_packet(hand, IPPROTO_FRAGMENT, payload, sizeof(fragment) + bytes, 0);
}

/* Orders in which the pieces of a datagram come; in the last two it is never whole, and nobody
 * receives it. Of each order there are twice as many as of the one before, so that errors do not
 * make up for each other. */
static const char *const orders[] = {"012", "210", "120", "021", "0012", "0122", "12", "02"};

static int udp_in_pieces(const void *arg, int ready)
{
	const struct odd *odd = arg;
	static const unsigned char options[OPTIONS] = {IPPROTO_UDP, 0, 1, 4}; /* PadN */
	int receiver = open_in(odd, RIG_DEVICE, SOCK_DGRAM, odd->device, PIECES_PORT);
	unsigned char datagram[ALL_PIECES];
	struct by_hand hand;

	if (receiver < 0 || open_by_hand(&hand, odd) < 0)
		return 1;
	for (int with = 0; with < (odd->family == AF_INET6 ? 2 : 1); with++)
		for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
			for (int n = 0; n < 1 << i; n++, hand.id++) {
				size_t before = with ? sizeof(options) : 0;

				memcpy(datagram, options, before);
				make_datagram(&hand, datagram + before, ALL_PIECES - before,
					      PIECES_PORT);
				for (const char *at = orders[i]; *at; at++)
					if (send_piece(&hand, datagram, *at - '0', with))
						return 1;
			}
	return 0;
}

/* Each datagram with one more extension header than the one before. */
static int udp_behind_options(const void *arg, int ready)
{
	const struct odd *odd = arg;
	int receiver = open_in(odd, RIG_DEVICE, SOCK_DGRAM, odd->device, OPTIONS_PORT);
	unsigned char payload[8 * OPTIONS + BYTES];
	struct by_hand hand;

	if (receiver < 0 || open_by_hand(&hand, odd) < 0)
		return 1;
	for (size_t count = 1; count <= 8; count++) {
		for (size_t i = 0; i < count; i++) {
			unsigned char options[OPTIONS] = {
				i + 1 < count ? IPPROTO_DSTOPTS : IPPROTO_UDP, 0, 1, 4};

			memcpy(payload + i * OPTIONS, options, OPTIONS);
		}
		make_datagram(&hand, payload + count * OPTIONS, BYTES, OPTIONS_PORT);
		for (int i = 0; i < DATAGRAMS; i++)
			if (send_packet(&hand, IPPROTO_DSTOPTS, payload, count * OPTIONS + BYTES,
					0))
				return 1;
	}
	return 0;
}

/* ---- connections that begin in odd ways ---- */
#define FAST_PORT  7420
#define CROSS_PORT 7421
#define MOVED      200000
#define FAST_COUNT 4

/* That many bytes there and back, by one thread, and the end of both. */
static int exchange(int near, int far)
{
	static char buffer[8192];

	for (int from = near, to = far, turn = 0; turn < 2; turn++, from = far, to = near)
		for (size_t moved = 0; moved < MOVED; moved += sizeof(buffer))
			if (traffic_move(from, sizeof(buffer), true) ||
			    traffic_move(to, sizeof(buffer), false))
				return 1;
	return close(near) | close(far);
}

/* TCP Fast Open: from the second connection on the SYN has data. */
static int tcp_fast_open(const void *arg, int ready)
{
	const struct odd *odd = arg;
	int listener = open_in(odd, RIG_DEVICE, SOCK_STREAM, odd->device, FAST_PORT), queue = 8;
	static const char both[] = "3";

	if (rig_write("/proc/sys/net/ipv4/tcp_fastopen", both) ||
	    setsockopt(listener, IPPROTO_TCP, TCP_FASTOPEN, &queue, sizeof(queue)))
		return 77;
	if (listen(listener, 8))
		return 1;
	for (int i = 0; i < FAST_COUNT; i++) {
		int client = open_in(odd, RIG_PEER, SOCK_STREAM, odd->peer, 0), served;
		struct sockaddr_storage to;
		char data[BYTES] = {0};
		socklen_t length =
			traffic_address(&to, odd->family, address_of(odd, RIG_DEVICE), FAST_PORT);
		struct tcp_info info;

		rig_write("/proc/sys/net/ipv4/tcp_fastopen", both);
		if (sendto(client, data, sizeof(data), MSG_FASTOPEN, (void *)&to, length) !=
		    sizeof(data))
			return 2;
		served = accept(listener, NULL, NULL);
		/* accept() gives the socket to who calls it. */
		if (served < 0 || fchown(served, odd->device, (gid_t)-1) ||
		    traffic_move(served, sizeof(data), false))
			return 3;
		length = sizeof(info);
		getsockopt(client, IPPROTO_TCP, TCP_INFO, &info, &length);
		if (i && !(info.tcpi_options & TCPI_OPT_SYN_DATA))
			return 4;
		if (exchange(client, served))
			return 5;
	}
	return 0;
}

/* Both connect at the same time: the first one's SYN does not arrive. */
static int tcp_crossed(const void *arg, int ready)
{
	static const unsigned char nobody[6] = {2, 0, 0, 0, 0, 99};
	const struct odd *odd = arg;
	int near = open_in(odd, RIG_DEVICE, SOCK_STREAM, odd->device, CROSS_PORT), far, err;

	fcntl(near, F_SETFL, O_NONBLOCK);
	if (rig_neighbour("wl0", address_of(odd, RIG_PEER), nobody))
		return 1;
	err = point(near, odd, address_of(odd, RIG_PEER), CROSS_PORT);
	if (!err || errno != EINPROGRESS || rig_neighbour("wl0", address_of(odd, RIG_PEER), NULL))
		return 2;
	far = open_in(odd, RIG_PEER, SOCK_STREAM, odd->peer, CROSS_PORT);
	if (point(far, odd, address_of(odd, RIG_DEVICE), CROSS_PORT))
		return 3;
	fcntl(near, F_SETFL, 0);
	return exchange(near, far);
}

/* ---- rows ---- */
static int run_odd(const struct bench *bench, const struct net_case *net_case, uid_t device,
		   uid_t peer, rig_fn fn)
{
	struct odd odd = {.rig = &bench->rig,
			  .device = device,
			  .peer = peer,
			  .family = net_case->family,
			  .samples = &bench->shared->samples};

	return rig_wait(rig_spawn(&bench->rig, RIG_DEVICE, 0, fn, &odd, NULL));
}

static int run_moves(const struct bench *bench, const struct net_case *net_case, uid_t device,
		     uid_t peer)
{
	return run_odd(bench, net_case, device, peer, udp_moves);
}

static int run_lite(const struct bench *bench, const struct net_case *net_case, uid_t device,
		    uid_t peer)
{
	return run_odd(bench, net_case, device, peer, udp_lite);
}

static int run_pieces(const struct bench *bench, const struct net_case *net_case, uid_t device,
		      uid_t peer)
{
	return run_odd(bench, net_case, device, peer, udp_in_pieces);
}

static int run_options(const struct bench *bench, const struct net_case *net_case, uid_t device,
		       uid_t peer)
{
	return run_odd(bench, net_case, device, peer, udp_behind_options);
}

static int run_fast_open(const struct bench *bench, const struct net_case *net_case, uid_t device,
			 uid_t peer)
{
	return run_odd(bench, net_case, device, peer, tcp_fast_open);
}

static int run_crossed(const struct bench *bench, const struct net_case *net_case, uid_t device,
		       uid_t peer)
{
	return run_odd(bench, net_case, device, peer, tcp_crossed);
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
	{{"UDP-Lite", run_lite, AF_INET}, {"its receiver", "who has the same port of UDP"}},
	{{"UDP-Lite, IPv6", run_lite, AF_INET6}, {"its receiver", "who has the same port of UDP"}},
	{{"fragments in any order", run_pieces, AF_INET}, {"the receiver"}},
	{{"fragments in any order, IPv6", run_pieces, AF_INET6}, {"the receiver"}},
	{{"1 to 8 extension headers", run_options, AF_INET6}, {"the receiver"}},
	{{"TCP Fast Open", run_fast_open, AF_INET}, {"the server"}},
	{{"TCP Fast Open, IPv6", run_fast_open, AF_INET6}, {"the server"}},
	{{"TCP, both ends connect", run_crossed, AF_INET}, {"the one"}},
	{{"TCP, both ends connect, IPv6", run_crossed, AF_INET6}, {"the one"}},
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

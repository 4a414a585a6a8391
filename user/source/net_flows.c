/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/net_flows.h"
#include <bpf/bpf.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include "source/net_diag.h"
#include "source/net_map.h"

#define MAX_NAMESPACES 1024
/* An entry whose owner cannot be found is kept that many read-outs after its last packet. */
#define IDLE_READS 10

/* A flow of either family; IPv4 addresses are in word 0. */
struct flow_key {
	struct net_flow6 flow;
	uint32_t ipv6;
};

/* What was read of one waiting entry so far. */
struct waiting_flow {
	struct flow_key key;
	struct net_waiting seen;
	uint64_t owner;                /* found by us and noted in the flow table; 0: none */
	bool forwarded;                /* as of the last time: its sockets need not be asked for */
	uint32_t active;               /* epoch in which bytes last came */
	uint32_t read;                 /* epoch in which it was last seen in the map */
	uint64_t bytes[2], packets[2]; /* of this read, not booked yet, by part */
	UT_hash_handle hh;
};

struct net_flows {
	struct net_flows_maps maps;
	net_book_fn book;
	void *ctx;
	struct waiting_flow *waiting;
	uint32_t epoch;
	bool blind;
	bool crowded; /* the waiting map is more than three quarters full */
};

struct net_flows *net_flows_new(const struct net_flows_maps *maps, net_book_fn book, void *ctx)
{
	struct net_flows *flows = calloc(1, sizeof(*flows));

	if (!flows)
		return NULL;
	flows->maps = *maps;
	flows->book = book;
	flows->ctx = ctx;
	return flows;
}

void net_flows_free(struct net_flows *flows)
{
	struct waiting_flow *one, *next;

	if (!flows)
		return;
	HASH_ITER (hh, flows->waiting, one, next) {
		HASH_DEL(flows->waiting, one);
		free(one);
	}
	free(flows);
}

/* ---- keys ---- */
static void key_from4(struct flow_key *key, const struct net_flow4 *flow)
{
	memset(key, 0, sizeof(*key));
	key->flow.netns = flow->netns;
	key->flow.local[0] = flow->local;
	key->flow.remote[0] = flow->remote;
	key->flow.local_port = flow->local_port;
	key->flow.remote_port = flow->remote_port;
	key->flow.protocol = flow->protocol;
}

static void key_from6(struct flow_key *key, const struct net_flow6 *flow)
{
	memset(key, 0, sizeof(*key));
	key->flow = *flow;
	key->ipv6 = 1;
}

/* The key as the kernel's map of that family has it. */
static const void *kernel_key(const struct flow_key *key, struct net_flow4 *flow4)
{
	if (key->ipv6)
		return &key->flow;
	*flow4 = (struct net_flow4){.netns = key->flow.netns,
				    .local = key->flow.local[0],
				    .remote = key->flow.remote[0],
				    .local_port = key->flow.local_port,
				    .remote_port = key->flow.remote_port,
				    .protocol = key->flow.protocol};
	return flow4;
}

static int note_owner(const struct net_flows *flows, const struct flow_key *key, uint64_t owner)
{
	struct net_flow_owner value = {.owner = owner, .epoch = flows->epoch};
	struct net_flow4 flow4;
	const void *kkey = kernel_key(key, &flow4);
	int err = bpf_map_update_elem(key->ipv6 ? flows->maps.flows6 : flows->maps.flows4, kkey,
				      &value, BPF_NOEXIST);

	return err == -EEXIST ? 0 : err; /* the kernel side knows better */
}

static uint64_t noted_owner(const struct net_flows *flows, const struct flow_key *key)
{
	struct net_flow_owner value = {0};
	struct net_flow4 flow4;
	const void *kkey = kernel_key(key, &flow4);

	if (bpf_map_lookup_elem(key->ipv6 ? flows->maps.flows6 : flows->maps.flows4, kkey, &value))
		return 0;
	return value.owner;
}

/* A short connection may have opened and closed since the map was read: then its sockets tell
 * nothing any more, but the kernel side has left word in the entry. */
static uint64_t waiting_owner(const struct net_flows *flows, const struct flow_key *key, int part)
{
	struct net_waiting value = {0};
	struct net_flow4 flow4;
	const void *kkey = kernel_key(key, &flow4);

	if (bpf_map_lookup_elem(key->ipv6 ? flows->maps.waiting6 : flows->maps.waiting4, kkey,
				&value))
		return 0;
	return value.part[part].owner;
}

static struct net_diag_query query_of(const struct flow_key *key)
{
	struct net_diag_query query = {.netns = key->flow.netns,
				       .ipv6 = key->ipv6,
				       .protocol = key->flow.protocol == IPPROTO_UDPLITE
							   ? IPPROTO_UDP
							   : key->flow.protocol,
				       .local_port = key->flow.local_port,
				       .remote_port = key->flow.remote_port};

	memcpy(query.local, key->flow.local, 16);
	memcpy(query.remote, key->flow.remote, 16);
	return query;
}

static bool has_socket_table(uint8_t protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_UDPLITE;
}

/* ---- namespaces to ask ---- */
struct wanted {
	uint32_t namespaces[MAX_NAMESPACES];
	size_t count;
	bool tcp, udp;
};

static void want(struct wanted *wanted, const struct flow_key *key, bool sockets)
{
	size_t i;

	if (sockets && key->flow.protocol == IPPROTO_TCP)
		wanted->tcp = true;
	else if (sockets && has_socket_table(key->flow.protocol))
		wanted->udp = true;
	for (i = 0; i < wanted->count; i++)
		if (wanted->namespaces[i] == key->flow.netns)
			return;
	if (wanted->count < MAX_NAMESPACES)
		wanted->namespaces[wanted->count++] = key->flow.netns;
}

static int ask(struct net_diag *diag, const struct wanted *wanted)
{
	struct net_diag_request request = {.namespaces = wanted->namespaces,
					   .namespace_count = wanted->count,
					   .tcp = wanted->tcp,
					   .udp = wanted->udp};

	return net_diag_read(diag, &request);
}

/* gone_counts: one that was not found is one, too; among all of them it has merely ended. */
static size_t count_unreadable(const struct net_diag *diag, bool gone_counts)
{
	size_t unreadable = 0, i;

	for (i = 0; i < diag->namespace_count; i++)
		if (diag->namespaces[i].error &&
		    (gone_counts || diag->namespaces[i].error != -ENOENT))
			unreadable++;
	return unreadable;
}

/* ---- start ---- */
int net_flows_prime(struct net_flows *flows, uint32_t epoch, struct counter_list *lost)
{
	struct net_diag_request request = {.tcp = true, .udp = true};
	struct net_diag diag;
	uint64_t full = 0;
	size_t i;
	int err = net_diag_read(&diag, &request);

	flows->epoch = epoch;
	for (i = 0; !err && i < diag.socket_count; i++) {
		const struct net_diag_socket *sock = &diag.sockets[i];
		struct flow_key key = {.ipv6 = sock->ipv6};

		if (!sock->remote_port || !sock->inode)
			continue;
		key.flow.netns = sock->netns;
		memcpy(key.flow.local, sock->local, 16);
		memcpy(key.flow.remote, sock->remote, 16);
		key.flow.local_port = sock->local_port;
		key.flow.remote_port = sock->remote_port;
		key.flow.protocol = sock->protocol;
		if (note_owner(flows, &key, NET_OWNER(NET_OWNER_UID, sock->uid)))
			full++;
	}
	if (!err)
		err = counter_list_add(lost, "net_flow_map_full", full);
	flows->blind = count_unreadable(&diag, false) > 0;
	if (!err)
		err = counter_list_add(lost, "net_namespace_unreadable",
				       count_unreadable(&diag, false));
	net_diag_free(&diag);
	return err;
}

/* ---- read-out ---- */
static int book_owner(const struct net_flows *flows, uint64_t owner, uint64_t bytes,
		      uint64_t packets)
{
	enum net_bucket bucket =
		owner >> 32 == NET_OWNER_KERNEL ? NET_BUCKET_KERNEL : NET_BUCKET_UID;

	return bytes ? flows->book(flows->ctx, bucket, (uint32_t)owner, bytes, packets) : 0;
}

static void drop(struct net_flows *flows, struct waiting_flow *one)
{
	HASH_DEL(flows->waiting, one);
	free(one);
}

/* Book what came since the last read; what has no owner stays in one->bytes for resolve(). */
static int account(struct net_flows *flows, struct waiting_flow *one, const struct net_waiting *now)
{
	int err = 0, i;

	for (i = 0; i < 2 && !err; i++) {
		uint64_t bytes = now->part[i].bytes - one->seen.part[i].bytes;
		uint64_t packets = now->part[i].packets - one->seen.part[i].packets;
		uint64_t owner = now->part[i].owner ? now->part[i].owner : one->owner;

		if (!bytes)
			continue;
		one->active = flows->epoch;
		if (owner && (i == 0 || now->part[i].owner)) {
			err = book_owner(flows, owner, bytes, packets);
		} else {
			one->bytes[i] = bytes;
			one->packets[i] = packets;
		}
	}
	one->seen = *now;
	return err;
}

/* Remove an entry that nothing is added to any more. Once the flow table has the owner, packets go
 * there; an idle entry may get one in the very instant, so it is read while it is removed. */
static int remove_entry(struct net_flows *flows, struct waiting_flow *one)
{
	int fd = one->key.ipv6 ? flows->maps.waiting6 : flows->maps.waiting4;
	struct net_flow4 flow4;
	const void *key = kernel_key(&one->key, &flow4);
	struct net_waiting last;
	int err = bpf_map_lookup_and_delete_elem(fd, key, &last), i;

	if (err) { /* 3e87f192b405 (5.14) made that possible for hashes */
		if (bpf_map_lookup_elem(fd, key, &last))
			last = one->seen;
		bpf_map_delete_elem(fd, key);
	}
	for (i = 0, err = 0; i < 2 && !err; i++) {
		uint64_t owner = last.part[i].owner ? last.part[i].owner : one->owner;
		uint64_t bytes = last.part[i].bytes - one->seen.part[i].bytes;
		uint64_t packets = last.part[i].packets - one->seen.part[i].packets;

		if (bytes && owner && (i == 0 || last.part[i].owner))
			err = book_owner(flows, owner, bytes, packets);
		else if (bytes)
			err = flows->book(flows->ctx, NET_BUCKET_NO_SOCKET, 0, bytes, packets);
	}
	drop(flows, one);
	return err;
}

static int read_waiting(struct net_flows *flows, const struct flow_key *key,
			const struct net_waiting *now)
{
	struct waiting_flow *one;
	int err;

	HASH_FIND(hh, flows->waiting, key, sizeof(*key), one);
	if (!one) {
		one = calloc(1, sizeof(*one));
		if (!one)
			return -ENOMEM;
		one->key = *key;
		one->active = flows->epoch;
		HASH_ADD(hh, flows->waiting, key, sizeof(one->key), one);
	} else if (one->read == flows->epoch) {
		return 0; /* the walk met it twice */
	}
	one->read = flows->epoch;
	err = account(flows, one, now);
	if (err || one->active == flows->epoch)
		return err;
	if (one->owner || now->part[0].owner || flows->crowded ||
	    flows->epoch - one->active >= IDLE_READS)
		err = remove_entry(flows, one);
	return err;
}

static int read_waiting4(void *ctx, const void *key, const void *value)
{
	struct flow_key flow;

	key_from4(&flow, key);
	return read_waiting(ctx, &flow, value);
}

static int read_waiting6(void *ctx, const void *key, const void *value)
{
	struct flow_key flow;

	key_from6(&flow, key);
	return read_waiting(ctx, &flow, value);
}

/* Find the owner of what one part of a flow received, and note it where the next packets must find
 * it. A late segment (part 1) meets TIME_WAIT or, where the other side closed first, the listener.
 */
static int resolve(struct net_flows *flows, struct waiting_flow *one, int part,
		   const struct net_diag *diag, uint64_t *full)
{
	const struct flow_key *key = &one->key;
	struct net_diag_query query = query_of(key);
	const struct net_diag_socket *sock;
	enum net_bucket bucket = NET_BUCKET_NO_SOCKET;
	uint64_t bytes = one->bytes[part], packets = one->packets[part];
	uint64_t owner = noted_owner(flows, key);

	if (part == 0)
		one->owner = owner;
	if (!owner)
		owner = waiting_owner(flows, key, part);
	if (owner)
		return book_owner(flows, owner, bytes, packets);
	if (!net_diag_has_namespace(diag, key->flow.netns)) {
		flows->blind = true;
		return flows->book(flows->ctx, NET_BUCKET_UNKNOWN, 0, bytes, packets);
	}
	one->forwarded = !net_diag_is_local(diag, key->flow.netns, key->ipv6, key->flow.local);
	if (one->forwarded) {
		bucket = NET_BUCKET_FORWARDED;
	} else if (!has_socket_table(key->flow.protocol)) {
		bucket = NET_BUCKET_KERNEL;
	} else if (key->flow.local_port && (sock = net_diag_find(diag, &query))) {
		owner = NET_OWNER(NET_OWNER_UID, sock->uid);
		/* A listener owns the first segment, not yet the flow. */
		if (sock->protocol != IPPROTO_TCP || sock->remote_port) {
			if (note_owner(flows, key, owner))
				++*full;
			else
				one->owner = owner;
		}
		return book_owner(flows, owner, bytes, packets);
	}
	return flows->book(flows->ctx, bucket, 0, bytes, packets);
}

int net_flows_read(struct net_flows *flows, uint32_t epoch, struct counter_list *lost)
{
	struct wanted *wanted = calloc(1, sizeof(*wanted));
	struct net_diag diag = {0};
	struct waiting_flow *one, *next;
	uint64_t full = 0;
	int err = -ENOMEM, part;

	if (!wanted)
		return err;
	flows->epoch = epoch;
	flows->crowded = HASH_COUNT(flows->waiting) > flows->maps.waiting_entries / 4 * 3;
	err = net_map_read(flows->maps.waiting4, sizeof(struct net_flow4),
			   sizeof(struct net_waiting), flows->maps.waiting_entries, read_waiting4,
			   flows);
	if (!err)
		err = net_map_read(flows->maps.waiting6, sizeof(struct net_flow6),
				   sizeof(struct net_waiting), flows->maps.waiting_entries,
				   read_waiting6, flows);
	if (err)
		goto cleanup;
	/* Sockets are asked for after the map was read: who received then still lives, mostly. */
	HASH_ITER (hh, flows->waiting, one, next)
		if (one->bytes[0] || one->bytes[1])
			want(wanted, &one->key, !one->forwarded);
	if (wanted->count) {
		flows->blind = false;
		err = ask(&diag, wanted);
	}
	HASH_ITER (hh, flows->waiting, one, next) {
		for (part = 0; part < 2; part++) {
			if (one->bytes[part] && !err)
				err = resolve(flows, one, part, &diag, &full);
			one->bytes[part] = one->packets[part] = 0;
		}
	}
	if (!err)
		err = counter_list_add(lost, "net_flow_map_full", full);
	if (!err && flows->blind)
		err = counter_list_add(lost, "net_namespace_unreadable",
				       count_unreadable(&diag, true));
cleanup:
	net_diag_free(&diag);
	free(wanted);
	return err;
}

bool net_flows_are_blind(const struct net_flows *flows)
{
	return flows->blind;
}

/* ---- sweep ---- */
struct sweep {
	struct net_flows *flows;
	struct swept_flow {
		struct flow_key key;
		uint64_t owner;
		uint32_t idle;
	} * known;
	size_t count, room;
	struct wanted wanted;
	uint32_t idle_epochs;
};

/* Forgetting a flow loses no byte: what comes next waits for its
 * owner again. UDP flows are all looked at; a TCP flow goes at CLOSE, so only one that is idle can
 * be stale. */
static int remember(struct sweep *sweep, const struct flow_key *key, const void *value)
{
	const struct net_flow_owner *owner = value;
	uint32_t idle = sweep->flows->epoch - owner->epoch;
	struct swept_flow *known;

	if (idle < sweep->idle_epochs &&
	    (key->flow.protocol == IPPROTO_TCP || !has_socket_table(key->flow.protocol)))
		return 0;
	if (sweep->count == sweep->room) {
		size_t room = sweep->room ? sweep->room * 2 : 64;

		known = realloc(sweep->known, room * sizeof(*known));
		if (!known)
			return -ENOMEM;
		sweep->known = known;
		sweep->room = room;
	}
	known = &sweep->known[sweep->count++];
	known->key = *key;
	known->idle = idle;
	known->owner = owner->owner;
	if (has_socket_table(key->flow.protocol))
		want(&sweep->wanted, key, true);
	return 0;
}

static int remember4(void *ctx, const void *key, const void *value)
{
	struct flow_key flow;

	key_from4(&flow, key);
	return remember(ctx, &flow, value);
}

static int remember6(void *ctx, const void *key, const void *value)
{
	struct flow_key flow;

	key_from6(&flow, key);
	return remember(ctx, &flow, value);
}

int net_flows_sweep(struct net_flows *flows, uint32_t epoch, uint32_t idle_epochs)
{
	struct sweep *sweep = calloc(1, sizeof(*sweep));
	struct net_diag diag = {0};
	size_t i;
	int err = -ENOMEM;

	if (!sweep)
		return err;
	flows->epoch = epoch;
	sweep->flows = flows;
	sweep->idle_epochs = idle_epochs;
	err = net_map_read(flows->maps.flows4, sizeof(struct net_flow4),
			   sizeof(struct net_flow_owner), flows->maps.flow_entries, remember4,
			   sweep);
	if (!err)
		err = net_map_read(flows->maps.flows6, sizeof(struct net_flow6),
				   sizeof(struct net_flow_owner), flows->maps.flow_entries,
				   remember6, sweep);
	/* Flows first, sockets second: a flow without a socket then has lost it, and is not merely
	 * younger than the dump. */
	if (!err && sweep->wanted.count)
		err = ask(&diag, &sweep->wanted);
	for (i = 0; !err && i < sweep->count; i++) {
		const struct flow_key *key = &sweep->known[i].key;
		struct net_diag_query query = query_of(key);
		struct net_flow4 flow4;

		if (has_socket_table(key->flow.protocol) &&
		    net_diag_has_namespace(&diag, key->flow.netns)) {
			const struct net_diag_socket *sock = net_diag_find(&diag, &query);
			uint64_t owner = sweep->known[i].owner;

			if (sock && (owner >> 32 != NET_OWNER_UID ||
				     net_diag_has_owner(&diag, &query, (uint32_t)owner)))
				continue;
		} else if (sweep->known[i].idle < idle_epochs) {
			continue;
		}
		bpf_map_delete_elem(key->ipv6 ? flows->maps.flows6 : flows->maps.flows4,
				    kernel_key(key, &flow4));
	}
	net_diag_free(&diag);
	free(sweep->known);
	free(sweep);
	return err;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Whose the waiting bytes are that the kernel side does not know: asked, and answered later. */
#include <errno.h>
#include <stdlib.h>
#include "source/net/flows_private.h"
#include "util/clock.h"

#define TRIES 3 /* dumps of a namespace that is there and cannot be read */

static struct net_diag_query query_of(const struct net_flows *flows, const struct flow_key *key)
{
	struct net_diag_query query = {.netns = dump_netns(key->flow.netns, flows->maps.by_cookie),
				       .ipv6 = key->ipv6,
				       .protocol = key->flow.protocol,
				       .local_port = key->flow.local_port,
				       .remote_port = key->flow.remote_port};

	memcpy(query.local, key->flow.local, 16);
	memcpy(query.remote, key->flow.remote, 16);
	return query;
}

static uint64_t netns_of(const struct net_flows *flows, const struct waiting_flow *one)
{
	return dump_netns(one->key.flow.netns, flows->maps.by_cookie);
}

static bool is_hidden(const struct net_flows *flows, const struct waiting_flow *one,
		      uint64_t now_ns)
{
	return net_hidden_is(&flows->hidden, netns_of(flows, one), now_ns);
}

/* ---- asking ---- */
static void want(struct net_diag_request_wire *request, uint64_t netns)
{
	for (uint32_t i = 0; i < request->namespace_count; i++)
		if (request->namespaces[i] == netns)
			return;
	if (request->namespace_count < NET_DIAG_MAX_NAMESPACES)
		request->namespaces[request->namespace_count++] = netns;
}

static bool was_asked(const struct net_diag_request_wire *request, uint64_t netns)
{
	for (uint32_t i = 0; i < request->namespace_count; i++)
		if (request->namespaces[i] == netns)
			return true;
	return false;
}

/* Sockets need not be asked for where the kernel side saw who took the packet, or that nobody did:
 * then only its address is the question. */
static void want_flow(const struct net_flows *flows, struct net_diag_request_wire *request,
		      const struct waiting_flow *one)
{
	bool sockets = false;

	for (int i = 0; i < NET_WAITING_PARTS; i++)
		if (net_part_waits(one, i) && !net_owner_of_part(one, &one->seen, i) &&
		    !one->forwarded)
			sockets = true;
	if (sockets && one->key.flow.protocol == IPPROTO_TCP)
		request->flags |= NET_DIAG_WIRE_TCP;
	else if (sockets && one->key.flow.protocol == IPPROTO_UDP)
		request->flags |= NET_DIAG_WIRE_UDP;
	else if (sockets && one->key.flow.protocol == IPPROTO_UDPLITE)
		request->flags |= NET_DIAG_WIRE_UDPLITE;
	want(request, netns_of(flows, one));
}

static void note_asked(struct waiting_flow *one, bool asked)
{
	for (int i = 0; i < NET_WAITING_PARTS; i++) {
		one->asked_bytes[i] = asked ? one->bytes[i] : 0;
		one->asked_packets[i] = asked ? one->packets[i] : 0;
	}
}

/* Sockets are asked for after the map was read: who received then still lives, mostly. The answer
 * is about what was there at the question, and not about what comes after it. */
static void ask(struct net_flows *flows, uint64_t now_ns)
{
	struct net_diag_request_wire *request = calloc(1, sizeof(*request));
	struct waiting_flow *one, *next;

	if (!request)
		return;
	if (flows->maps.by_cookie)
		request->flags = NET_DIAG_WIRE_BY_COOKIE;
	HASH_ITER (hh, flows->waiting, one, next)
		if (net_has_bytes(one) && !is_hidden(flows, one, now_ns))
			want_flow(flows, request, one);
	if (!request->namespace_count || net_asker_ask(flows->asker, request))
		goto cleanup;
	flows->asked = ASKED_WAITING;
	HASH_ITER (hh, flows->waiting, one, next)
		if (!is_hidden(flows, one, now_ns))
			note_asked(one, was_asked(request, netns_of(flows, one)));
cleanup:
	free(request);
}

/* ---- answers ---- */
static size_t count_unreadable(const struct net_diag *diag)
{
	size_t unreadable = 0, i;

	for (i = 0; i < diag->namespace_count; i++)
		if (diag->namespaces[i].error)
			unreadable++;
	return unreadable;
}

static int book_asked(struct net_flows *flows, struct waiting_flow *one, int part,
		      enum net_bucket bucket, uint32_t uid)
{
	uint64_t bytes = one->asked_bytes[part], packets = one->asked_packets[part];

	one->bytes[part] -= bytes;
	one->packets[part] -= packets;
	one->asked_bytes[part] = one->asked_packets[part] = 0;
	return flows->book(flows->ctx, bucket, uid, net_interface_of_part(one, part), bytes,
			   packets);
}

/* The namespace of this flow could not be read. A dump that broke off is made again; whose the
 * sockets of a namespace were that is gone, nobody can tell any more. */
static int book_unreadable(struct net_flows *flows, struct waiting_flow *one, int part, int err)
{
	flows->blind = true;
	if (one->failed_at != flows->epoch)
		one->failed++;
	one->failed_at = flows->epoch;
	if (err != -ENOENT && one->failed < TRIES) {
		one->asked_bytes[part] = one->asked_packets[part] = 0;
		return 0;
	}
	if (net_may_be_owned(one, part))
		flows->unresolved += one->asked_bytes[part];
	return book_asked(flows, one, part, NET_BUCKET_UNKNOWN, 0);
}

/* Find the owner of what one part of a flow received, and note it where the next packets must find
 * it. */
static int resolve(struct net_flows *flows, struct waiting_flow *one, int part,
		   const struct net_diag *diag)
{
	const struct flow_key *key = &one->key;
	struct net_diag_query query = query_of(flows, key);
	uint64_t guess = net_owner_of_part(one, &one->seen, part);
	const struct net_diag_socket *sock;
	int err = net_diag_namespace_error(diag, query.netns);
	bool local;

	if (err)
		return book_unreadable(flows, one, part, err);
	one->failed = 0;
	local = net_diag_is_local(diag, query.netns, key->ipv6, key->flow.local);
	if (guess >> 32 == NET_OWNER_IF_LOCAL || guess >> 32 == NET_OWNER_KERNEL_IF_LOCAL) {
		net_locality_note(flows, key->flow.netns, key->ipv6, key->flow.local, local);
		if (local)
			return book_asked(flows, one, part,
					  guess >> 32 == NET_OWNER_IF_LOCAL ? NET_BUCKET_UID
									    : NET_BUCKET_KERNEL,
					  (uint32_t)guess);
	}
	one->forwarded = !local;
	if (!local)
		return book_asked(flows, one, part, NET_BUCKET_FORWARDED, 0);
	if (!has_socket_table(key->flow.protocol))
		return book_asked(flows, one, part, NET_BUCKET_KERNEL, 0);
	if (guess >> 32 == NET_OWNER_NO_SOCKET || !key->flow.local_port)
		return book_asked(flows, one, part, NET_BUCKET_NO_SOCKET, 0);
	sock = net_diag_find(diag, &query);
	if (!sock)
		return book_asked(flows, one, part, NET_BUCKET_NO_SOCKET, 0);
	/* A listener owns the first segment, not yet the flow. A flow of UDP is looked up by the
	 * kernel side as soon as it can. */
	if (part == NET_WAITING_FIRST && sock->protocol == IPPROTO_TCP && sock->remote_port) {
		uint64_t owner = NET_OWNER(NET_OWNER_UID, sock->uid);

		if (!net_flows_note(flows, key, owner))
			one->owner = owner;
	}
	return book_asked(flows, one, part, NET_BUCKET_UID, sock->uid);
}

/* Bytes that wait in a namespace that is not looked for now have no owner that can be told. They
 * wait for one read more, as with a question: the kernel side may come to know the owner. */
static int book_hidden(struct net_flows *flows, uint64_t now_ns)
{
	struct waiting_flow *one, *next;
	int err = 0;

	HASH_ITER (hh, flows->waiting, one, next) {
		if (err || !is_hidden(flows, one, now_ns))
			continue;
		for (int part = 0; part < NET_WAITING_PARTS && !err; part++)
			if (one->asked_bytes[part] || one->asked_packets[part])
				err = book_unreadable(flows, one, part, -ENOENT);
		note_asked(one, true);
	}
	return err;
}

int net_resolve_ask(struct net_flows *flows)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	int err;

	if (flows->asked != ASKED_NOTHING)
		return 0;
	err = book_hidden(flows, now_ns);
	if (!err)
		ask(flows, now_ns);
	return err;
}

static void note_found(struct net_flows *flows, const struct net_diag *diag)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	for (size_t i = 0; i < diag->namespace_count; i++)
		net_hidden_note(&flows->hidden, diag->namespaces[i].netns,
				diag->namespaces[i].error != -ENOENT, now_ns);
}

int net_resolve_answer(struct net_flows *flows, const struct net_diag *diag,
		       struct counter_list *counters)
{
	struct waiting_flow *one, *next;
	int err = 0, part;

	flows->blind = false;
	note_found(flows, diag);
	HASH_ITER (hh, flows->waiting, one, next)
		for (part = 0; part < NET_WAITING_PARTS && !err; part++)
			if (one->asked_bytes[part] || one->asked_packets[part])
				err = resolve(flows, one, part, diag);
	if (!err)
		err = net_locality_check(flows, diag);
	if (!err && flows->blind)
		err = counter_list_add(counters, "net_namespace_unreadable",
				       count_unreadable(diag));
	return err;
}

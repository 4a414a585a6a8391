/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/net/flows.h"
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include "source/net/flows_private.h"
#include "util/clock.h"

/* An entry whose owner cannot be found is kept that many read-outs after its last packet. */
#define IDLE_READS 10
/* The last dump is waited for so long, of the second that the end of a run may take: a dump takes a
 * millisecond on a phone and 200 in an emulated guest beside other work. */
#define FINAL_NS (400 * 1000 * 1000ull)
/* The waiting maps are walked at least so often, and the last time; in between only where entries
 * came, or so many are known that a walk is cheaper than to ask for each. */
#define WALK_NS   (10 * NSEC_PER_SEC)
#define KNOWN_MAX 64

void net_flows_drop(struct net_flows *flows, struct waiting_flow *one)
{
	HASH_DEL(flows->waiting, one);
	free(one);
}

struct net_flows *net_flows_new(const struct net_flows_maps *maps, struct warden *warden,
				net_book_fn book, void *ctx)
{
	struct net_flows *flows = calloc(1, sizeof(*flows));

	if (!flows)
		return NULL;
	flows->maps = *maps;
	flows->book = book;
	flows->ctx = ctx;
	errno = -net_removal_check(flows);
	if (!errno)
		flows->asker = net_asker_new(warden);
	if (!flows->asker || net_prime_ask(flows)) {
		int err = errno;

		net_flows_free(flows);
		errno = err;
		return NULL;
	}
	return flows;
}

void net_flows_free(struct net_flows *flows)
{
	struct waiting_flow *one, *next;

	if (!flows)
		return;
	HASH_ITER (hh, flows->waiting, one, next)
		net_flows_drop(flows, one);
	net_diag_free(&flows->primed);
	net_diag_free(&flows->heard);
	net_asker_free(flows->asker);
	free(flows);
}

/* ---- what is known ---- */
/* A flow has one owner, whichever its waiting entry. */
static const void *owner_key(const struct flow_key *key, struct net_flow6 *flow6,
			     struct net_flow4 *flow4)
{
	struct flow_key first = *key;

	first.flow.turn = 0;
	*flow6 = first.flow;
	return key->ipv6 ? flow6 : kernel_key(&first, flow4);
}

int net_flows_note(struct net_flows *flows, const struct flow_key *key, uint64_t owner)
{
	struct net_flow_owner value = {.owner = owner, .epoch = flows->epoch};
	struct net_flow6 flow6;
	struct net_flow4 flow4;
	const void *kkey = owner_key(key, &flow6, &flow4);
	int err;

	if (bpf_map_update_elem(key->ipv6 ? flows->maps.flows6 : flows->maps.flows4, kkey, &value,
				BPF_NOEXIST) == 0)
		return 0;
	err = -errno;
	if (err == -EEXIST)
		return 0;
	flows->full++;
	return err;
}

static uint64_t noted_owner(const struct net_flows *flows, const struct flow_key *key)
{
	struct net_flow_owner value = {0};
	struct net_flow6 flow6;
	struct net_flow4 flow4;
	const void *kkey = owner_key(key, &flow6, &flow4);

	if (bpf_map_lookup_elem(key->ipv6 ? flows->maps.flows6 : flows->maps.flows4, kkey, &value))
		return 0;
	return value.owner;
}

static int book_owner(const struct net_flows *flows, uint64_t owner, uint32_t interface,
		      uint64_t bytes, uint64_t packets)
{
	enum net_bucket bucket = NET_BUCKET_UID;

	if (owner >> 32 == NET_OWNER_KERNEL)
		bucket = NET_BUCKET_KERNEL;
	else if (owner >> 32 == NET_OWNER_FORWARDED)
		bucket = NET_BUCKET_FORWARDED;
	return flows->book(flows->ctx, bucket, (uint32_t)owner, interface, bytes, packets);
}

/* ---- read-out of what waits ---- */
static int book_part(const struct net_flows *flows, struct waiting_flow *one, int part,
		     uint64_t owner)
{
	uint64_t bytes = one->bytes[part], packets = one->packets[part];

	one->bytes[part] = one->packets[part] = 0;
	one->asked_bytes[part] = one->asked_packets[part] = 0;
	return book_owner(flows, owner, net_interface_of_part(one, part), bytes, packets);
}

int net_flows_account(struct net_flows *flows, struct waiting_flow *one,
		      const struct net_waiting *now)
{
	int err = 0, i;

	for (i = 0; i < NET_WAITING_PARTS && !err; i++) {
		uint64_t owner = net_owner_of_part(one, now, i);

		if (now->part[i].bytes != one->seen.part[i].bytes)
			one->active = flows->epoch;
		one->bytes[i] += now->part[i].bytes - one->seen.part[i].bytes;
		one->packets[i] += (uint32_t)(now->part[i].packets - one->seen.part[i].packets);
		one->seen.part[i].interface = now->part[i].interface;
		if (net_part_waits(one, i) && net_is_settled(owner))
			err = book_part(flows, one, i, owner);
	}
	one->seen = *now;
	return err;
}

/* The connection that now stands between these ports, if any, has its owner. */
static bool is_learnt(const struct net_waiting *now)
{
	return now->current < NET_WAITING_PARTS && now->current != NET_WAITING_LATE &&
	       net_is_settled(now->part[now->current].owner);
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
	} else if (one->read == flows->walks) {
		return 0; /* the walk met it twice */
	}
	one->read = flows->walks;
	one->removed = false;
	err = net_flows_account(flows, one, now);
	if (err || one->closed || net_has_bytes(one))
		return err;
	/* Where the flow was learnt packets go there: room for the next ones that come in. */
	if (is_learnt(now) ||
	    (one->active != flows->epoch && (one->owner || now->part[0].owner || flows->crowded ||
					     flows->epoch - one->active >= IDLE_READS)))
		net_removal_add(flows, one);
	return 0;
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

/* Take the answer that is due, if it is there. */
static int hear(struct net_flows *flows, uint64_t timeout_ns)
{
	struct net_diag diag;
	int err = net_asker_take(flows->asker, timeout_ns, &diag);

	if (err == -EAGAIN)
		return 0;
	if (err) {
		flows->asked = ASKED_NOTHING; /* it is asked again */
		return err == -ENOMEM ? err : 0;
	}
	if (flows->asked == ASKED_PRIME) {
		flows->primed = diag;
		flows->asked = ASKED_NOTHING;
		return 0;
	}
	flows->heard = diag;
	flows->has_heard = true;
	return 0;
}

/* The maps were read after the answer was heard. Where the kernel side knows the owner, that was
 * settled: a connection can open, close and leave its TIME_WAIT between the question about its SYN
 * and the dump, which then knows nobody. */
static int use_answer(struct net_flows *flows, struct counter_list *counters)
{
	int err;

	if (!flows->has_heard)
		return 0;
	if (flows->asked == ASKED_WAITING)
		err = net_resolve_answer(flows, &flows->heard, counters);
	else
		err = net_locality_check(flows, &flows->heard);
	net_diag_free(&flows->heard);
	flows->has_heard = false;
	flows->asked = ASKED_NOTHING;
	return err;
}

/* ---- the read ---- */
/* By now the kernel side may know: a flow that was learnt has its owner in the table, and a short
 * connection that opened and closed left word in the entry (account() saw that). */
static int settle_known(struct net_flows *flows, struct waiting_flow *one)
{
	uint32_t part = one->seen.current;
	uint64_t owner;

	if (part >= NET_WAITING_PARTS || part == NET_WAITING_LATE ||
	    !net_part_waits(one, (int)part) || net_owner_of_part(one, &one->seen, (int)part))
		return 0;
	owner = noted_owner(flows, &one->key);
	if (!net_is_settled(owner))
		return 0;
	if (part == NET_WAITING_FIRST)
		one->owner = owner;
	return book_part(flows, one, (int)part, owner);
}

static int settle_all(struct net_flows *flows)
{
	struct waiting_flow *one, *next;
	int err = 0;

	HASH_ITER (hh, flows->waiting, one, next) {
		if (!err)
			err = settle_known(flows, one);
		if (one->removed && !net_has_bytes(one))
			net_flows_drop(flows, one);
	}
	return err;
}

static uint64_t pending_bytes(const struct net_flows *flows)
{
	const struct waiting_flow *one;
	uint64_t bytes = 0;

	for (one = flows->waiting; one; one = one->hh.next)
		for (int i = 0; i < NET_WAITING_PARTS; i++)
			bytes += one->bytes[i];
	return bytes;
}

/* No answer comes any more: the rest has no owner, and is told so. */
static int give_up(struct net_flows *flows)
{
	struct waiting_flow *one, *next;
	int err = 0;

	HASH_ITER (hh, flows->waiting, one, next)
		for (int i = 0; i < NET_WAITING_PARTS && !err; i++) {
			if (net_may_be_owned(one, i))
				flows->unresolved += one->bytes[i];
			if (net_part_waits(one, i))
				err = flows->book(flows->ctx, NET_BUCKET_UNKNOWN, 0, 0,
						  one->bytes[i], one->packets[i]);
			one->bytes[i] = one->packets[i] = 0;
		}
	return err;
}

/* Read each entry that is known. */
static int read_known(struct net_flows *flows)
{
	struct waiting_flow *one, *next;
	struct net_waiting now;
	int err = 0;

	flows->walks++;
	HASH_ITER (hh, flows->waiting, one, next) {
		struct net_flow4 flow4;
		const void *key = kernel_key(&one->key, &flow4);

		if (!err && !one->removed &&
		    !bpf_map_lookup_elem(
			    one->key.ipv6 ? flows->maps.waiting6 : flows->maps.waiting4, key, &now))
			err = read_waiting(flows, &one->key, &now);
	}
	return err;
}

/* A walk goes over each bucket of two tables that are mostly empty. */
static bool knows_all(const struct net_flows *flows, uint32_t made, uint64_t now_ns)
{
	return flows->walked_ns && now_ns - flows->walked_ns < WALK_NS && made == flows->made &&
	       HASH_COUNT(flows->waiting) <= KNOWN_MAX;
}

static int read_maps(struct net_flows *flows)
{
	uint32_t made = __atomic_load_n(flows->maps.waiting_made, __ATOMIC_ACQUIRE);
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	int err;

	if (knows_all(flows, made, now_ns)) {
		err = read_known(flows);
		if (!err)
			err = net_removal_go_on(flows);
		return err ? err : settle_all(flows);
	}
	flows->made = made;
	flows->walked_ns = now_ns;
	flows->walks++;
	flows->crowded = HASH_COUNT(flows->waiting) > flows->maps.waiting_entries / 4 * 3;
	err = map_read(flows->maps.waiting4, sizeof(struct net_flow4), sizeof(struct net_waiting),
		       flows->maps.waiting_entries, read_waiting4, flows);
	if (!err)
		err = map_read(flows->maps.waiting6, sizeof(struct net_flow6),
			       sizeof(struct net_waiting), flows->maps.waiting_entries,
			       read_waiting6, flows);
	if (!err)
		err = net_removal_go_on(flows);
	return err ? err : settle_all(flows);
}

static int hear_and_use(struct net_flows *flows, uint64_t timeout_ns, struct counter_list *counters)
{
	int err = hear(flows, timeout_ns);

	if (!err)
		err = read_maps(flows);
	return err ? err : use_answer(flows, counters);
}

static int ask_last(struct net_flows *flows, struct counter_list *counters)
{
	int err = flows->asked == ASKED_NOTHING ? 0 : hear_and_use(flows, FINAL_NS, counters);

	net_asker_hurry(flows->asker);
	if (!err)
		err = net_resolve_ask(flows);
	if (!err && flows->asked == ASKED_WAITING)
		err = hear_and_use(flows, FINAL_NS, counters);
	return err ? err : give_up(flows);
}

int net_flows_read(struct net_flows *flows, uint32_t epoch, bool final,
		   struct counter_list *counters)
{
	uint64_t replaced;
	int err;

	flows->epoch = epoch;
	if (final)
		flows->walked_ns = 0;
	err = hear(flows, 0);
	if (!err)
		err = net_prime_go_on(flows);
	if (!err)
		err = read_maps(flows);
	if (!err)
		err = use_answer(flows, counters);
	if (!err && final) {
		err = ask_last(flows, counters);
	} else if (!err) {
		err = net_resolve_ask(flows);
		if (!err)
			err = net_locality_ask(flows);
	}
	if (!err)
		err = counter_list_add(counters, "net_pending_bytes", pending_bytes(flows));
	if (!err)
		err = counter_list_add(counters, "net_flow_map_full", flows->full);
	flows->full = 0;
	if (!err)
		err = counter_list_add(counters, "net_unresolved_bytes", flows->unresolved);
	flows->unresolved = 0;
	replaced = net_asker_replaced(flows->asker);
	if (!err)
		err = counter_list_add(counters, "net_asker_replaced", replaced - flows->replaced);
	flows->replaced = replaced;
	return err;
}

bool net_flows_are_blind(const struct net_flows *flows)
{
	return flows->blind;
}

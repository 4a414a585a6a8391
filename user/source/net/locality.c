/* SPDX-License-Identifier: BSD-2-Clause */
/* Which addresses are a namespace's own, as far as the kernel side had to know. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include "source/net/flows_private.h"
#include "util/clock.h"

#define CHECK_NS (5 * NSEC_PER_SEC) /* an address that moved is known that late at the most */

void net_locality_note(const struct net_flows *flows, uint64_t netns, bool ipv6,
		       const uint32_t address[4], bool local)
{
	struct net_address key = {.netns = netns, .ipv6 = ipv6};
	uint32_t value = local ? NET_LOCAL : NET_FOREIGN;

	memcpy(key.address, address, 16);
	/* Without room the next packet is asked about again. */
	bpf_map_update_elem(flows->maps.localities, &key, &value, BPF_ANY);
}

static int want_address(void *ctx, const void *key, const void *value)
{
	const struct net_address *address = key;
	struct net_diag_request_wire *request = ctx;
	uint64_t netns = dump_netns(address->netns, request->flags & NET_DIAG_WIRE_BY_COOKIE);

	for (uint32_t i = 0; i < request->namespace_count; i++)
		if (request->namespaces[i] == netns)
			return 0;
	if (request->namespace_count < NET_DIAG_MAX_NAMESPACES)
		request->namespaces[request->namespace_count++] = netns;
	return 0;
}

static int read_all(const struct net_flows *flows, map_read_fn fn, void *ctx)
{
	return map_read(flows->maps.localities, sizeof(struct net_address), sizeof(uint32_t),
			flows->maps.locality_entries, fn, ctx);
}

int net_locality_ask(struct net_flows *flows)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	struct net_diag_request_wire *request;
	int err;

	if (flows->asked != ASKED_NOTHING || now_ns - flows->places_asked_ns < CHECK_NS)
		return 0;
	request = calloc(1, sizeof(*request));
	if (!request)
		return -ENOMEM;
	if (flows->maps.by_cookie)
		request->flags = NET_DIAG_WIRE_BY_COOKIE;
	err = read_all(flows, want_address, request);
	if (!err && request->namespace_count && !net_asker_ask(flows->asker, request)) {
		flows->asked = ASKED_PLACES;
		flows->places_asked_ns = now_ns;
	}
	free(request);
	return err;
}

struct check {
	const struct net_flows *flows;
	const struct net_diag *diag;
};

static int check_address(void *ctx, const void *key, const void *value)
{
	const struct check *check = ctx;
	const struct net_address *address = key;
	uint64_t netns = dump_netns(address->netns, check->flows->maps.by_cookie);
	bool local;

	if (!net_diag_has_namespace(check->diag, netns))
		return 0;
	local = net_diag_is_local(check->diag, netns, address->ipv6, address->address);
	if (local != (*(const uint32_t *)value == NET_LOCAL))
		net_locality_note(check->flows, address->netns, address->ipv6, address->address,
				  local);
	return 0;
}

int net_locality_check(struct net_flows *flows, const struct net_diag *diag)
{
	struct check check = {flows, diag};

	return read_all(flows, check_address, &check);
}

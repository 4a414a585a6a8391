/* SPDX-License-Identifier: BSD-2-Clause */
#include <bpf/bpf.h>
#include "source/net/flows_private.h"

#define SOME 2048 /* flows a call and family: less than 1 ms */

struct sweep {
	struct net_flows *flows;
	uint32_t idle_epochs;
	bool crowded; /* three quarters of the table are taken */
	uint32_t *counted;
};

/* TCP ends at CLOSE, which the kernel side sees; only what came from a dump may have been closed
 * before it was noted. */
static int look_at(struct sweep *sweep, int fd, uint8_t protocol, const void *key,
		   const struct net_flow_owner *flow)
{
	++*sweep->counted;
	if (sweep->flows->epoch - flow->epoch < sweep->idle_epochs)
		return 0;
	if (protocol != IPPROTO_TCP || !flow->sock || sweep->crowded)
		bpf_map_delete_elem(fd, key);
	return 0;
}

static int look_at4(void *ctx, const void *key, const void *value)
{
	struct sweep *sweep = ctx;

	return look_at(sweep, sweep->flows->maps.flows4, ((const struct net_flow4 *)key)->protocol,
		       key, value);
}

static int look_at6(void *ctx, const void *key, const void *value)
{
	struct sweep *sweep = ctx;

	return look_at(sweep, sweep->flows->maps.flows6, ((const struct net_flow6 *)key)->protocol,
		       key, value);
}

void net_flows_begin_sweep(struct net_flows *flows)
{
	flows->sweeps4 = flows->sweeps6 = true;
}

int net_flows_sweep(struct net_flows *flows, uint32_t epoch, uint32_t idle_epochs)
{
	uint32_t many = flows->maps.flow_entries / 4 * 3;
	struct sweep sweep = {.flows = flows, .idle_epochs = idle_epochs};
	int err;

	flows->epoch = epoch;
	sweep.crowded = flows->flow_count4 > many;
	sweep.counted = &flows->counted4;
	err = flows->sweeps4 ? map_read_some(flows->maps.flows4, sizeof(struct net_flow4),
					     sizeof(struct net_flow_owner), SOME, &flows->walk4,
					     look_at4, &sweep)
			     : 0;
	if (err < 0)
		return err;
	if (err) {
		flows->flow_count4 = flows->counted4;
		flows->counted4 = 0;
		flows->sweeps4 = flows->flow_count4 > many;
	}
	sweep.crowded = flows->flow_count6 > many;
	sweep.counted = &flows->counted6;
	err = flows->sweeps6 ? map_read_some(flows->maps.flows6, sizeof(struct net_flow6),
					     sizeof(struct net_flow_owner), SOME, &flows->walk6,
					     look_at6, &sweep)
			     : 0;
	if (err < 0)
		return err;
	if (err) {
		flows->flow_count6 = flows->counted6;
		flows->counted6 = 0;
		flows->sweeps6 = flows->flow_count6 > many;
	}
	return 0;
}

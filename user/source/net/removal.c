/* SPDX-License-Identifier: BSD-2-Clause */
/* How an entry leaves the waiting maps without a byte that a program adds to it meanwhile (see
 * bpf/net_waiting.bpf.h). */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "source/net/flows_private.h"

#define LOOKS 64 /* at the sections: a program is in one for less than a microsecond */

void net_removal_add(struct net_flows *flows, struct waiting_flow *one)
{
	one->closed = true;
	one->next_closed = flows->to_close;
	flows->to_close = one;
}

static int run_close(const struct net_flows *flows, uint64_t count, bool ipv6)
{
	uint64_t args[2] = {count, ipv6};
	LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = args, .ctx_size_in = sizeof(args));

	return bpf_prog_test_run_opts(flows->maps.close_waiting, &options);
}

/* Of one family. */
static int close_family(struct net_flows *flows, bool ipv6)
{
	uint32_t count = 0;
	int err = 0;

	for (struct waiting_flow *one = flows->to_close; one && !err; one = one->next_closed) {
		struct net_flow4 flow4;
		const void *key = kernel_key(&one->key, &flow4);

		if (!one->key.ipv6 != !ipv6)
			continue;
		memcpy(&flows->maps.closing[count++], key,
		       ipv6 ? sizeof(one->key.flow) : sizeof(flow4));
		if (count < NET_CLOSING)
			continue;
		err = run_close(flows, count, ipv6);
		count = 0;
	}
	return err || !count ? err : run_close(flows, count, ipv6);
}

static int read_sections(const struct net_flows *flows, uint32_t which, struct net_section *all)
{
	return bpf_map_lookup_elem(flows->maps.sections, &which, all) ? -errno : 0;
}

/* Whether each CPU was out of this section at some time since this was called. `left` is never
 * ahead of `entered`, so where it equals what is read after it, they were equal then. */
static bool was_left(const struct net_flows *flows, uint32_t which, struct net_section *room,
		     bool *cpu_left)
{
	size_t cpus = (size_t)flows->maps.possible_cpus, waits = cpus;
	struct net_section *before = room, *after = room + cpus;

	memset(cpu_left, 0, cpus * sizeof(*cpu_left));
	for (int i = 0; i < LOOKS && waits; i++) {
		if (read_sections(flows, which, before) || read_sections(flows, which, after))
			return false;
		for (size_t cpu = 0; cpu < cpus; cpu++)
			if (!cpu_left[cpu] && before[cpu].left == after[cpu].entered) {
				cpu_left[cpu] = true;
				waits--;
			}
	}
	return !waits;
}

static bool all_were_left(const struct net_flows *flows)
{
	size_t cpus = (size_t)flows->maps.possible_cpus;
	struct net_section *room = calloc(2 * cpus, sizeof(*room));
	bool *cpu_left = calloc(cpus, sizeof(*cpu_left));
	bool left = room && cpu_left;

	for (uint32_t which = 0; which < NET_SECTIONS && left; which++)
		left = was_left(flows, which, room, cpu_left);
	free(room);
	free(cpu_left);
	return left;
}

/* Nothing is added to it any more. */
static int take_out(struct net_flows *flows, struct waiting_flow *one)
{
	int fd = one->key.ipv6 ? flows->maps.waiting6 : flows->maps.waiting4;
	struct net_flow4 flow4;
	const void *key = kernel_key(&one->key, &flow4);
	struct net_waiting last;
	int err = bpf_map_lookup_elem(fd, key, &last) ? -errno : 0;

	if (!err)
		err = net_flows_account(flows, one, &last);
	if (err)
		return err;
	bpf_map_delete_elem(fd, key);
	if (!net_has_bytes(one)) {
		net_flows_drop(flows, one);
		return 0;
	}
	one->closed = false;
	one->removed = true;
	/* The next entry of this key counts from 0; what this one knew still holds. */
	for (int i = 0; i < NET_WAITING_PARTS; i++)
		one->seen.part[i].bytes = one->seen.part[i].packets = 0;
	return 0;
}

int net_removal_go_on(struct net_flows *flows)
{
	struct waiting_flow *one;
	int err = close_family(flows, false);

	if (!err)
		err = close_family(flows, true);
	if (err)
		return err; /* those that are closed by now are closed again */
	while ((one = flows->to_close)) {
		flows->to_close = one->next_closed;
		one->next_closed = flows->closed;
		flows->closed = one;
	}
	if (!flows->closed || !all_were_left(flows))
		return 0;
	while ((one = flows->closed) && !err) {
		struct waiting_flow *next = one->next_closed;

		err = take_out(flows, one);
		if (!err)
			flows->closed = next;
	}
	return err;
}

int net_removal_check(const struct net_flows *flows)
{
	return run_close(flows, 0, false);
}

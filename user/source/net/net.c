/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/declarations.h"
#include "source/net/net.h"
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/rights.h"
#include "kernel/atomics.h"
#include "kernel/btf.h"
#include "kernel/load.h"
#include "kernel/types.h"
#include "source/net/diag.h"
#include "source/net/flows.h"
#include "source/net/netd.h"
#include "source/net/private.h"
#include "util/clock.h"

#define MAX_FLOWS    (1u << 20)
#define STEP_NS      (10 * NSEC_PER_SEC)
#define NETD_MISSING "netd's map holds sums per uid only"
/* Uids and interfaces, where both are told apart; a quarter of them stays for uids alone. */
#define PAIRS 8192

static struct net_source *net_source(struct source *source)
{
	return (struct net_source *)source;
}

/* ---- load ---- */
struct net_twins net_twins_of(struct net_bpf *skel, enum net_variant variant)
{
	if (variant == NET_VARIANT_RAW_TP)
		return (struct net_twins){
			"raw_tp",
			{skel->progs.transmit_raw, skel->progs.receive_raw, skel->progs.state_raw}};
	return (struct net_twins){
		"tp_btf",
		{skel->progs.transmit_btf, skel->progs.receive_btf, skel->progs.state_btf}};
}

static void unload(struct net_source *net)
{
	for (int i = 0; i < NET_PROGRAMS; i++) {
		bpf_link__destroy(net->links[i]);
		net->links[i] = NULL;
	}
	net_bpf__destroy(net->skel);
	net->skel = NULL;
}

static int resize(struct bpf_map *map, uint32_t entries)
{
	return entries ? bpf_map__set_max_entries(map, entries) : 0;
}

/* A flow that is not there takes no memory, where the kernel can allocate an element wherever a
 * packet comes. A burst can find the kernel's cache of elements empty: then a flow is learnt later.
 * What waits has bytes that nothing else has, so its room is made at the start. */
static int allocate_when_used(struct net_source *net)
{
	struct bpf_map *const maps[] = {net->skel->maps.flows4, net->skel->maps.flows6};
	int err = 0;

	for (size_t i = 0; i < sizeof(maps) / sizeof(*maps) && !err; i++)
		err = bpf_map__set_map_flags(maps[i], BPF_F_NO_PREALLOC);
	return err;
}

static int load(struct net_source *net, enum net_variant variant, const struct kernel_types *types)
{
	LIBBPF_OPTS(bpf_object_open_opts, open_options, .btf_custom_path = types->path);
	const struct net_options *options = &net->options;
	uint32_t flows = options->test_entries.flows ? options->test_entries.flows : options->flows;
	uint32_t waiting = options->test_entries.waiting;
	struct net_twins twins;
	int err, i;

	net->skel = net_bpf__open_opts(&open_options);
	if (!net->skel)
		return -errno;
	net->skel->rodata->wire_length = options->wire;
	net->skel->rodata->netns_by_cookie = net_diag_has_cookies();
	if (flows > MAX_FLOWS)
		flows = MAX_FLOWS;
	if (!waiting && flows / 16 > bpf_map__max_entries(net->skel->maps.waiting4))
		waiting = flows / 16;
	if (options->test_entries.uids)
		net->skel->rodata->row_places = 1;
	net->skel->rodata->by_interface = options->by_interface;
	net->skel->rodata->interface_places =
		(options->test_entries.uids ? options->test_entries.uids : PAIRS) / 4 * 3;
	twins = net_twins_of(net->skel, variant);
	err = resize(net->skel->maps.uids, options->test_entries.uids ? options->test_entries.uids
					   : options->by_interface    ? PAIRS
								      : 0);
	if (!err && !options->by_interface)
		err = resize(net->skel->maps.interfaces, 1);
	if (!err)
		err = resize(net->skel->maps.flows4, flows);
	if (!err)
		err = resize(net->skel->maps.flows6, flows);
	if (!err)
		err = resize(net->skel->maps.waiting4, waiting);
	if (!err)
		err = resize(net->skel->maps.waiting6, waiting);
	if (!err && types->has_element_caches)
		err = allocate_when_used(net);
	for (i = 0; !err && i < NET_PROGRAMS; i++)
		err = bpf_program__set_autoload(twins.programs[i], true);
	if (!err && !kernel_has_fetch())
		err = kernel_make_atomics_plain(net->skel->obj);
	if (!err)
		err = net_bpf__load(net->skel);
	/* States first: a connection that opens while we attach is then known before its data. */
	for (i = NET_PROGRAMS - 1; !err && i >= 0; i--) {
		net->links[i] = bpf_program__attach(twins.programs[i]);
		if (!net->links[i])
			err = -errno;
	}
	if (err)
		unload(net);
	else
		net->base.variant = twins.name;
	return err;
}

static const char *bpffs_of(const struct net_source *net)
{
	return net->options.bpffs ? net->options.bpffs : "/sys/fs/bpf";
}

static int open_netd(struct net_source *net, char *why, size_t size)
{
	int err;

	net->netd_fd = net_netd_open(bpffs_of(net), why, size);
	if (net->netd_fd < 0)
		return net->netd_fd;
	net->base.variant = "netd";
	err = net_netd_read(net->netd_fd, net_read_netd_uid, net);
	for (struct uid_sums *sums = net->uids; sums; sums = sums->hh.next)
		memset(&sums->delta, 0, sizeof(sums->delta)); /* the baseline */
	return err;
}

/* What is there now is the baseline. Without the map there is nothing to compare with, and the
 * records say why. */
static int open_check(struct net_source *net)
{
	int err;

	net->check_fd = net_netd_open(bpffs_of(net), net->check_reason, sizeof(net->check_reason));
	if (net->check_fd < 0)
		return 0;
	err = net_netd_read(net->check_fd, net_check_netd_uid, net);
	for (struct uid_sums *sums = net->uids; sums; sums = sums->hh.next)
		memset(&sums->netd_delta, 0, sizeof(sums->netd_delta));
	return err;
}

static int open_programs(struct net_source *net)
{
	enum net_variant variant = net->options.variant;
	struct net_flows_maps maps;
	struct kernel_btf btf = {0};
	struct kernel_types types;
	const void *object;
	size_t object_bytes;
	int err;

	net->possible_cpus = libbpf_num_possible_cpus();
	if (net->possible_cpus < 0)
		return net->possible_cpus;
	err = kernel_btf_open(&btf, net->options.btf, NULL);
	if (err) {
		snprintf(net->base.reason, sizeof(net->base.reason), "--btf %s: not a BTF file",
			 net->options.btf ? net->options.btf : "(embedded)");
		return err;
	}
	object = net_bpf__elf_bytes(&object_bytes);
	kernel_types_open(&types, btf.path, object, object_bytes);
	bpf_object_release(object);
	err = load(net, variant == NET_VARIANT_AUTO ? NET_VARIANT_TP_BTF : variant, &types);
	if (err && variant == NET_VARIANT_AUTO)
		err = load(net, NET_VARIANT_RAW_TP, &types);
	kernel_types_close(&types);
	kernel_btf_close(&btf);
	if (err)
		return err;
	maps = (struct net_flows_maps){
		.flows4 = bpf_map__fd(net->skel->maps.flows4),
		.flows6 = bpf_map__fd(net->skel->maps.flows6),
		.waiting4 = bpf_map__fd(net->skel->maps.waiting4),
		.waiting6 = bpf_map__fd(net->skel->maps.waiting6),
		.localities = bpf_map__fd(net->skel->maps.localities),
		.sections = bpf_map__fd(net->skel->maps.sections),
		.close_waiting = bpf_program__fd(net->skel->progs.close_waiting),
		.closing = net->skel->bss->closing,
		.possible_cpus = net->possible_cpus,
		.locality_entries = bpf_map__max_entries(net->skel->maps.localities),
		.by_cookie = net->skel->rodata->netns_by_cookie,
		.waiting_made = &net->skel->bss->waiting_made,
		.flow_entries = bpf_map__max_entries(net->skel->maps.flows4),
		.waiting_entries = bpf_map__max_entries(net->skel->maps.waiting4),
	};
	net_interfaces_begin(net);
	net->flows = net_flows_new(&maps, net->context->warden, net_book, net);
	if (!net->flows)
		return -errno;
	return net->options.check ? open_check(net) : 0;
}

static bool wants_netd(const struct net_options *options)
{
	return options->variant == NET_VARIANT_NETD ||
	       (options->variant == NET_VARIANT_AUTO && !options->hooks_only &&
		!options->by_interface && !options->check);
}

static int net_open(struct source *source, const struct source_context *context)
{
	struct net_source *net = net_source(source);
	bool only_netd = net->options.variant == NET_VARIANT_NETD;
	char why[120] = "";
	int err = -ENOENT;

	net->context = context;
	if (wants_netd(&net->options))
		err = open_netd(net, why, sizeof(why));
	if (!only_netd && err) {
		if (err != -ENOENT)
			source->state = SOURCE_DEGRADED;
		err = open_programs(net);
	}
	if (err) {
		source->state = SOURCE_ABSENT;
		if (only_netd)
			snprintf(source->reason, sizeof(source->reason), "%s",
				 why[0] ? why : strerror(-err));
		else if (!source->reason[0])
			kernel_explain(err, "network accounting", source->reason,
				       sizeof(source->reason));
	} else if (source->state == SOURCE_DEGRADED) {
		snprintf(source->reason, sizeof(source->reason), "counting packets: %s", why);
	}
	net->step_ns = clock_now_ns(CLOCK_MONOTONIC);
	return err;
}

/* ---- sample ---- */
static int sample_programs(struct net_source *net, bool final, struct counter_list *lost)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	uint32_t epoch = ++net->skel->bss->epoch;
	int err = net_flows_read(net->flows, epoch, final, lost);

	if (now_ns - net->step_ns >= STEP_NS) {
		memmove(net->epochs + 1, net->epochs, NET_IDLE_STEPS * sizeof(net->epochs[0]));
		net->epochs[0] = epoch;
		net->step_ns = now_ns;
		if (net->epochs[NET_IDLE_STEPS])
			net_flows_begin_sweep(net->flows);
	}
	if (!err)
		err = net_flows_sweep(net->flows, epoch, epoch - net->epochs[NET_IDLE_STEPS]);
	net->skel->bss->learn_every_packet = net_flows_are_blind(net->flows);
	if (!err)
		err = net_read_uids(net);
	if (!err && net->options.by_interface)
		err = net_interfaces_read(net);
	if (!err)
		err = net_read_classes(net, lost);
	if (!err)
		err = net_read_losses(net, lost);
	return err ? err : net_read_missed(net, lost);
}

static int net_sample(struct source *source, struct record_interval *interval)
{
	struct net_source *net = net_source(source);
	char reason[160];
	int err;

	if (net->netd_fd >= 0)
		err = net_netd_read(net->netd_fd, net_read_netd_uid, net);
	else
		err = sample_programs(net, interval->final, &interval->lost);
	if (!err && net->check_fd >= 0)
		err = net_netd_read(net->check_fd, net_check_netd_uid, net);
	if (!err)
		err = net_fill_rows(net);
	if (err) {
		/* What was summed so far comes with the next interval. */
		snprintf(reason, sizeof(reason), "cannot read the net maps: %s", strerror(-err));
		counter_list_add(&interval->lost,
				 interval->final ? "net_end_unread" : "net_read_failed", 1);
		return missing_list_set(&interval->missing, "net", reason);
	}
	net->interval.present = true;
	net->interval.netd_present = net->check_fd >= 0;
	if (net->options.check && net->check_fd < 0)
		err = missing_list_set(&interval->missing, "net.netd", net->check_reason);
	if (!err && net->netd_fd >= 0) {
		err = missing_list_set(&interval->missing, "net.loopback", NETD_MISSING);
		if (!err)
			err = missing_list_set(&interval->missing, "net.unattributed",
					       NETD_MISSING);
		if (!err && net->options.by_interface)
			err = missing_list_set(&interval->missing, "net.uids.interfaces",
					       NETD_MISSING);
	}
	interval->net = net->interval;
	net->interval = (struct record_net){0};
	return err;
}

static void net_close(struct source *source)
{
	struct net_source *net = net_source(source);
	struct uid_sums *sums, *next;

	if (!net)
		return;
	unload(net);
	net_flows_free(net->flows);
	if (net->netd_fd >= 0)
		close(net->netd_fd);
	if (net->check_fd >= 0)
		close(net->check_fd);
	HASH_ITER (hh, net->uids, sums, next) {
		HASH_DEL(net->uids, sums);
		free(sums);
	}
	net_interfaces_free(net);
	free(net->rows);
	free(net->interface_rows);
	free(net->moved);
	free(net);
}

static const struct loss_info net_loss_items[] = {
	{"net_lost_bytes", LOSS_LOST, LOSS_OF_BYTES},
	{"net_uid_map_full", LOSS_LOST, LOSS_OF_NOTHING},     /* bytes: net_lost_bytes */
	{"net_waiting_map_full", LOSS_LOST, LOSS_OF_NOTHING}, /* bytes: net_lost_bytes */
	{"net_header_unreadable", LOSS_LOST, LOSS_OF_PACKETS},
	{"net_missed_runs", LOSS_LOST, LOSS_OF_PACKETS},
	{"net_namespace_unreadable", LOSS_LOST, LOSS_OF_NOTHING},
	{"net_owner_mixed_bytes", LOSS_LOST, LOSS_OF_BYTES},    /* booked to one of three owners */
	{"net_unresolved_bytes", LOSS_LOST, LOSS_OF_BYTES},     /* whose they were nobody tells */
	{"net_end_unread", LOSS_LOST, LOSS_OF_NOTHING},         /* and no next read-out comes */
	{"net_read_failed", LOSS_LATE, LOSS_OF_NOTHING},        /* the next read-out has the sums */
	{"net_pending_bytes", LOSS_LATE, LOSS_OF_BYTES},        /* a later interval has them */
	{"net_flow_map_full", LOSS_REPAIRED, LOSS_OF_NOTHING},  /* resolved at the read-out */
	{"net_asker_replaced", LOSS_REPAIRED, LOSS_OF_NOTHING}, /* it is asked again */
};

const struct loss_table net_losses = {net_loss_items,
				      sizeof(net_loss_items) / sizeof(*net_loss_items), NULL};

static const struct source_ops net_ops = {
	.name = "net",
	.losses = &net_losses,
	.open = net_open,
	.sample = net_sample,
	.close = net_close,
};

struct source *net_source_new(const struct net_options *options)
{
	struct net_source *net = calloc(1, sizeof(*net));

	if (!net)
		return NULL;
	net->base.ops = &net_ops;
	net->base.rights = RIGHT_MAPS; /* dumps are made by a process of their own */
	net->options = *options;
	net->netd_fd = -1;
	net->check_fd = -1;
	return &net->base;
}

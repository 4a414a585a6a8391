/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/net.h"
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uthash.h>
#include "abi/net.h"
#include "core/rights.h"
#include "jankscope/target.h"
#include "kernel/btf.h"
#include "kernel/load.h"
#include "net.skel.h"
#include "source/net_diag.h"
#include "source/net_flows.h"
#include "source/net_map.h"
#include "source/net_netd.h"
#include "util/clock.h"

#define PROGRAMS     3
#define MAX_FLOWS    (1u << 20)
#define IDLE_STEPS   6
#define STEP_NS      (10 * NSEC_PER_SEC)
#define NETD_MISSING "netd's map holds sums per uid only"

struct uid_sums {
	uint32_t uid;
	struct net_bytes seen;  /* what the kernel's map had at the last read */
	struct net_bytes delta; /* of this interval */
	UT_hash_handle hh;
};

struct net_source {
	struct source base;
	struct net_options options;
	const struct source_context *context;
	struct net_bpf *skel;
	struct bpf_link *links[PROGRAMS];
	uint64_t missed[PROGRAMS]; /* runs that the kernel skipped, as of the last read */
	struct net_flows *flows;
	int netd_fd;
	struct uid_sums *uids;
	struct net_bytes classes_seen[NET_CLASS_COUNT];
	uint64_t losses_seen[NET_LOSS_COUNT];
	struct record_net interval;       /* deltas while an interval is made */
	struct record_uid_net *rows;
	size_t row_room;
	/* The epochs that began 0, 10, ... 60 s ago: what has none since the last is idle. */
	uint32_t epochs[IDLE_STEPS + 1];
	uint64_t step_ns; /* when the first of them began */
	int possible_cpus;
};

static struct net_source *net_source(struct source *source)
{
	return (struct net_source *)source;
}

/* ---- sums ---- */
static void add(struct record_bytes *to, const struct record_bytes *from)
{
	to->rx_bytes += from->rx_bytes;
	to->rx_packets += from->rx_packets;
	to->tx_bytes += from->tx_bytes;
	to->tx_packets += from->tx_packets;
}

/* The growth since *seen, which becomes now. */
static struct net_bytes advance(struct net_bytes *seen, const struct net_bytes *now)
{
	struct net_bytes delta = {.rx_bytes = now->rx_bytes - seen->rx_bytes,
				  .rx_packets = now->rx_packets - seen->rx_packets,
				  .tx_bytes = now->tx_bytes - seen->tx_bytes,
				  .tx_packets = now->tx_packets - seen->tx_packets};

	*seen = *now;
	return delta;
}

static struct record_bytes as_record(const struct net_bytes *bytes)
{
	return (struct record_bytes){.rx_bytes = bytes->rx_bytes,
				     .rx_packets = bytes->rx_packets,
				     .tx_bytes = bytes->tx_bytes,
				     .tx_packets = bytes->tx_packets};
}

static struct uid_sums *uid_sums(struct net_source *net, uint32_t uid)
{
	struct uid_sums *sums;

	HASH_FIND(hh, net->uids, &uid, sizeof(uid), sums);
	if (sums)
		return sums;
	sums = calloc(1, sizeof(*sums));
	if (!sums)
		return NULL;
	sums->uid = uid;
	HASH_ADD(hh, net->uids, uid, sizeof(sums->uid), sums);
	return sums;
}

static void sum_cpus(struct net_bytes *to, const struct net_bytes *slots, int cpus)
{
	memset(to, 0, sizeof(*to));
	for (int i = 0; i < cpus; i++) {
		to->rx_bytes += slots[i].rx_bytes;
		to->rx_packets += slots[i].rx_packets;
		to->tx_bytes += slots[i].tx_bytes;
		to->tx_packets += slots[i].tx_packets;
	}
}

static int grow_uid(struct net_source *net, uint32_t uid, const struct net_bytes *now)
{
	struct uid_sums *sums = uid_sums(net, uid);
	struct net_bytes delta;

	if (!sums)
		return -ENOMEM;
	delta = advance(&sums->seen, now);
	sums->delta.rx_bytes += delta.rx_bytes;
	sums->delta.rx_packets += delta.rx_packets;
	sums->delta.tx_bytes += delta.tx_bytes;
	sums->delta.tx_packets += delta.tx_packets;
	return 0;
}

static int read_uid(void *ctx, const void *key, const void *value)
{
	struct net_source *net = ctx;
	struct net_bytes now;

	sum_cpus(&now, value, net->possible_cpus);
	return grow_uid(net, *(const uint32_t *)key, &now);
}

static int read_netd_uid(void *ctx, uint32_t uid, const struct net_bytes *now)
{
	struct net_source *net = ctx;
	struct uid_sums *sums = uid_sums(net, uid);

	if (!sums)
		return -ENOMEM;
	/* netd deletes the row of an uninstalled app; a reinstalled one starts at 0 again. */
	if (now->rx_bytes < sums->seen.rx_bytes || now->tx_bytes < sums->seen.tx_bytes)
		memset(&sums->seen, 0, sizeof(sums->seen));
	return grow_uid(net, uid, now);
}

/* Received bytes whose owner was found at read-out. */
static int book(void *ctx, enum net_bucket bucket, uint32_t uid, uint64_t bytes, uint64_t packets)
{
	struct net_source *net = ctx;
	struct record_bytes received = {.rx_bytes = bytes, .rx_packets = packets};
	struct uid_sums *sums;

	if (bucket == NET_BUCKET_UID) {
		sums = uid_sums(net, uid);
		if (!sums)
			return -ENOMEM;
		sums->delta.rx_bytes += bytes;
		sums->delta.rx_packets += packets;
		return 0;
	}
	add(&net->interval.unattributed, &received);
	if (bucket == NET_BUCKET_FORWARDED)
		add(&net->interval.forwarded, &received);
	else if (bucket == NET_BUCKET_KERNEL)
		add(&net->interval.kernel, &received);
	else if (bucket == NET_BUCKET_NO_SOCKET)
		add(&net->interval.no_socket, &received);
	return 0;
}

static int read_classes(struct net_source *net, struct counter_list *lost)
{
	struct net_bytes *slots = calloc((size_t)net->possible_cpus, sizeof(*slots));
	struct record_net *interval = &net->interval;
	int err = slots ? 0 : -ENOMEM;

	for (uint32_t class = 0; !err && class < NET_CLASS_COUNT; class ++) {
		struct net_bytes now, delta;
		struct record_bytes grown;

		err = bpf_map_lookup_elem(bpf_map__fd(net->skel->maps.classes), &class, slots);
		if (err)
			break;
		sum_cpus(&now, slots, net->possible_cpus);
		delta = advance(&net->classes_seen[class], &now);
		grown = as_record(&delta);
		if (class == NET_CLASS_LOOPBACK) {
			add(&interval->loopback, &grown);
			continue;
		}
		add(&interval->unattributed, &grown);
		if (class == NET_CLASS_FORWARDED)
			add(&interval->forwarded, &grown);
		else if (class == NET_CLASS_KERNEL)
			add(&interval->kernel, &grown);
		else
			err = counter_list_add(lost, "net_lost_bytes",
					       grown.rx_bytes + grown.tx_bytes);
	}
	free(slots);
	return err;
}

static int read_losses(struct net_source *net, struct counter_list *lost)
{
	static const char *const names[NET_LOSS_COUNT] = {
		[NET_LOSS_UID_MAP_FULL] = "net_uid_map_full",
		[NET_LOSS_FLOW_MAP_FULL] = "net_flow_map_full",
		[NET_LOSS_WAITING_MAP_FULL] = "net_waiting_map_full",
		[NET_LOSS_HEADER] = "net_header_unreadable",
		[NET_LOSS_OWNER_MIXED] = "net_owner_mixed_bytes",
	};
	uint64_t *slots = calloc((size_t)net->possible_cpus, sizeof(*slots));
	int err = slots ? 0 : -ENOMEM;

	for (uint32_t reason = 0; !err && reason < NET_LOSS_COUNT; reason++) {
		uint64_t now = 0;

		err = bpf_map_lookup_elem(bpf_map__fd(net->skel->maps.net_losses), &reason, slots);
		for (int i = 0; !err && i < net->possible_cpus; i++)
			now += slots[i];
		if (err)
			break;
		err = counter_list_add(lost, names[reason], now - net->losses_seen[reason]);
		net->losses_seen[reason] = now;
	}
	free(slots);
	return err;
}

/* ---- load ---- */
struct twins {
	const char *name;
	struct bpf_program *programs[PROGRAMS];
};

static struct twins twins_of(struct net_bpf *skel, enum net_variant variant)
{
	if (variant == NET_VARIANT_RAW_TP)
		return (struct twins){
			"raw_tp",
			{skel->progs.transmit_raw, skel->progs.receive_raw, skel->progs.state_raw}};
	return (struct twins){
		"tp_btf",
		{skel->progs.transmit_btf, skel->progs.receive_btf, skel->progs.state_btf}};
}

static void unload(struct net_source *net)
{
	for (int i = 0; i < PROGRAMS; i++) {
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

static int load(struct net_source *net, enum net_variant variant, const char *btf)
{
	LIBBPF_OPTS(bpf_object_open_opts, open_options, .btf_custom_path = btf);
	const struct net_options *options = &net->options;
	uint32_t flows = options->test_entries.flows ? options->test_entries.flows : options->flows;
	uint32_t waiting = options->test_entries.waiting;
	struct twins twins;
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
	twins = twins_of(net->skel, variant);
	err = resize(net->skel->maps.uids, options->test_entries.uids);
	if (!err)
		err = resize(net->skel->maps.flows4, flows);
	if (!err)
		err = resize(net->skel->maps.flows6, flows);
	if (!err)
		err = resize(net->skel->maps.waiting4, waiting);
	if (!err)
		err = resize(net->skel->maps.waiting6, waiting);
	for (i = 0; !err && i < PROGRAMS; i++)
		err = bpf_program__set_autoload(twins.programs[i], true);
	if (!err)
		err = net_bpf__load(net->skel);
	/* States first: a connection that opens while we attach is then known before its data. */
	for (i = PROGRAMS - 1; !err && i >= 0; i--) {
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

static int open_netd(struct net_source *net)
{
	int err;

	net->netd_fd = net_netd_open(net->options.bpffs ? net->options.bpffs : "/sys/fs/bpf");
	if (net->netd_fd < 0)
		return net->netd_fd;
	net->base.variant = "netd";
	err = net_netd_read(net->netd_fd, read_netd_uid, net);
	for (struct uid_sums *sums = net->uids; sums; sums = sums->hh.next)
		memset(&sums->delta, 0, sizeof(sums->delta)); /* the baseline */
	return err;
}

static int open_programs(struct net_source *net)
{
	enum net_variant variant = net->options.variant;
	struct net_flows_maps maps;
	struct kernel_btf btf = {0};
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
	err = load(net, variant == NET_VARIANT_AUTO ? NET_VARIANT_TP_BTF : variant, btf.path);
	if (err && variant == NET_VARIANT_AUTO)
		err = load(net, NET_VARIANT_RAW_TP, btf.path);
	kernel_btf_close(&btf);
	if (err)
		return err;
	maps = (struct net_flows_maps){
		.flows4 = bpf_map__fd(net->skel->maps.flows4),
		.flows6 = bpf_map__fd(net->skel->maps.flows6),
		.waiting4 = bpf_map__fd(net->skel->maps.waiting4),
		.waiting6 = bpf_map__fd(net->skel->maps.waiting6),
		.localities = bpf_map__fd(net->skel->maps.localities),
		.locality_entries = bpf_map__max_entries(net->skel->maps.localities),
		.by_cookie = net->skel->rodata->netns_by_cookie,
		.flow_entries = bpf_map__max_entries(net->skel->maps.flows4),
		.waiting_entries = bpf_map__max_entries(net->skel->maps.waiting4),
	};
	net->flows = net_flows_new(&maps, book, net);
	if (!net->flows)
		return -errno;
	return 0;
}

static int net_open(struct source *source, const struct source_context *context)
{
	struct net_source *net = net_source(source);
	enum net_variant variant = net->options.variant;
	int err = -ENOENT;

	net->context = context;
	if (variant == NET_VARIANT_NETD || variant == NET_VARIANT_AUTO)
		err = open_netd(net);
	if (variant != NET_VARIANT_NETD && err) {
		if (err != -ENOENT)
			source->state = SOURCE_DEGRADED;
		err = open_programs(net);
	}
	if (err) {
		source->state = SOURCE_ABSENT;
		if (variant == NET_VARIANT_NETD)
			snprintf(source->reason, sizeof(source->reason),
				 "netd's pinned map cannot be read: %s", strerror(-err));
		else if (!source->reason[0])
			kernel_explain(err, "network accounting", source->reason,
				       sizeof(source->reason));
	} else if (source->state == SOURCE_DEGRADED) {
		snprintf(source->reason, sizeof(source->reason),
			 "netd's pinned map is there but cannot be read; counting packets instead");
	}
	net->step_ns = clock_now_ns(CLOCK_MONOTONIC);
	return err;
}

/* ---- sample ---- */
/* A program that interrupts itself on its CPU is skipped by the kernel, which counts that. */
static int read_missed(struct net_source *net, struct counter_list *lost)
{
	enum net_variant variant =
		strcmp(net->base.variant, "raw_tp") ? NET_VARIANT_TP_BTF : NET_VARIANT_RAW_TP;
	struct twins twins = twins_of(net->skel, variant);
	int err = 0;

	for (int i = 0; i < PROGRAMS && !err; i++) {
		struct bpf_prog_info info = {0};
		uint32_t size = sizeof(info);

		if (bpf_obj_get_info_by_fd(bpf_program__fd(twins.programs[i]), &info, &size))
			continue; /* a kernel that cannot say it does not skip either */
		err = counter_list_add(lost, "net_missed_runs",
				       info.recursion_misses - net->missed[i]);
		net->missed[i] = info.recursion_misses;
	}
	return err;
}

static int sample_programs(struct net_source *net, bool final, struct counter_list *lost)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	uint32_t epoch = ++net->skel->bss->epoch;
	int err = net_flows_read(net->flows, epoch, final, lost);

	if (now_ns - net->step_ns >= STEP_NS) {
		memmove(net->epochs + 1, net->epochs, IDLE_STEPS * sizeof(net->epochs[0]));
		net->epochs[0] = epoch;
		net->step_ns = now_ns;
	}
	if (!err && net->epochs[IDLE_STEPS])
		err = net_flows_sweep(net->flows, epoch, epoch - net->epochs[IDLE_STEPS]);
	net->skel->bss->learn_every_packet = net_flows_are_blind(net->flows);
	if (!err)
		err = net_map_read(
			bpf_map__fd(net->skel->maps.uids), sizeof(uint32_t),
			(uint32_t)(sizeof(struct net_bytes) * (size_t)net->possible_cpus),
			bpf_map__max_entries(net->skel->maps.uids), read_uid, net);
	if (!err)
		err = read_classes(net, lost);
	if (!err)
		err = read_losses(net, lost);
	return err ? err : read_missed(net, lost);
}

static int by_uid(const void *a, const void *b)
{
	const struct record_uid_net *left = a, *right = b;

	return left->uid < right->uid ? -1 : left->uid > right->uid;
}

/* Rows of the uids that moved, in order of uid. */
static int fill_rows(struct net_source *net)
{
	struct target_set *targets = net->context->targets;
	struct uid_sums *sums;
	size_t count = 0;

	if (HASH_COUNT(net->uids) > net->row_room) {
		size_t room = HASH_COUNT(net->uids) + 64;
		struct record_uid_net *rows = realloc(net->rows, room * sizeof(*rows));

		if (!rows)
			return -ENOMEM;
		net->rows = rows;
		net->row_room = room;
	}
	for (sums = net->uids; sums; sums = sums->hh.next) {
		struct record_uid_net *row = &net->rows[count];

		if (!sums->delta.rx_bytes && !sums->delta.tx_bytes)
			continue;
		*row = (struct record_uid_net){
			.uid = sums->uid,
			.package = targets ? target_package_of_uid(targets, sums->uid) : NULL,
			.bytes = as_record(&sums->delta)};
		memset(&sums->delta, 0, sizeof(sums->delta));
		count++;
	}
	if (count)
		qsort(net->rows, count, sizeof(*net->rows), by_uid);
	net->interval.uids = net->rows;
	net->interval.uid_count = count;
	return 0;
}

static int net_sample(struct source *source, struct record_interval *interval)
{
	struct net_source *net = net_source(source);
	char reason[160];
	int err;

	if (net->netd_fd >= 0)
		err = net_netd_read(net->netd_fd, read_netd_uid, net);
	else
		err = sample_programs(net, interval->final, &interval->lost);
	if (!err)
		err = fill_rows(net);
	if (err) {
		/* What was summed so far comes with the next interval. */
		snprintf(reason, sizeof(reason), "cannot read the net maps: %s", strerror(-err));
		counter_list_add(&interval->lost, "net_read_failed", 1);
		return missing_list_set(&interval->missing, "net", reason);
	}
	net->interval.present = true;
	if (net->netd_fd >= 0) {
		err = missing_list_set(&interval->missing, "net.loopback", NETD_MISSING);
		if (!err)
			err = missing_list_set(&interval->missing, "net.unattributed",
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
	HASH_ITER (hh, net->uids, sums, next) {
		HASH_DEL(net->uids, sums);
		free(sums);
	}
	free(net->rows);
	free(net);
}

static const struct loss_info net_loss_items[] = {
	{"net_lost_bytes", LOSS_LOST, LOSS_OF_BYTES},
	{"net_uid_map_full", LOSS_LOST, LOSS_OF_NOTHING},     /* bytes: net_lost_bytes */
	{"net_waiting_map_full", LOSS_LOST, LOSS_OF_NOTHING}, /* bytes: net_lost_bytes */
	{"net_header_unreadable", LOSS_LOST, LOSS_OF_PACKETS},
	{"net_missed_runs", LOSS_LOST, LOSS_OF_PACKETS},
	{"net_namespace_unreadable", LOSS_LOST, LOSS_OF_NOTHING},
	{"net_read_failed", LOSS_LATE, LOSS_OF_NOTHING},       /* the next read-out has the sums */
	{"net_flow_map_full", LOSS_REPAIRED, LOSS_OF_NOTHING}, /* resolved at the read-out */
};

static const struct loss_table net_losses = {
	net_loss_items, sizeof(net_loss_items) / sizeof(*net_loss_items), NULL};

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
	net->base.rights = RIGHT_MAPS | RIGHT_DUMPS;
	net->options = *options;
	net->netd_fd = -1;
	return &net->base;
}

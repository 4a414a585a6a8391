/* SPDX-License-Identifier: BSD-2-Clause */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "jankscope/target.h"
#include "kernel/percpu.h"
#include "source/net/map.h"
#include "source/net/private.h"

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

static void grow_uid(struct uid_sums *sums, const struct net_bytes *now)
{
	struct net_bytes delta = advance(&sums->seen, now);

	sums->delta.rx_bytes += delta.rx_bytes;
	sums->delta.rx_packets += delta.rx_packets;
	sums->delta.tx_bytes += delta.tx_bytes;
	sums->delta.tx_packets += delta.tx_packets;
}

static int read_uid(void *ctx, const void *key, const void *value)
{
	struct net_source *net = ctx;
	struct uid_sums *sums = uid_sums(net, *(const uint32_t *)key);
	const struct net_bytes *slots = value;

	if (!sums)
		return -ENOMEM;
	for (int i = 0; i < net->possible_cpus; i++) {
		sums->now.rx_bytes += slots[i].rx_bytes;
		sums->now.rx_packets += slots[i].rx_packets;
		sums->now.tx_bytes += slots[i].tx_bytes;
		sums->now.tx_packets += slots[i].tx_packets;
	}
	return 0;
}

static int read_row(struct net_source *net, enum net_way way, const struct net_row *row)
{
	struct uid_sums *sums;

	if (!row->owner)
		return 0;
	sums = uid_sums(net, (uint32_t)row->owner);
	if (!sums)
		return -ENOMEM;
	if (way == NET_SENT) {
		sums->now.tx_bytes += row->bytes;
		sums->now.tx_packets += row->packets;
	} else {
		sums->now.rx_bytes += row->bytes;
		sums->now.rx_packets += row->packets;
	}
	return 0;
}

static int read_rows(struct net_source *net, uint32_t way)
{
	size_t cpus = (size_t)net->possible_cpus;
	struct net_rows *all = malloc(cpus * sizeof(*all));
	int err = -ENOMEM;

	if (all)
		err = bpf_map_lookup_elem(bpf_map__fd(net->skel->maps.rows), &way, all) ? -errno
											: 0;
	for (size_t cpu = 0; cpu < cpus && !err; cpu++)
		for (size_t i = 0; i < NET_ROWS && !err; i++)
			err = read_row(net, way, &all[cpu].row[i]);
	free(all);
	return err;
}

int net_read_uids(struct net_source *net)
{
	struct uid_sums *sums;
	int err;

	for (sums = net->uids; sums; sums = sums->hh.next)
		memset(&sums->now, 0, sizeof(sums->now));
	err = net_map_read(bpf_map__fd(net->skel->maps.uids), sizeof(uint32_t),
			   (uint32_t)(sizeof(struct net_bytes) * (size_t)net->possible_cpus),
			   bpf_map__max_entries(net->skel->maps.uids), read_uid, net);
	if (!err)
		err = read_rows(net, NET_RECEIVED);
	if (!err)
		err = read_rows(net, NET_SENT);
	for (sums = err ? NULL : net->uids; sums; sums = sums->hh.next)
		grow_uid(sums, &sums->now);
	return err;
}

int net_read_netd_uid(void *ctx, uint32_t uid, const struct net_bytes *now)
{
	struct net_source *net = ctx;
	struct uid_sums *sums = uid_sums(net, uid);

	if (!sums)
		return -ENOMEM;
	/* netd deletes the row of an uninstalled app; a reinstalled one starts at 0 again. */
	if (now->rx_bytes < sums->seen.rx_bytes || now->tx_bytes < sums->seen.tx_bytes)
		memset(&sums->seen, 0, sizeof(sums->seen));
	grow_uid(sums, now);
	return 0;
}

/* Received bytes whose owner was found at read-out. */
int net_book(void *ctx, enum net_bucket bucket, uint32_t uid, uint64_t bytes, uint64_t packets)
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

int net_read_classes(struct net_source *net, struct counter_list *lost)
{
	struct net_bytes now[NET_CLASS_COUNT];
	struct record_net *interval = &net->interval;
	int err = percpu_sum(bpf_map__fd(net->skel->maps.classes), NET_CLASS_COUNT,
			     sizeof(*now) / sizeof(uint64_t), (uint64_t *)now);

	for (uint32_t class = 0; !err && class < NET_CLASS_COUNT; class ++) {
		struct net_bytes delta = advance(&net->classes_seen[class], &now[class]);
		struct record_bytes grown;

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
	return err;
}

int net_read_losses(struct net_source *net, struct counter_list *lost)
{
	static const char *const names[NET_LOSS_COUNT] = {
		[NET_LOSS_UID_MAP_FULL] = "net_uid_map_full",
		[NET_LOSS_FLOW_MAP_FULL] = "net_flow_map_full",
		[NET_LOSS_WAITING_MAP_FULL] = "net_waiting_map_full",
		[NET_LOSS_HEADER] = "net_header_unreadable",
		[NET_LOSS_OWNER_MIXED] = "net_owner_mixed_bytes",
	};
	uint64_t now[NET_LOSS_COUNT];
	int err = percpu_sum(bpf_map__fd(net->skel->maps.net_losses), NET_LOSS_COUNT, 1, now);

	for (uint32_t reason = 0; !err && reason < NET_LOSS_COUNT; reason++) {
		err = counter_list_add(lost, names[reason], now[reason] - net->losses_seen[reason]);
		net->losses_seen[reason] = now[reason];
	}
	return err;
}

/* A program that interrupts itself on its CPU is skipped by the kernel, which counts that. */
int net_read_missed(struct net_source *net, struct counter_list *lost)
{
	enum net_variant variant =
		strcmp(net->base.variant, "raw_tp") ? NET_VARIANT_TP_BTF : NET_VARIANT_RAW_TP;
	struct net_twins twins = net_twins_of(net->skel, variant);
	int err = 0;

	for (int i = 0; i < NET_PROGRAMS && !err; i++) {
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

static int by_uid(const void *a, const void *b)
{
	const struct record_uid_net *left = a, *right = b;

	return left->uid < right->uid ? -1 : left->uid > right->uid;
}

/* Rows of the uids that moved, in order of uid. */
int net_fill_rows(struct net_source *net)
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

		if (!sums->delta.rx_bytes && !sums->delta.tx_bytes && !sums->delta.rx_packets &&
		    !sums->delta.tx_packets)
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

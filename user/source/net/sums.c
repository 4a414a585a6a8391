/* SPDX-License-Identifier: BSD-2-Clause */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "jankscope/target.h"
#include "kernel/percpu.h"
#include "kernel/map_read.h"
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

static struct uid_sums *uid_sums(struct net_source *net, uint64_t owner)
{
	struct uid_sums *sums;

	HASH_FIND(hh, net->uids, &owner, sizeof(owner), sums);
	if (sums)
		return sums;
	sums = calloc(1, sizeof(*sums));
	if (!sums)
		return NULL;
	sums->owner = owner;
	HASH_ADD(hh, net->uids, owner, sizeof(sums->owner), sums);
	return sums;
}

static void grow(struct net_bytes *to, struct net_bytes *seen, const struct net_bytes *now)
{
	struct net_bytes delta = advance(seen, now);

	to->rx_bytes += delta.rx_bytes;
	to->rx_packets += delta.rx_packets;
	to->tx_bytes += delta.tx_bytes;
	to->tx_packets += delta.tx_packets;
}

static int read_uid(void *ctx, const void *key, const void *value)
{
	struct net_source *net = ctx;
	struct uid_sums *sums = uid_sums(net, *(const uint64_t *)key);
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
	sums = uid_sums(net, row->owner);
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
	err = map_read(bpf_map__fd(net->skel->maps.uids), sizeof(uint64_t),
		       (uint32_t)(sizeof(struct net_bytes) * (size_t)net->possible_cpus),
		       bpf_map__max_entries(net->skel->maps.uids), read_uid, net);
	if (!err)
		err = read_rows(net, NET_RECEIVED);
	if (!err)
		err = read_rows(net, NET_SENT);
	for (sums = err ? NULL : net->uids; sums; sums = sums->hh.next)
		grow(&sums->delta, &sums->seen, &sums->now);
	return err;
}

/* netd deletes the row of an uninstalled app; a reinstalled one starts at 0 again. */
static void grow_netd(struct net_bytes *to, struct net_bytes *seen, const struct net_bytes *now)
{
	if (now->rx_bytes < seen->rx_bytes || now->tx_bytes < seen->tx_bytes)
		memset(seen, 0, sizeof(*seen));
	grow(to, seen, now);
}

int net_read_netd_uid(void *ctx, uint32_t uid, const struct net_bytes *now)
{
	struct uid_sums *sums = uid_sums(ctx, NET_ROW_OF(0, uid));

	if (!sums)
		return -ENOMEM;
	grow_netd(&sums->delta, &sums->seen, now);
	return 0;
}

int net_check_netd_uid(void *ctx, uint32_t uid, const struct net_bytes *now)
{
	struct uid_sums *sums = uid_sums(ctx, NET_ROW_OF(0, uid));

	if (!sums)
		return -ENOMEM;
	grow_netd(&sums->netd_delta, &sums->netd_seen, now);
	return 0;
}

/* Received bytes whose owner was found at read-out. */
int net_book(void *ctx, enum net_bucket bucket, uint32_t uid, uint32_t interface, uint64_t bytes,
	     uint64_t packets)
{
	struct net_source *net = ctx;
	struct record_bytes received = {.rx_bytes = bytes, .rx_packets = packets};
	struct uid_sums *sums;

	if (bucket == NET_BUCKET_UID) {
		sums = uid_sums(net, NET_ROW_OF(interface, uid));
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

/* By uid, then by interface. */
static int by_owner(const void *a, const void *b)
{
	const struct uid_sums *left = *(struct uid_sums *const *)a,
			      *right = *(struct uid_sums *const *)b;

	if ((uint32_t)left->owner != (uint32_t)right->owner)
		return (uint32_t)left->owner < (uint32_t)right->owner ? -1 : 1;
	return left->owner < right->owner ? -1 : left->owner > right->owner;
}

static int make_room(struct net_source *net)
{
	size_t count = HASH_COUNT(net->uids), room = count + 64;
	struct record_interface_net *interfaces;
	struct record_uid_net *rows;
	struct uid_sums **moved;

	if (count <= net->row_room)
		return 0;
	rows = realloc(net->rows, room * sizeof(*rows));
	if (rows)
		net->rows = rows;
	interfaces = realloc(net->interface_rows, room * sizeof(*interfaces));
	if (interfaces)
		net->interface_rows = interfaces;
	moved = realloc(net->moved, room * sizeof(*moved));
	if (moved)
		net->moved = moved;
	if (!rows || !interfaces || !moved)
		return -ENOMEM;
	net->row_room = room;
	return 0;
}

static bool is_some(const struct net_bytes *bytes)
{
	return bytes->rx_bytes || bytes->tx_bytes || bytes->rx_packets || bytes->tx_packets;
}

static struct record_interface_net interface_row(const struct net_source *net,
						 const struct uid_sums *sums)
{
	const struct interface_name *known =
		net_interface_find(net, NET_ROW_INTERFACE(sums->owner));
	struct record_interface_net row = {.bytes = as_record(&sums->delta)};

	if (known) {
		row.interface = known->name[0] ? known->name : NULL;
		row.ifindex = known->ifindex;
		row.netns = known->netns;
	}
	return row;
}

static void take_moved(struct net_source *net, struct uid_sums *sums, struct record_uid_net *row)
{
	struct record_bytes bytes = as_record(&sums->delta), netd = as_record(&sums->netd_delta);

	add(&row->bytes, &bytes);
	add(&row->netd, &netd);
	add(&net->interval.netd, &netd);
	if (net->options.by_interface && net->netd_fd < 0 && is_some(&sums->delta))
		row->interfaces[row->interface_count++] = interface_row(net, sums);
	memset(&sums->delta, 0, sizeof(sums->delta));
	memset(&sums->netd_delta, 0, sizeof(sums->netd_delta));
}

/* Rows of the uids that moved, in order of uid. */
int net_fill_rows(struct net_source *net)
{
	struct target_set *targets = net->context->targets;
	struct record_uid_net *row = NULL;
	size_t moved = 0, count = 0;
	struct uid_sums *sums;
	int err = make_room(net);

	if (err)
		return err;
	for (sums = net->uids; sums; sums = sums->hh.next)
		if (is_some(&sums->delta) || is_some(&sums->netd_delta))
			net->moved[moved++] = sums;
	if (moved)
		qsort(net->moved, moved, sizeof(*net->moved), by_owner);
	for (size_t i = 0; i < moved; i++) {
		uint32_t uid = (uint32_t)net->moved[i]->owner;

		if (!row || row->uid != uid) {
			row = &net->rows[count++];
			*row = (struct record_uid_net){
				.uid = uid,
				.package = targets ? target_package_of_uid(targets, uid) : NULL,
				.netd_present = net->check_fd >= 0,
				.interfaces = &net->interface_rows[i]};
		}
		take_moved(net, net->moved[i], row);
	}
	net->interval.uids = net->rows;
	net->interval.uid_count = count;
	return 0;
}

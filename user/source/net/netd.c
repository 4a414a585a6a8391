/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/net/netd.h"
#include <bpf/bpf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "kernel/map_read.h"

/* struct StatsValue of bpf_progs/netd.h (packages/modules/Connectivity). */
struct netd_stats {
	uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes;
};

#define NETD_MAX_ENTRIES 65536 /* netd makes 10000; a larger one is not believed */

static int open_map(const char *path, char *reason, size_t size)
{
	LIBBPF_OPTS(bpf_obj_get_opts, options, .file_flags = BPF_F_RDONLY);
	struct bpf_map_info info = {0};
	uint32_t info_size = sizeof(info);
	int fd = bpf_obj_get_opts(path, &options), err;

	if (fd < 0) {
		snprintf(reason, size, "%s: %s", path, strerror(-fd));
		return fd;
	}
	err = bpf_obj_get_info_by_fd(fd, &info, &info_size);
	if (err)
		snprintf(reason, size, "%s: not a map", path);
	else if (info.type != BPF_MAP_TYPE_HASH || info.key_size != sizeof(uint32_t) ||
		 info.value_size != sizeof(struct netd_stats) ||
		 info.max_entries > NETD_MAX_ENTRIES) {
		err = -EPROTO;
		snprintf(reason, size,
			 "%s is not netd's map as we know it: %u entries of type %u, %u bytes to "
			 "%u",
			 path, info.max_entries, info.type, info.key_size, info.value_size);
	}
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

int net_netd_open(const char *bpffs, char *reason, size_t size)
{
	static const char *const names[] = {"netd_shared/map_netd_app_uid_stats_map",
					    "map_netd_app_uid_stats_map"};
	char path[PATH_MAX];
	int fd = -ENOENT;

	for (size_t i = 0; i < 2 && fd == -ENOENT; i++) {
		if (snprintf(path, sizeof(path), "%s/%s", bpffs, names[i]) >= (int)sizeof(path)) {
			snprintf(reason, size, "the name of bpffs is too long");
			return -ENAMETOOLONG;
		}
		fd = open_map(path, reason, size);
	}
	return fd;
}

struct reader {
	net_netd_fn fn;
	void *ctx;
};

static int read_one(void *ctx, const void *key, const void *value)
{
	const struct reader *reader = ctx;
	const struct netd_stats *stats = value;
	struct net_bytes bytes = {.rx_bytes = stats->rx_bytes,
				  .rx_packets = stats->rx_packets,
				  .tx_bytes = stats->tx_bytes,
				  .tx_packets = stats->tx_packets};

	return reader->fn(reader->ctx, *(const uint32_t *)key, &bytes);
}

int net_netd_read(int fd, net_netd_fn fn, void *ctx)
{
	struct bpf_map_info info = {0};
	uint32_t size = sizeof(info);
	struct reader reader = {.fn = fn, .ctx = ctx};
	int err = bpf_obj_get_info_by_fd(fd, &info, &size);

	if (err)
		return err;
	return map_read(fd, sizeof(uint32_t), sizeof(struct netd_stats), info.max_entries, read_one,
			&reader);
}

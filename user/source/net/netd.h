/* SPDX-License-Identifier: BSD-2-Clause */
/* netd's own counters on an Android device: bytes per uid since boot, for no tax at all. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "abi/net.h"

/* Open the pinned map read-only: netd_shared/map_netd_app_uid_stats_map (Android 13 and later) or
 * map_netd_app_uid_stats_map below bpffs. The maps that netd swaps (stats_map_A and _B) are left
 * alone. Returns a descriptor; -ENOENT: no such map; -EPROTO: it is not the map that we know
 * (uid -> rxPackets, rxBytes, txPackets, txBytes); or another negative errno. On errors reason says
 * in one line which file, and what is wrong with it. */
int net_netd_open(const char *bpffs, char *reason, size_t size);

typedef int (*net_netd_fn)(void *ctx, uint32_t uid, const struct net_bytes *bytes);
/* Call fn for each uid. 0, fn's return, or a negative errno. */
int net_netd_read(int fd, net_netd_fn fn, void *ctx);

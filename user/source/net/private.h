/* SPDX-License-Identifier: BSD-2-Clause */
/* What net.c and net_sums.c share; nobody else includes it. */
#pragma once
#include <bpf/libbpf.h>
#include <uthash.h>
#include "abi/net.h"
#include "net.skel.h"
#include "source/net/net.h"
#include "source/net/flows.h"

#define NET_PROGRAMS   3
#define NET_IDLE_STEPS 6

struct uid_sums {
	uint32_t uid;
	struct net_bytes now;   /* what the kernel's maps have at this read */
	struct net_bytes seen;  /* and had at the last one */
	struct net_bytes delta; /* of this interval */
	UT_hash_handle hh;
};

struct net_source {
	struct source base;
	struct net_options options;
	const struct source_context *context;
	struct net_bpf *skel;
	struct bpf_link *links[NET_PROGRAMS];
	uint64_t missed[NET_PROGRAMS]; /* runs that the kernel skipped, as of the last read */
	struct net_flows *flows;
	int netd_fd;
	struct uid_sums *uids;
	struct net_bytes classes_seen[NET_CLASS_COUNT];
	uint64_t losses_seen[NET_LOSS_COUNT];
	struct record_net interval; /* deltas while an interval is made */
	struct record_uid_net *rows;
	size_t row_room;
	/* The epochs that began 0, 10, ... 60 s ago: what has none since the last is idle. */
	uint32_t epochs[NET_IDLE_STEPS + 1];
	uint64_t step_ns; /* when the first of them began */
	int possible_cpus;
};

struct net_twins {
	const char *name;
	struct bpf_program *programs[NET_PROGRAMS];
};

/* The programs of a variant. */
struct net_twins net_twins_of(struct net_bpf *skel, enum net_variant variant);

/* ---- net_sums.c: what is read, and whose row it goes to ---- */
/* The sums of all uids. 0 or a negative errno. */
int net_read_uids(struct net_source *net);
/* A row of netd's map; ctx is the source. 0 or -ENOMEM. */
int net_read_netd_uid(void *ctx, uint32_t uid, const struct net_bytes *now);
/* Received bytes whose owner was found at read-out; ctx is the source. 0 or -ENOMEM. */
int net_book(void *ctx, enum net_bucket bucket, uint32_t uid, uint64_t bytes, uint64_t packets);
/* What has no uid; what was lost; runs of a program that the kernel skipped. 0 or a negative errno.
 */
int net_read_classes(struct net_source *net, struct counter_list *counters);
int net_read_losses(struct net_source *net, struct counter_list *counters);
int net_read_missed(struct net_source *net, struct counter_list *counters);
/* Rows of the uids that moved, in order of uid, into the interval. 0 or -ENOMEM. */
int net_fill_rows(struct net_source *net);

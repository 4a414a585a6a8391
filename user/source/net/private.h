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

/* Of a uid, or of a uid and an interface where those are told apart. */
struct uid_sums {
	uint64_t owner;                         /* NET_ROW_OF(interface, uid) */
	struct net_bytes now;                   /* what the kernel's maps have at this read */
	struct net_bytes seen;                  /* and had at the last one */
	struct net_bytes delta;                 /* of this interval */
	struct net_bytes netd_seen, netd_delta; /* the same of netd's map, to compare with */
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
	int netd_fd;  /* what is told comes from there; -1: from the programs */
	int check_fd; /* netd's map to compare with; -1: none */
	char check_reason[160];
	struct uid_sums *uids;
	struct net_bytes classes_seen[NET_CLASS_COUNT];
	uint64_t losses_seen[NET_LOSS_COUNT];
	struct record_net interval; /* deltas while an interval is made */
	struct record_uid_net *rows;
	struct record_interface_net *interface_rows;
	struct uid_sums **moved; /* room for as many as there are rows */
	size_t row_room;
	struct interface_name *interfaces;
	uint64_t own_netns; /* as the kernel side names it */
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
/* The same to compare with. */
int net_check_netd_uid(void *ctx, uint32_t uid, const struct net_bytes *now);
/* Received bytes whose owner was found at read-out; ctx is the source. 0 or -ENOMEM. */
int net_book(void *ctx, enum net_bucket bucket, uint32_t uid, uint32_t interface, uint64_t bytes,
	     uint64_t packets);
/* What has no uid; what was lost; runs of a program that the kernel skipped. 0 or a negative errno.
 */
int net_read_classes(struct net_source *net, struct counter_list *counters);
int net_read_losses(struct net_source *net, struct counter_list *counters);
int net_read_missed(struct net_source *net, struct counter_list *counters);
/* Rows of the uids that moved, in order of uid, into the interval. 0 or -ENOMEM. */
int net_fill_rows(struct net_source *net);

/* ---- interfaces.c: how interfaces are called ---- */
/* What is told of an interface; the texts live until the next read. */
struct interface_name {
	UT_hash_handle hh;
	uint32_t id, ifindex;
	uint64_t netns; /* 0: the recorder's own */
	char name[16];
};
/* Find the own namespace's number; to be called once. */
void net_interfaces_begin(struct net_source *net);
/* Read what the kernel side has. 0 or a negative errno. */
int net_interfaces_read(struct net_source *net);
/* NULL: it is not known. */
const struct interface_name *net_interface_find(const struct net_source *net, uint32_t id);
void net_interfaces_free(struct net_source *net);

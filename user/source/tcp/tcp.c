/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/tcp/tcp.h"
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include "abi/tcp.h"
#include "core/rights.h"
#include "jankscope/target.h"
#include "kernel/btf.h"
#include "kernel/load.h"
#include "kernel/map_read.h"
#include "kernel/percpu.h"
#include "kernel/types.h"
#include "record/histogram.h"
#include "tcp.skel.h"
#include "util/clock.h"

#define PROGRAMS 5

struct uid_state {
	UT_hash_handle hh;
	uint32_t uid;
	struct tcp_sums now;  /* what the kernel's map has at this read */
	struct tcp_sums seen; /* and had at the last one */
	struct histogram *rtt;
};

struct tcp_source {
	struct source base;
	struct tcp_options options;
	const struct source_context *context;
	struct tcp_bpf *skel;
	struct bpf_link *links[PROGRAMS];
	uint64_t missed[PROGRAMS]; /* runs that the kernel skipped, as of the last read */
	uint64_t losses_seen[TCP_LOSS_COUNT];
	struct uid_state *uids;
	struct record_uid_tcp *rows;
	size_t room;
	int possible_cpus;
};

/* ---- load ---- */
static void list_programs(const struct tcp_bpf *skel, struct bpf_program *programs[PROGRAMS])
{
	programs[0] = skel->progs.tcp_retransmitted;
	programs[1] = skel->progs.tcp_answered_again;
	programs[2] = skel->progs.tcp_was_reset;
	programs[3] = skel->progs.tcp_changed;
	programs[4] = skel->progs.tcp_received;
}

static int load(struct tcp_source *tcp, const struct kernel_types *types)
{
	LIBBPF_OPTS(bpf_object_open_opts, open_options, .btf_custom_path = types->path);
	struct bpf_program *programs[PROGRAMS];
	int err = 0;

	tcp->skel = tcp_bpf__open_opts(&open_options);
	if (!tcp->skel)
		return -errno;
	if (tcp->options.test_uids)
		err = bpf_map__set_max_entries(tcp->skel->maps.tcp_uids, tcp->options.test_uids);
	list_programs(tcp->skel, programs);
	for (int i = 0; i < PROGRAMS && !err; i++)
		err = bpf_program__set_autoload(programs[i], true);
	if (!err)
		err = tcp_bpf__load(tcp->skel);
	for (int i = 0; i < PROGRAMS && !err; i++) {
		tcp->links[i] = bpf_program__attach(programs[i]);
		if (!tcp->links[i])
			err = -errno;
	}
	return err;
}

static int tcp_open(struct source *base, const struct source_context *context)
{
	struct tcp_source *tcp = (struct tcp_source *)base;
	struct kernel_btf btf = {0};
	struct kernel_types types;
	const void *object;
	size_t object_bytes;
	int err;

	tcp->context = context;
	tcp->possible_cpus = libbpf_num_possible_cpus();
	err = tcp->possible_cpus < 0 ? tcp->possible_cpus
				     : kernel_btf_open(&btf, tcp->options.btf, NULL);
	if (!err) {
		object = tcp_bpf__elf_bytes(&object_bytes);
		kernel_types_open(&types, btf.path, object, object_bytes);
		bpf_object_release(object);
		kernel_log_clear();
		err = load(tcp, &types);
		kernel_types_close(&types);
		kernel_btf_close(&btf);
	}
	if (err) {
		base->state = SOURCE_ABSENT;
		kernel_explain(err, "TCP's tracepoints", base->reason, sizeof(base->reason));
	}
	return err;
}

/* ---- sample ---- */
static void add_sums(struct tcp_sums *to, const struct tcp_sums *from)
{
	for (int i = 0; i < TCP_COUNTERS; i++)
		to->counts[i] += from->counts[i];
	to->rtt_us += from->rtt_us;
	for (int i = 0; i < TCP_RTT_BUCKETS; i++)
		to->rtt_buckets[i] += from->rtt_buckets[i];
}

static int read_uid(void *ctx, const void *key, const void *value)
{
	struct tcp_source *tcp = ctx;
	const struct tcp_sums *of_cpu = value;
	struct uid_state *state;

	HASH_FIND(hh, tcp->uids, key, sizeof(uint32_t), state);
	if (!state) {
		state = calloc(1, sizeof(*state));
		if (!state)
			return -ENOMEM;
		memcpy(&state->uid, key, sizeof(state->uid));
		HASH_ADD(hh, tcp->uids, uid, sizeof(state->uid), state);
	}
	memset(&state->now, 0, sizeof(state->now));
	for (int cpu = 0; cpu < tcp->possible_cpus; cpu++)
		add_sums(&state->now, &of_cpu[cpu]);
	return 0;
}

static uint64_t bucket_low_us(int bucket)
{
	return bucket < 4 ? (uint64_t)bucket : (4 + ((uint64_t)bucket & 3)) << (bucket / 4 - 1);
}

/* What came since the last read, which is then up to now. */
static int take_round_trips(struct uid_state *state, struct record_uid_tcp *row)
{
	uint64_t sum_us = state->now.rtt_us - state->seen.rtt_us;
	int err = 0;

	histogram_free(state->rtt);
	state->rtt = NULL;
	for (int i = 0; i < TCP_RTT_BUCKETS && !err; i++) {
		uint32_t count = state->now.rtt_buckets[i] - state->seen.rtt_buckets[i];
		uint64_t middle_ns;

		if (!count)
			continue;
		if (!state->rtt)
			state->rtt = histogram_new();
		if (!state->rtt)
			return -ENOMEM;
		row->rtt_samples += count;
		middle_ns = (bucket_low_us(i) + bucket_low_us(i + 1)) * NSEC_PER_USEC / 2;
		err = histogram_add_bucket(state->rtt, middle_ns, middle_ns, count);
	}
	row->rtt_hist = state->rtt;
	if (row->rtt_samples)
		row->rtt_mean_ns = SOME_U64(sum_us * NSEC_PER_USEC / row->rtt_samples);
	return err;
}

static int take_uid(struct tcp_source *tcp, struct uid_state *state, struct record_uid_tcp *row)
{
	struct target_set *targets = tcp->context->targets;
	uint64_t grown[TCP_COUNTERS];
	int err;

	for (int i = 0; i < TCP_COUNTERS; i++)
		grown[i] = state->now.counts[i] - state->seen.counts[i];
	*row = (struct record_uid_tcp){
		.uid = state->uid,
		.package = targets ? target_package_of_uid(targets, state->uid) : NULL,
		.retransmits = grown[TCP_RETRANSMITS],
		.connects = grown[TCP_CONNECTS],
		.accepts = grown[TCP_ACCEPTS],
		.failed = {.refused = grown[TCP_CONNECTS_REFUSED],
			   .timed_out = grown[TCP_CONNECTS_TIMED_OUT],
			   .unreachable = grown[TCP_CONNECTS_UNREACHABLE],
			   .other = grown[TCP_CONNECTS_OTHER],
			   .given_up = grown[TCP_CONNECTS_GIVEN_UP]},
		.timeouts = grown[TCP_TIMEOUTS],
		.resets_received = grown[TCP_RESETS_RECEIVED],
	};
	err = take_round_trips(state, row);
	state->seen = state->now;
	return err;
}

static int by_uid(const void *a, const void *b)
{
	const struct record_uid_tcp *left = a, *right = b;

	return left->uid < right->uid ? -1 : left->uid > right->uid;
}

static int fill_rows(struct tcp_source *tcp, struct record_tcp *to)
{
	size_t count = 0;
	int err = 0;

	if (HASH_COUNT(tcp->uids) > tcp->room) {
		size_t room = HASH_COUNT(tcp->uids) + 32;
		struct record_uid_tcp *rows = realloc(tcp->rows, room * sizeof(*rows));

		if (!rows)
			return -ENOMEM;
		tcp->rows = rows;
		tcp->room = room;
	}
	for (struct uid_state *state = tcp->uids; state && !err; state = state->hh.next)
		if (memcmp(&state->now, &state->seen, sizeof(state->now)))
			err = take_uid(tcp, state, &tcp->rows[count++]);
	if (count)
		qsort(tcp->rows, count, sizeof(*tcp->rows), by_uid);
	*to = (struct record_tcp){.present = true, .uids = tcp->rows, .uid_count = count};
	return err;
}

static int read_losses(struct tcp_source *tcp, struct counter_list *lost)
{
	static const char *const names[TCP_LOSS_COUNT] = {
		[TCP_LOSS_UID_MAP_FULL] = "tcp_uid_map_full",
	};
	struct bpf_program *programs[PROGRAMS];
	uint64_t now[TCP_LOSS_COUNT];
	int err = percpu_sum(bpf_map__fd(tcp->skel->maps.tcp_losses), TCP_LOSS_COUNT, 1, now);

	for (int i = 0; i < TCP_LOSS_COUNT && !err; i++) {
		err = counter_list_add(lost, names[i], now[i] - tcp->losses_seen[i]);
		tcp->losses_seen[i] = now[i];
	}
	list_programs(tcp->skel, programs);
	for (int i = 0; i < PROGRAMS && !err; i++) {
		struct bpf_prog_info info = {0};
		uint32_t size = sizeof(info);

		if (bpf_obj_get_info_by_fd(bpf_program__fd(programs[i]), &info, &size))
			continue; /* a kernel that cannot say it does not skip either */
		err = counter_list_add(lost, "tcp_missed_runs",
				       info.recursion_misses - tcp->missed[i]);
		tcp->missed[i] = info.recursion_misses;
	}
	return err;
}

static int tcp_sample(struct source *base, struct record_interval *interval)
{
	struct tcp_source *tcp = (struct tcp_source *)base;
	char reason[160];
	int err = map_read(bpf_map__fd(tcp->skel->maps.tcp_uids), sizeof(uint32_t),
			   (uint32_t)(sizeof(struct tcp_sums) * (size_t)tcp->possible_cpus),
			   bpf_map__max_entries(tcp->skel->maps.tcp_uids), read_uid, tcp);

	if (!err)
		err = read_losses(tcp, &interval->lost);
	if (!err)
		err = fill_rows(tcp, &interval->tcp);
	if (!err || err == -ENOMEM)
		return err;
	/* The next interval has it. */
	snprintf(reason, sizeof(reason), "cannot read the map of TCP: %s", strerror(-err));
	counter_list_add(&interval->lost, "tcp_read_failed", 1);
	return missing_list_set(&interval->missing, "tcp", reason);
}

static void tcp_close(struct source *base)
{
	struct tcp_source *tcp = (struct tcp_source *)base;
	struct uid_state *state, *next;

	if (!tcp)
		return;
	for (int i = 0; i < PROGRAMS; i++)
		bpf_link__destroy(tcp->links[i]);
	tcp_bpf__destroy(tcp->skel);
	HASH_ITER (hh, tcp->uids, state, next) {
		HASH_DEL(tcp->uids, state);
		histogram_free(state->rtt);
		free(state);
	}
	free(tcp->rows);
	free(tcp);
}

static const struct loss_info loss_items[] = {
	{"tcp_uid_map_full", LOSS_LOST, LOSS_OF_NOTHING}, /* events of uids beyond 512 */
	{"tcp_missed_runs", LOSS_LOST, LOSS_OF_NOTHING},
	{"tcp_read_failed", LOSS_LATE, LOSS_OF_NOTHING},
};

const struct loss_table tcp_losses = {loss_items, sizeof(loss_items) / sizeof(*loss_items), NULL};

static const struct source_ops ops = {
	.name = "tcp",
	.losses = &tcp_losses,
	.open = tcp_open,
	.sample = tcp_sample,
	.close = tcp_close,
};

struct source *tcp_source_new(const struct tcp_options *options)
{
	struct tcp_source *tcp = calloc(1, sizeof(*tcp));

	if (!tcp)
		return NULL;
	tcp->base.ops = &ops;
	tcp->base.rights = RIGHT_MAPS;
	tcp->base.variant = "raw_tp";
	tcp->options = *options;
	return &tcp->base;
}

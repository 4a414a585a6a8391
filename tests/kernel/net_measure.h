/* SPDX-License-Identifier: BSD-2-Clause */
/* The network source on one side, cgroup_skb counters on the other: run traffic, sample meanwhile,
 * and compare per uid. */
#pragma once
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include "jankscope/source.h"
#include "kernel/hides_init.h"
#include "kernel/net_locks.h"
#include "kernel/net_rig.h"
#include "kernel/net_traffic.h"
#include "kernel/truth/net_truth.h"
#include "net_truth.skel.h"
#include "source/net/net.h"
#include "tap.h"

/* Of this run alone, so that two runs beside each other do not count each other's; as group ids
 * they are in the range of ping_group_range. */
#define DEVICE_UID     (1000000 + (uid_t)(net_run() % 500000) * 4096)
#define PEER_UID       (DEVICE_UID + 2048)
#define SAMPLE_US      50000
#define MAX_ROUNDS     60
#define SILENT_ROUNDS  20
#define MAX_REREADS    5
#define MAX_INTERFACES 512
#define MAX_UIDS       4096 /* those of other programs on this machine, too */
#define SYNACK6        80   /* bytes of a SYN-ACK over IPv6 */

/* The process that began the test; its children inherit the answer. */
static inline pid_t net_run(void)
{
	static pid_t run;

	if (!run)
		run = getpid();
	return run;
}

struct measured {
	struct {
		uid_t uid;
		struct record_bytes bytes;
	} uids[MAX_UIDS];
	size_t count;
	struct record_bytes loopback, unattributed, forwarded, kernel, no_socket;
	struct counter_list lost;
	/* where they are told apart */
	struct measured_interface {
		uid_t uid;
		uint32_t ifindex;
		uint64_t netns;
		char name[16]; /* as it was called last */
		struct record_bytes bytes;
	} interfaces[MAX_INTERFACES];
	size_t interface_count;
	bool uneven; /* the rows of a uid were not its sum */
};

struct shared {
	atomic_int go, up_count, samples;
};

struct bench {
	struct rig rig;
	struct net_truth_bpf *truth;
	struct bpf_link *links[2];
	struct source *source;
	struct measured measured;
	uint64_t pending; /* bytes that wait for their owner, as of the last sample */
	struct shared *shared;
	bool final;               /* no sample follows the next one */
	uint64_t neighbours_lost; /* when it came up */
	struct init_watch init;
	int machine; /* the lock of bench_alone() */
	/* An emulated machine: a tenth of the traffic, so that the test ends in a minute. */
	bool slow;
};

/* ---- measuring ---- */
static inline void add(struct record_bytes *to, const struct record_bytes *from)
{
	to->rx_bytes += from->rx_bytes;
	to->rx_packets += from->rx_packets;
	to->tx_bytes += from->tx_bytes;
	to->tx_packets += from->tx_packets;
}

static inline struct record_bytes *measured_uid(struct measured *measured, uid_t uid)
{
	size_t i;

	for (i = 0; i < measured->count; i++)
		if (measured->uids[i].uid == uid)
			return &measured->uids[i].bytes;
	if (measured->count == MAX_UIDS)
		return &measured->uids[MAX_UIDS - 1].bytes;
	measured->uids[measured->count].uid = uid;
	return &measured->uids[measured->count++].bytes;
}

static inline struct measured_interface *measured_interface(struct measured *measured, uid_t uid,
							    uint32_t ifindex, uint64_t netns)
{
	struct measured_interface *one = measured->interfaces;

	for (; one < measured->interfaces + measured->interface_count; one++)
		if (one->uid == uid && one->ifindex == ifindex && one->netns == netns)
			return one;
	if (measured->interface_count == MAX_INTERFACES)
		return one - 1;
	measured->interface_count++;
	*one = (struct measured_interface){.uid = uid, .ifindex = ifindex, .netns = netns};
	return one;
}

static inline void add_interfaces(struct measured *measured, const struct record_uid_net *row)
{
	struct record_bytes sum = {0};

	for (size_t i = 0; i < row->interface_count; i++) {
		const struct record_interface_net *part = &row->interfaces[i];
		struct measured_interface *one =
			measured_interface(measured, row->uid, part->ifindex, part->netns);

		add(&sum, &part->bytes);
		add(&one->bytes, &part->bytes);
		snprintf(one->name, sizeof(one->name), "%s",
			 part->interface ? part->interface : "");
	}
	if (row->interface_count && memcmp(&sum, &row->bytes, sizeof(sum)))
		measured->uneven = true;
}

static inline int sample(struct bench *bench)
{
	struct record_interval interval = {.final = bench->final};
	struct measured *measured = &bench->measured;
	int err = bench->source->ops->sample(bench->source, &interval);
	size_t i;

	for (i = 0; i < interval.net.uid_count; i++) {
		add(measured_uid(measured, interval.net.uids[i].uid), &interval.net.uids[i].bytes);
		add_interfaces(measured, &interval.net.uids[i]);
	}
	add(&measured->loopback, &interval.net.loopback);
	add(&measured->unattributed, &interval.net.unattributed);
	add(&measured->forwarded, &interval.net.forwarded);
	add(&measured->kernel, &interval.net.kernel);
	add(&measured->no_socket, &interval.net.no_socket);
	atomic_fetch_add(&bench->shared->samples, 1);
	bench->pending = counter_list_get(&interval.lost, "net_pending_bytes");
	counter_list_merge(&measured->lost, &interval.lost);
	counter_list_free(&interval.lost);
	missing_list_free(&interval.missing);
	return err;
}

static inline int start(struct bench *bench, const struct net_options *options)
{
	static const struct source_context context;
	int err;

	counter_list_free(&bench->measured.lost);
	memset(&bench->measured, 0, sizeof(bench->measured));
	bench->source = net_source_new(options);
	if (!bench->source)
		return -ENOMEM;
	err = bench->source->ops->open(bench->source, &context);
	if (err)
		tap_note("%s", bench->source->reason);
	return err;
}

static inline void stop(struct bench *bench)
{
	if (bench->source)
		bench->source->ops->close(bench->source);
	bench->source = NULL;
}

static inline struct truth_bytes truth_of(struct bench *bench, uid_t uid, bool wire, bool loopback)
{
	struct truth_key key = {
		.uid = uid, .formula = wire ? TRUTH_WIRE : TRUTH_NETD, .loopback = loopback};
	int fd = bpf_map__fd(bench->truth->maps.truth);
	struct truth_bytes bytes = {0}, in_init;

	bpf_map_lookup_elem(fd, &key, &bytes);
	key.in_init = 1;
	if (bpf_map_lookup_elem(fd, &key, &in_init) || hides_init(&bench->init))
		return bytes;
	bytes.rx_bytes += in_init.rx_bytes;
	bytes.rx_packets += in_init.rx_packets;
	bytes.tx_bytes += in_init.tx_bytes;
	bytes.tx_packets += in_init.tx_packets;
	bytes.rx_syns += in_init.rx_syns;
	bytes.tx_syns += in_init.tx_syns;
	bytes.rx_synacks6 += in_init.rx_synacks6;
	bytes.tx_synacks6 += in_init.tx_synacks6;
	return bytes;
}

/* What was left out of the truth, if anything: all tests say so. */
static inline void show_hidden(struct bench *bench)
{
	int fd = bpf_map__fd(bench->truth->maps.truth);
	struct truth_key key, *from = NULL;
	struct truth_bytes bytes;
	uint64_t packets = 0, sum = 0;

	if (bench->init.hides != HIDES_INIT)
		return;
	for (; !bpf_map_get_next_key(fd, from, &key); from = &key)
		if (key.in_init && key.formula == TRUTH_WIRE &&
		    !bpf_map_lookup_elem(fd, &key, &bytes)) {
			packets += bytes.rx_packets + bytes.tx_packets;
			sum += bytes.rx_bytes + bytes.tx_bytes;
		}
	tap_note("this kernel shows no tracepoint while process 1 runs: %lu packets, %lu B since "
		 "the last clearing are not counted",
		 packets, sum);
}

/* Grows with each packet that the truth sees. */
static inline uint64_t truth_total(struct bench *bench)
{
	int fd = bpf_map__fd(bench->truth->maps.truth);
	struct truth_key key, *from = NULL;
	struct truth_bytes bytes;
	uint64_t packets = 0;

	while (!bpf_map_get_next_key(fd, from, &key)) {
		if (!bpf_map_lookup_elem(fd, &key, &bytes))
			packets += bytes.rx_packets + bytes.tx_packets;
		from = &key;
	}
	return packets;
}

static inline void clear_truth(struct bench *bench)
{
	int fd = bpf_map__fd(bench->truth->maps.truth);
	struct truth_key key;

	while (!bpf_map_get_next_key(fd, NULL, &key))
		bpf_map_delete_elem(fd, &key);
}

/* ---- cases ---- */
struct net_case;
typedef int (*case_fn)(const struct bench *bench, const struct net_case *net_case, uid_t device,
		       uid_t peer);

struct net_case {
	const char *name;
	case_fn run;
	int family;
	uint64_t up, down;
	int count;
	bool server_closes;
	bool gso;      /* see test_cases */
	bool segments; /* super-packets: where the two length formulas differ */
	uint32_t pacing;
};

static inline struct traffic traffic_of(const struct bench *bench, const struct net_case *net_case,
					const char *v4, const char *v6)
{
	return (struct traffic){.family = net_case->family,
				.address = net_case->family == AF_INET ? v4 : v6,
				.up = net_case->up,
				.down = net_case->down,
				.count = net_case->count,
				.pacing = net_case->pacing,
				.server_closes = net_case->server_closes,
				.samples = &bench->shared->samples};
}

static inline int tcp_out(const struct bench *bench, const struct net_case *net_case, uid_t device,
			  uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_PEER, peer, tcp_server, RIG_DEVICE, device, tcp_client,
			    traffic_of(bench, net_case, RIG_PEER4, RIG_PEER6));
}

static inline int tcp_in(const struct bench *bench, const struct net_case *net_case, uid_t device,
			 uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_DEVICE, device, tcp_server, RIG_PEER, peer, tcp_client,
			    traffic_of(bench, net_case, RIG_DEVICE4, RIG_DEVICE6));
}

/* IPv4 into an IPv6 socket. */
static inline int udp_out(const struct bench *bench, const struct net_case *net_case, uid_t device,
			  uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_PEER, peer, udp_echo_server, RIG_DEVICE, device,
			    udp_echo_client, traffic_of(bench, net_case, RIG_PEER4, RIG_PEER6));
}

static inline int udp_receive(const struct bench *bench, const struct net_case *net_case,
			      uid_t device, uid_t peer)
{
	return traffic_pair(&bench->rig, RIG_DEVICE, device, udp_receiver, RIG_PEER, peer,
			    udp_sender, traffic_of(bench, net_case, RIG_DEVICE4, RIG_DEVICE6));
}

static inline struct net_case scaled(const struct bench *bench, const struct net_case *net_case)
{
	struct net_case less = *net_case;

	if (bench->slow && less.count >= 50)
		less.count /= 10;
	if (bench->slow && less.up >= 100000)
		less.up /= 10;
	if (bench->slow && less.down >= 100000)
		less.down /= 10;
	return less;
}

/* Kernels before 521ff842bd2a leave the IPv6 SYN-ACK out of cgroup egress, netd with them: what the
 * server's truth lacks its client has received. */
static inline void add_synacks(struct truth_bytes *server, const struct truth_bytes *client)
{
	uint64_t missing = client->rx_synacks6 - server->tx_synacks6;

	server->tx_bytes += SYNACK6 * missing;
	server->tx_packets += missing;
}

/* Sample until the child ends; its exit status, -1 for a signal. */
static inline int sample_until(struct bench *bench, pid_t pid)
{
	int status = -1;

	while (pid > 0 && waitpid(pid, &status, WNOHANG) == 0) {
		usleep(SAMPLE_US);
		if (bench->source)
			sample(bench);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* FINs and their ACKs come after the last process; two read-outs drain what waits. An
 * emulated machine is slow enough to send a FIN again, some 200 ms later: it must be silent
 * for longer than that. What others on this machine send waits for its owner as well, all the time
 * where one knocks at closed ports: after a second without a packet of our own that is all it is.
 */
static inline void drain(struct bench *bench)
{
	int rounds, quiet, silent;
	uint64_t before;

	for (rounds = quiet = silent = 0; quiet < (bench->slow ? 8 : 3) && rounds < MAX_ROUNDS &&
					  silent < (bench->slow ? MAX_ROUNDS : SILENT_ROUNDS);
	     rounds++) {
		before = truth_total(bench);
		usleep(SAMPLE_US);
		sample(bench);
		silent = truth_total(bench) == before ? silent + 1 : 0;
		quiet = silent && !bench->pending ? quiet + 1 : 0;
	}
}

/* A busy machine sends a segment again at any time, so also between the last read-out and the read
 * of the truth: where the two differ, both are read again. What was missed stays missing, because
 * they are sums from the start. False: that was often enough. */
static inline bool read_again(struct bench *bench, int *reads)
{
	if (++*reads > MAX_REREADS)
		return false;
	drain(bench);
	return true;
}

/* Run one case in a child of its own and sample meanwhile. */
static inline int run_case(struct bench *bench, const struct net_case *wanted, uid_t device,
			   uid_t peer)
{
	const struct net_case less = scaled(bench, wanted), *net_case = &less;
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(net_case->run(bench, net_case, device, peer) & 0xff);
	status = sample_until(bench, pid);
	if (!bench->source)
		return status;
	drain(bench);
	return status;
}

static inline bool equal(const struct truth_bytes *truth, const struct record_bytes *measured)
{
	return truth->rx_bytes == measured->rx_bytes && truth->tx_bytes == measured->tx_bytes &&
	       truth->rx_packets == measured->rx_packets &&
	       truth->tx_packets == measured->tx_packets;
}

static inline void show(const char *who, const struct truth_bytes *truth,
			const struct record_bytes *measured)
{
	tap_note("%s: truth rx %llu B %llu p, tx %llu B %llu p", who, truth->rx_bytes,
		 truth->rx_packets, truth->tx_bytes, truth->tx_packets);
	tap_note("%s: found rx %lu B %lu p, tx %lu B %lu p", who, measured->rx_bytes,
		 measured->rx_packets, measured->tx_bytes, measured->tx_packets);
}

/* Where else a segment that is not in its row can be: what the whole machine has there. */
static inline void show_elsewhere(const char *who, const struct measured *measured)
{
	tap_note("%s: kernel rx %lu tx %lu B, no socket rx %lu B, forwarded rx %lu tx %lu B, lost "
		 "%lu B, %lu runs skipped",
		 who, measured->kernel.rx_bytes, measured->kernel.tx_bytes,
		 measured->no_socket.rx_bytes, measured->forwarded.rx_bytes,
		 measured->forwarded.tx_bytes, counter_list_get(&measured->lost, "net_lost_bytes"),
		 counter_list_get(&measured->lost, "net_missed_runs"));
}

static inline int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	return 0;
}

/* Packets of the whole machine that were given up because their neighbour did not answer or had no
 * room: the truth counts a packet before that, and the tracepoint never sees it. */
static inline uint64_t neighbours_lost(void)
{
	static const char *const files[] = {"/proc/net/stat/arp_cache",
					    "/proc/net/stat/ndisc_cache"};
	uint64_t lost = 0;
	char line[512];

	for (size_t i = 0; i < 2; i++) {
		FILE *file = fopen(files[i], "r");

		while (file && fgets(line, sizeof(line), file)) {
			unsigned long discards, full;

			/* the last two of 13 columns, in hexadecimal; the first line has names */
			if (sscanf(line, "%*x%*x%*x%*x%*x%*x%*x%*x%*x%*x%*x%lx%lx", &discards,
				   &full) == 2)
				lost += discards + full;
		}
		if (file)
			fclose(file);
	}
	return lost;
}

/* Where the kernel tells a cgroup's program who is current, the truth tells process 1's part. */
static inline void load_truth(struct bench *bench)
{
	bool tells_init = !bench->slow && !access("/sys/kernel/btf/vmlinux", R_OK) &&
			  libbpf_probe_bpf_helper(BPF_PROG_TYPE_CGROUP_SKB,
						  BPF_FUNC_get_current_pid_tgid, NULL) == 1;

	bench->truth = net_truth_bpf__open();
	if (!bench->truth)
		return;
	bench->truth->rodata->tells_init = tells_init;
	if (net_truth_bpf__load(bench->truth)) {
		net_truth_bpf__destroy(bench->truth);
		bench->truth = NULL;
		return;
	}
	if (tells_init)
		watch_init(&bench->init);
}

/* Namespaces, cgroup and truth. False: it cannot be had here, and that was said. */
static inline bool bench_up(struct bench *bench, const char *name)
{
	const char *why = "";
	int fd;

	net_run();
	bench->machine = machine_lock();
	bench->neighbours_lost = neighbours_lost();
	if (!getenv("LIBBPF_TALK"))
		libbpf_set_print(quiet);
	if (getuid()) {
		tap_skip(name, "needs root");
		return false;
	}
	if (rig_up(&bench->rig, &why)) {
		tap_skip(name, why);
		return false;
	}
	bench->shared = mmap(NULL, sizeof(*bench->shared), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bench->slow = getenv("GUEST"); /* tests/vm: emulated */
	load_truth(bench);
	fd = open(bench->rig.cgroup, O_RDONLY | O_CLOEXEC);
	if (bench->truth && fd >= 0) {
		bench->links[0] = bpf_program__attach_cgroup(bench->truth->progs.truth_egress, fd);
		bench->links[1] = bpf_program__attach_cgroup(bench->truth->progs.truth_ingress, fd);
	}
	if (fd >= 0)
		close(fd);
	if (!bench->links[0] || !bench->links[1]) {
		tap_skip(name, "no cgroup_skb to take the truth from");
		return false;
	}
	return true;
}

static inline void bench_down(struct bench *bench)
{
	if (bench->truth && bench->truth->bss->filtered_twice)
		tap_note("the truth was asked twice for %llu segments, and counted them once",
			 bench->truth->bss->filtered_twice);
	if (bench->truth)
		show_hidden(bench);
	counter_list_free(&bench->measured.lost);
	for (int i = 0; i < 2; i++)
		bpf_link__destroy(bench->links[i]);
	unwatch_init(&bench->init);
	net_truth_bpf__destroy(bench->truth);
	rig_down(&bench->rig);
	bench_unlock(bench->machine);
}

/* A whole test: its loads with each twin of the programs. The result of main. */
static inline int run_with_twins(const char *name, void (*loads)(struct bench *bench))
{
	static const enum net_variant variants[] = {NET_VARIANT_TP_BTF, NET_VARIANT_RAW_TP};
	struct bench bench = {0};
	bool up = bench_up(&bench, name);

	for (size_t i = 0; up && i < 2; i++) {
		const struct net_options options = {.variant = variants[i]};
		int err;

		clear_truth(&bench);
		err = start(&bench, &options);
		if (tap_ok(!err, "opens as %s", bench.source->variant))
			loads(&bench);
		stop(&bench);
	}
	bench_down(&bench);
	return tap_done();
}

/* The process that dumps is a child of this one, as are those that hold the rig's namespaces. */
static inline pid_t asker_of(const struct bench *bench)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	pid_t found = 0;

	while (dir && (entry = readdir(dir))) {
		char path[300], line[512] = "", *end;
		pid_t pid = atoi(entry->d_name);
		int fd, i, parent = 0;

		snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
		fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		if (fd < 0)
			continue;
		if (read(fd, line, sizeof(line) - 1) > 0 && (end = strrchr(line, ')')))
			sscanf(end, ") %*c %d", &parent);
		close(fd);
		for (i = 0; i < RIG_PLACES; i++)
			if (bench->rig.holder[i] == pid)
				parent = 0;
		if (parent == getpid())
			found = pid;
	}
	if (dir)
		closedir(dir);
	return found;
}

/* Compare one uid after drain(). A busy machine sends segments again, at any time: where the truth
 * moved while it was read, it is read again. */
static inline bool check_uid(struct bench *bench, uid_t uid, const char *what)
{
	struct record_bytes *found = measured_uid(&bench->measured, uid);
	struct truth_bytes truth;
	uint64_t before;
	int tries;
	bool ok;

	for (tries = 0; tries < 10; tries++) {
		before = truth_total(bench);
		usleep(SAMPLE_US);
		sample(bench);
		truth = truth_of(bench, uid, false, false);
		if (truth_total(bench) == before && !bench->pending)
			break;
	}
	ok = truth.rx_bytes + truth.tx_bytes > 0 && equal(&truth, found);
	tap_ok(ok, "%s: equal to the byte (rx %lu, tx %lu)", what, found->rx_bytes,
	       found->tx_bytes);
	if (!ok) {
		show(what, &truth, found);
		tap_note("neighbours cost %lu packets on this machine since the begin",
			 neighbours_lost() - bench->neighbours_lost);
	}
	return ok;
}

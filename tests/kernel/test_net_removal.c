/* SPDX-License-Identifier: BSD-2-Clause */
/* Entries that leave the waiting maps while packets still come for them: each packet that the
 * kernel had no socket for is told, however often its flow's entry was removed meanwhile. */
/* Runs beside others (14 s) */
#include <linux/perf_event.h>
#include <sched.h>
#include <sys/syscall.h>
#include "kernel/net_measure.h"
#include "util/clock.h"

#define FLOOD_NS   (2 * NSEC_PER_SEC)
#define FIRST_PORT 20000
#define PORTS      64
#define PAYLOAD    100
#define PAUSES_NS  60000
#define BYTES_4    (20 + 8 + PAYLOAD)
#define BYTES_6    (40 + 8 + PAYLOAD)

struct flood {
	int family;
	const char *address;
};

static void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* Datagrams to ports that nobody has, in bursts with pauses of all lengths, so that entries fall
 * idle, are removed, and are needed again in any moment of that. */
static int flood(const void *arg, int ready)
{
	const struct flood *flood = arg;
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + FLOOD_NS;
	int fd = socket(flood->family, SOCK_DGRAM, 0);
	char payload[PAYLOAD] = {0};
	unsigned pause = 1;

	stay_on(0);
	while (clock_now_ns(CLOCK_MONOTONIC) < until_ns) {
		for (uint16_t i = 0; i < PORTS; i++) {
			struct sockaddr_storage to;
			socklen_t length = traffic_address(&to, flood->family, flood->address,
							   (uint16_t)(FIRST_PORT + i));

			sendto(fd, payload, sizeof(payload), MSG_DONTWAIT, (void *)&to, length);
		}
		pause = pause * 1103515245u + 12345;
		for (unsigned spin = pause >> 16; spin; spin--)
			atomic_signal_fence(memory_order_seq_cst);
	}
	return close(fd);
}

/* Datagrams that no socket took, as the namespace itself counts them. */
static uint64_t no_ports(const struct bench *bench, int family)
{
	const char *path =
		family == AF_INET ? "/proc/thread-self/net/snmp" : "/proc/thread-self/net/snmp6";
	unsigned long long count = 0;
	char line[512];
	FILE *file;

	setns(bench->rig.ns[RIG_DEVICE], CLONE_NEWNET);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, family == AF_INET ? "Udp: %*u %llu" : "Udp6NoPorts %llu",
			   &count) == 1)
			break;
	if (file)
		fclose(file);
	setns(bench->rig.home, CLONE_NEWNET);
	return count;
}

static uint64_t told_bytes(const struct bench *bench)
{
	const struct measured *measured = &bench->measured;

	return measured->no_socket.rx_bytes + counter_list_get(&measured->lost, "net_lost_bytes") +
	       counter_list_get(&measured->lost, "net_unresolved_bytes");
}

/* Sums of the whole machine: others may add to them, some packets even where a busy machine lets
 * the flood send hardly more. What vanishes is short of the truth. */
#define OTHERS_BYTES 8192
static void test_flood(struct bench *bench, int family)
{
	const char *name = family == AF_INET ? "closed ports" : "closed ports, IPv6";
	struct flood what = {family, family == AF_INET ? RIG_DEVICE4 : RIG_DEVICE6};
	uint64_t each = family == AF_INET ? BYTES_4 : BYTES_6, before, truth, told, packets;
	int lock = bench_lock(), reads = 0;
	pid_t pid;

	drain(bench);
	told = told_bytes(bench);
	packets = bench->measured.no_socket.rx_packets;
	before = no_ports(bench, family);
	pid = rig_spawn(&bench->rig, RIG_PEER, PEER_UID + 90, flood, &what, NULL);
	stay_on(1);
	while (waitpid(pid, NULL, WNOHANG) == 0) {
		sample(bench);
		reads++;
	}
	usleep(SAMPLE_US);
	drain(bench);
	truth = (no_ports(bench, family) - before) * each;
	told = told_bytes(bench) - told;
	packets = bench->measured.no_socket.rx_packets - packets;
	tap_note("%s: %lu B came, %lu B and %lu packets told, %d read-outs", name, truth, told,
		 packets, reads);
	tap_ok(truth && told >= truth && told < truth + truth / 100 + OTHERS_BYTES,
	       "%s: what came is told or lost by its word, to the byte (%ld B too much)", name,
	       (long)(told - truth));
	bench_unlock(lock);
}

/* The flood's CPU is interrupted every 60 us, and a program under it waits for 30 us. */
static struct bpf_link *begin_pauses(struct bench *bench)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = PAUSES_NS,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? NULL : bpf_program__attach_perf_event(bench->truth->progs.pause_30_us, fd);
}

int main(int argc, char **argv)
{
	static const enum net_variant variants[] = {NET_VARIANT_TP_BTF, NET_VARIANT_RAW_TP};
	struct bench bench = {0};
	bool up = bench_up(&bench, "net removal");

	for (int i = 0; up && i < 4; i++) {
		const struct net_options options = {.variant = variants[i / 2]};
		struct bpf_link *pauses = i & 1 ? begin_pauses(&bench) : NULL;
		int err = start(&bench, &options);

		if (tap_ok(!err && !(i & 1) == !pauses, "opens as %s%s", bench.source->variant,
			   i & 1 ? ", programs pause" : "")) {
			test_flood(&bench, AF_INET);
			test_flood(&bench, AF_INET6);
		}
		stop(&bench);
		bpf_link__destroy(pauses);
	}
	bench_down(&bench);
	return tap_done();
}

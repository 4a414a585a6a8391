/* SPDX-License-Identifier: BSD-2-Clause */
/* Many flows without a loss, their memory, and a namespace whose dump takes long: no read-out waits
 * for it. */
/* Not beside others: every recorder of the machine reads its namespace of 100,000 sockets, and
 * resolves the flows of other namespaces later meanwhile. */
#include <dirent.h>
#include "kernel/net_measure.h"
#include "util/clock.h"

#define MEMORY_BYTES (32u << 20)
#define LISTENERS    100000
#define PER_PROCESS  10000 /* sockets: no limit of open files need be raised */
#define MOST_PARTS   16
#define SLOW_SAMPLES 60
#define END_SAMPLES  600 /* of 50 ms: half a minute */
#define LATE_NS      (SAMPLE_US * NSEC_PER_USEC / 5)

/* ---- many connections at a time ---- */
/* All are opened, then all are used once more, so that each must still be known; and held. */
static int exchange(int fd, const struct traffic *traffic, bool client)
{
	return traffic_move(fd, traffic->up, client) || traffic_move(fd, traffic->down, !client);
}

static int many_server(const void *arg, int ready)
{
	const struct traffic *traffic = arg;
	int listener = traffic_bound(traffic, SOCK_STREAM, NULL, ready), i;
	int *fds = calloc((size_t)traffic->count, sizeof(int));

	for (i = 0; listener >= 0 && i < traffic->count; i++) {
		fds[i] = accept(listener, NULL, NULL);
		traffic_timeout(fds[i], 20);
		if (fds[i] < 0 || exchange(fds[i], traffic, false))
			return 1;
	}
	for (i = 0; listener >= 0 && i < traffic->count; i++)
		if (exchange(fds[i], traffic, false))
			return 1;
	traffic_wait(traffic);
	return listener < 0;
}

/* Not all within one read-out, however long it takes here: a new connection takes a waiting entry
 * until then. */
static void pace(const struct traffic *traffic, int i)
{
	int now = atomic_load(traffic->samples);

	while (i % 500 == 499 && atomic_load(traffic->samples) == now)
		usleep(1000);
}

static int many_client(const void *arg, int ready)
{
	const struct traffic *traffic = arg;
	int *fds = calloc((size_t)traffic->count, sizeof(int)), i;

	for (i = 0; i < traffic->count; i++) {
		fds[i] = traffic_connect(traffic);
		if (fds[i] < 0 || exchange(fds[i], traffic, true))
			return 1;
		pace(traffic, i);
	}
	for (i = 0; i < traffic->count; i++)
		if (exchange(fds[i], traffic, true))
			return 1;
	traffic_wait(traffic);
	return 0;
}

/* Several pairs of processes at the same time. */
static int run_many(const struct bench *bench, const struct net_case *net_case, uid_t device,
		    uid_t peer)
{
	int parts = (net_case->count + PER_PROCESS - 1) / PER_PROCESS, status = 0, i;
	struct traffic traffic = traffic_of(bench, net_case, RIG_PEER4, RIG_PEER6);
	pid_t servers[MOST_PARTS], clients[MOST_PARTS];

	traffic.count /= parts;
	traffic.go = &bench->shared->go;
	traffic.up_count = &bench->shared->up_count;
	for (i = 0; i < parts; i++) {
		int ready = -1;

		traffic.port = 0;
		servers[i] = rig_spawn(&bench->rig, RIG_PEER, peer, many_server, &traffic, &ready);
		if (read(ready, &traffic.port, 2) != 2)
			status = 1;
		close(ready);
		clients[i] =
			rig_spawn(&bench->rig, RIG_DEVICE, device, many_client, &traffic, NULL);
	}
	for (i = 0; i < parts; i++)
		status |= rig_wait(clients[i]) | rig_wait(servers[i]);
	return status;
}

/* What the kernel charges for the maps that this process has open. */
static uint64_t map_bytes(void)
{
	DIR *dir = opendir("/proc/self/fdinfo");
	struct dirent *entry;
	uint64_t total = 0;

	while (dir && (entry = readdir(dir))) {
		char path[300], line[256];
		unsigned long long bytes = 0;
		bool map = false;
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/fdinfo/%s", entry->d_name);
		file = fopen(path, "re");
		while (file && fgets(line, sizeof(line), file)) {
			map |= !strncmp(line, "map_type:", 9);
			sscanf(line, "memlock: %llu", &bytes);
		}
		if (file)
			fclose(file);
		total += map ? bytes : 0;
	}
	if (dir)
		closedir(dir);
	return total;
}

static void test_many(struct bench *bench, const char *name, uint32_t flows,
		      const struct net_case *many, uid_t uid)
{
	const struct net_options options = {.variant = NET_VARIANT_TP_BTF, .flows = flows};
	int parts = (many->count + PER_PROCESS - 1) / PER_PROCESS, status;
	uint64_t before = map_bytes(), lost, full, bytes;
	pid_t pid;

	clear_truth(bench);
	if (!tap_ok(!start(bench, &options), "%s: opens", name)) {
		stop(bench);
		return;
	}
	atomic_store(&bench->shared->go, 0);
	atomic_store(&bench->shared->up_count, 0);
	pid = fork();
	if (pid == 0)
		_exit(run_many(bench, many, uid, uid + 2048) & 0xff);
	while (atomic_load(&bench->shared->up_count) < 2 * parts &&
	       waitpid(pid, &status, WNOHANG) == 0) {
		usleep(SAMPLE_US);
		sample(bench);
	}
	drain(bench);
	tap_ok(atomic_load(&bench->shared->up_count) == 2 * parts,
	       "%s: %d connections, both ends here", name, many->count);
	/* Now that the connections stand: maps that are not preallocated take little before. */
	bytes = map_bytes() - before;
	tap_ok(bytes <= MEMORY_BYTES, "%s: the maps take %.1f MiB of 32", name,
	       (double)bytes / (1 << 20));
	check_uid(bench, uid, name);
	check_uid(bench, uid + 2048, name);
	lost = counter_list_get(&bench->measured.lost, "net_lost_bytes");
	full = counter_list_get(&bench->measured.lost, "net_flow_map_full");
	tap_ok(!lost && !full, "%s: nothing is lost (%lu B, %lu flows)", name, lost, full);
	tap_note("%lu B without a socket, %lu B of the kernel, %lu runs skipped",
		 bench->measured.no_socket.rx_bytes, bench->measured.kernel.tx_bytes,
		 counter_list_get(&bench->measured.lost, "net_missed_runs"));
	atomic_store(&bench->shared->go, 1);
	sample_until(bench, pid);
	stop(bench);
}

/* ---- a namespace with many sockets ---- */
static int listen_part(int part)
{
	int i;

	for (i = 0; i < PER_PROCESS; i++) {
		struct sockaddr_in own = {
			.sin_family = AF_INET,
			.sin_port = htons((uint16_t)(10000 + part % 5 * PER_PROCESS + i)),
			.sin_addr.s_addr = htonl((uint32_t)(INADDR_LOOPBACK + 1 + part / 5))};
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0 || bind(fd, (void *)&own, sizeof(own)) || listen(fd, 1))
			return 1;
	}
	return 0;
}

static int listen_much(const void *arg, int ready)
{
	uint16_t done = 1;
	int part, ends[2];
	char byte;

	if (pipe(ends))
		return 1;
	for (part = 0; part < LISTENERS / PER_PROCESS; part++) {
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			close(ready);
			if (listen_part(part) || write(ends[1], "", 1) != 1)
				_exit(1);
			for (;;)
				pause();
		}
	}
	close(ends[1]);
	for (part = 0; part < LISTENERS / PER_PROCESS; part++)
		if (read(ends[0], &byte, 1) != 1)
			return 1;
	if (write(ready, &done, 2) != 2)
		return 1;
	alarm(120);
	for (;;)
		pause();
	return 0;
}

#define SYN_BYTES 60ul /* with the options of Linux */

struct knocks {
	struct traffic traffic;
	_Atomic uint64_t answered; /* each a SYN and a reset */
};

/* Each SYN to a closed port is a question: whose was it? */
static int knock(const void *arg, int ready)
{
	struct knocks *knocks = (struct knocks *)arg;

	for (;;) {
		if (traffic_connect(&knocks->traffic) < 0 && errno == ECONNREFUSED)
			atomic_fetch_add(&knocks->answered, 1);
		usleep(10000);
	}
	return 0;
}

static void test_slow_dump(struct bench *bench)
{
	struct knocks *knocks = mmap(NULL, sizeof(*knocks), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const struct net_options options = {.variant = NET_VARIANT_TP_BTF};
	uint64_t worst_ns = 0, no_socket, sent_bytes;
	uint16_t done;
	int ready = -1, late = 0, i;
	pid_t knocker, listener = rig_spawn(&bench->rig, RIG_DEVICE, DEVICE_UID + 80, listen_much,
					    NULL, &ready);

	if (knocks == MAP_FAILED)
		return;
	knocks->traffic = (struct traffic){.family = AF_INET, .address = RIG_DEVICE4, .port = 9};
	if (!tap_ok(read(ready, &done, 2) == 2, "slow dump: a namespace with %d listeners",
		    LISTENERS) ||
	    start(bench, &options)) {
		tap_ok(false, "slow dump: opens");
		goto cleanup;
	}
	knocker = rig_spawn(&bench->rig, RIG_PEER, PEER_UID + 80, knock, knocks, NULL);
	for (i = 0; i < SLOW_SAMPLES; i++) {
		uint64_t begin_ns, took_ns;

		usleep(SAMPLE_US);
		begin_ns = clock_now_ns(CLOCK_MONOTONIC);
		sample(bench);
		took_ns = clock_now_ns(CLOCK_MONOTONIC) - begin_ns;
		late += took_ns > LATE_NS;
		if (took_ns > worst_ns)
			worst_ns = took_ns;
	}
	/* A busy machine may take the CPU away in a call or two. */
	tap_ok(late <= SLOW_SAMPLES / 10,
	       "slow dump: %d of %d read-outs took more than a fifth of 50 ms (the longest %lu us)",
	       late, SLOW_SAMPLES, (unsigned long)(worst_ns / NSEC_PER_USEC));
	kill(knocker, SIGKILL);
	rig_wait(knocker);
	drain(bench);
	sent_bytes = SYN_BYTES * atomic_load(&knocks->answered);
	/* On a busy machine a dump takes a second, and a rest of nine comes before the next one. */
	for (i = 0; i < END_SAMPLES && bench->measured.no_socket.rx_bytes < sent_bytes; i++) {
		usleep(SAMPLE_US);
		sample(bench);
	}
	no_socket = bench->measured.no_socket.rx_bytes;
	tap_ok(sent_bytes >= 60 * SYN_BYTES && no_socket >= sent_bytes,
	       "slow dump: what waited is booked in the end (%lu of %lu B, without a socket)",
	       no_socket, sent_bytes);
	stop(bench);
cleanup:
	munmap(knocks, sizeof(*knocks));
	close(ready);
	kill(listener, SIGKILL);
	rig_wait(listener);
}

int main(int argc, char **argv)
{
	static const struct net_case server = {"", run_many, AF_INET, 200, 300, 5400};
	static const struct net_case most = {"", run_many, AF_INET, 100, 100, 49000};
	struct bench bench = {0};

	if (bench_up(&bench, "net scale")) {
		bench_alone(bench.machine);
		setns(bench.rig.ns[RIG_DEVICE], CLONE_NEWNET);
		rig_write("/proc/sys/net/ipv4/ip_local_port_range", "1024 65535");
		setns(bench.rig.home, CLONE_NEWNET);
		test_slow_dump(&bench);
		test_many(&bench, "a small server", 0, &server, DEVICE_UID + 81);
		if (!bench.slow)
			test_many(&bench, "100,000 flows", 100000, &most, DEVICE_UID + 82);
	}
	bench_down(&bench);
	return tap_done();
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* What a binder transaction of others costs more while a process is watched that makes none: real
 * calls through the kernel's driver, with the programs hooked, with empty ones, and with none, in
 * turns; each row is over the one before. Most machines have no binder: bench_binder_guest.sh runs
 * this in a guest, which is emulated, so that its nanoseconds are many times those of a device and
 * the share is what counts. usage: bench_binder_calls JANKSCOPE [PAIRS] */
#include <bpf/bpf.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "apps/binder_client.h"
#include "bench.h"
#include "kernel/binder_kernel.h"

#define MOUNT  "/dev/binderfs"
#define DEVICE MOUNT "/binder"
#define NUMBER 1
#define CODE   7
#define CALLS  250
#define SLICES 4

enum way { NOT_HOOKED = 0, EMPTY = 1, HOOKED = 2, WAYS = 3 };

struct bench {
	struct binder_kernel *kernel;
	struct client client;
	uint32_t handle;
	pid_t watched;
	clockid_t server_clock;
	int empty; /* a program that does nothing */
	size_t failed;
};

/* r0 = 0; exit */
static int load_empty(void)
{
	const struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K},
		{.code = BPF_JMP | BPF_EXIT},
	};

	return bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "empty", "GPL", code, 2, NULL);
}

static int answer(struct client *unused, uint32_t code, struct parcel *parcel)
{
	return 0;
}

/* One CPU has all of it: what is measured is no wake-up across two. */
static void stay_on_first_cpu(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static pid_t start(void (*run)(void))
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run();
	_exit(0);
}

static void run_manager(void)
{
	manager_run(DEVICE);
}

static void run_server(void)
{
	struct client client = {.serve = answer};

	if (client_open(&client, DEVICE))
		_exit(97);
	client_register(&client, NUMBER);
	client_loop(&client);
}

static void run_watched(void)
{
	for (;;)
		pause();
}

/* The manager may not be there yet, and then the server ends. */
static pid_t start_server(void)
{
	for (int i = 0; i < 20; i++) {
		pid_t pid = start(run_server);

		usleep(250000);
		if (!waitpid(pid, NULL, WNOHANG))
			return pid;
	}
	return -1;
}

/* 0: nobody is registered. */
static uint32_t find_server(struct client *client)
{
	for (int i = 0; i < 50; i++) {
		struct parcel parcel = {.number = NUMBER};

		if (client_call(client, 0, CODE_GET, CALL_PLAIN, &parcel) && parcel.object.handle)
			return parcel.object.handle;
		usleep(100000);
	}
	return 0;
}

static uint64_t used_ns(const struct bench *bench)
{
	return bench_now_ns(CLOCK_THREAD_CPUTIME_ID) + bench_now_ns(bench->server_clock);
}

/* CPU time of client and server for a transaction: a call is two, itself and its answer. */
static double slice(void *ctx, size_t way)
{
	static const char *const tracepoints[2] = {"binder_transaction",
						   "binder_transaction_received"};
	struct bench *bench = ctx;
	uint64_t begin_ns, took_ns;
	int links[2] = {-1, -1};

	if (way == HOOKED)
		binder_kernel_watch(bench->kernel, bench->watched);
	bench->failed += binder_kernel_is_hooked(bench->kernel) != (way == HOOKED);
	for (int i = 0; way == EMPTY && i < 2; i++) {
		links[i] = bpf_raw_tracepoint_open(tracepoints[i], bench->empty);
		bench->failed += links[i] < 0;
	}
	begin_ns = used_ns(bench);
	for (int i = 0; i < CALLS; i++) {
		struct parcel parcel = {0};

		bench->failed +=
			!client_call(&bench->client, bench->handle, CODE, CALL_PLAIN, &parcel);
	}
	took_ns = used_ns(bench) - begin_ns;
	if (way == HOOKED)
		binder_kernel_unwatch(bench->kernel, bench->watched);
	for (int i = 0; i < 2; i++)
		if (links[i] >= 0)
			close(links[i]);
	return (double)took_ns / (2.0 * CALLS);
}

/* How many times slower than a device this machine is, a call that does nothing tells roughly. */
static double system_call_ns(void)
{
	uint64_t begin_ns = bench_now_ns(CLOCK_THREAD_CPUTIME_ID);

	for (int i = 0; i < 20000; i++)
		syscall(SYS_getppid);
	return (double)(bench_now_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns) / 20000;
}

static void tell(struct bench_ways *ways, const struct bench *bench)
{
	static const char *const names[WAYS] = {"a transaction, nothing hooked",
						"... with an empty program on both tracepoints",
						"... of others, while a process is watched"};
	double plain_ns = bench_over(ways, NOT_HOOKED, -1, 0.5);
	char value[32], spread[64];

	for (size_t i = 0; i < WAYS; i++) {
		int base = (int)i - 1;

		snprintf(value, sizeof(value), i ? "%+.0f ns" : "%.0f ns",
			 bench_over(ways, i, base, 0.5));
		snprintf(spread, sizeof(spread), "[%.0f..%.0f] %.2f %%",
			 bench_over(ways, i, base, 0), bench_over(ways, i, base, 1),
			 100 * bench_over(ways, i, base, 0.5) / plain_ns);
		bench_row(names[i], value, spread, i == HOOKED ? "<= 30 ns on a device" : "");
	}
	snprintf(value, sizeof(value), "%.0f ns", system_call_ns());
	bench_row("a system call that does nothing", value, "", "");
	if (bench->failed)
		bench_row("calls or hooks that failed", "some", "", "none");
}

int main(int argc, char **argv)
{
	static struct bench_ways ways = {.count = WAYS, .slices = SLICES};
	struct bench bench = {.client = {.serve = answer}};
	char reason[200];
	pid_t manager, server;

	ways.pairs = argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : 11;
	if (ways.pairs > BENCH_MAX_PAIRS || !ways.pairs)
		ways.pairs = BENCH_MAX_PAIRS;
	printf("binder: real transactions, CPU time of both sides, median of %zu pairs "
	       "[min..max]\n",
	       ways.pairs);
	bench.empty = load_empty();
	bench.kernel = binder_kernel_open(NULL, 4, reason, sizeof(reason));
	mkdir(MOUNT, 0755);
	if (!bench.kernel || (access(DEVICE, F_OK) && mount("binder", MOUNT, "binder", 0, NULL))) {
		bench_row("a transaction", "-", "no binder driver with types here", "");
		binder_kernel_close(bench.kernel);
		return 0;
	}
	stay_on_first_cpu();
	manager = start(run_manager);
	bench.watched = start(run_watched);
	server = start_server();
	if (server < 0 || client_open(&bench.client, DEVICE) ||
	    !(bench.handle = find_server(&bench.client)) ||
	    clock_getcpuclockid(server, &bench.server_clock)) {
		bench_row("a transaction", "-", "the server does not come up", "");
	} else {
		bench_turns(&ways, slice, &bench);
		tell(&ways, &bench);
	}
	binder_kernel_close(bench.kernel);
	kill(bench.watched, SIGKILL);
	if (server > 0)
		kill(server, SIGKILL);
	kill(manager, SIGKILL);
	while (wait(NULL) > 0)
		;
	return 0;
}

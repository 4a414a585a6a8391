/* SPDX-License-Identifier: BSD-2-Clause */
/* What the binder programs cost for transactions of others: nanoseconds an event over an empty raw
 * program, by the CPU time of a thread that makes system calls. Most machines have no binder, so
 * the very programs are attached to sys_enter, where each finds what it finds at a transaction of
 * others: ids, or an address, that no filter knows. They are loaded with the types of an Android
 * kernel (vmlinux/btf), because without the driver's types they do nothing at all; none of these is
 * read on this way.
 * usage: bench_binder JANKSCOPE [PAIRS] */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <glob.h>
#include <sys/syscall.h>

#include "abi/binder.h"
#include "bench.h"
#include "binder.skel.h"
#include "kernel/load.h"

#define CALLS  20000
#define SLICES 6
#define WAYS   3

static struct bpf_program *programs[WAYS];
static int empty_fd = -1;

/* r0 = 0; exit */
static int load_empty(void)
{
	const struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K},
		{.code = BPF_JMP | BPF_EXIT},
	};

	return bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "empty", "GPL", code, 2, NULL);
}

static double slice(void *ctx, size_t way)
{
	int program = way ? bpf_program__fd(programs[way]) : empty_fd;
	int link = bpf_raw_tracepoint_open("sys_enter", program);
	uint64_t begin_ns = bench_now_ns(CLOCK_THREAD_CPUTIME_ID), took_ns;

	for (int i = 0; i < CALLS; i++)
		syscall(SYS_getppid);
	took_ns = bench_now_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
	if (link >= 0)
		close(link);
	return (double)took_ns / CALLS;
}

int main(int argc, char **argv)
{
	static struct bench_ways ways = {.count = WAYS, .slices = SLICES};
	static const char *const names[WAYS] = {"an empty raw program, with its system call",
						"others' binder_transaction",
						"others' binder_transaction_received"};
	LIBBPF_OPTS(bpf_object_open_opts, options);
	struct binder_bpf *skeleton;
	char value[32], spread[64];
	glob_t found = {0};

	ways.pairs = argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : 21;
	if (ways.pairs > BENCH_MAX_PAIRS || !ways.pairs)
		ways.pairs = BENCH_MAX_PAIRS;
	if (glob("vmlinux/btf/*.btf", 0, NULL, &found) || !found.gl_pathc) {
		bench_row("binder", "-", "no vmlinux/btf/*.btf here", "");
		return 0;
	}
	options.btf_custom_path = found.gl_pathv[0];
	skeleton = binder_bpf__open_opts(&options);
	if (skeleton) {
		bpf_program__set_autoload(skeleton->progs.binder_transaction_raw, true);
		bpf_program__set_autoload(skeleton->progs.binder_received_raw, true);
	}
	empty_fd = load_empty();
	if (!skeleton || binder_bpf__load(skeleton) || empty_fd < 0) {
		bench_row("binder", "-", "the programs do not load", "");
		return 0;
	}
	programs[1] = skeleton->progs.binder_transaction_raw;
	programs[2] = skeleton->progs.binder_received_raw;
	printf("binder: the programs on sys_enter, CPU time of a call, median of %zu pairs "
	       "[min..max]\n",
	       ways.pairs);
	bench_turns(&ways, slice, NULL);
	for (size_t i = 0; i < WAYS; i++) {
		int base = i ? 0 : -1;

		snprintf(value, sizeof(value), i ? "%+.1f ns" : "%.1f ns",
			 bench_over(&ways, i, base, 0.5));
		snprintf(spread, sizeof(spread), "[%.1f..%.1f]", bench_over(&ways, i, base, 0),
			 bench_over(&ways, i, base, 1));
		bench_row(names[i], value, spread, i ? "<= 30 ns" : "");
	}
	binder_bpf__destroy(skeleton);
	globfree(&found);
	return 0;
}

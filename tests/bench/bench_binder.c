/* SPDX-License-Identifier: BSD-2-Clause */
/* What the binder programs cost for transactions of others: nanoseconds an event, by the CPU time
 * of a thread. Most machines have no binder, so the very programs are attached to task_rename,
 * which fires once where a thread names itself, and where each finds what it finds at a transaction
 * of others: ids, or an address, that no filter knows. They are loaded with the types of an Android
 * kernel (vmlinux/btf), because without the driver's types they do nothing at all; none of these is
 * read on this way.
 * usage: bench_binder JANKSCOPE [PAIRS] */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <glob.h>
#include <sys/prctl.h>

#include "abi/binder.h"
#include "bench.h"
#include "binder.skel.h"
#include "kernel/load.h"

#define CALLS  20000
#define SLICES 6

enum { NOTHING, EMPTY, TRANSACTION, RECEIVED, WAYS };

static int programs[WAYS] = {-1, -1, -1, -1};

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
	int link = way == NOTHING ? -1 : bpf_raw_tracepoint_open("task_rename", programs[way]);
	uint64_t begin_ns, took_ns;

	if (way != NOTHING && link < 0)
		exit(1);
	begin_ns = bench_now_ns(CLOCK_THREAD_CPUTIME_ID);
	for (int i = 0; i < CALLS; i++)
		prctl(PR_SET_NAME, "bench_binder");
	took_ns = bench_now_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
	if (link >= 0)
		close(link);
	return (double)took_ns / CALLS;
}

static void tell(const struct bench_ways *ways, const char *name, size_t way, int base,
		 const char *target)
{
	char value[32], spread[64];

	snprintf(value, sizeof(value), base < 0 ? "%.1f ns" : "%+.1f ns",
		 bench_over(ways, way, base, 0.5));
	snprintf(spread, sizeof(spread), "[%.1f..%.1f]", bench_over(ways, way, base, 0),
		 bench_over(ways, way, base, 1));
	bench_row(name, value, spread, target);
}

int main(int argc, char **argv)
{
	static struct bench_ways ways = {.count = WAYS, .slices = SLICES};
	static const char *const names[WAYS] = {
		"a thread names itself, nothing hooked", "an empty raw program there",
		"others' binder_transaction", "others' binder_transaction_received"};
	LIBBPF_OPTS(bpf_object_open_opts, options);
	struct binder_bpf *skeleton;
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
	programs[EMPTY] = load_empty();
	if (!skeleton || binder_bpf__load(skeleton) || programs[EMPTY] < 0) {
		bench_row("binder", "-", "the programs do not load", "");
		return 0;
	}
	programs[TRANSACTION] = bpf_program__fd(skeleton->progs.binder_transaction_raw);
	programs[RECEIVED] = bpf_program__fd(skeleton->progs.binder_received_raw);
	printf("binder: the programs on task_rename, CPU time of a call, median of %zu pairs "
	       "[min..max]\n",
	       ways.pairs);
	bench_turns(&ways, slice, NULL);
	for (size_t i = 0; i < WAYS; i++)
		tell(&ways, names[i], i, i == NOTHING ? -1 : NOTHING, "");
	tell(&ways, "binder_transaction over an empty program", TRANSACTION, EMPTY, "<= 30 ns");
	tell(&ways, "binder_transaction_received over it", RECEIVED, EMPTY, "<= 30 ns");
	for (size_t i = 0; i < ways.pairs; i++)
		ways.values[RECEIVED][i] += ways.values[TRANSACTION][i] - ways.values[NOTHING][i];
	tell(&ways, "a transaction of others: both, over nothing", RECEIVED, NOTHING, "<= 30 ns");
	binder_bpf__destroy(skeleton);
	globfree(&found);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/schema.h"
#include "sink/jsonl.h"
#include "sink/table.h"
#include "kernel/btf.h"
#include "kernel/features.h"
#include "source/blocks.h"
#include "source/cpu.h"
#include "source/frames.h"
#include "source/net.h"
#include "prober/pool.h"
#include "prober/warden.h"
#include "util/bounded_call.h"

#include "verb/verb.h"

#define TABLE_ROWS 15

static unsigned terminal_width(void)
{
	struct winsize size;

	return isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) ? size.ws_col : 80;
}

static enum exit_code add_file(struct session *session, const char *path)
{
	struct sink *sink = jsonl_sink_open(path);

	if (!sink) {
		int err = errno;

		fprintf(stderr, "jankscope: error: -o %s: %s\n", path,
			err == EISDIR ? "is a folder: name a file in it" : strerror(err));
		return err == EISDIR ? EXIT_USAGE : EXIT_INTERNAL;
	}
	return session_add_sink(session, sink) ? EXIT_INTERNAL : EXIT_FINE;
}

static enum exit_code add_sinks(struct session *session, const struct options *options)
{
	const struct table_options table = {
		.top = options->top == UINT64_MAX ? TABLE_ROWS : (size_t)options->top,
		.width = terminal_width(),
		.wall_clock = true,
	};
	struct sink *sink = NULL;

	if (options->output) {
		enum exit_code code = add_file(session, options->output);

		if (code)
			return code;
	}
	if (options->json)
		sink = jsonl_sink_fd(STDOUT_FILENO);
	else if (!options->quiet)
		sink = table_sink_new(stdout, &table);
	else
		return EXIT_FINE;
	return session_add_sink(session, sink) ? EXIT_INTERNAL : EXIT_FINE;
}

static enum net_variant net_variant(const struct options *options)
{
	if (options->net_mode == NET_NETD)
		return NET_VARIANT_NETD;
	if (options->variant == VARIANT_RAW_TP)
		return NET_VARIANT_RAW_TP;
	if (options->variant == VARIANT_TP_BTF)
		return NET_VARIANT_TP_BTF;
	return NET_VARIANT_AUTO;
}

static enum exit_code add_sources(struct session *session, const struct options *options,
				  const char *btf_path)
{
	const struct net_options net = {
		.variant = net_variant(options),
		.wire = options->net_length == 1,
		.btf = btf_path,
		/* Hooks, whichever twin loads: netd's map is looked for where none can be. */
		.bpffs = options->net_mode == NET_HOOKS ? "/proc/self/fdinfo" : NULL,
	};
	const struct cpu_options cpu = {
		.kernel = {.mode = (enum cpu_mode)options->cpu_mode,
			   .variant = (enum program_variant)options->variant,
			   .btf_path = btf_path,
			   .test_task_slots = (uint32_t)options->test_task_slots,
			   .test_death_ring_bytes = (uint32_t)options->test_death_ring_bytes,
			   .test_overflow_uids = (uint32_t)options->test_overflow_uids,
			   .test_skip_every = (uint32_t)options->test_skip_every,
			   .test_hash = options->test_hash},
		.top = options->top == UINT64_MAX ? 0 : (size_t)options->top,
		.need_switch = options->target_count > 0,
	};
	const struct blocks_options blocks = {
		.detector = options->detector,
		.stack = (enum blocks_stack)options->stack,
		.test_one_by_one = options->test_one_by_one,
		.btf_path = btf_path,
	};
	struct source *cpu_source = cpu_source_new(&cpu);

	if (session_add_source(session, cpu_source, true))
		return EXIT_INTERNAL;
	/* Main threads are watched where somebody asked for certain programs. */
	if (options->target_count &&
	    session_add_source(session, blocks_source_new(&blocks, cpu_source),
			       options->detector != 0))
		return EXIT_INTERNAL;
	/* What was asked for by name must be there. */
	if (options->net_mode != NET_OFF &&
	    session_add_source(session, net_source_new(&net), options->net_mode != NET_AUTO))
		return EXIT_INTERNAL;
	if (options->frames && strcmp(options->frames, "off")) {
		const struct frames_options frames = {
			.mode = options->frames,
			.force = options->frames_force,
		};

		if (session_add_source(session, frames_source_new(&frames), true))
			return EXIT_INTERNAL;
	}
	return EXIT_FINE;
}

enum exit_code verb_record(const struct options *options)
{
	struct bounded_calls *calls = NULL;
	struct prober_pool *probes = NULL;
	struct warden *warden = NULL;
	struct session_options session_options = {
		.interval_ns = options->interval_ns,
		.duration_ns = options->duration_ns,
		.count = options->count,
		.block_ns = options->target_count ? options->block_ns : 0,
		.wait_ns = options->wait_ns,
		.max_lost_pct = options->max_lost_pct,
		.specs = options->targets,
		.spec_count = options->target_count,
		.verbose = options->verbose,
	};
	struct kernel_btf btf = {0};
	struct target_set *targets;
	struct session *session = NULL;
	enum exit_code code = EXIT_INTERNAL;
	int err;

	if (options->json_schema) {
		fputs(record_schema(), stdout);
		return EXIT_FINE;
	}
	features_raise_nofile();
	/* While this process is small: its helpers begin as copies of it. */
	warden = warden_start();
	if (!warden) {
		fprintf(stderr, "jankscope: error: cannot start a process: %s\n", strerror(errno));
		return EXIT_INTERNAL;
	}
	err = kernel_btf_open(&btf, options->btf_path, NULL);
	if (err) {
		fprintf(stderr, "jankscope: error: --btf %s: %s\n", options->btf_path,
			err == -EINVAL ? "not a BTF file" : strerror(-err));
		warden_stop(warden);
		return EXIT_USAGE;
	}
	/* Before 5.11 BPF maps count against RLIMIT_MEMLOCK. */
	features_raise_memlock();
	targets = target_set_new(options->targets, options->target_count, "");
	session_options.calls = calls = bounded_calls_new();
	session_options.warden = warden;
	session_options.probes = probes = prober_pool_new(warden);
	if (targets && calls && probes) {
		target_set_bound(targets, probes);
		session = session_new(&session_options, targets);
	}
	if (!session) {
		fprintf(stderr, "jankscope: error: cannot start: %s\n", strerror(errno));
		goto cleanup;
	}
	code = add_sinks(session, options);
	if (!code)
		code = add_sources(session, options, btf.path);
	if (!code)
		code = session_run(session);
cleanup:
	session_free(session);
	bounded_calls_free(calls);
	target_set_free(targets);
	prober_pool_free(probes);
	warden_stop(warden);
	kernel_btf_close(&btf);
	return code;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/control.h"
#include "control/keeper.h"
#include "endpoint/address.h"
#include "endpoint/server.h"
#include "core/size_estimate.h"
#include "record/schema.h"
#include "sink/jsonl.h"
#include "sink/table.h"
#include "sink/terminal.h"
#include "kernel/btf.h"
#include "kernel/features.h"
#include "kernel/namespaces.h"
#include "jankscope/source.h"
#include "prober/pool.h"
#include "prober/warden.h"
#include "store/folder.h"
#include "store/keep.h"
#include "util/heap.h"
#include "util/resident.h"
#include "util/units.h"

#include "verb/daemon.h"
#include "verb/record.h"
#include "verb/record_alerts.h"
#include "verb/redact_key.h"
#include "verb/verb.h"

#define TABLE_ROWS 15

/* The outputs are opened before the session blocks signals and before any thread is made. */
struct outputs {
	struct sink *sinks[2];
	size_t count;
};

static enum exit_code add_sink(struct outputs *outputs, struct sink *sink)
{
	if (!sink) {
		fprintf(stderr, "jankscope: error: stdout: %s\n", strerror(errno));
		return EXIT_INTERNAL;
	}
	outputs->sinks[outputs->count++] = sink;
	return EXIT_FINE;
}

static enum exit_code add_file(struct outputs *outputs, const struct options *options)
{
	struct store_options store = {
		.max_disk_bytes = options->max_disk_bytes,
		.retain_ns = options->retain_ns,
		.segment_bytes = options->segment_bytes,
	};
	const char *path = options->output;
	bool folder = store_path_is_folder(path);
	const char *wrong = options->keep ? keep_parse(options->keep, &store) : NULL;
	struct sink *sink;
	char why[128];
	int err;

	if (wrong) {
		fprintf(stderr, "jankscope: error: --keep %s: %s\n", options->keep, wrong);
		return EXIT_USAGE;
	}
	if (store.keep_count && !store.retain_ns)
		store.retain_ns = store.keep[store.keep_count - 1].age_ns;
	if (folder && options->overwrite) {
		fprintf(stderr,
			"jankscope: error: --overwrite: -o %s is a folder, where nothing is "
			"ever overwritten\n",
			path);
		return EXIT_USAGE;
	}
	sink = folder ? jsonl_sink_folder(path, &store, why, sizeof(why))
		      : jsonl_sink_open(path, options->overwrite, why, sizeof(why));

	err = errno;
	if (sink)
		return add_sink(outputs, sink);
	fprintf(stderr, "jankscope: error: -o %s: %s\n", path, why[0] ? why : strerror(err));
	/* With a reason it is a file that the user is to name differently; a folder that another
	 * recorder writes is a state and no mistake. */
	return why[0] && !(folder && err == EBUSY) ? EXIT_USAGE : EXIT_INTERNAL;
}

/* Tables on stdout. */
static struct sink *show_table(const struct table_options *table)
{
	return table_sink_fd(STDOUT_FILENO, table);
}

static enum exit_code open_outputs(struct outputs *outputs, const struct options *options,
				   record_view view)
{
	const struct table_options table = {
		.top = options->top == UINT64_MAX ? TABLE_ROWS : (size_t)options->top,
		.width = terminal_width(STDOUT_FILENO),
		.colour =
			terminal_has_colours(STDOUT_FILENO, (enum terminal_colour)options->colour),
		.ascii = isatty(STDOUT_FILENO) && !terminal_has_utf8(),
		.wall_clock = true,
		.native = options->native,
		.verbose = options->verbose,
	};

	if ((options->max_disk_bytes || options->retain_ns || options->keep) &&
	    !(options->output && store_path_is_folder(options->output))) {
		fprintf(stderr,
			"jankscope: error: --max-disk, --retain and --keep are for a recording in "
			"a folder: name one with -o DIR/\n");
		return EXIT_USAGE;
	}
	/* The file first: opening it may take long, and its process must hold no end of another. */
	if (options->output) {
		enum exit_code code = add_file(outputs, options);

		if (code)
			return code;
	}
	if (options->json)
		return add_sink(outputs, jsonl_sink_fd(STDOUT_FILENO));
	return options->quiet ? EXIT_FINE : add_sink(outputs, view(&table));
}

/* Closing a file of a file system that hangs is waited for when a process ends: from here on only
 * the writer has what stdout is. */
static void let_go_of_stdout(void)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (null < 0)
		return;
	dup2(null, STDOUT_FILENO);
	close(null);
}

static enum exit_code add_sources(struct session *session, const struct options *options,
				  const char *btf_path)
{
	struct source_wishes wishes = {
		.targets = options->target_count > 0,
		.btf_path = btf_path,
		.variant = options->variant,
		.top = options->top == UINT64_MAX ? 0 : (size_t)options->top,
	};

	for (size_t i = 0; i < source_declaration_count; i++) {
		bool needed = false;
		struct source *source =
			source_declarations[i]->make(&options->flags[i], &wishes, &needed);

		if (!source && !errno)
			continue; /* nobody wants it */
		if (session_add_source(session, source, needed))
			return EXIT_INTERNAL;
		wishes.made[wishes.made_count++] = source;
	}
	return EXIT_FINE;
}

/* The socket of a recording in a folder. */
struct folder_control {
	struct control *control; /* NULL: there is none */
	int dir_fd;
};

/* The folder is locked by its writer by now. Without the socket there is a recording all the same,
 * to which nobody can talk. */
static enum exit_code listen_in_folder(struct folder_control *folder, const struct options *options,
				       const struct keeper_seat *seat)
{
	if (!options->output || !store_path_is_folder(options->output))
		return EXIT_FINE;
	folder->dir_fd =
		seat ? seat->dir_fd : open(options->output, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder->dir_fd >= 0)
		folder->control = control_new(folder->dir_fd);
	if (!folder->control)
		fprintf(stderr, "jankscope: warn: -o %s: status, stop and mark will not work: %s\n",
			options->output, strerror(errno));
	return EXIT_FINE;
}

/* A recorder that takes the place of a dead one goes on without: what it records is worth more. */
static enum exit_code listen_for_scrapers(struct endpoint **endpoint, const struct options *options,
					  const struct keeper_seat *seat)
{
	struct endpoint_address address;
	bool resumed = seat && seat->restarted;

	/* verb_record() has refused an address that is none. */
	if (!options->metrics || endpoint_address_parse(options->metrics, &address))
		return EXIT_FINE;
	*endpoint = endpoint_new(&address);
	if (*endpoint)
		return EXIT_FINE;
	fprintf(stderr, "jankscope: %s: --metrics %s: %s\n", resumed ? "warn" : "error",
		options->metrics,
		errno == EADDRINUSE      ? "something listens there already"
		: errno == EEXIST        ? "there is something that is no socket"
		: errno == EADDRNOTAVAIL ? "there is a socket of another user"
					 : strerror(errno));
	return resumed ? EXIT_FINE : EXIT_INTERNAL;
}

static enum exit_code print_schema(void)
{
	char *schema = record_schema();

	if (!schema) {
		fprintf(stderr, "jankscope: error: %s\n", strerror(errno));
		return EXIT_INTERNAL;
	}
	fputs(schema, stdout);
	free(schema);
	return EXIT_FINE;
}

/* glibc keeps what is freed: a heap of its own for each thread that allocates, and, once a large
 * block was freed, all blocks of that size in the heap, where a small one above them holds their
 * pages. A run lasts for weeks, and what one busy interval took is to go back. The helpers, which
 * begin as copies of this process, have the same settings. */
static void give_memory_back(void)
{
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, 64 << 10);
	mallopt(M_TRIM_THRESHOLD, 128 << 10);
}

/* Where it is not known nothing is said. */
static void tell_size(const struct options *options, struct header_estimate *told)
{
	struct size_estimate estimate;
	char bytes[32];

	if (!options->output || options->target_count ||
	    size_estimate_make("", options->interval_ns, store_path_is_folder(options->output),
			       &estimate))
		return;
	*told = (struct header_estimate){
		.bytes_per_day = estimate.bytes_per_day,
		.processes = estimate.processes,
		.threads = estimate.threads,
		.active_threads = estimate.active_threads,
	};
	fprintf(stderr,
		"jankscope: info: about %s a day: %llu processes with %llu threads, of which some "
		"%llu run in each interval\n",
		format_bytes(bytes, sizeof(bytes), estimate.bytes_per_day),
		(unsigned long long)estimate.processes, (unsigned long long)estimate.threads,
		(unsigned long long)estimate.active_threads);
}

/* seat NULL: it runs in the foreground. */
static enum exit_code run(const struct options *options, const struct keeper_seat *seat,
			  record_view view)
{
	struct run_status own_status = {0};
	struct prober_pool *probes = NULL;
	struct warden *warden = NULL;
	struct session_options session_options = {
		.interval_ns = options->interval_ns,
		.duration_ns = options->duration_ns,
		.count = options->count,
		.block_ns = options->target_count ? options->block_ns : 0,
		.wait_ns = options->wait_ns,
		.max_lost_pct = options->max_lost_pct,
		.limits = options->limits,
		.status = seat ? seat->status : &own_status,
		.specs = options->targets,
		.spec_count = options->target_count,
		.verbose = options->verbose,
	};
	struct folder_control folder = {.dir_fd = -1};
	struct endpoint *endpoint = NULL;
	struct kernel_btf btf = {0};
	struct target_set *targets = NULL;
	struct session *session = NULL;
	struct record_alerts alerts = {0};
	struct redactor *redactor = NULL;
	struct outputs outputs = {0};
	enum exit_code code;
	int err;

	code = record_alerts_take(&alerts, options);
	if (!code)
		code = redact_key_take(options, &redactor);
	if (code) {
		record_alerts_free(&alerts);
		redactor_free(redactor);
		return code;
	}
	err = namespaces_leave_time();
	if (err < 0) {
		fprintf(stderr,
			"jankscope: error: this is a time namespace with clocks of its own, which "
			"was left half-way: %s; run it outside\n",
			strerror(-err));
		record_alerts_free(&alerts);
		redactor_free(redactor);
		return EXIT_UNSUPPORTED;
	}
	session_options.redactor = redactor;
	session_options.alerts = alerts.rules;
	session_options.alert_count = alerts.count;
	session_options.on_alert = alerts.command.count ? &alerts.command : NULL;
	give_memory_back();
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
		record_alerts_free(&alerts);
		redactor_free(redactor);
		return EXIT_USAGE;
	}
	code = open_outputs(&outputs, options, view);
	if (!code)
		code = listen_in_folder(&folder, options, seat);
	if (!code)
		code = listen_for_scrapers(&endpoint, options, seat);
	if (code)
		goto cleanup;
	session_options.control = folder.control;
	session_options.endpoint = endpoint;
	tell_size(options, &session_options.estimate);
	session_options.status->disk_limit_bytes = options->max_disk_bytes;
	if (seat)
		daemon_take_seat(seat, &session_options);
	let_go_of_stdout();
	code = EXIT_INTERNAL;
	/* Before 5.11 BPF maps count against RLIMIT_MEMLOCK. */
	features_raise_memlock();
	/* Where that may not be, the recorder is late at times, and says so. */
	resident_keep();
	targets = target_set_new(options->targets, options->target_count, "");
	session_options.warden = warden;
	session_options.probes = probes = prober_pool_new(warden);
	if (targets && probes) {
		target_set_bound(targets, probes);
		session = session_new(&session_options, targets);
	}
	if (!session) {
		fprintf(stderr, "jankscope: error: cannot start: %s\n", strerror(errno));
		goto cleanup;
	}
	code = EXIT_FINE;
	for (; outputs.count && !code; outputs.count--)
		if (session_add_sink(session, outputs.sinks[outputs.count - 1]))
			code = EXIT_INTERNAL;
	if (!code)
		code = add_sources(session, options, btf.path);
	if (!code) {
		heap_fill_cache();
		code = session_run(session);
	}
cleanup:
	session_free(session);
	for (size_t i = 0; i < outputs.count; i++)
		outputs.sinks[i]->ops->close(outputs.sinks[i]);
	target_set_free(targets);
	prober_pool_free(probes);
	warden_stop(warden);
	kernel_btf_close(&btf);
	record_alerts_free(&alerts);
	redactor_free(redactor);
	endpoint_free(endpoint);
	control_free(folder.control);
	if (folder.dir_fd >= 0 && !seat)
		close(folder.dir_fd);
	return code;
}

static enum exit_code record(const struct options *options, const struct keeper_seat *seat)
{
	return run(options, seat, show_table);
}

enum exit_code record_with_view(const struct options *options, record_view view)
{
	return run(options, NULL, view);
}

enum exit_code verb_record(const struct options *options)
{
	struct endpoint_address address;
	const char *wrong =
		options->metrics ? endpoint_address_parse(options->metrics, &address) : NULL;

	if (options->json_schema)
		return print_schema();
	if (wrong) {
		fprintf(stderr, "jankscope: error: --metrics %s: %s\n", options->metrics, wrong);
		return EXIT_USAGE;
	}
	return options->daemon ? daemon_start(options, record) : record(options, NULL);
}

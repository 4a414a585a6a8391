/* SPDX-License-Identifier: BSD-2-Clause */
#include "cli/options_private.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"
#include "control/keeper.h"
#include "util/units.h"

#define MIN_INTERVAL_NS 50000000ull

#define FIELD(name) offsetof(struct options, name)

static const struct option_row option_rows[] = {
	{'p', "target", "NAME|GLOB|PID",
	 "a package, argv[0], comm, a glob over these, or a pid; repeatable; of report: only rows, "
	 "blocks and events of these, the sums of the machine stay",
	 VERB_LIVE | VERB_REPORT, OPTION_TARGET},
	{'u', "uid", "UID", "all processes of a uid; repeatable", VERB_LIVE, OPTION_UID},
	{'a', "all", NULL, "the whole device (the default)", VERB_LIVE, OPTION_FLAG, FIELD(all)},
	{'i', "interval", "DURATION", "time between two records, at least 50ms (default 1s)",
	 VERB_LIVE, OPTION_DURATION, FIELD(interval_ns), .min = MIN_INTERVAL_NS},
	{'d', "duration", "DURATION", "end after this time (default: until SIGINT)", VERB_LIVE,
	 OPTION_DURATION, FIELD(duration_ns), .min = 1},
	{'n', "count", "COUNT", "end after this many intervals", VERB_LIVE, OPTION_NUMBER,
	 FIELD(count), .min = 1},
	{'o', "output", "FILE|DIR",
	 "write the records to FILE as JSON Lines, or to a folder (one that is there, or a new "
	 "one: "
	 "DIR/) as segments that survive whatever ends the recorder",
	 VERB_LIVE, OPTION_TEXT, FIELD(output), .file = true},
	{0, "overwrite", NULL, "-o FILE may be there already, if it is ours", VERB_LIVE,
	 OPTION_FLAG, FIELD(overwrite)},
	{0, "daemon", NULL,
	 "record to -o DIR with nobody watching: go on when the shell is gone, and begin again "
	 "after a crash; see status and stop",
	 VERB_RECORD, OPTION_FLAG, FIELD(daemon)},
	{0, "restarts", "N",
	 "with --daemon: how many recorders may die shortly after one another (default 8; one more "
	 "for each 30s that one has run)",
	 VERB_RECORD, OPTION_NUMBER, FIELD(restarts), .tune = true},
	{0, "hang", "DURATION",
	 "with --daemon: a recorder that emits nothing for so long, and for twelve intervals, is "
	 "killed and begun again (default 60s; 0s: never)",
	 VERB_RECORD, OPTION_DURATION, FIELD(hang_ns), .tune = true},
	{0, "self-cpu", "PCT",
	 "CPU time that all processes of jankscope may take, in percent of one CPU (default 60; 0: "
	 "any)",
	 VERB_LIVE, OPTION_PERCENT, FIELD(limits.cpu_pct), .tune = true},
	{0, "self-memory", "SIZE", "memory of all of them (default 256M)", VERB_LIVE, OPTION_SIZE,
	 FIELD(limits.memory_bytes), .tune = true},
	{0, "self-latency", "DURATION", "how late an interval may be (default 2s)", VERB_LIVE,
	 OPTION_DURATION, FIELD(limits.late_ns), .min = 1, .tune = true},
	{0, "self-window", "DURATION",
	 "how long one of these limits may be passed before something is left out (default 60s)",
	 VERB_LIVE, OPTION_DURATION, FIELD(limits.window_ns), .min = 1, .tune = true},
	{0, "end", NULL, "the scene ends", VERB_MARK, OPTION_FLAG, FIELD(end)},
	{0, "pid", NULL, "print the pid of the recorder and nothing else", VERB_STATUS, OPTION_FLAG,
	 FIELD(pid)},
	{0, "max-disk", "SIZE",
	 "with -o DIR: remove the oldest segments, so that the folder never takes more (at least "
	 "1M)",
	 VERB_LIVE, OPTION_SIZE, FIELD(max_disk_bytes), .min = STORE_MIN_DISK_BYTES},
	{0, "retain", "DURATION",
	 "with -o DIR: remove segments that ended so long ago, by the clock that counts suspends "
	 "too "
	 "and that nobody sets",
	 VERB_LIVE, OPTION_DURATION, FIELD(retain_ns), .min = 1},
	{0, "keep", "RES:AGE,...",
	 "with -o DIR: merge old intervals exactly, as 100ms:10m,1s:24h,10s:30d: those of the last "
	 "10 minutes at 100ms, of the last day at 1s, older ones at 10s; what is older than 30 "
	 "days "
	 "goes, unless --retain says another time",
	 VERB_LIVE, OPTION_TEXT, FIELD(keep)},
	{0, "redact", NULL,
	 "write a hash for each name of a package, process, thread, function, file, layer, scene "
	 "...: the same name has the same one in this run, and the key of the hash is forgotten",
	 VERB_LIVE, OPTION_FLAG, FIELD(redact)},
	{0, "redact-key", "FILE",
	 "with --redact: the key of the hash, taken from FILE or, where there is none, made and "
	 "written there (mode 0600), so that several runs have the same hashes",
	 VERB_LIVE, OPTION_TEXT, FIELD(redact_key), .file = true},
	{0, "segment", "SIZE", "length at which a segment of -o DIR is closed (default 8M)",
	 VERB_LIVE, OPTION_SIZE, FIELD(segment_bytes), .min = STORE_MIN_SEGMENT_BYTES,
	 .tune = true},
	{0, "repair", NULL,
	 "cut the torn end of a segment off into a file beside it (NAME.torn), and make the index "
	 "anew",
	 VERB_VERIFY, OPTION_FLAG, FIELD(repair)},
	{0, "json", NULL, "JSON on stdout instead of the table",
	 VERB_RECORD | VERB_DOCTOR | VERB_FRAMES | VERB_STATUS, OPTION_FLAG, FIELD(json)},
	{0, "rows", NULL, "every frame, with the texts of Perfetto's actual_frame_timeline_slice",
	 VERB_FRAMES, OPTION_FLAG, FIELD(rows)},
	{0, "why", NULL,
	 "each late frame with its cause, by what the trace's scheduler events say of the threads "
	 "that made it",
	 VERB_FRAMES, OPTION_FLAG, FIELD(why)},
	{0, "layer", "GLOB", "only layers whose name matches, with or without its \"TX - \"",
	 VERB_FRAMES, OPTION_TEXT, FIELD(layer)},
	{0, "package", "NAME", "only layers that this package draws", VERB_FRAMES, OPTION_TEXT,
	 FIELD(package)},
	{0, "folded", "FILE",
	 "write the stacks of all blocks as folded lines (a;b;c microseconds) for flame graphs; -: "
	 "stdout",
	 VERB_REPORT, OPTION_TEXT, FIELD(folded), .file = true},
	{0, "csv", "FILE",
	 "write every figure of the records as one row of a table (RFC 4180), without stacks; -: "
	 "stdout",
	 VERB_REPORT, OPTION_TEXT, FIELD(csv), .file = true},
	{0, "html", "FILE",
	 "write a report for people: one file for any browser, with timelines, blocks, stacks and "
	 "scenes, that asks the network for nothing; -: stdout",
	 VERB_REPORT, OPTION_TEXT, FIELD(html), .file = true},
	{0, "openmetrics", "FILE",
	 "write the summary as OpenMetrics text for Prometheus, at most 200 series; -: stdout",
	 VERB_REPORT, OPTION_TEXT, FIELD(openmetrics), .file = true},
	{0, "perfetto", "FILE",
	 "write blocks, scenes and events as slices, and the figures of the intervals as counters, "
	 "for ui.perfetto.dev; -: stdout",
	 VERB_REPORT, OPTION_TEXT, FIELD(perfetto), .file = true},
	{0, "pprof", "FILE",
	 "write the stacks of all blocks as a profile of pprof, with the block time and the build "
	 "ids; -: stdout",
	 VERB_REPORT, OPTION_TEXT, FIELD(pprof), .file = true},
	{0, "speedscope", "FILE",
	 "write the stacks of all blocks for speedscope, one profile a process; -: stdout",
	 VERB_REPORT, OPTION_TEXT, FIELD(speedscope), .file = true},
	{0, "since", "TIME",
	 "only what began then or later: 2026-11-24T19:30:00Z, 19:30:00 (UTC; the first time that "
	 "the clock shows it), +10m after the begin of the recording, or boot:1234.5s on the boot "
	 "clock; an interval or a block that is in only in part is left out",
	 VERB_REPORT, OPTION_TEXT, FIELD(since)},
	{0, "until", "TIME", "only what ended by then; as --since", VERB_REPORT, OPTION_TEXT,
	 FIELD(until)},
	{0, "scene", "NAME", "only what was while this scene was open (jankscope mark)",
	 VERB_REPORT, OPTION_TEXT, FIELD(scene)},
	{0, "by-activity", NULL,
	 "the activity that had the focus is a scene as well, where the frames' trace told it",
	 VERB_REPORT, OPTION_FLAG, FIELD(by_activity)},
	{0, "hourly", NULL,
	 "a table with one row an hour in place of the summary: CPU, jank, blocks, memory, losses, "
	 "gaps",
	 VERB_REPORT, OPTION_FLAG, FIELD(hourly)},
	{0, "fail-if", "RULE",
	 "exit 10 when a summary makes the rule true: METRIC > VALUE (>=, <, <=), more by \"and\"; "
	 "METRIC is a key path of it (frames.jank_pct) or of --baseline (compare.worse), VALUE a "
	 "number with a unit, or base, base + 1, base * 1.1",
	 VERB_REPORT, OPTION_TEXTS, FIELD(fail_if)},
	{0, "baseline", "FILE",
	 "an older recording: what differs from it by more than chance, and who grew; three and "
	 "more on each side show what varies from run to run. With --fail-if also what `base` "
	 "means, of several the median",
	 VERB_REPORT, OPTION_TEXTS, FIELD(baselines), .file = true},
	{0, "junit", "FILE", "write what the rules of --fail-if say as JUnit XML; -: stdout",
	 VERB_REPORT, OPTION_TEXT, FIELD(junit), .file = true},
	{0, "mapping", "FILE",
	 "the mapping.txt that R8 or ProGuard wrote for this build of the app: show the names of "
	 "the source, and what was inlined",
	 VERB_REPORT, OPTION_TEXT, FIELD(mapping), .file = true},
	{0, "native", NULL,
	 "show the trampolines and the interpreter of ART between Java methods, too; of record: in "
	 "the lines of blocks",
	 VERB_LIVE | VERB_REPORT, OPTION_FLAG, FIELD(native)},
	{0, "json-schema", NULL, "print the JSON schema of the records and exit", VERB_RECORD,
	 OPTION_FLAG, FIELD(json_schema)},
	{0, "max-lost", "PCT", "exit 3 when more than this was lost (default 1)", VERB_LIVE,
	 OPTION_PERCENT, FIELD(max_lost_pct)},
	{0, "wait", "DURATION", "how long to wait for a target that is not there yet (default 10s)",
	 VERB_LIVE, OPTION_DURATION, FIELD(wait_ns)},
	{0, "top", "N", "rows: of processes and threads in the table 15, of tasks in records all",
	 VERB_LIVE, OPTION_NUMBER, FIELD(top), .min = 1},
	{0, "block", "DURATION",
	 "tell when the main thread of a target does not come back to its poll for this long "
	 "(default 500ms)",
	 VERB_LIVE, OPTION_DURATION, FIELD(block_ns), .min = 1},
	{0, "alert", "RULE|@FILE",
	 "tell when a metric of the records is beyond a limit, like 'memory.pss_bytes > 500M for "
	 "30s'; @FILE: one rule a line; repeatable",
	 VERB_LIVE, OPTION_TEXTS, FIELD(alerts)},
	{0, "on-alert", "COMMAND",
	 "run this for each alert, without a shell; JANKSCOPE_ALERT and others in its environment "
	 "say which",
	 VERB_LIVE, OPTION_TEXT, FIELD(on_alert)},
	{0, "metrics", "ADDRESS",
	 "answer scrapers on this device while the run goes on, /metrics as OpenMetrics and "
	 "/status as JSON: at unix:PATH, @NAME (abstract, as of adb forward) or 127.0.0.1:PORT",
	 VERB_LIVE, OPTION_TEXT, FIELD(metrics)},
	{0, "variant", "TWIN", "which BPF programs to load, for kernels with BTF or without",
	 VERB_LIVE, OPTION_CHOICE, FIELD(variant), "auto tp_btf raw_tp"},
	{0, "btf", "FILE", "kernel type information to use instead of /sys/kernel/btf/vmlinux",
	 VERB_LIVE | VERB_DOCTOR, OPTION_TEXT, FIELD(btf_path), .file = true},
	{0, "color", "WHEN", "colours in the table; auto: on a terminal, unless NO_COLOR is set",
	 VERB_LIVE | VERB_REPORT, OPTION_CHOICE, FIELD(colour), "auto always never"},
	{0, "legend", NULL, "print what each column and word of the output means and exit",
	 VERB_LIVE | VERB_FRAMES | VERB_REPORT, OPTION_FLAG, FIELD(legend)},
	{0, "tune", "NAME[=VALUE]",
	 "a size or a fall-back that tests force, see the man page; repeatable", VERB_LIVE,
	 OPTION_TUNE},
	{'q', "quiet", NULL, "no table", VERB_RECORD, OPTION_FLAG, FIELD(quiet)},
	{'v', "verbose", NULL, "say more on stderr, libbpf's messages included",
	 VERB_LIVE | VERB_DOCTOR | VERB_FRAMES | VERB_REPORT, OPTION_FLAG, FIELD(verbose)},
	{'h', "help", NULL, "print this help", ~0u, OPTION_FLAG, FIELD(help)},
};
#define OPTION_ROWS (sizeof(option_rows) / sizeof(*option_rows))

const struct option_row *option_row_at(size_t index, int *source)
{
	if (source)
		*source = -1;
	if (index < OPTION_ROWS)
		return &option_rows[index];
	index -= OPTION_ROWS;
	for (size_t i = 0; i < source_declaration_count; i++) {
		const struct source_declaration *declaration = source_declarations[i];

		if (index < declaration->option_count) {
			if (source)
				*source = (int)i;
			return &declaration->options[index];
		}
		index -= declaration->option_count;
	}
	return NULL;
}

void options_init(struct options *options)
{
	*options = (struct options){
		.interval_ns = 1000000000ull,
		.wait_ns = 10000000000ull,
		.block_ns = 500000000ull,
		.max_lost_pct = 1,
		.top = UINT64_MAX,
		.restarts = KEEPER_RESTARTS,
		.hang_ns = KEEPER_HANG_NS,
		.limits = WATCHDOG_LIMITS,
	};
	for (size_t i = 0; i < source_declaration_count; i++)
		if (source_declarations[i]->defaults)
			memcpy(&options->flags[i], source_declarations[i]->defaults,
			       source_declarations[i]->flags_size);
}

void options_free(struct options *options)
{
	free(options->targets);
	free(options->arguments);
	options->targets = NULL;
	options->arguments = NULL;
}

static int complain(const struct verb_description *verb, const char *flag, const char *value,
		    const char *why)
{
	fprintf(stderr, "jankscope: error: %s%s%s%s%s; see jankscope %s --help\n", flag,
		value ? " " : "", value ? value : "", why[0] ? ": " : "", why, verb->name);
	return -EINVAL;
}

static int add_target(struct options *options, const struct target_spec *spec)
{
	struct target_spec *more =
		realloc(options->targets, (options->target_count + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	options->targets = more;
	more[options->target_count++] = *spec;
	return 0;
}

static bool parse_number(const char *text, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	return isdigit((unsigned char)text[0]) && !*end && !errno;
}

static const char *parse_target(struct options *options, const char *text)
{
	struct target_spec spec = {.kind = TARGET_NAME};
	uint64_t number;

	if (parse_number(text, &number)) {
		if (!number || number > INT32_MAX)
			return "not a pid";
		spec.kind = TARGET_PID;
		spec.pid = (pid_t)number;
	} else if (!text[0] || strlen(text) >= sizeof(spec.name)) {
		return "a name of 1 to 255 bytes or a pid is needed";
	}
	strncpy(spec.name, text, sizeof(spec.name) - 1);
	return add_target(options, &spec) ? "out of memory" : NULL;
}

static const char *parse_uid(struct options *options, const char *text)
{
	struct target_spec spec = {.kind = TARGET_UID};
	uint64_t number;

	if (!parse_number(text, &number) || number >= UINT32_MAX)
		return "not a uid (a number)";
	spec.uid = (uid_t)number;
	return add_target(options, &spec) ? "out of memory" : NULL;
}

static const char *parse_choice(const struct option_row *row, const char *text, int *value)
{
	static __thread char why[128];
	const char *p = row->choices;
	size_t length = strlen(text);

	for (int i = 0; *p; i++) {
		size_t word = strcspn(p, " ");

		if (word == length && !strncmp(p, text, length)) {
			*value = i;
			return NULL;
		}
		p += word + (p[word] == ' ');
	}
	snprintf(why, sizeof(why), "choose one of: %s", row->choices);
	return why;
}

static const char *take_value(struct options *options, const struct option_row *row, int source,
			      const char *text);

static const char *too_small(uint64_t min)
{
	static __thread char why[64];
	char size[32];

	snprintf(why, sizeof(why), "at least %s", format_bytes(size, sizeof(size), min));
	return why;
}

/* NAME or NAME=VALUE, of a row that is no flag by itself. */
static const char *parse_tuning(struct options *options, const char *text)
{
	size_t length = strcspn(text, "=");
	const struct option_row *row;
	int source;

	for (size_t i = 0; (row = option_row_at(i, &source)); i++) {
		if (!row->tune || strlen(row->name) != length || strncmp(row->name, text, length))
			continue;
		if ((row->kind == OPTION_FLAG) != !text[length])
			return row->kind == OPTION_FLAG ? "this one takes no value"
							: "a value is missing: NAME=VALUE";
		return take_value(options, row, source, text + length + (text[length] == '='));
	}
	return "no such name; the man page has them under TUNING";
}

/* NULL, or why the value is not one. */
static const char *take_value(struct options *options, const struct option_row *row, int source,
			      const char *text)
{
	void *field = (source < 0 ? (char *)options : options->flags[source].bytes) + row->offset;
	uint64_t number;
	char *end;
	int err;

	switch (row->kind) {
	case OPTION_FLAG:
		*(bool *)field = true;
		return NULL;
	case OPTION_DURATION:
		if (row->words && !strcmp(text, row->words)) {
			*(uint64_t *)field = 0;
			return NULL;
		}
		err = parse_duration(text, &number);
		if (err == -ERANGE)
			return "too long";
		if (err)
			return "a duration needs a number and a unit, like 500ms, 10s, 5m or 72h";
		if (number < row->min)
			return row->min == MIN_INTERVAL_NS ? "an interval is at least 50ms"
							   : "must be more than 0";
		*(uint64_t *)field = number;
		return NULL;
	case OPTION_NUMBER:
		if (!parse_number(text, &number) || number < row->min)
			return row->min ? "a whole number of at least 1 is needed"
					: "a whole number is needed";
		*(uint64_t *)field = number;
		return NULL;
	case OPTION_SIZE:
		if (parse_size(text, &number))
			return "a size needs a number and a unit, like 64M";
		if (number < row->min)
			return too_small(row->min);
		*(uint64_t *)field = number;
		return NULL;
	case OPTION_PERCENT:
		*(double *)field = strtod(text, &end);
		if (!isdigit((unsigned char)text[0]) || text[strspn(text, "0123456789.")] || *end ||
		    *(double *)field > 100)
			return "a percentage from 0 to 100 is needed";
		return NULL;
	case OPTION_TEXT:
		*(const char **)field = text;
		return text[0] ? NULL : "must not be empty";
	case OPTION_TEXTS: {
		struct option_texts *texts = field;

		if (texts->count == OPTION_TEXTS_MAX)
			return "given too often";
		texts->items[texts->count++] = text;
		return text[0] ? NULL : "must not be empty";
	}
	case OPTION_CHOICE:
		return parse_choice(row, text, field);
	case OPTION_TARGET:
		return parse_target(options, text);
	case OPTION_UID:
		return parse_uid(options, text);
	case OPTION_TUNE:
		return parse_tuning(options, text);
	}
	return "unknown kind";
}

static const struct option_row *find_row(unsigned verb, const char *name, size_t length,
					 char letter, int *source)
{
	const struct option_row *row;

	for (size_t i = 0; (row = option_row_at(i, source)); i++) {
		if (!(row->verbs & verb) || row->tune)
			continue;
		if (letter ? row->letter == letter
			   : strlen(row->name) == length && !strncmp(row->name, name, length))
			return row;
	}
	return NULL;
}

static int parse_long(struct options *options, const struct verb_description *verb, int argc,
		      char **argv, int *index)
{
	const char *name = argv[*index] + 2;
	size_t length = strcspn(name, "=");
	const char *value = name[length] == '=' ? name + length + 1 : NULL;
	int source;
	const struct option_row *row = find_row(verb->bit, name, length, 0, &source);
	const char *why;

	if (!row)
		return complain(verb, argv[*index], NULL, "unknown flag");
	if (row->kind == OPTION_FLAG && value)
		return complain(verb, argv[*index], NULL, "this flag takes no value");
	if (row->kind != OPTION_FLAG && !value) {
		if (*index + 1 >= argc)
			return complain(verb, argv[*index], NULL, "a value is missing");
		value = argv[++*index];
	}
	why = take_value(options, row, source, value);
	if (why) {
		char flag[64];

		snprintf(flag, sizeof(flag), "--%s", row->name);
		return complain(verb, flag, value, why);
	}
	return 0;
}

/* A cluster of letters; the last may take a value, glued or as the next word. */
static int parse_letters(struct options *options, const struct verb_description *verb, int argc,
			 char **argv, int *index)
{
	const char *p = argv[*index] + 1;

	while (*p) {
		char flag[3] = {'-', *p, 0};
		int source;
		const struct option_row *row = find_row(verb->bit, NULL, 0, *p, &source);
		const char *value = NULL, *why;

		if (!row)
			return complain(verb, flag, NULL, "unknown flag");
		p++;
		if (row->kind != OPTION_FLAG) {
			if (*p)
				value = p;
			else if (*index + 1 < argc)
				value = argv[++*index];
			else
				return complain(verb, flag, NULL, "a value is missing");
			p = "";
		}
		why = take_value(options, row, source, value);
		if (why)
			return complain(verb, flag, value, why);
	}
	return 0;
}

int options_parse(struct options *options, const struct verb_description *verb, int argc,
		  char **argv)
{
	bool only_arguments = false;
	int err = 0;

	options->arguments = calloc((size_t)argc + 1, sizeof(*options->arguments));
	if (!options->arguments)
		return -ENOMEM;
	for (int i = 1; i < argc && !err; i++) {
		const char *word = argv[i];

		if (only_arguments || word[0] != '-' || !word[1])
			options->arguments[options->argument_count++] = argv[i];
		else if (!strcmp(word, "--"))
			only_arguments = true;
		else if (word[1] == '-')
			err = parse_long(options, verb, argc, argv, &i);
		else
			err = parse_letters(options, verb, argc, argv, &i);
	}
	if (err || options->help)
		return err;
	if (options->argument_count && !verb_takes_files(verb))
		return complain(verb, options->arguments[0], NULL, "unexpected argument");
	if (options->all && options->target_count)
		return complain(verb, "-a", NULL, "does not go together with -p or -u");
	return 0;
}

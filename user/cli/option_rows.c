/* SPDX-License-Identifier: BSD-2-Clause */
/* Every option of the command line that is no source's own: what it is called, says and sets. */
#include "cli/options_private.h"
#include "store/store.h"

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
	{0, "deep", NULL,
	 "hold each value against the table of fields, too, as report does (slower)", VERB_VERIFY,
	 OPTION_FLAG, FIELD(deep)},
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
	 "more on each side show what varies from run to run: `new* --baseline old*`, or the flag "
	 "before each. With --fail-if also what `base` means, of several the median",
	 VERB_REPORT, OPTION_TEXTS, FIELD(baselines), .file = true, .and_more = true},
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

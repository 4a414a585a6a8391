/* SPDX-License-Identifier: BSD-2-Clause */
/* --help and the man page, from the table of flags. */
#include "cli/legend.h"
#include "cli/options_private.h"

#define HELP_COLUMN 27
#define HELP_WIDTH  79
/* Room for a flag's help with its choices; a test keeps the table below it. */
#define HELP_BYTES 256

void options_print_wrapped(FILE *out, const char *text, int column, int width)
{
	int at = column;

	while (*text) {
		int word = (int)strcspn(text, " ");

		if (at + word > width && at > column) {
			fprintf(out, "\n%*s", column, "");
			at = column;
		}
		fprintf(out, "%.*s", word, text);
		at += word;
		text += word;
		if (*text == ' ') {
			text++;
			if (*text && at + 1 + (int)strcspn(text, " ") <= width)
				fputc(' ', out), at++;
			else if (*text) {
				fprintf(out, "\n%*s", column, "");
				at = column;
			}
		}
	}
	fputc('\n', out);
}

static const char *spell_flag(const struct option_row *row, char *buffer, size_t size)
{
	snprintf(buffer, size, "%c%c%s--%s%s%s", row->letter ? '-' : ' ',
		 row->letter ? row->letter : ' ', row->letter ? ", " : "  ", row->name,
		 row->metavar ? " " : "", row->metavar ? row->metavar : "");
	return buffer;
}

static const char *describe(const struct option_row *row, char *buffer, size_t size)
{
	if (row->choices)
		snprintf(buffer, size, "%s (%s)", row->help, row->choices);
	else
		snprintf(buffer, size, "%s", row->help);
	return buffer;
}

void options_print_help(FILE *out, const struct verb_description *verb)
{
	char flag[64], help[HELP_BYTES];
	const struct option_row *row;

	fprintf(out, "usage: jankscope %s %s\n%s\n\n", verb->name, verb->arguments, verb->summary);
	for (size_t i = 0; (row = option_row_at(i, NULL)); i++) {
		if (!option_is_shown(row, verb))
			continue;
		fprintf(out, "  %-24s ", spell_flag(row, flag, sizeof(flag)));
		options_print_wrapped(out, describe(row, help, sizeof(help)), HELP_COLUMN,
				      HELP_WIDTH);
	}
	if (verb->bit & VERB_LIVE)
		fputs("\nDurations and sizes carry their unit: 500ms 10s 5m 72h 7d, 64K 64M 2G.\n"
		      "Exit: 0 fine, 1 I/O error, 2 usage, 3 data incomplete, 4 target not found,\n"
		      "5 not supported or not permitted here.\n",
		      out);
}

/* ---- the man page: man(7) ---- */

struct man_item {
	const char *term, *text;
};

static const char description[] =
	"jankscope measures CPU time per thread, bytes per uid, long blocks of main threads with "
	"their stacks, and frame timing, from outside of the programs that it measures. It needs "
	"no change to them and no restart. CPU time is the kernel's own, read by BPF programs; "
	"bytes "
	"are counted at the IP layer; frame timing is that of SurfaceFlinger's traces. "
	"A number that could not be read is absent and never 0, and everything that was lost is "
	"counted and printed.";

static const struct man_item examples[] = {
	{"jankscope doctor", "Say what works on this kernel, and what to do about the rest."},
	{"jankscope record -p com.example.app -d 30s",
	 "What com.example.app and its :suffix processes do for 30 s, with the long blocks of "
	 "their main threads."},
	{"jankscope record -p 'worker-?'",
	 "Every process of such a name (argv[0] or comm), with the children that it forks, however "
	 "short they live."},
	{"jankscope record -i 10s --top 10", "The ten threads of the device that use most CPU."},
	{"jankscope record -p com.example.app -d 12h -i 10s -q -o soak.jsonl",
	 "Twelve hours into a file, without a table."},
	{"jankscope top -p com.example.app",
	 "The same as a live screen, of which ? lists the keys; in a pipe it is the table."},
	{"jankscope report soak.jsonl --folded soak.folded",
	 "Check that recording, and write the stacks of its blocks for a flame graph."},
	{"jankscope report app.jsonl --mapping mapping.txt",
	 "Its summary, with the names that classes and methods have in the source."},
	{"jankscope report new1 new2 new3 --baseline old1 old2 old3",
	 "What differs between two builds by more than chance."},
	{"jankscope report new1 new2 new3 --baseline old1 old2 old3 "
	 "--fail-if 'compare.worse > 0'",
	 "Exit 10 where anything is worse beyond chance; of one figure: compare.jank_pct.low > 1."},
	{"jankscope report new.jsonl --baseline old.jsonl --fail-if 'frames.jank_pct > base + 1' "
	 "--junit "
	 "rules.xml",
	 "What a farm's job ends with: 10 where the rule is true, 3 where nobody can say."},
	{"jankscope frames trace.pftrace", "The frames of a trace that was recorded before."},
	{"jankscope frames trace.pftrace --why", "Each late frame of it, and why it was late."},
};

static const struct man_item files[] = {
	{"/sys/kernel/btf/vmlinux", "Type information of the kernel; --btf FILE takes its place."},
	{"/sys/kernel/tracing", "Read by record --frames live."},
	{"/data/system/packages.list",
	 "Android: which uid is which package. Without it the command cmd package is asked."},
	{"/sys/fs/bpf", "Android: netd's map of bytes per uid, read by --net netd."},
	{"/tmp/perf-PID.map", "Names of code that a runtime made, read for the process PID."},
};

static const struct man_item exits[] = {
	{"0", "Fine."},
	{"1", "An internal error, or an error of reading or writing."},
	{"2", "Usage: an unknown flag, a wrong value, or an output file that may not be taken."},
	{"3", "The data is incomplete: more than --max-lost was lost, or a trace or a recording is "
	      "damaged."},
	{"4", "No target was found within --wait."},
	{"5", "Not supported or not permitted here; the line on stderr says what is missing."},
	{"130", "A second SIGINT or SIGTERM ended the run at once."},
};

static const struct man_item signals[] = {
	{"SIGINT, SIGTERM, SIGHUP",
	 "The first one ends the interval, prints the summary, closes the recording with its "
	 "footer, and the run ends with its exit status within a second. A second SIGINT or "
	 "SIGTERM ends the run at once; a second SIGHUP does not, because a terminal that goes "
	 "away sends several. SIGHUP is ignored where it was when the run began (nohup)."},
	{"SIGPIPE", "Ignored: a reader of stdout that goes away, or a terminal, ends the table "
		    "and not the recording."},
};

/* A dash that is to be copied is \-, a backslash \e; a line must not begin with a control
 * character. */
static void put_roff(FILE *out, const char *text)
{
	if (*text == '.' || *text == '\'')
		fputs("\\&", out);
	for (; *text; text++) {
		if (*text == '-')
			fputs("\\-", out);
		else if (*text == '\\')
			fputs("\\e", out);
		else
			fputc(*text, out);
	}
}

void options_put_item(FILE *out, const char *term, const char *text)
{
	fputs(".TP\n\\fB", out);
	put_roff(out, term);
	fputs("\\fR\n", out);
	put_roff(out, text);
	fputc('\n', out);
}

static void put_section(FILE *out, const char *title, const struct man_item *items, size_t count)
{
	fprintf(out, ".SH %s\n", title);
	for (size_t i = 0; i < count; i++)
		options_put_item(out, items[i].term, items[i].text);
}

static void put_flag(FILE *out, const struct option_row *row)
{
	char help[HELP_BYTES];

	fputs(".TP\n", out);
	if (row->letter)
		fprintf(out, "\\fB\\-%c\\fR, ", row->letter);
	fputs("\\fB\\-\\-", out);
	put_roff(out, row->name);
	fputs("\\fR", out);
	if (row->metavar) {
		fputs(" \\fI", out);
		put_roff(out, row->metavar);
		fputs("\\fR", out);
	}
	fputc('\n', out);
	put_roff(out, describe(row, help, sizeof(help)));
	fputc('\n', out);
}

static void put_verb(FILE *out, const struct verb_description *verb)
{
	const struct option_row *row;

	fprintf(out, ".SS jankscope %s\n", verb->name);
	put_roff(out, verb->summary);
	fputc('\n', out);
	for (size_t i = 0; (row = option_row_at(i, NULL)); i++)
		if (option_is_shown(row, verb))
			put_flag(out, row);
}

/* The rows that --tune takes. */
static void put_tuning(FILE *out)
{
	const struct option_row *row;
	char term[64];

	fputs(".SH TUNING\nNames that \\-\\-tune takes. Tests use them to reach losses and the "
	      "programs of other kernels; nobody else needs them.\n",
	      out);
	for (size_t i = 0; (row = option_row_at(i, NULL)); i++) {
		if (!row->tune)
			continue;
		snprintf(term, sizeof(term), "%s%s%s", row->name, row->metavar ? "=" : "",
			 row->metavar ? row->metavar : "");
		options_put_item(out, term, row->help);
	}
}

#define SECTION(title, items) put_section(out, title, items, sizeof(items) / sizeof(*(items)))

void options_print_man(FILE *out, const struct verb_description *verbs, size_t count)
{
	fputs(".TH JANKSCOPE 1 \"\" \"jankscope " JANKSCOPE_VERSION "\" \"User Commands\"\n"
	      ".SH NAME\njankscope \\- eBPF sampler for Android and Linux\n.SH SYNOPSIS\n",
	      out);
	for (size_t i = 0; i < count; i++) {
		fprintf(out, "%s.B jankscope %s\n", i ? ".br\n" : "", verbs[i].name);
		if (!verbs[i].arguments[0])
			continue;
		put_roff(out, verbs[i].arguments);
		fputc('\n', out);
	}
	fputs(".SH DESCRIPTION\n", out);
	put_roff(out, description);
	fputs("\n.PP\nThe table and the summary go to stdout, warnings and errors to stderr. "
	      "Durations and sizes carry their unit: 500ms, 10s, 5m, 72h, 7d; 64K, 64M, 2G.\n"
	      ".SH COMMANDS\n",
	      out);
	for (size_t i = 0; i < count; i++)
		put_verb(out, &verbs[i]);
	fputs(".SH OUTPUT\nWhat the columns and words of the tables mean; jankscope record "
	      "\\-\\-legend "
	      "prints it, too.\n",
	      out);
	for (size_t i = 0; i < legend_part_count; i++) {
		fprintf(out, ".SS %s\n", legend_parts[i].title);
		for (size_t r = 0; r < legend_parts[i].count; r++)
			options_put_item(out, legend_parts[i].rows[r].word,
					 legend_parts[i].rows[r].meaning);
	}
	SECTION("EXAMPLES", examples);
	SECTION("FILES", files);
	SECTION("EXIT STATUS", exits);
	SECTION("SIGNALS", signals);
	put_tuning(out);
	options_print_records(out);
}

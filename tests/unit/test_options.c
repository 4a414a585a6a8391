/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of flags is the very one that parsing, help, man page and completions share. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/options_private.h"
#include "kernel/load.h"

static const struct verb_description record_verb = {"record", VERB_RECORD, "[TARGET] [-i 1s]",
						    "Sample."};
static const struct verb_description doctor_verb = {"doctor", VERB_DOCTOR, "[--json]", "Probe."};

/* Words after the verb, separated by one blank. */
static int parse(struct options *options, const struct verb_description *verb, const char *words)
{
	static char copy[512];
	char *argv[64] = {(char *)verb->name};
	int argc = 1;

	snprintf(copy, sizeof(copy), "%s", words);
	for (char *p = copy; words[0] && p; argc++) {
		argv[argc] = p;
		p = strchr(p, ' ');
		if (p)
			*p++ = 0;
	}
	options_init(options);
	return options_parse(options, verb, argc, argv);
}

Test(options, defaults)
{
	struct options options;

	cr_assert_eq(parse(&options, &record_verb, ""), 0);
	cr_expect_eq(options.interval_ns, 1000000000);
	cr_expect_eq(options.wait_ns, 10000000000);
	cr_expect_eq(options.duration_ns, 0);
	cr_expect_eq(options.max_lost_pct, 1);
	cr_expect_eq(options.top, UINT64_MAX);
	cr_expect_eq(options.target_count, 0);
	options_free(&options);
	options_free(&options);
}

Test(options, every_spelling)
{
	struct options options;

	cr_assert_eq(parse(&options, &record_verb,
			   "-i 200ms --duration=1.5m -n3 -qv -o out --json --top 7 --cpu iter "
			   "--variant=raw_tp --max-lost 2.5 --wait 0s --net off"),
		     0);
	cr_expect_eq(options.interval_ns, 200000000);
	cr_expect_eq(options.duration_ns, 90000000000);
	cr_expect_eq(options.count, 3);
	cr_expect(options.quiet && options.verbose && options.json);
	cr_expect_str_eq(options.output, "out");
	cr_expect_eq(options.top, 7);
	cr_expect_eq(options.variant, VARIANT_RAW_TP);
	cr_expect_eq(options.max_lost_pct, 2.5);
	cr_expect_eq(options.wait_ns, 0);
	options_free(&options);
}

/* A shell makes many words of one pattern: those behind --baseline are old runs. */
Test(options, files_of_two_sides)
{
	static const struct verb_description report_verb = {"report", VERB_REPORT, "FILE...",
							    "Read."};
	static const struct {
		const char *words;
		int new_runs;
		size_t old_runs;
	} cases[] = {
		{"new0 new1 --baseline old0 old1 old2", 2, 3},
		{"new0 --baseline old0 old1 --junit x --baseline old2 old3 --hourly", 1, 4},
		{"new0 --baseline old0 --hourly new1", 2, 1},
		{"new0 --baseline=old0 new1", 2, 1},
		{"new0 --baseline old0 -- new1", 2, 1},
		{"--baseline old0 new0", 1, 1},
		{"--baseline old0 --baseline old1 new0 new1", 2, 2},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct options options;

		cr_assert_eq(parse(&options, &report_verb, cases[i].words), 0, "%s",
			     cases[i].words);
		cr_expect_eq(options.argument_count, cases[i].new_runs, "%s", cases[i].words);
		cr_expect_eq(options.baselines.count, cases[i].old_runs, "%s", cases[i].words);
		for (int k = 0; k < options.argument_count; k++)
			cr_expect(!strncmp(options.arguments[k], "new", 3), "%s", cases[i].words);
		for (size_t k = 0; k < options.baselines.count; k++)
			cr_expect(!strncmp(options.baselines.items[k], "old", 3), "%s",
				  cases[i].words);
	}
}

Test(options, targets)
{
	struct options options;

	cr_assert_eq(parse(&options, &record_verb, "-p com.example -p 123 -u 10123 -p1x --uid=0"),
		     0);
	cr_assert_eq(options.target_count, 5);
	cr_expect_eq(options.targets[0].kind, TARGET_NAME);
	cr_expect_str_eq(options.targets[0].name, "com.example");
	cr_expect_eq(options.targets[1].kind, TARGET_PID);
	cr_expect_eq(options.targets[1].pid, 123);
	cr_expect_eq(options.targets[2].kind, TARGET_UID);
	cr_expect_eq(options.targets[2].uid, 10123);
	cr_expect_eq(options.targets[3].kind, TARGET_NAME);
	cr_expect_str_eq(options.targets[3].name, "1x");
	cr_expect_eq(options.targets[4].uid, 0);
	options_free(&options);
}

Test(options, what_is_refused, .init = cr_redirect_stderr)
{
	static const char *const bad[] = {
		"-i 0s",
		"-i 10ms",
		"-i 49999us",
		"-i 1",
		"-i",
		"-i -1s",
		"-d 5",
		"-d 0s",
		"-d",
		"--duration",
		"-n 0",
		"-n 1.5",
		"-n x",
		"-n -1",
		"-n 99999999999999999999",
		"--top 0",
		"--cpu fast",
		"--cpu",
		"--cpu=",
		"--variant swi",
		"--max-lost -1",
		"--max-lost 101",
		"--max-lost 0x10",
		"--max-lost 1%",
		"--max-lost nan",
		"--max-lost 1e1",
		"-p 0",
		"-p 4294967296",
		"-u x",
		"-u -1",
		"-u 4294967295",
		"-a -p 1",
		"-u 1 -a",
		"--nosuch",
		"-z",
		"-qz",
		"--quiet=1",
		"foo",
		"-- -q",
		"--btf=",
		"--inter 1s",
		"--intervals 1s",
		"-q=1",
		"---q",
		"--json-schem",
		"--wait 5",
		"-o",
	};
	struct options options;
	char text[16384];
	FILE *err;
	size_t size, lines = 0;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		cr_expect_eq(parse(&options, &record_verb, bad[i]), -EINVAL, "%s", bad[i]);
		options_free(&options);
	}
	fflush(stderr);
	err = cr_get_redirected_stderr();
	size = fread(text, 1, sizeof(text) - 1, err);
	text[size] = 0;
	for (char *p = text, *end; (end = strchr(p, '\n')); p = end + 1, lines++) {
		*end = 0;
		cr_expect_eq(strncmp(p, "jankscope: error: ", 18), 0, "%s", p);
		cr_expect(strstr(p, "; see jankscope record --help"), "%s", p);
	}
	cr_expect_eq(lines, sizeof(bad) / sizeof(*bad), "one line each");
}

Test(options, empty_and_long_names, .init = cr_redirect_stderr)
{
	char name[300], *empty[] = {"record", "-p", ""}, *long_[] = {"record", "-p", name};
	struct options options;

	options_init(&options);
	cr_expect_eq(options_parse(&options, &record_verb, 3, empty), -EINVAL);
	options_free(&options);
	memset(name, 'x', sizeof(name));
	name[256] = 0;
	options_init(&options);
	cr_expect_eq(options_parse(&options, &record_verb, 3, long_), -EINVAL);
	options_free(&options);
	name[255] = 0;
	options_init(&options);
	cr_expect_eq(options_parse(&options, &record_verb, 3, long_), 0);
	options_free(&options);
}

Test(options, flags_of_other_verbs_are_unknown, .init = cr_redirect_stderr)
{
	struct options options;

	cr_expect_eq(parse(&options, &doctor_verb, "-p x"), -EINVAL);
	options_free(&options);
	cr_expect_eq(parse(&options, &doctor_verb, "--json"), 0);
	cr_expect(options.json);
	options_free(&options);
}

static char *printed(void (*print)(FILE *out))
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	print(out);
	fclose(out);
	return text;
}

static struct verb_description every_verb[32];
static size_t verb_count;

/* One made-up verb for each bit that a row of the table names. */
static void make_verbs(void)
{
	static char names[32][8];

	for (unsigned bit = 0; bit < 31; bit++) {
		bool used = false;

		for (size_t r = 0; option_row_at(r, NULL); r++)
			used |= option_row_at(r, NULL)->verbs != ~0u &&
				option_row_at(r, NULL)->verbs & 1u << bit;
		if (!used)
			continue;
		snprintf(names[bit], sizeof(names[bit]), "verb%u", bit);
		every_verb[verb_count++] =
			(struct verb_description){names[bit], 1u << bit, "[X]", "Summary."};
	}
	every_verb[verb_count++] = (struct verb_description){"files", 0, "FILE...", "It's: [x]"};
	every_verb[verb_count++] = (struct verb_description){"words", 0, "red|green", "Words."};
}

static void man(FILE *out)
{
	options_print_man(out, every_verb, verb_count);
}
static void bash(FILE *out)
{
	cr_expect_eq(options_print_completion(out, "bash", every_verb, verb_count), 0);
}
static void zsh(FILE *out)
{
	cr_expect_eq(options_print_completion(out, "zsh", every_verb, verb_count), 0);
}
static void fish(FILE *out)
{
	cr_expect_eq(options_print_completion(out, "fish", every_verb, verb_count), 0);
}

/* The part of text between two marks (the second may be missing), for one verb. */
static char *part(const char *text, const char *from, const char *to)
{
	const char *begin = strstr(text, from), *end;

	cr_assert_not_null(begin, "%s", from);
	begin += strlen(from);
	end = strstr(begin, to);
	return end ? strndup(begin, (size_t)(end - begin)) : strdup(begin);
}

static bool is_part_of_flag(char c)
{
	return c && (isalnum((unsigned char)c) || c == '-' || c == '_');
}

static bool has_word(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (const char *p = text; (p = strstr(p, word)); p++)
		if ((p == text || !is_part_of_flag(p[-1])) && !is_part_of_flag(p[length]))
			return true;
	return false;
}

/* The name of a flag as man(7) needs it: each dash is \-. */
static void man_name(const char *name, char *text, size_t room)
{
	size_t length = (size_t)snprintf(text, room, "\\fB\\-\\-");

	for (; *name; name++)
		length += (size_t)snprintf(text + length, room - length,
					   *name == '-' ? "\\%c" : "%c", *name);
	snprintf(text + length, room - length, "\\fR");
}

Test(options, help_man_and_completions_say_the_same)
{
	char *man_text, *bash_text, *zsh_text, *fish_text;

	make_verbs();
	cr_assert_geq(verb_count, 2);
	man_text = printed(man);
	bash_text = printed(bash);
	zsh_text = printed(zsh);
	fish_text = printed(fish);
	for (size_t v = 0; v < verb_count; v++) {
		const struct verb_description *verb = &every_verb[v];
		char mark[96], *help = NULL, *man_part, *bash_part, *zsh_part;
		size_t size;
		FILE *out = open_memstream(&help, &size);

		options_print_help(out, verb);
		fclose(out);
		snprintf(mark, sizeof(mark), ".SS jankscope %s\n", verb->name);
		man_part = part(man_text, mark, "\n.S");
		snprintf(mark, sizeof(mark), "\t%s,*) words=", verb->name);
		bash_part = part(bash_text, mark, ";;");
		snprintf(mark, sizeof(mark), "\t%s)\n", verb->name);
		zsh_part = part(zsh_text, mark, ";;");
		for (size_t r = 0; option_row_at(r, NULL); r++) {
			bool shown = !option_row_at(r, NULL)->tune &&
				     option_row_at(r, NULL)->verbs & verb->bit;
			char flag[64], man_flag[96], fish_line[128];

			snprintf(flag, sizeof(flag), "--%s", option_row_at(r, NULL)->name);
			man_name(option_row_at(r, NULL)->name, man_flag, sizeof(man_flag));
			snprintf(fish_line, sizeof(fish_line),
				 "'__fish_seen_subcommand_from %s' -l %s ", verb->name,
				 option_row_at(r, NULL)->name);
			cr_expect_eq(has_word(help, flag), shown, "%s: %s in --help", verb->name,
				     flag);
			cr_expect_eq(strstr(man_part, man_flag) != NULL, shown, "%s: %s in man",
				     verb->name, flag);
			cr_expect_eq(has_word(bash_part, flag), shown, "%s: %s in bash", verb->name,
				     flag);
			cr_expect_eq(has_word(zsh_part, flag), shown, "%s: %s in zsh", verb->name,
				     flag);
			cr_expect_eq(strstr(fish_text, fish_line) != NULL, shown, "%s: %s in fish",
				     verb->name, flag);
			if (shown && option_row_at(r, NULL)->letter) {
				char letter[8];

				snprintf(letter, sizeof(letter), "-%c,",
					 option_row_at(r, NULL)->letter);
				cr_expect(strstr(help, letter), "%s in --help", letter);
			}
		}
		for (char *p = help, *end; (end = strchr(p, '\n')); p = end + 1)
			cr_expect_leq(end - p, 80, "%.*s", (int)(end - p), p);
		free(help);
		free(man_part);
		free(bash_part);
		free(zsh_part);
	}
	cr_expect_eq(options_print_completion(stderr, "tcsh", every_verb, verb_count), -EINVAL);
	free(man_text);
	free(bash_text);
	free(zsh_text);
	free(fish_text);
}

/* No two rows of a verb share a name or a letter, and every shown row has words for it. */
Test(options, table_is_sound)
{
	for (size_t i = 0; option_row_at(i, NULL); i++) {
		cr_expect(option_row_at(i, NULL)->tune || strlen(option_row_at(i, NULL)->help) > 5,
			  "--%s", option_row_at(i, NULL)->name);
		cr_expect_eq(option_row_at(i, NULL)->kind == OPTION_CHOICE,
			     option_row_at(i, NULL)->choices != NULL, "--%s",
			     option_row_at(i, NULL)->name);
		cr_expect(option_row_at(i, NULL)->kind == OPTION_FLAG ||
				  option_row_at(i, NULL)->tune || option_row_at(i, NULL)->metavar,
			  "--%s has no name for its value", option_row_at(i, NULL)->name);
		/* help and choices go through a buffer of 256 bytes */
		cr_expect_lt(strlen(option_row_at(i, NULL)->help) +
				     (option_row_at(i, NULL)->choices
					      ? strlen(option_row_at(i, NULL)->choices)
					      : 0),
			     250);
		for (size_t j = 0; j < i; j++) {
			if (!(option_row_at(i, NULL)->verbs & option_row_at(j, NULL)->verbs))
				continue;
			cr_expect_str_neq(option_row_at(i, NULL)->name,
					  option_row_at(j, NULL)->name);
			cr_expect(!option_row_at(i, NULL)->letter ||
					  option_row_at(i, NULL)->letter !=
						  option_row_at(j, NULL)->letter,
				  "-%c", option_row_at(i, NULL)->letter);
		}
	}
}

/* Rows that are no flags are reached by --tune, and by nothing else. */
Test(options, tuning, .init = cr_redirect_stderr)
{
	static const char *const bad[] = {
		"--hash",  "--task-slots 4",      "--tune task-slots",   "--tune hash=1",
		"--tune",  "--tune no-such",      "--tune task-slots=x", "--tune task-slots=0",
		"--tune=", "--tune death-ring=7",
	};
	const struct option_row *row;
	struct options options;
	size_t seen = 0;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		cr_expect_eq(parse(&options, &record_verb, bad[i]), -EINVAL, "%s", bad[i]);
		options_free(&options);
	}
	cr_assert_eq(parse(&options, &record_verb,
			   "--tune hash --tune=task-slots=64 --tune death-ring=8K "
			   "--tune restarts=3"),
		     0);
	for (size_t i = 0; (row = option_row_at(i, NULL)); i++) {
		int source;

		option_row_at(i, &source);
		if (!row->tune)
			continue;
		if (source < 0)
			continue; /* of the tool itself: a segment's size */
		if (!strcmp(row->name, "task-slots") || !strcmp(row->name, "death-ring"))
			seen += *(uint64_t *)(options.flags[source].bytes + row->offset);
		else if (!strcmp(row->name, "hash"))
			seen += *(bool *)(options.flags[source].bytes + row->offset);
	}
	cr_expect_eq(seen, 1 + 64 + 8192);
	cr_expect_eq(options.restarts, 3);
	options_free(&options);
}

/* Every choice of the table is taken, and lands on its index. */
Test(options, choices)
{
	for (size_t r = 0; option_row_at(r, NULL); r++) {
		char words[256], *save, *word;
		int index = 0;

		if (option_row_at(r, NULL)->kind != OPTION_CHOICE)
			continue;
		snprintf(words, sizeof(words), "%s", option_row_at(r, NULL)->choices);
		for (word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
			struct verb_description verb = {
				"x", option_row_at(r, NULL)->verbs & -option_row_at(r, NULL)->verbs,
				"...", ""};
			struct options options;
			char flag[128], *base;
			int source;

			option_row_at(r, &source);
			snprintf(flag, sizeof(flag), "--%s %s", option_row_at(r, NULL)->name, word);
			cr_expect_eq(parse(&options, &verb, flag), 0, "%s", flag);
			base = source < 0 ? (char *)&options : options.flags[source].bytes;
			cr_expect_eq(*(int *)(base + option_row_at(r, NULL)->offset), index++, "%s",
				     flag);
			options_free(&options);
		}
	}
}

/* ---- the man page ---- */

/* Take the escapes of man(7) out of a line. */
static void unescape(const char *line, size_t length, char *text)
{
	for (size_t i = 0; i < length; i++) {
		if (line[i] != '\\')
			*text++ = line[i];
		else if (line[i + 1] == 'f')
			i += 2;
		else if (line[++i] != '&')
			*text++ = line[i] == 'e' ? '\\' : line[i];
	}
	*text = 0;
}

Test(options, man_has_its_sections_in_order)
{
	static const char *const sections[] = {"NAME",     "SYNOPSIS", "DESCRIPTION", "COMMANDS",
					       "EXAMPLES", "FILES",    "EXIT STATUS", "SIGNALS",
					       "TUNING",   "RECORDS"};
	static const char *const codes[] = {"0", "1", "2", "3", "4", "5", "130"};
	char *text, *exits, mark[32];
	const char *at;

	make_verbs();
	text = printed(man);
	at = text;
	for (size_t i = 0; i < sizeof(sections) / sizeof(*sections); i++) {
		snprintf(mark, sizeof(mark), "\n.SH %s\n", sections[i]);
		at = strstr(at, mark);
		cr_assert_not_null(at, "%s", sections[i]);
		at += strlen(mark);
		cr_expect_neq(strncmp(at, ".SH", 3), 0, "%s is empty", sections[i]);
	}
	exits = part(text, "\n.SH EXIT STATUS\n", "\n.SH ");
	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
		snprintf(mark, sizeof(mark), "\\fB%s\\fR\n", codes[i]);
		cr_expect(strstr(exits, mark), "exit code %s", codes[i]);
	}
	/* A line that begins with a dot is a request: only those that are meant. */
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
		if (*line == '.' || *line == '\'')
			cr_expect(!strncmp(line, ".TH ", 4) || !strncmp(line, ".SH ", 4) ||
					  !strncmp(line, ".SS ", 4) || !strncmp(line, ".TP\n", 4) ||
					  !strncmp(line, ".PP\n", 4) || !strncmp(line, ".B ", 3) ||
					  !strncmp(line, ".br\n", 4),
				  "%.40s", line);
	free(exits);
	free(text);
}

/* An example that this version does not understand is none. */
Test(options, examples_of_the_man_page_parse)
{
	static const struct {
		const char *name;
		unsigned bit;
	} known[] = {{"doctor", VERB_DOCTOR},
		     {"record", VERB_RECORD},
		     {"top", VERB_TOP},
		     {"frames", VERB_FRAMES},
		     {"report", VERB_REPORT}};
	char *text, *examples;
	unsigned seen = 0;

	make_verbs();
	text = printed(man);
	examples = part(text, "\n.SH EXAMPLES\n", "\n.SH ");
	for (const char *p = examples; (p = strstr(p, "\\fBjankscope ")); p++) {
		struct verb_description verb = {"", 0, "...", ""};
		struct options options;
		char line[256], *words, *name;

		cr_assert_lt(strcspn(p, "\n"), sizeof(line));
		unescape(p, strcspn(p, "\n"), line);
		name = line + strlen("jankscope ");
		words = name + strcspn(name, " ");
		if (*words)
			*words++ = 0;
		for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
			if (!strcmp(known[i].name, name))
				verb = (struct verb_description){name, known[i].bit, "...", ""};
		cr_assert(verb.bit, "%s", name);
		cr_expect_eq(parse(&options, &verb, words), 0, "%s %s", name, words);
		options_free(&options);
		seen |= verb.bit;
	}
	cr_expect_eq(seen, VERB_DOCTOR | VERB_RECORD | VERB_TOP | VERB_FRAMES | VERB_REPORT);
	free(examples);
	free(text);
}

/* ---- the completions ---- */

static char script[] = "/tmp/jankscope-completion-XXXXXX";

/* Run the function of the bash script as readline does; compopt tells that names of files follow.
 */
static void complete(const char *words, char *answer, size_t room)
{
	char command[1024];
	size_t size;
	FILE *bash_run;

	snprintf(command, sizeof(command),
		 "bash -c 'source %s; compopt() { echo -n \"<$2>\"; }; COMP_WORDS=(jankscope "
		 "\"$@\"); "
		 "COMP_CWORD=$#; _jankscope; echo -n \"${COMPREPLY[*]}\"' x %s",
		 script, words);
	bash_run = popen(command, "r");
	cr_assert_not_null(bash_run);
	size = fread(answer, 1, room - 1, bash_run);
	answer[size] = 0;
	cr_expect_eq(pclose(bash_run), 0, "%s", words);
}

Test(options, bash_completes_values)
{
	char words[128], answer[4096];
	FILE *out;
	int fd;

	make_verbs();
	fd = mkstemp(script);
	cr_assert_geq(fd, 0);
	out = fdopen(fd, "w");
	bash(out);
	fclose(out);
	for (size_t r = 0; option_row_at(r, NULL); r++) {
		const struct option_row *row = option_row_at(r, NULL);
		const struct verb_description *verb = every_verb;

		while (verb->bit && !(row->verbs & verb->bit))
			verb++;
		if (row->tune || row->kind == OPTION_FLAG)
			continue;
		for (int spelling = 0; spelling < 3; spelling++) {
			static const char *const forms[] = {"%s --%s \"\"",
							    "%s --%s =", "%s --%s = \"\""};

			snprintf(words, sizeof(words), forms[spelling], verb->name, row->name);
			complete(words, answer, sizeof(answer));
			if (row->file && row->words)
				cr_expect(!strncmp(answer, "<default>", 9) &&
						  !strcmp(answer + 9, row->words),
					  "%s: %s", words, answer);
			else
				cr_expect_str_eq(answer,
						 row->choices ? row->choices
						 : row->file  ? "<default>"
						 : row->words ? row->words
							      : "",
						 "%s", words);
		}
	}
	complete("\"\"", answer, sizeof(answer));
	for (size_t v = 0; v < verb_count; v++)
		cr_expect(has_word(answer, every_verb[v].name), "%s", every_verb[v].name);
	complete("words \"\"", answer, sizeof(answer));
	cr_expect_str_eq(answer, "red green");
	complete("words g", answer, sizeof(answer));
	cr_expect_str_eq(answer, "green");
	complete("files \"\"", answer, sizeof(answer));
	cr_expect_str_eq(answer, "<default>");
	unlink(script);
}

Test(options, zsh_and_fish_complete_values)
{
	char *zsh_text, *fish_text;
	char *rest, value[512];

	make_verbs();
	zsh_text = printed(zsh);
	fish_text = printed(fish);
	for (size_t r = 0; option_row_at(r, NULL); r++) {
		const struct option_row *row = option_row_at(r, NULL);

		if (row->tune || row->kind == OPTION_FLAG)
			continue;
		if (row->choices) {
			snprintf(value, sizeof(value), "]:%s:(%s)'", row->metavar, row->choices);
			cr_expect(strstr(zsh_text, value), "%s", value);
			snprintf(value, sizeof(value), " -l %s -x -a '%s' -d '", row->name,
				 row->choices);
			cr_expect(strstr(fish_text, value), "%s", value);
		} else if (row->file) {
			snprintf(value, sizeof(value), "--%s%s", row->name,
				 row->letter ? "=}'[" : "='[");
			cr_assert(strstr(zsh_text, value), "%s", value);
			rest = part(zsh_text, value, "\n");
			cr_expect(strstr(rest, "_files"), "%s", value);
			free(rest);
			snprintf(value, sizeof(value), " -l %s ", row->name);
			rest = part(fish_text, value, "\n");
			cr_expect(strstr(rest, "-r -F"), "%s", value);
			free(rest);
		}
	}
	cr_expect(strstr(zsh_text, "#compdef jankscope\n") == zsh_text);
	cr_expect(strstr(zsh_text, "'files:It'\\''s\\: \\[x\\]'\n"));
	cr_expect(strstr(zsh_text, "'*:file:_files'"));
	cr_expect(strstr(zsh_text, "'1:word:(red green)'"));
	cr_expect(strstr(fish_text, "-a files -d 'It\\'s: [x]'\n"));
	cr_expect(strstr(fish_text, "'__fish_seen_subcommand_from files' -F\n"));
	cr_expect(strstr(fish_text, "'__fish_seen_subcommand_from words' -a 'red green'\n"));
	/* Each flag has words of its own in fish. */
	for (const char *line = fish_text; *line; line += strcspn(line, "\n") + 1)
		if (!strncmp(line, "complete -c jankscope -n '__fish_seen", 37) &&
		    memmem(line, strcspn(line, "\n"), " -l ", 4))
			cr_expect(memmem(line, strcspn(line, "\n"), " -d '", 5), "%.80s", line);
	free(zsh_text);
	free(fish_text);
}

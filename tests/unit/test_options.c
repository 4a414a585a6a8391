/* SPDX-License-Identifier: BSD-2-Clause */
/* Includes the source, to see the very table that parsing, help, man page and completions share. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>

#include "core/options.c"

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
	cr_expect_eq(options.cpu_mode, CPU_MODE_ITER);
	cr_expect_eq(options.variant, VARIANT_RAW_TP);
	cr_expect_eq(options.max_lost_pct, 2.5);
	cr_expect_eq(options.wait_ns, 0);
	cr_expect_eq(options.net_mode, NET_OFF);
	options_free(&options);
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

		for (size_t r = 0; r < ROW_COUNT; r++)
			used |= rows[r].verbs != ~0u && rows[r].verbs & 1u << bit;
		if (!used)
			continue;
		snprintf(names[bit], sizeof(names[bit]), "verb%u", bit);
		every_verb[verb_count++] =
			(struct verb_description){names[bit], 1u << bit, "[X]", "Summary."};
	}
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

static bool has_word(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (const char *p = text; (p = strstr(p, word)); p++)
		if ((p == text || strchr(" '\n", p[-1])) && strchr(" '\n=", p[length]))
			return true;
	return false;
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
		snprintf(mark, sizeof(mark), ".SH %s\n", verb->name);
		man_part = part(man_text, mark, ".SH ");
		snprintf(mark, sizeof(mark), "\t%s) ", verb->name);
		bash_part = part(bash_text, mark, ";;");
		zsh_part = part(zsh_text, mark, ";;");
		for (size_t r = 0; r < ROW_COUNT; r++) {
			bool shown = !rows[r].hidden && rows[r].verbs & verb->bit;
			char flag[64], man_flag[96], fish_line[128];

			snprintf(flag, sizeof(flag), "--%s", rows[r].name);
			snprintf(man_flag, sizeof(man_flag), "\\fB\\-\\-%s\\fR", rows[r].name);
			snprintf(fish_line, sizeof(fish_line),
				 "'__fish_seen_subcommand_from %s' -l %s\n", verb->name,
				 rows[r].name);
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
			if (shown && rows[r].letter) {
				char letter[8];

				snprintf(letter, sizeof(letter), "-%c,", rows[r].letter);
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
	for (size_t i = 0; i < ROW_COUNT; i++) {
		cr_expect(rows[i].hidden || strlen(rows[i].help) > 5, "--%s", rows[i].name);
		cr_expect_eq(rows[i].kind == OPTION_CHOICE, rows[i].choices != NULL, "--%s",
			     rows[i].name);
		cr_expect(rows[i].kind == OPTION_FLAG || rows[i].hidden || rows[i].metavar,
			  "--%s has no name for its value", rows[i].name);
		/* help and choices go through a buffer of 256 bytes */
		cr_expect_lt(strlen(rows[i].help) + (rows[i].choices ? strlen(rows[i].choices) : 0),
			     250);
		for (size_t j = 0; j < i; j++) {
			if (!(rows[i].verbs & rows[j].verbs))
				continue;
			cr_expect_str_neq(rows[i].name, rows[j].name);
			cr_expect(!rows[i].letter || rows[i].letter != rows[j].letter, "-%c",
				  rows[i].letter);
		}
	}
}

/* Every choice of the table is taken, and lands on its index. */
Test(options, choices)
{
	for (size_t r = 0; r < ROW_COUNT; r++) {
		char words[256], *save, *word;
		int index = 0;

		if (rows[r].kind != OPTION_CHOICE)
			continue;
		snprintf(words, sizeof(words), "%s", rows[r].choices);
		for (word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
			struct verb_description verb = {"x", rows[r].verbs & -rows[r].verbs, "...",
							""};
			struct options options;
			char flag[128];

			snprintf(flag, sizeof(flag), "--%s %s", rows[r].name, word);
			cr_expect_eq(parse(&options, &verb, flag), 0, "%s", flag);
			cr_expect_eq(*(int *)((char *)&options + rows[r].offset), index++, "%s",
				     flag);
			options_free(&options);
		}
	}
}

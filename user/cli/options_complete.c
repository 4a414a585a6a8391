/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion scripts, from the table of flags. */
#include <errno.h>

#include "cli/options_private.h"

/* The values of a flag that are known beforehand, or NULL. */
static const char *known_values(const struct option_row *row)
{
	return row->choices ? row->choices : row->words;
}

/* The words that a verb takes as its argument: "bash|zsh|fish" is written so. */
static bool takes_words(const struct verb_description *verb)
{
	return strchr(verb->arguments, '|') && !strpbrk(verb->arguments, "[ ");
}

static void put_words(FILE *out, const char *words, char separator)
{
	for (; *words; words++)
		fputc(*words == separator ? ' ' : *words, out);
}

/* ---- bash ---- */

static void bash_values(FILE *out, const struct verb_description *verb)
{
	const struct option_row *row;

	for (size_t i = 0; (row = option_row_at(i, NULL)); i++) {
		if (!option_is_shown(row, verb) || row->kind == OPTION_FLAG)
			continue;
		fputc('\t', out);
		if (row->letter)
			fprintf(out, "%s,-%c|", verb->name, row->letter);
		fprintf(out, "%s,--%s)", verb->name, row->name);
		if (known_values(row))
			fprintf(out, " words='%s'", known_values(row));
		if (row->file)
			fputs(known_values(row) ? "; files=y" : " files=y", out);
		fputs(" ;;\n", out);
	}
}

static void bash_words(FILE *out, const struct verb_description *verb)
{
	const struct option_row *row;

	fprintf(out, "\t%s,*) words='", verb->name);
	if (takes_words(verb))
		put_words(out, verb->arguments, '|');
	for (size_t i = 0; (row = option_row_at(i, NULL)); i++) {
		if (!option_is_shown(row, verb))
			continue;
		fprintf(out, "--%s ", row->name);
		if (row->letter)
			fprintf(out, "-%c ", row->letter);
	}
	fprintf(out, "'%s ;;\n", verb_takes_files(verb) ? " arguments=y" : "");
}

/* readline gives "--flag=value" as three words, and completes names of files itself where it is
 * given none. */
static void print_bash(FILE *out, const struct verb_description *verbs, size_t count)
{
	fputs("_jankscope() {\n"
	      "\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
	      "\tlocal words= files= arguments=\n"
	      "\tCOMPREPLY=()\n"
	      "\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n"
	      "\t\tCOMPREPLY=($(compgen -W '",
	      out);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%s ", verbs[i].name);
	fputs("--help --version' -- \"$word\"))\n"
	      "\t\treturn\n"
	      "\tfi\n"
	      "\tif [ \"$word\" = = ]; then\n"
	      "\t\tword=\n"
	      "\telif [ \"$before\" = = ]; then\n"
	      "\t\tbefore=${COMP_WORDS[COMP_CWORD-2]}\n"
	      "\tfi\n"
	      "\tcase ${COMP_WORDS[1]},$before in\n",
	      out);
	for (size_t i = 0; i < count; i++)
		bash_values(out, &verbs[i]);
	for (size_t i = 0; i < count; i++)
		bash_words(out, &verbs[i]);
	fputs("\tesac\n"
	      "\tif [ -n \"$arguments\" ] && [ \"${word:0:1}\" != - ]; then\n"
	      "\t\twords= files=y\n"
	      "\tfi\n"
	      "\tCOMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
	      "\tif [ -n \"$files\" ]; then\n"
	      "\t\tcompopt -o default\n"
	      "\tfi\n"
	      "}\n"
	      "complete -F _jankscope jankscope\n",
	      out);
}

/* ---- zsh ---- */

/* Text within '...[here]...': quotes, brackets, colons and backslashes mean something there. */
static void put_zsh(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", out);
		else if (strchr("[]:\\", *text))
			fprintf(out, "\\%c", *text);
		else
			fputc(*text, out);
	}
}

static void zsh_action(FILE *out, const struct option_row *row)
{
	fputc(':', out);
	put_zsh(out, row->metavar ? row->metavar : row->name);
	if (known_values(row) && row->file)
		fprintf(out, ":{compadd -- %s; _files}", known_values(row));
	else if (known_values(row))
		fprintf(out, ":(%s)", known_values(row));
	else
		fputs(row->file ? ":_files" : ": ", out);
}

/* '*': the flag may be given again; else the names in brackets are not offered after it. -p+ takes
 * its value glued or as the next word, --target= glued by '=' or as the next word. */
static void zsh_flag(FILE *out, const struct option_row *row)
{
	bool value = row->kind != OPTION_FLAG;

	fputs(" \\\n\t\t", out);
	if (row->kind == OPTION_TARGET || row->kind == OPTION_UID)
		fputs("'*'", out);
	else if (row->letter)
		fprintf(out, "'(-%c --%s)'", row->letter, row->name);
	if (row->letter)
		fprintf(out, "{-%c%s,--%s%s}", row->letter, value ? "+" : "", row->name,
			value ? "=" : "");
	else
		fprintf(out, "--%s%s", row->name, value ? "=" : "");
	fputs("'[", out);
	put_zsh(out, row->help);
	fputc(']', out);
	if (value)
		zsh_action(out, row);
	fputc('\'', out);
}

static void print_zsh(FILE *out, const struct verb_description *verbs, size_t count)
{
	const struct option_row *row;

	fputs("#compdef jankscope\n"
	      "_jankscope() {\n"
	      "\tlocal -a verbs\n"
	      "\tverbs=(\n",
	      out);
	for (size_t i = 0; i < count; i++) {
		fprintf(out, "\t\t'%s:", verbs[i].name);
		put_zsh(out, verbs[i].summary);
		fputs("'\n", out);
	}
	fputs("\t)\n"
	      "\tif (( CURRENT == 2 )); then\n"
	      "\t\t_describe -t verbs verb verbs\n"
	      "\t\treturn\n"
	      "\tfi\n"
	      "\tshift words\n"
	      "\t(( CURRENT-- ))\n"
	      "\tcase ${words[1]} in\n",
	      out);
	for (size_t i = 0; i < count; i++) {
		fprintf(out, "\t%s)\n\t\t_arguments -s -S", verbs[i].name);
		for (size_t r = 0; (row = option_row_at(r, NULL)); r++)
			if (option_is_shown(row, &verbs[i]))
				zsh_flag(out, row);
		if (verb_takes_files(&verbs[i]))
			fputs(" \\\n\t\t'*:file:_files'", out);
		if (takes_words(&verbs[i])) {
			fputs(" \\\n\t\t'1:word:(", out);
			put_words(out, verbs[i].arguments, '|');
			fputs(")'", out);
		}
		fputs(" ;;\n", out);
	}
	/* zsh calls the function of an autoloaded file itself; one that is sourced only names it.
	 */
	fputs("\tesac\n"
	      "}\n"
	      "if [ \"$funcstack[1]\" = _jankscope ]; then\n"
	      "\t_jankscope \"$@\"\n"
	      "else\n"
	      "\tcompdef _jankscope jankscope\n"
	      "fi\n",
	      out);
}

/* ---- fish ---- */

/* Within single quotes fish knows \' and \\. */
static void put_fish(FILE *out, const char *text)
{
	fputc('\'', out);
	for (; *text; text++) {
		if (*text == '\'' || *text == '\\')
			fputc('\\', out);
		fputc(*text, out);
	}
	fputc('\'', out);
}

static void fish_flag(FILE *out, const struct verb_description *verb, const struct option_row *row)
{
	fprintf(out, "complete -c jankscope -n '__fish_seen_subcommand_from %s' -l %s", verb->name,
		row->name);
	if (row->letter)
		fprintf(out, " -s %c", row->letter);
	/* -r: it takes a value; -x: one that no file is; -F: names of files after all */
	if (row->kind != OPTION_FLAG)
		fputs(row->file ? " -r -F" : " -x", out);
	if (known_values(row))
		fprintf(out, " -a '%s'", known_values(row));
	fputs(" -d ", out);
	put_fish(out, row->help);
	fputc('\n', out);
}

static void print_fish(FILE *out, const struct verb_description *verbs, size_t count)
{
	const struct option_row *row;

	fputs("complete -c jankscope -f\n", out);
	for (size_t i = 0; i < count; i++) {
		fprintf(out, "complete -c jankscope -n __fish_use_subcommand -a %s -d ",
			verbs[i].name);
		put_fish(out, verbs[i].summary);
		fputc('\n', out);
		for (size_t r = 0; (row = option_row_at(r, NULL)); r++)
			if (option_is_shown(row, &verbs[i]))
				fish_flag(out, &verbs[i], row);
		if (verb_takes_files(&verbs[i]))
			fprintf(out,
				"complete -c jankscope -n '__fish_seen_subcommand_from %s' -F\n",
				verbs[i].name);
		if (takes_words(&verbs[i])) {
			fprintf(out,
				"complete -c jankscope -n '__fish_seen_subcommand_from %s' -a '",
				verbs[i].name);
			put_words(out, verbs[i].arguments, '|');
			fputs("'\n", out);
		}
	}
}

int options_print_completion(FILE *out, const char *shell, const struct verb_description *verbs,
			     size_t count)
{
	if (!strcmp(shell, "bash"))
		print_bash(out, verbs, count);
	else if (!strcmp(shell, "zsh"))
		print_zsh(out, verbs, count);
	else if (!strcmp(shell, "fish"))
		print_fish(out, verbs, count);
	else
		return -EINVAL;
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "cli/options_private.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/keeper.h"
#include "util/units.h"

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
	/* Where no argument stands before the flag, those behind it are the arguments. */
	while (!why && row->and_more && options->argument_count && value == argv[*index] &&
	       *index + 1 < argc && argv[*index + 1][0] != '-') {
		value = argv[++*index];
		why = take_value(options, row, source, value);
	}
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

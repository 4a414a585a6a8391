/* SPDX-License-Identifier: BSD-2-Clause */
/* One row a flag: parsing, --help, the man page and the completions come from it. The flags of the
 * tool stand in cli/options.c, those of a source in its folder. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum verb_bit {
	VERB_DOCTOR = 1,
	VERB_RECORD = 2,
	VERB_FRAMES = 4,
	VERB_REPORT = 8,
	VERB_VERIFY = 16,
	VERB_STATUS = 64,
	VERB_STOP = 128,
	VERB_MARK = 256,
	VERB_TOP = 512,
	VERB_LIVE = VERB_RECORD | VERB_TOP, /* both sample */
};

#define OPTION_TEXTS_MAX 64

struct option_texts {
	const char *items[OPTION_TEXTS_MAX];
	size_t count;
};

/* The type of the member that takes the value. */
enum option_kind {
	OPTION_FLAG,     /* bool */
	OPTION_DURATION, /* uint64_t, ns */
	OPTION_NUMBER,   /* uint64_t */
	OPTION_PERCENT,  /* double */
	OPTION_SIZE,     /* uint64_t, bytes */
	OPTION_TEXT,     /* const char * */
	OPTION_TEXTS,    /* struct option_texts: a text each time */
	OPTION_CHOICE,   /* int: the index of the word */
	OPTION_TARGET,   /* -p: a name or a pid */
	OPTION_UID,
	OPTION_TUNE, /* --tune NAME[=VALUE]: the row of that name among those with `tune` */
};

struct option_row {
	char letter; /* 0: none */
	const char *name, *metavar, *help;
	unsigned verbs; /* enum verb_bit */
	enum option_kind kind;
	size_t offset;       /* in struct options, or in the flags of the source */
	const char *choices; /* space separated; the index is the value */
	uint64_t min;
	bool tune;         /* no flag of its own: a size or a fall-back that tests force */
	const char *words; /* OPTION_TEXT: space separated values that are not names of files;
			    * OPTION_DURATION: the word for 0 */
	bool file;         /* OPTION_TEXT: a name of a file */
	/* OPTION_TEXTS: behind arguments the words that follow the value are values, too. */
	bool and_more;
};

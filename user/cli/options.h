/* SPDX-License-Identifier: BSD-2-Clause */
/* Every flag has one row (jankscope/option.h): those of the tool in options.c, those of a source
 * in its declaration. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/watchdog.h"
#include "jankscope/source.h"
#include "jankscope/target.h"

struct options {
	struct target_spec *targets;
	size_t target_count;
	bool all;
	uint64_t interval_ns, duration_ns, wait_ns; /* duration 0: until a signal */
	uint64_t count;                             /* intervals; 0: no limit */
	const char *output;                         /* -o */
	/* of report */
	const char *folded, *mapping, *csv, *openmetrics, *perfetto, *pprof, *speedscope, *junit,
		*html, *since, *until, *scene;
	bool hourly, by_activity;
	struct option_texts fail_if, baselines;
	uint64_t max_disk_bytes, retain_ns, segment_bytes; /* of -o DIR; 0: not given */
	const char *keep;                                  /* of -o DIR; NULL: not given */
	bool redact;                                       /* of record */
	const char *redact_key;                            /* NULL: it is forgotten */
	bool repair, deep;                                 /* of verify */
	bool daemon;                                       /* of record */
	uint64_t restarts, hang_ns;
	bool pid;                      /* of status */
	bool end;                      /* of mark */
	struct watchdog_limits limits; /* of what the recorder itself may cost */
	bool native;
	struct option_texts alerts;
	const char *on_alert;
	const char *metrics; /* of record: an endpoint's address; NULL: none */
	bool overwrite, json, json_schema, quiet, verbose, legend;
	int colour; /* enum terminal_colour */
	double max_lost_pct;
	uint64_t block_ns;
	int variant; /* enum program_variant */
	const char *btf_path;
	uint64_t top;                /* UINT64_MAX: not given */
	const char *layer, *package; /* frames: a glob, a name */
	bool rows;
	bool why;
	bool help;
	/* of each source of source/declarations.h */
	union source_flags {
		uint64_t alignment;
		char bytes[SOURCE_FLAGS_BYTES];
	} flags[MAX_SOURCES];
	char **arguments; /* what is no flag */
	int argument_count;
};

struct verb_description {
	const char *name;
	unsigned bit;
	const char *arguments; /* "[TARGET]" */
	const char *summary;
};

void options_init(struct options *options);
void options_free(struct options *options);
/* Parse argv[1..] for a verb. 0, or -EINVAL after one line on stderr that says what is wrong, where
 * and what to do. */
int options_parse(struct options *options, const struct verb_description *verb, int argc,
		  char **argv);
/* The flags of a verb as --help shows them, at most 80 columns. */
void options_print_help(FILE *out, const struct verb_description *verb);
/* man(7) source of the whole tool. */
void options_print_man(FILE *out, const struct verb_description *verbs, size_t count);
/* A completion script for "bash", "zsh" or "fish". -EINVAL for another shell. */
int options_print_completion(FILE *out, const char *shell, const struct verb_description *verbs,
			     size_t count);

/* SPDX-License-Identifier: BSD-2-Clause */
/* Every flag has one row in one table: parsing, --help, the man page and the completions come from
 * it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "jankscope/target.h"
#include "kernel/sched_kernel.h"

enum verb_bit {
	VERB_DOCTOR = 1,
	VERB_RECORD = 2,
	VERB_FRAMES = 4,
	VERB_REPORT = 8,
};

struct options {
	struct target_spec *targets;
	size_t target_count;
	bool all;
	uint64_t interval_ns, duration_ns, wait_ns; /* duration 0: until a signal */
	uint64_t count;                             /* intervals; 0: no limit */
	const char *output;                         /* -o */
	const char *folded;                         /* of report */
	bool overwrite, json, json_schema, quiet, verbose, legend;
	int colour; /* enum terminal_colour */
	double max_lost_pct;
	uint64_t block_ns;
	int stack;            /* enum blocks_stack */
	const char *thread;   /* NULL: main threads */
	uint64_t max_watched; /* 0: by the number of targets */
	int detector;         /* enum looper_detector; 0: the best */
	int cpu_mode;         /* enum cpu_mode */
	int variant;          /* enum program_variant */
	int net_mode;         /* enum net_mode_option */
	int net_length;
	uint64_t net_flows;
	const char *btf_path;
	uint64_t top; /* UINT64_MAX: not given */
	uint64_t test_task_slots, test_death_ring_bytes, test_overflow_uids;
	const char *layer, *package; /* frames: a glob, a name */
	bool rows;
	const char *frames; /* record: live, perfetto, off or a file; NULL: off */
	bool frames_force;
	bool test_one_by_one;
	bool test_hash;
	bool help;
	char **arguments; /* what is no flag */
	int argument_count;
};

/* --net, in the order of its choices. */
enum net_mode_option { NET_AUTO = 0, NET_HOOKS = 1, NET_NETD = 2, NET_OFF = 3 };

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

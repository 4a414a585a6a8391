/* SPDX-License-Identifier: BSD-2-Clause */
/* Judges what the recorder itself costs. Where it costs more than it may for a while, something is
 * left out, one step at a time, what is missed least first (enum thin_step of source.h); where it
 * costs less for six times as long, the last step is taken back. Perfetto's daemons judge
 * themselves so (src/base/watchdog_posix.cc), and are killed; this one thins first. No clock, no
 * I/O. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "jankscope/record.h"

struct watchdog_limits {
	double cpu_pct;        /* of one CPU, of all processes of the run; 0: any */
	uint64_t memory_bytes; /* of all of them and their BPF objects; 0: any */
	uint64_t late_ns;      /* of an interval; 0: any */
	uint64_t window_ns;    /* how long one of them may be passed */
};

#define WATCHDOG_LIMITS                                                           \
	{                                                                         \
		.cpu_pct = 60, .memory_bytes = 256u << 20, .late_ns = 2000000000, \
		.window_ns = 60000000000                                          \
	}

/* Six windows below the limits, and by a fifth, so that a step does not come and go. */
#define WATCHDOG_CALM_WINDOWS 6

struct watchdog {
	struct watchdog_limits limits;
	unsigned steps; /* taken now, enum thin_step in bits */
	uint64_t over_ns, calm_ns;
	char reason[160]; /* which limit was passed last, and by what */
};

struct watchdog_look {
	uint64_t dur_ns, cpu_ns, late_ns;
	struct opt_u64 memory_bytes;
};

enum watchdog_verdict {
	WATCHDOG_FINE = 0,
	WATCHDOG_THIN = 1,    /* a step more, in `steps` */
	WATCHDOG_BACK = 2,    /* one less */
	WATCHDOG_GIVE_UP = 3, /* nothing is left to leave out */
};

void watchdog_init(struct watchdog *watchdog, const struct watchdog_limits *limits);
/* Judge one interval. *step: the step that is taken or taken back. */
enum watchdog_verdict watchdog_look(struct watchdog *watchdog, const struct watchdog_look *look,
				    unsigned *step);
/* "tasks", "stacks", "intervals". */
const char *watchdog_step_name(unsigned step);

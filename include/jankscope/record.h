/* SPDX-License-Identifier: BSD-2-Clause */
/* The currency of the house: what sources produce and sinks consume. Keys and units of the
 * JSON records are in record.schema.json: one struct per record type, the unit in the name, times
 * in integer nanoseconds. A value that could not be read is absent, never 0; why is said in the
 * record's `missing` list. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "jankscope/record_values.h"
#include "jankscope/record_context.h"

#define RECORD_SCHEMA   1
#define RECORD_COMM_LEN 16 /* TASK_COMM_LEN of the kernel */

/* ---- header ---- */
struct record_header {
	char session[37], boot_id[37]; /* UUIDs as text */
	const char *kernel, *arch, *device;
	struct header_android {
		const char *fingerprint, *release, *build_type; /* NULL: unknown, or no Android */
		struct opt_u64 api;
	} android;
	const char *selinux; /* the recorder's context; NULL: none */
	struct opt_u64 page_bytes;
	struct {
		uint64_t boot_ns, mono_ns, unix_ns;
	} clock;
	uint64_t interval_ns, block_ns;
	struct header_target {
		const char *package; /* NULL for a bare pid or uid */
		struct opt_u64 uid, pid;
	} * targets;
	size_t target_count;
	struct header_source {
		const char *name, *state; /* state: ok, degraded, absent */
		const char *variant;      /* which of the twins runs, or NULL */
		const char *reason;       /* why not ok, or NULL */
	} * sources;
	size_t source_count;
	/* of a recording of the whole device: what it was expected to take when it began */
	struct header_estimate {
		uint64_t bytes_per_day; /* 0: nothing is estimated */
		uint64_t processes, threads, active_threads;
	} estimate;
	/* of a recording in a folder: which segment begins here, and with which seq it goes on */
	struct header_segment {
		uint64_t number; /* from 1; 0: it is a file */
		uint64_t first_seq;
		uint64_t resolution_ns; /* intervals were merged to this length; 0: none was */
	} segment;
};

/* ---- interval ---- */
#include "jankscope/record_cpu.h"
#include "jankscope/record_net.h"
#include "jankscope/record_power.h"
#include "jankscope/record_memory.h"
#include "jankscope/record_disk.h"

struct record_layer {
	pid_t pid;
	const char *package, *layer;
	struct opt_u64 period_ns;
	uint64_t shown, dropped, janky;
	double fps_active;
	struct {
		uint64_t app, sf, hw, stuffing, dropped, unknown;
	} jank;
	const struct histogram *interval_hist; /* of present-to-present times in ns; NULL: none */
	/* When the first of shown was on the screen, on the trace's clock. */
	struct opt_u64 first_shown_boot_ns;
	/* Frames that FrameTimeline judged in this interval, which need not be the one in which
	 * they are shown: what janky is a part of. Older versions did not tell. */
	struct opt_u64 judged;
};

/* How many frames of the layer were judged; its janky frames are a part of them, and some of those
 * were never shown. */
static inline uint64_t record_layer_judged(const struct record_layer *layer)
{
	return layer->judged.present ? layer->judged.value : layer->shown + layer->jank.dropped;
}

struct record_frames {
	bool present;
	bool history; /* what a followed trace held before the run began */
	struct record_layer *layers;
	size_t layer_count;
};

struct record_self {
	uint64_t cpu_ns;           /* of jankscope and of its helpers */
	struct opt_u64 anon_bytes; /* of the recorder's process */
	/* What a cgroup would charge for all its processes and BPF objects, file cache apart. */
	struct opt_u64 memory_bytes;
	struct opt_u64 unwinder_cache_bytes;
	uint64_t stops, stop_max_ns; /* ptrace stops of targets */
};

/* What `--keep` made of several intervals (record/merge.h). */
struct record_merged {
	bool present;
	uint64_t intervals;
	uint64_t begin_boot_ns; /* of the first */
	/* The seq that they had, the newest among them, which the record has. */
	struct record_seqs {
		uint64_t first, last;
	} * seqs;
	size_t seq_count;
	struct counter_list parts, absent;
};

struct record_interval {
	uint64_t dur_ns; /* between the read-outs of the CPU source, where it is there */
	bool last;       /* shorter or longer than the others, by the end of the run */
	bool marked;     /* ended early, where a scene begins or ends */
	bool final;      /* no sample follows: a source gives what it still holds back */
	bool baseline;   /* the run begins: what was sampled until here is in no record */
	struct record_cpu cpu;
	struct record_net net;
	struct record_tcp tcp;
	struct record_frames frames;
	struct record_power power;
	struct record_memory memory;
	struct record_context context;
	struct record_disk disk;
	/* A source adds every counter to `lost`; the session moves those that are declared late or
	 * repaired. */
	struct counter_list lost, late, repaired;
	struct missing_list missing;
	struct record_self self;
	struct record_merged merged;
};

/* ---- block, stack, jank ---- */
#include "jankscope/record_block.h"
#include "jankscope/record_jank.h"

/* ---- event ---- */
/* Own keys of an event: at most a few, either a number or a text. */
struct event_key {
	const char *name;
	const char *text; /* NULL: value counts */
	int64_t value;
	bool real; /* number counts, and not value */
	double number;
};

struct record_event {
	const char *
		event; /* start target_start target_exit suspend clock_jump gap degraded mark ... */
	struct event_key keys[16];
	size_t key_count;
};

/* ---- footer ---- */
#include "jankscope/record_footer.h"

enum record_type {
	RECORD_HEADER = 0,
	RECORD_INTERVAL = 1,
	RECORD_BLOCK = 2,
	RECORD_EVENT = 3,
	RECORD_FOOTER = 4,
	RECORD_STACK = 5,
	RECORD_JANK = 6,
};

/* seq and t_boot_ns are stamped by the session when the record is emitted: a source that emitted a
 * block finds them here and names the seq in the stacks that follow. The line of a RECORD_STACK has
 * the time of its capture as t_boot_ns. */
struct record {
	enum record_type type;
	uint64_t seq, t_boot_ns;
	union {
		const struct record_header *header;
		const struct record_interval *interval;
		const struct record_block *block;
		const struct record_jank *jank;
		const struct record_event *event;
		const struct record_footer *footer;
		const struct record_addition *addition;
	};
};

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

#include "jankscope/record_context.h"

#define RECORD_SCHEMA   1
#define RECORD_COMM_LEN 16 /* TASK_COMM_LEN of the kernel */

struct opt_u64 {
	bool present;
	uint64_t value;
};

struct opt_i64 {
	bool present;
	int64_t value;
};

#define SOME_U64(v) ((struct opt_u64){true, (v)})
#define SOME_I64(v) ((struct opt_i64){true, (v)})

/* Named counters: losses by reason. The list owns its names. Order is that of first use. */
struct counter_list {
	struct counter {
		char *name;
		uint64_t value;
	} * items;
	size_t count;
};

/* Add value to the counter of that name; a value of 0 creates nothing. 0, or -ENOMEM. */
int counter_list_add(struct counter_list *list, const char *name, uint64_t value);
/* The counter's value, 0 when it was never touched. */
uint64_t counter_list_get(const struct counter_list *list, const char *name);
int counter_list_merge(struct counter_list *to, const struct counter_list *from);
void counter_list_free(struct counter_list *list);

/* What a counter means for the data: really lost; told later than it should be; made good. */
enum loss_kind { LOSS_LOST = 0, LOSS_LATE = 1, LOSS_REPAIRED = 2 };

/* The whole of which a lost counter is a share; its unit is the counter's. */
enum loss_of {
	LOSS_OF_NOTHING = 0,  /* told, but no share of a whole: another counter has the amount */
	LOSS_OF_CPU_TIME = 1, /* ns, of busy time */
	LOSS_OF_TASKS = 2,    /* of the tasks that ended */
	LOSS_OF_BYTES = 3,    /* of the bytes that went over the network */
	LOSS_OF_PACKETS = 4,  /* of the packets */
	LOSS_OF_BLOCKS = 5,   /* of the blocks */
	LOSS_OF_STACKS = 6,   /* blocks, of the blocks */
	LOSS_OF_FRAMES = 7,   /* of the frames that were shown */
	LOSS_OF_RECORDS = 8,  /* of the records */
	LOSS_OF_COUNT = 9,
};

/* A counter as its source declares it, once. A name that nobody declared is lost, of nothing. */
struct loss_info {
	const char *name;
	enum loss_kind kind;
	enum loss_of of;
};

/* A room's declarations, and those of the rooms below it. */
struct loss_table {
	const struct loss_info *items;
	size_t count;
	const struct loss_table *more; /* NULL: no more */
};

/* Keys that are absent from this record, each with its reason. The list owns both strings. */
struct missing_list {
	struct missing {
		char *key, *reason;
	} * items;
	size_t count;
};

/* Say that key is absent and why; a second reason for the same key replaces the first. 0, -ENOMEM.
 */
int missing_list_set(struct missing_list *list, const char *key, const char *reason);
/* Why that key is absent; NULL: nothing says that it is. */
const char *missing_reason(const struct missing_list *list, const char *key);
void missing_list_free(struct missing_list *list);

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

/* ---- interval: cpu ---- */
/* Time of a task on a CPU, and at a frequency of a cluster. */
struct record_cpu_time {
	uint32_t cpu;
	uint64_t cpu_ns;
};

struct record_frequency_time {
	uint32_t cluster;
	struct opt_u64 khz; /* absent: the frequency is not known */
	uint64_t cpu_ns;
};

/* CPUs that change their frequency together (a cpufreq policy). */
struct record_cluster {
	uint32_t cluster; /* the policy's number */
	const char *cpus; /* "0-3" */
	struct opt_u64 capacity, max_khz;
	uint64_t targets_ns; /* time of the targets' tasks on its CPUs */
	struct record_frequency_time *frequencies;
	size_t frequency_count;
};

/* The strings of a row belong to the source and live until its next sample. */
struct record_task {
	pid_t tid, pid;
	uid_t uid;
	uint64_t start_boot_ns;
	char thread[RECORD_COMM_LEN];
	const char *process, *package; /* NULL: unknown */
	uint64_t cpu_ns;
	struct opt_u64 runnable_ns;                                 /* waited on a run queue */
	struct opt_u64 sleeping_ns, uninterruptible_ns, stopped_ns; /* off CPU, by its state */
	struct opt_u64 switches_voluntary, switches_involuntary;
	bool exited;                    /* died in this interval */
	uint64_t process_start_boot_ns; /* 0: not known */
	/* Where it ran, if it is a target's: both lists and unplaced_ns add up to cpu_ns. */
	struct record_cpu_time *cpus;
	size_t cpu_count;
	struct record_frequency_time *frequencies;
	size_t frequency_count;
	struct opt_u64 unplaced_ns; /* on which CPU is not known */
	struct opt_u64 fnorm_ns;    /* cpu_ns x frequency x capacity of where it ran */
};

struct record_uid_cpu {
	uid_t uid;
	uint64_t cpu_ns;
};

struct record_process_cpu {
	pid_t pid;
	uid_t uid;
	const char *process, *package;
	uint64_t cpu_ns;
	struct opt_u64 runnable_ns;
	unsigned threads;       /* that ran in the interval */
	uint64_t start_boot_ns; /* two owners of one pid are two rows; 0: not known */
	bool exited;            /* its first thread died in this interval */
};

/* How the kernel came to know of interrupts, steal and waits for disks. */
enum cpu_stat_by {
	CPU_STAT_EXACT = 0,   /* each interrupt is timed, and read in ns */
	CPU_STAT_ROUNDED = 1, /* each interrupt is timed, and told in ticks by /proc/stat */
	CPU_STAT_SAMPLED = 2, /* the timer's tick is charged to what it met */
};

struct record_cpu_stat {
	struct opt_u64 irq_ns, softirq_ns, steal_ns, iowait_ns; /* absent: the kernel's sum went
								   back */
};

struct record_cpu {
	bool present;
	unsigned online_cpus;
	uint64_t busy_ns;       /* tasks + other + overflow */
	struct opt_u64 idle_ns; /* measured on its own, not derived */
	uint64_t online_ns;     /* of all CPUs: online_cpus x dur, unless a CPU came or went */
	/* online_ns - busy - idle: interrupts, steal, read-out skew. The check of the sums. */
	struct opt_i64 unaccounted_ns;
	uint64_t other_ns;    /* tasks that the record does not list */
	uint64_t overflow_ns; /* tasks that found no room in a map; their uids are right */
	struct record_task *tasks;
	size_t task_count;
	/* Rows behind those of task_count that --top cut off: their time is in other_ns. The
	 * summary counts them and the table takes names and switches from them; they are in no
	 * recording. */
	size_t cut_count;
	struct record_uid_cpu *uids;
	size_t uid_count;
	struct record_process_cpu *processes;
	size_t process_count;
	bool stat_present;
	enum cpu_stat_by stat_by;
	uint64_t stat_resolution_ns; /* of each sum, at each read-out; it does not add up */
	struct record_cpu_stat stat; /* of all CPUs */
	struct opt_i64 stat_rest_ns; /* unaccounted_ns without irq, softirq and steal */
	struct record_cpu_one {
		unsigned cpu;
		struct record_cpu_stat stat;
	} * stat_cpus; /* those with any such time */
	size_t stat_cpu_count;
	struct record_cluster *clusters;
	size_t cluster_count;
	/* fnorm_ns of all targets' tasks, and the same of CPUs that run all the time at their
	 * highest frequency: the quotient is device_fnorm_pct. */
	struct opt_u64 targets_fnorm_ns, capacity_ns;
};

/* ---- interval: net, tcp, power, memory ---- */
#include "jankscope/record_net.h"
#include "jankscope/record_power.h"
#include "jankscope/record_memory.h"

/* ---- interval: disk ---- */
#include "jankscope/record_disk.h"

/* ---- interval: frames ---- */
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

/* ---- block ---- */
/* Who held a thread's lock. */
struct record_thread {
	bool present;
	pid_t pid, tid;
	char thread[RECORD_COMM_LEN];
	const char *process;
};

enum block_state { BLOCK_OPEN = 0, BLOCK_CLOSED = 1, BLOCK_EXITED = 2 };
enum block_class { BLOCK_SHORT = 0, BLOCK_LONG = 1, BLOCK_ANR = 2 };
enum capture_kind {
	CAPTURE_SNAPSHOT = 0,
	CAPTURE_PERF = 1,
	CAPTURE_PTRACE = 2,
	CAPTURE_KERNEL = 3,
};
enum frame_kind {
	FRAME_NATIVE = 0,
	FRAME_JIT = 1,
	FRAME_DEX = 2,
	FRAME_KERNEL = 3,
	FRAME_VDSO = 4,
};

/* How a frame was found: by unwind tables (and registers, and signal frames), or by a guess. */
enum frame_by {
	FRAME_BY_CFI = 0,
	FRAME_BY_FP = 1,
	FRAME_BY_LR = 2,    /* or the word on top of the stack */
	FRAME_BY_SCAN = 3,  /* the next word of the stack that follows a call */
	FRAME_BY_QUICK = 4, /* no guess: how ART lays out the frames of code that it compiled */
};

static inline bool frame_is_guess(enum frame_by by)
{
	return by != FRAME_BY_CFI && by != FRAME_BY_QUICK;
}

struct record_frame {
	const char *module;   /* path of the mapping, or NULL */
	const char *build_id; /* hex, or NULL */
	uint64_t offset;      /* in the module's file; the address where there is no module */
	const char *symbol;   /* demangled, or NULL: unresolved */
	enum frame_kind kind;
	enum frame_by by;
	bool shared;   /* one copy of the code for several functions: symbol names none of them */
	uint32_t line; /* of the source, as the file tells it; 0: it does not */
	/* of compiled code of Java: where in the method's byte code it is, where that is known */
	struct opt_u64 dex_pc;
	bool inlined; /* into the frame behind it, by a compiler (or R8: then in no record) */
};

struct record_stack {
	uint64_t t_boot_ns, weight_ns;
	enum capture_kind capture;
	bool complete;
	const char *end_reason;
	struct record_frame *frames; /* innermost first */
	size_t frame_count;
	bool in_wait; /* the innermost frame waits for events: it does no work, or is a nested loop
		       */
	/* of a late frame */
	pid_t tid;        /* whose it is; 0: of the record's thread */
	bool asleep;      /* it slept, as the frame waited for it */
	uint64_t samples; /* that met the thread in this path; 0: not told */
};

/* A stack that was unwound after the record of its block or jank was written: one record a path. */
struct record_addition {
	uint64_t of;         /* seq of the block or jank, as the session stamped it */
	uint64_t of_boot_ns; /* t_boot_ns of that record, for text; 0: not known */
	struct record_stack stack;
};

/* The reason in `missing` under "stacks" of a block whose stacks come as additions. */
#define MISSING_FOLLOWS "follows"

enum link_how {
	LINK_LOCK = 0,
	LINK_BINDER = 1,
	LINK_FUTEX = 2,  /* no lock, but a futex that tells who ends the wait: pthread_join */
	LINK_SOCKET = 3, /* it is at the other end */
	LINK_WAKEUP = 4, /* nothing is known but that it ended the wait */
};

/* One thread of a chain: the main thread, or the thread of the row before, waits for it. */
struct block_link {
	pid_t pid, tid;
	char thread[RECORD_COMM_LEN];
	const char *process;
	enum link_how how;
	const char *what; /* what kind of lock, or which call */
	/* of a binder call, as of the record: until a thread took it, and since then */
	struct opt_u64 queued_ns, served_ns;
	struct opt_u64 served_cpu_ns; /* of served_ns on a CPU, as of its last switch or tick */
	/* where nobody has taken it (tid 0): threads that serve binder in pid, and how many of them
	 * were at work */
	struct opt_u64 threads, at_work;
	const struct record_stack *stack; /* NULL: not taken */
};

struct record_block {
	pid_t pid, tid;
	const char *package, *process;
	uint64_t start_boot_ns, wall_ns;
	enum block_state state;
	enum block_class class;
	bool merged; /* the detector could not tell neighbouring messages apart */
	const char *detector;
	struct {
		uint64_t running_ns, runnable_ns, sleeping_ns, uninterruptible_ns, stopped_ns;
	} ledger;
	struct block_reason {
		const char *reason;
		uint64_t ns;
	} * reasons;
	size_t reason_count;
	/* who ended its longest sleep */
	struct record_waker {
		bool present;
		pid_t pid, tid;
		char thread[RECORD_COMM_LEN];
		const char *process;
		const char *what;                 /* what it was doing; NULL: not known */
		const struct record_stack *stack; /* at that moment; NULL: not taken */
	} waker;
	struct record_thread owner; /* who held the lock that the main thread waited for */
	struct block_preemptor {
		pid_t tid;
		char thread[RECORD_COMM_LEN];
		const char *process;
		uint64_t ns;
	} * preemptors;
	size_t preemptor_count;
	/* thread CPU time as the kernel charges it: running_ns without interrupts and steal */
	struct opt_u64 cpu_ns;
	/* its longest times off the CPU, longest first */
	struct block_sleep {
		uint64_t t_boot_ns, ns; /* when it began; without the wait for a CPU at its end */
		const char *reason;
		struct opt_i64 syscall;
		pid_t waker_tid, waker_pid; /* 0: not seen */
		char waker[RECORD_COMM_LEN];
	} * sleeps;
	size_t sleep_count;
	struct opt_u64 faults_minor, faults_major;
	/* over the last load_dur_ns of the block: of all CPUs, and of all threads of the process */
	struct opt_u64 load_dur_ns, machine_busy_ns, app_cpu_ns;
	struct opt_u64 app_rss_bytes;
	const struct record_stack *owner_stack; /* what the lock's owner did; NULL: not taken */
	/* as met last: the thread that owns the lock, the thread that this owner waits for, ... */
	struct block_link *chain;
	size_t chain_count;
	bool chain_cut; /* the last of the chain waits for one more, which was not followed */
	bool deadlock;  /* the last of the chain waits for one of it, or for the main thread */
	struct opt_u64 unsampled_ns; /* of wall, in no stack */
	struct record_stack *stacks;
	size_t stack_count;
	struct opt_u64 top; /* index of the path with most weight */
	struct counter_list lost;
	struct missing_list missing;
};

/* ---- jank ---- */
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
struct record_distribution {
	const char *name; /* key path below summary, e.g. "blocks.wall_ns" */
	uint64_t n;
	double min, max, mean, p50, p90, p95, p99;
};

/* Who used most of a run: a thread, a process or a uid, or several short-lived threads or processes
 * of one name in one row. Sums are exact unless `partial` is set. */
struct footer_usage {
	pid_t pid, tid; /* 0: not of this kind of row, or the row is of several */
	uid_t uid;
	const char *thread, *process, *package; /* NULL: not of this kind of row, or not known */
	uint64_t start_boot_ns;                 /* 0: of several, or not known */
	uint64_t count;                         /* how many threads or processes the row sums up */
	unsigned threads; /* of a process: the most that ran in one interval */
	/* The row was dropped for want of room and made anew: its earlier time is in other_ns. */
	bool partial;
	uint64_t cpu_ns;
	struct opt_u64 runnable_ns;
	struct opt_u64 rx_bytes, tx_bytes; /* of a uid */
};

/* The heaviest rows of one kind; they and `other_...` make the totals of the run. */
struct footer_top {
	const struct footer_usage *rows;
	size_t count;
	uint64_t other_ns;
	struct opt_u64 other_rx_bytes, other_tx_bytes; /* of uids */
};

/* Frames of a layer over the run. */
struct footer_layer {
	pid_t pid;                   /* 0: not known */
	const char *package, *layer; /* NULL: not known */
	uint64_t shown, dropped, janky;
	bool partial; /* made anew after rows were dropped: earlier frames may be in the sum of
			 others */
};

/* Blocks by what they did: the functions that tell of their heaviest stack, outermost first. */
struct footer_block_path {
	const char *path; /* "caller;...;function"; NULL: blocks without a stack */
	uint64_t count, total_ns, longest_ns;
	bool partial; /* made anew after rows were dropped: earlier blocks may be in the sum of
			 others */
};

/* Totals over the run by key path ("cpu.busy_ns"); a sink nests them at the dots. */
struct record_footer {
	struct summary_total {
		char *key;
		double value;
	} * totals;
	size_t total_count;
	struct record_distribution *distributions;
	size_t distribution_count;
	/* of the stacks of all blocks, heaviest first: folded, outermost;...;innermost */
	const struct footer_path {
		const char *path;
		uint64_t weight_ns, blocks;
	} * paths;
	size_t path_count;
	bool any_layer, any_block; /* there are rows of them, and what is in none */
	bool top_present;          /* false: nothing was measured, and the sums below are no 0 */
	struct footer_top threads, processes, uids;
	const struct footer_layer *layers; /* by frames shown */
	size_t layer_count;
	struct footer_layer other_layers;            /* the sum of all others */
	const struct footer_block_path *block_paths; /* by time */
	size_t block_path_count;
	struct footer_block_path other_block_paths; /* the sum of all others */
	/* The same of late frames by the stack that tells of each; times are how late they were. */
	const struct footer_block_path *late_paths;
	size_t late_path_count;
	struct footer_block_path other_late_paths;
	bool any_late;
	const struct footer_memory *memory; /* by PSS, else by RSS */
	size_t memory_count;
	uint64_t other_memory;                         /* processes that have no row */
	const struct record_interface_net *interfaces; /* where they are told apart */
	size_t interface_count;
	const struct footer_disk *disks; /* tasks by bytes read from and written to storage */
	size_t disk_count;
	struct record_disk_sums other_disk; /* of tasks that have no row */
	bool any_disk;
	const struct footer_scene *scenes; /* in the order in which they began */
	size_t scene_count;
	struct counter_list lost, late, repaired;
	struct missing_list missing;
};

/* What the run was while a scene was open: its totals and distributions. */
struct footer_scene {
	struct record_footer sums; /* totals and distributions of it only */
	const char *name;
	uint64_t times;   /* how often it began */
	bool open_at_end; /* the run ended in it */
};

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

/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of the last record. */
#include "record/fields_private.h"

static const struct field usage_rows[] = {
	FIELD(struct footer_usage, thread, OPTIONAL, NAME, "name of the thread"),
	FIELD(struct footer_usage, process, OPTIONAL, NAME, "name of the process"),
	FIELD(struct footer_usage, package, OPTIONAL, NAME, "package"),
	FIELD(struct footer_usage, pid, NONZERO, ID,
	      "process id; absent where the row is of several"),
	FIELD(struct footer_usage, tid, NONZERO, ID,
	      "thread id; absent where the row is of several"),
	FIELD(struct footer_usage, uid, REQUIRED, ID, "uid"),
	FIELD(struct footer_usage, start_boot_ns, NONZERO, NS, "when it began"),
	FIELD(struct footer_usage, count, REQUIRED, COUNT,
	      "how many short-lived ones of this name the row sums up; 1: it is one"),
	FIELD(struct footer_usage, threads, NONZERO, COUNT,
	      "of a process: the most of its threads that ran in one interval"),
	FIELD(struct footer_usage, partial, NONZERO, NONE,
	      "the row was dropped for want of room and made anew: its earlier time is in other"),
	FIELD(struct footer_usage, cpu_ns, REQUIRED, NS, "time on CPUs"),
	FIELD(struct footer_usage, runnable_ns, OPTIONAL, NS, "ready to run, without a CPU"),
	FIELD(struct footer_usage, rx_bytes, OPTIONAL, BYTES, "of a uid: bytes received"),
	FIELD(struct footer_usage, tx_bytes, OPTIONAL, BYTES, "of a uid: bytes sent"),
};
static const struct field_type usage_type = FIELD_TYPE("usage", struct footer_usage, usage_rows);

static const struct field layer_sum_rows[] = {
	FIELD(struct footer_layer, pid, NONZERO, ID, "who draws it"),
	FIELD(struct footer_layer, package, OPTIONAL, NAME, "its package"),
	FIELD(struct footer_layer, layer, OPTIONAL, NAME, "name of the layer"),
	FIELD(struct footer_layer, shown, REQUIRED, COUNT, "frames shown"),
	FIELD(struct footer_layer, dropped, REQUIRED, COUNT, "refreshes that frames came late by"),
	FIELD(struct footer_layer, janky, REQUIRED, COUNT, "frames with jank"),
	FIELD(struct footer_layer, partial, NONZERO, NONE,
	      "light rows were dropped before it was made: earlier frames may be in other"),
};
static const struct field_type layer_sum_type =
	FIELD_TYPE("layer_sum", struct footer_layer, layer_sum_rows);

static const struct field block_sum_rows[] = {
	FIELD(struct footer_block_path, path, OPTIONAL, NAME,
	      "the functions that tell of their heaviest stacks: caller;...;function. Absent: "
	      "blocks without a stack, or all others",
	      TEXT_IS(FOLDED)),
	FIELD(struct footer_block_path, count, REQUIRED, COUNT, "how many blocks"),
	FIELD(struct footer_block_path, total_ns, REQUIRED, NS, "their time"),
	FIELD(struct footer_block_path, longest_ns, REQUIRED, NS, "the longest of them"),
	FIELD(struct footer_block_path, partial, NONZERO, NONE,
	      "slight rows were dropped before it was made: earlier ones may be in other"),
};
static const struct field_type block_sum_type =
	FIELD_TYPE("block_sum", struct footer_block_path, block_sum_rows);

#define REST_MEANING "time on CPUs that is in no row of the list"
static const struct field threads_rest_rows[] = {
	FIELD_AS("cpu_ns", struct record_footer, threads.other_ns, REQUIRED, NS, REST_MEANING),
};
static const struct field_type threads_rest_type =
	FIELD_TYPE("threads_rest", struct record_footer, threads_rest_rows);
static const struct field processes_rest_rows[] = {
	FIELD_AS("cpu_ns", struct record_footer, processes.other_ns, REQUIRED, NS, REST_MEANING),
};
static const struct field_type processes_rest_type =
	FIELD_TYPE("processes_rest", struct record_footer, processes_rest_rows);
static const struct field uids_rest_rows[] = {
	FIELD_AS("cpu_ns", struct record_footer, uids.other_ns, REQUIRED, NS, REST_MEANING),
	FIELD_AS("rx_bytes", struct record_footer, uids.other_rx_bytes, OPTIONAL, BYTES,
		 "bytes received that are in no row of the list"),
	FIELD_AS("tx_bytes", struct record_footer, uids.other_tx_bytes, OPTIONAL, BYTES,
		 "bytes sent that are in no row of the list"),
};
static const struct field_type uids_rest_type =
	FIELD_TYPE("uids_rest", struct record_footer, uids_rest_rows);
static const struct field rest_rows[] = {
	FIELD_GROUP("threads", &threads_rest_type, "of threads"),
	FIELD_GROUP("processes", &processes_rest_type, "of processes"),
	FIELD_GROUP("uids", &uids_rest_type, "of uids"),
};
static const struct field_type rest_type = FIELD_TYPE("rest", struct record_footer, rest_rows);

static const struct field top_rows[] = {
	FIELD_ROWS("threads", struct record_footer, threads.rows, threads.count, REQUIRED,
		   &usage_type, "threads by CPU time"),
	FIELD_ROWS("processes", struct record_footer, processes.rows, processes.count, REQUIRED,
		   &usage_type, "processes by CPU time"),
	FIELD_ROWS("uids", struct record_footer, uids.rows, uids.count, REQUIRED, &usage_type,
		   "uids with most CPU time, then uids with most bytes"),
	FIELD_GROUP("other", &rest_type, "what is in no row of each list"),
};
static const struct field_type top_type = FIELD_TYPE("top", struct record_footer, top_rows);

static const struct field late_sum_rows[] = {
	FIELD(struct footer_block_path, path, OPTIONAL, NAME,
	      "the functions that tell: caller;...;function. Absent: frames whose cause has no "
	      "stack, or all others",
	      TEXT_IS(FOLDED)),
	FIELD(struct footer_block_path, count, REQUIRED, COUNT, "how many late frames"),
	FIELD(struct footer_block_path, total_ns, REQUIRED, NS, "how late they were together"),
	FIELD(struct footer_block_path, longest_ns, REQUIRED, NS, "the latest of them"),
	FIELD(struct footer_block_path, partial, NONZERO, NONE,
	      "slight rows were dropped before it was made: earlier ones may be in other"),
};
static const struct field_type late_sum_type =
	FIELD_TYPE("late_sum", struct footer_block_path, late_sum_rows);

static const struct field frames_sum_rows[] = {
	FIELD_ROWS("layers", struct record_footer, layers, layer_count, NONZERO, &layer_sum_type,
		   "layers by frames shown"),
	FIELD_STRUCT_IF("other", struct record_footer, other_layers, any_layer, &layer_sum_type,
			"what is in no row of layers"),
	FIELD_ROWS("late_paths", struct record_footer, late_paths, late_path_count, NONZERO,
		   &late_sum_type, "late frames by what their threads did"),
	FIELD_STRUCT_IF("other_late", struct record_footer, other_late_paths, any_late,
			&late_sum_type, "what is in no row of late_paths"),
};
static const struct field_type frames_sum_type =
	FIELD_TYPE("frames_sum", struct record_footer, frames_sum_rows);
static const struct field blocks_sum_rows[] = {
	FIELD_ROWS("paths", struct record_footer, block_paths, block_path_count, NONZERO,
		   &block_sum_type, "blocks by what they did"),
	FIELD_STRUCT_IF("other", struct record_footer, other_block_paths, any_block,
			&block_sum_type, "what is in no row of paths"),
};
static const struct field_type blocks_sum_type =
	FIELD_TYPE("blocks_sum", struct record_footer, blocks_sum_rows);

#define SPREAD(member) FIELD(struct record_spread, member, REQUIRED, BYTES, "of these readings")
static const struct field spread_rows[] = {
	FIELD(struct record_spread, n, REQUIRED, COUNT, "readings"),
	SPREAD(min),
	SPREAD(max),
	SPREAD(mean),
	SPREAD(p50),
	SPREAD(p90),
	SPREAD(p95),
	SPREAD(p99),
};
static const struct field_type spread_type =
	FIELD_TYPE("spread", struct record_spread, spread_rows);

#define SPREAD_OF(key_, member, flag, meaning_)                                                 \
	{                                                                                       \
		.key = (key_), .kind = FIELD_OBJECT, .unit = UNIT_BYTES,                        \
		FIELD_PLACE(struct footer_memory, member),                                      \
		.more_offset = offsetof(struct footer_memory, flag), .more_size = sizeof(bool), \
		.need = FIELD_OPTIONAL, .of = &spread_type, .meaning = (meaning_)               \
	}
#define SLOPE(key_, member, meaning_) \
	FIELD_AS(key_, struct footer_memory, member, OPTIONAL, BYTES, meaning_)
static const struct field memory_sum_rows[] = {
	FIELD(struct footer_memory, pid, REQUIRED, ID, "process"),
	FIELD(struct footer_memory, start_boot_ns, REQUIRED, NS, "when it began"),
	FIELD(struct footer_memory, process, OPTIONAL, NAME, "its name"),
	FIELD(struct footer_memory, package, OPTIONAL, NAME, "package"),
	FIELD(struct footer_memory, exited, NONZERO, NONE, "it was no more when the run ended"),
	SPREAD_OF("pss_bytes", pss, has_pss,
		  "resident memory, a shared page divided by those who map it"),
	SLOPE("pss_slope_bytes_per_h", pss_slope,
	      "growth of pss_bytes: median of the slopes of all pairs of readings, beyond 256 of "
	      "them of all pairs of means of equally many (Theil and Sen)"),
	SLOPE("low", low, "lower bound of its 95 % interval"),
	SLOPE("high", high, "upper bound of its 95 % interval"),
	SPREAD_OF("rss_bytes", rss, has_rss, "resident memory, shared pages in full"),
	SLOPE("rss_slope_bytes_per_h", rss_slope, "the same of rss_bytes"),
	SLOPE("rss_low", rss_low, "lower bound of its 95 % interval"),
	SLOPE("rss_high", rss_high, "upper bound of its 95 % interval"),
	FIELD(struct footer_memory, threads_max, OPTIONAL, COUNT, "the most threads"),
	FIELD(struct footer_memory, fds_max, OPTIONAL, COUNT, "the most descriptors"),
	FIELD(struct footer_memory, vss_max_bytes, OPTIONAL, BYTES, "the largest address space"),
};
static const struct field_type memory_sum_type =
	FIELD_TYPE("memory_sum", struct footer_memory, memory_sum_rows);
static const struct field memory_sums_rows[] = {
	FIELD_ROWS("processes", struct record_footer, memory, memory_count, NONZERO,
		   &memory_sum_type, "processes of the targets, each start of a program by itself"),
	FIELD_AS("other_processes", struct record_footer, other_memory, NONZERO, COUNT,
		 "processes that are in no row of processes"),
};
static const struct field_type memory_sums_type =
	FIELD_TYPE("memory_sums", struct record_footer, memory_sums_rows);

#define BYTES_OF(member, unit_, meaning_) \
	FIELD_AS(#member, struct record_interface_net, bytes.member, REQUIRED, unit_, meaning_)
static const struct field interface_rows[] = {
	FIELD(struct record_interface_net, interface, OPTIONAL, NAME,
	      "as it was called last; absent in the row of those that have none of their own"),
	FIELD(struct record_interface_net, ifindex, NONZERO, ID, "its number in its namespace"),
	FIELD(struct record_interface_net, netns, NONZERO, ID,
	      "its network namespace, where that is not the recorder's"),
	BYTES_OF(rx_bytes, BYTES, "bytes received"),
	BYTES_OF(rx_packets, COUNT, "packets received"),
	BYTES_OF(tx_bytes, BYTES, "bytes sent"),
	BYTES_OF(tx_packets, COUNT, "packets sent"),
};
static const struct field_type interface_type =
	FIELD_TYPE("interface_sum", struct record_interface_net, interface_rows);
static const struct field net_sums_rows[] = {
	FIELD_ROWS("interfaces", struct record_footer, interfaces, interface_count, NONZERO,
		   &interface_type, "bytes of all uids by interface, most first"),
};
static const struct field_type net_sums_type =
	FIELD_TYPE("net_sums", struct record_footer, net_sums_rows);
#define DISK_SUM(member, unit_, meaning_) \
	FIELD(struct record_disk_sums, member, REQUIRED, unit_, meaning_)
static const struct field disk_bytes_rows[] = {
	DISK_SUM(read_bytes, BYTES, "read from storage"),
	DISK_SUM(write_bytes, BYTES, "written to storage, or made dirty in the page cache"),
	DISK_SUM(cancelled_write_bytes, BYTES, "made dirty and never written"),
	DISK_SUM(rchar_bytes, BYTES, "asked for by calls that read"),
	DISK_SUM(wchar_bytes, BYTES, "handed over to calls that write"),
	DISK_SUM(read_calls, COUNT, "calls that read"),
	DISK_SUM(write_calls, COUNT, "calls that write"),
};
static const struct field_type disk_bytes_type =
	FIELD_TYPE("disk_bytes", struct record_disk_sums, disk_bytes_rows);
static const struct field disk_sum_rows[] = {
	FIELD(struct footer_disk, tid, REQUIRED, ID, "thread"),
	FIELD(struct footer_disk, pid, REQUIRED, ID, "its process"),
	FIELD(struct footer_disk, uid, REQUIRED, ID, "its uid"),
	FIELD(struct footer_disk, start_boot_ns, REQUIRED, NS, "when it began"),
	FIELD(struct footer_disk, thread, OPTIONAL, NAME, "its name"),
	FIELD(struct footer_disk, process, OPTIONAL, NAME, "name of the process"),
	FIELD(struct footer_disk, package, OPTIONAL, NAME, "package"),
	FIELD_SAME_LEVEL(struct footer_disk, sums, &disk_bytes_type),
	FIELD(struct footer_disk, partial, NONZERO, NONE,
	      "light rows were dropped before it was made: earlier bytes of it may be in other"),
};
static const struct field_type disk_sum_type =
	FIELD_TYPE("disk_sum", struct footer_disk, disk_sum_rows);
static const struct field disk_sums_rows[] = {
	FIELD_ROWS("tasks", struct record_footer, disks, disk_count, NONZERO, &disk_sum_type,
		   "tasks by bytes read from and written to storage"),
	FIELD_STRUCT_IF("other", struct record_footer, other_disk, any_disk, &disk_bytes_type,
			"what is in no row of tasks"),
};
static const struct field_type disk_run_type =
	FIELD_TYPE("disk_run", struct record_footer, disk_sums_rows);
/* The totals are those of the member `sums`, which is the first: put_totals() finds them there. */
static const struct field scene_rows[] = {
	{.kind = FIELD_TOTALS,
	 .meaning = "totals and distributions by key path, as those of the summary"},
	FIELD(struct footer_scene, times, REQUIRED, COUNT, "how often the scene began"),
	FIELD(struct footer_scene, open_at_end, NONZERO, NONE, "the run ended in it"),
};
static const struct field_type scene_type =
	FIELD_TYPE("scene", struct footer_scene, scene_rows,
		   .name_offset = offsetof(struct footer_scene, name));

/* Lists and objects of the summary are rows behind FIELD_TOTALS. A row of FIELD_GROUP may share its
 * key with key paths of totals ("blocks.count" and a list "paths" in the group "blocks"): one
 * object holds both. */
static const struct field summary_rows[] = {
	{.kind = FIELD_TOTALS,
	 .meaning = "totals and distributions {n, min, max, mean, p50, p90, p95, p99} by key path"},
	{.key = "top",
	 .kind = FIELD_OBJECT,
	 .more_offset = offsetof(struct record_footer, top_present),
	 .more_size = sizeof(((struct record_footer *)0)->top_present),
	 .need = FIELD_OPTIONAL,
	 .of = &top_type,
	 .meaning = "who used what, heaviest first: the rows of each list and its part of other "
		    "are the whole run"},
	FIELD_GROUP_AS("frames", NONZERO, &frames_sum_type, "frames of the run"),
	FIELD_GROUP_AS("blocks", NONZERO, &blocks_sum_type, "blocks of the run"),
	FIELD_GROUP_AS("memory", NONZERO, &memory_sums_type, "memory over the run"),
	FIELD_GROUP_AS("disk", NONZERO, &disk_run_type, "what tasks read and wrote over the run"),
	FIELD_GROUP_AS("net", NONZERO, &net_sums_type, "the network over the run"),
	{.key = "scenes",
	 .kind = FIELD_NAMED,
	 FIELD_PLACE(struct record_footer, scenes),
	 .more_offset = offsetof(struct record_footer, scene_count),
	 .need = FIELD_NONZERO,
	 .of = &scene_type,
	 .meaning =
		 "what was while a scene of `mark` was open, by its name; unknown: no scene was; "
		 "mixed: intervals and blocks in which one began or ended; other: scenes beyond "
		 "the first 256"},
};
static const struct field_type summary_type =
	FIELD_TYPE("summary", struct record_footer, summary_rows);

static const struct field path_rows[] = {
	FIELD(struct footer_path, weight_ns, REQUIRED, NS, "time of the blocks in this path"),
	FIELD(struct footer_path, blocks, REQUIRED, COUNT, "how many blocks had it"),
	FIELD(struct footer_path, path, REQUIRED, NAME, "its functions: outermost;...;innermost",
	      TEXT_IS(FOLDED)),
};
static const struct field_type path_type = FIELD_TYPE("path", struct footer_path, path_rows);

static const struct field footer_rows[] = {
	FIELD_GROUP("summary", &summary_type,
		    "totals and distributions. calls_held_up: reads and probes of a process that "
		    "took over 10 ms, as where who holds its lock gets no CPU, and were not waited "
		    "for; lost_pct_of: share of what was lost of each whole in percent, the "
		    "largest of them is lost_pct; tables_dropped: records that were not printed "
		    "because stdout was not read; blocks.unproved: messages that lasted at the end "
		    "of the run, with waits inside of which nobody knows whether they are another "
		    "loop"),
	FIELD_ROWS("paths", struct record_footer, paths, path_count, NONZERO, &path_type,
		   "of the stacks of all blocks, heaviest first"),
	COUNTERS(struct record_footer, lost, REQUIRED, LOST_MEANING),
	COUNTERS(struct record_footer, late, ALWAYS, LATE_MEANING),
	COUNTERS(struct record_footer, repaired, ALWAYS, REPAIRED_MEANING),
	MISSING(struct record_footer),
};
const struct field_type record_footer_type =
	FIELD_TYPE("footer", struct record_footer, footer_rows, .meaning = "the last record: sums");

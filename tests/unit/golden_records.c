/* SPDX-License-Identifier: BSD-2-Clause */
#include "golden_records.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/histogram.h"

#define BOOT 5000000000000ull
#define SEC  1000000000ull

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static struct header_target targets[] = {
	{.package = "com.example.a.rather.long.package.name.of.an.application"},
	{.package = "com.example.other:remote"},
	{.pid = {true, 4321}},
	{.uid = {true, 10123}},
};

static struct header_source sources[] = {
	{"cpu", "ok", "switch/tp_btf/array", NULL},
	{"net", "degraded", "raw_tp", "a hook is missing"},
	{"frames", "absent", NULL, "no SurfaceFlinger here"},
};

static const struct record_header header = {
	.session = "01234567-89ab-cdef-0123-456789abcdef",
	.boot_id = "fedcba98-7654-3210-fedc-ba9876543210",
	.kernel = "Linux 5.10.149-android13-4-00003-g05231a35ff43-ab9850788",
	.arch = "arm64",
	.device = "Pixel \"7\" / back\\slash",
	.android = {"google/panther/panther:13/TQ1A/1:user/release-keys", "13", "user", {true, 33}},
	.selinux = "u:r:magisk:s0",
	.page_bytes = {true, 4096},
	.clock = {BOOT - 5, BOOT - 900, 1700000000000000000ull},
	.interval_ns = SEC,
	.block_ns = 500000000,
	.targets = targets,
	.target_count = COUNT(targets),
	.sources = sources,
	.source_count = COUNT(sources),
};

static struct record_task tasks[] = {
	{
		.tid = 4194303,
		.pid = 4194303,
		.uid = 10123,
		.start_boot_ns = 77,
		.thread = "RenderThread",
		.process = "com.example.a.rather.long.package.name.of.an.application",
		.package = "com.example.a.rather.long.package.name.of.an.application",
		.cpu_ns = 901234567,
		.runnable_ns = {true, 12345678},
		.sleeping_ns = {true, 80000000},
		.uninterruptible_ns = {true, 1},
		.stopped_ns = {true, 0},
		.switches_voluntary = {true, 123},
		.switches_involuntary = {true, 0},
	},
	/* an escape sequence, BEL and DEL in the name; died */
	{
		.tid = 5,
		.pid = 4,
		.uid = 0,
		.start_boot_ns = 78,
		.thread = "\x1b[31mred\x07\x7f",
		.process = "evil\nname\r\x1b]0;title\x07",
		.cpu_ns = 50000000,
		.runnable_ns = {true, 1},
		.switches_voluntary = {true, 1234567},
		.switches_involuntary = {true, 7654321},
		.exited = true,
	},
	/* bytes that are no UTF-8, a C1 control in UTF-8, a character cut in half by comm's length
	 */
	{
		.tid = 6,
		.pid = 6,
		.uid = 4294967294u,
		.start_boot_ns = 79,
		.thread = "\xff\xfe\xc2\x9b"
			  "2J caf\xc3",
		.process = "caf\xc3\xa9 \xed\xa0\x80 \xf0\x9f\x98\x80",
		.cpu_ns = 1,
	},
	{.tid = 7, .pid = 3, .uid = 1, .thread = "", .cpu_ns = 0},
};

static struct record_uid_cpu uids[] = {{0, 50000000}, {10123, 901234567}, {4294967294u, 1}};

static struct record_process_cpu processes[] = {
	{4194303,
	 10123,
	 "com.example.a.rather.long.package.name.of.an.application",
	 "com.example.a.rather.long.package.name.of.an.application",
	 901234567,
	 {true, 12345678},
	 7},
	{4, 0, "evil\nname\r\x1b]0;title\x07", NULL, 50000000, {true, 1}, 1, .exited = true},
	{6, 4294967294u, "caf\xc3\xa9 \xed\xa0\x80 \xf0\x9f\x98\x80", NULL, 1, {false, 0}, 1},
	{3, 1, NULL, NULL, 0, {false, 0}, 1},
};

static struct record_uid_net net_uids[] = {
	{10123, "com.example.a.rather.long.package", {1, 1, 1500, 2}},
	{4294967294u, "com.example", {18446744073ull << 20, 99999999, 1 << 20, 1}},
	{0, NULL, {0, 0, 0, 0}},
	{1000, NULL, {1024, 3, 0, 0}},
};

static struct record_layer layers[] = {
	{
		.pid = 4321,
		.package = "com.example",
		.layer = "SurfaceView[com.example/com.example.MainActivity](BLAST)#0",
		.period_ns = {true, 8333333},
		.shown = 118,
		.dropped = 1,
		.janky = 3,
		.fps_active = 119.5,
		.jank = {1, 1, 0, 0, 1, 0},
	},
	{.shown = 60, .fps_active = 60},
};

static const struct record_memory_kind memory_kinds[] = {
	{0, 12, 100 << 20, 5 << 20, 90 << 20},
	{6, 1, 0, 0, 0},
};
static struct record_memory_process memory_rows[] = {
	{.pid = 4194303,
	 .uid = 10123,
	 .start_boot_ns = 4999000000000,
	 .process = "com.example.a.rather.long.package.name.of.an.application:remote",
	 .package = "com.example",
	 .rss_bytes = {true, 200 << 20},
	 .rss_anon_bytes = {true, 150 << 20},
	 .rss_file_bytes = {true, 40 << 20},
	 .rss_shmem_bytes = {true, 10 << 20},
	 .swap_bytes = {true, 7 << 20},
	 .hugetlb_bytes = {true, 2 << 20},
	 .vss_bytes = {true, 1ull << 40},
	 .threads = {true, 112},
	 .fds = {true, 345},
	 .pss_bytes = {true, 160 << 20},
	 .pss_anon_bytes = {true, 150 << 20},
	 .pss_file_bytes = {true, 9 << 20},
	 .pss_shmem_bytes = {true, 1 << 20},
	 .private_clean_bytes = {true, 2 << 20},
	 .private_dirty_bytes = {true, 140 << 20},
	 .swap_pss_bytes = {true, 6 << 20},
	 .dmabuf_bytes = {true, 4096},
	 .dmabufs = {true, 1},
	 .gpu_bytes = {true, 8192},
	 .t_boot_ns = {true, BOOT},
	 .has_rollup = true,
	 .has_kinds = true,
	 .rollup_cost = {1500000, 1400000},
	 .kinds_cost = {25000000, 24000000},
	 .kinds = memory_kinds,
	 .kind_count = COUNT(memory_kinds)},
	{.pid = 1, .threads = {true, 1}},
};

static struct record_interval full = {
	.dur_ns = 1000123456,
	.cpu = {.present = true,
		.online_cpus = 8,
		.busy_ns = 951234568 + 7000000 + 3000000,
		.idle_ns = {true, 7000000000ull},
		.unaccounted_ns = {true, -246913},
		.other_ns = 7000000,
		.overflow_ns = 3000000,
		.tasks = tasks,
		.task_count = COUNT(tasks),
		.uids = uids,
		.uid_count = COUNT(uids),
		.processes = processes,
		.process_count = COUNT(processes)},
	.net = {.present = true,
		.uids = net_uids,
		.uid_count = COUNT(net_uids),
		.loopback = {10, 1, 20, 2},
		.unattributed = {300, 3, 400, 4},
		.forwarded = {100, 1, 0, 0},
		.kernel = {0, 0, 400, 4},
		.no_socket = {200, 2, 0, 0}},
	.frames = {.present = true, .layers = layers, .layer_count = COUNT(layers)},
	.memory = {.present = true,
		   .processes = memory_rows,
		   .process_count = COUNT(memory_rows),
		   .system = {.total_bytes = {true, 1ull << 33},
			      .available_bytes = {true, 1ull << 32},
			      .swap_total_bytes = {true, 1ull << 31},
			      .swap_free_bytes = {true, 1ull << 30},
			      .pressure_some_ns = {true, 5000000},
			      .pressure_full_ns = {true, 0},
			      .dmabuf_bytes = {true, 4096},
			      .gpu_bytes = {true, 8192}}},
	.self = {.cpu_ns = 654321,
		 .anon_bytes = {true, 3 << 20},
		 .memory_bytes = {true, 3 << 20},
		 .stops = 2,
		 .stop_max_ns = 80000},
};

static const struct record_interval last = {.dur_ns = 12, .last = true};

static struct block_reason reasons[] = {{"binder", 2000000000}, {"futex", 500000000}};
static struct block_preemptor preemptors[] = {
	{99, "kworker/0:1", NULL, 1000000},
	{100, "\xff", "p", 1},
};
static struct record_frame frames[] = {
	{"/apex/com.android.runtime/lib64/bionic/libc.so", "00112233445566778899aabbccddeeff",
	 0x1234, "__epoll_pwait", FRAME_NATIVE},
	{"[vdso]", NULL, 16, NULL, FRAME_VDSO},
	{NULL, NULL, 0xffffffc008123456ull, "schedule", FRAME_KERNEL},
	{"base.odex", "", 1,
	 "com.example.a.rather.long.package.name.MainActivity.onCreateOptionsMenu", FRAME_DEX},
	{NULL, NULL, 2, "jit", FRAME_JIT, FRAME_BY_FP, true},
};
static struct record_stack stacks[] = {
	{BOOT + SEC, 20000000, CAPTURE_SNAPSHOT, true, "outermost frame", frames + 3, 1},
	{BOOT + SEC + 1, 2480000000ull, CAPTURE_PTRACE, false, "no unwind row", frames,
	 COUNT(frames)},
	{BOOT + SEC + 2, 0, CAPTURE_PERF, true, NULL, NULL, 0},
	{BOOT + SEC + 3, 0, CAPTURE_KERNEL, true, NULL, NULL, 0},
};

static struct block_link chain[] = {
	{3, 4, "worker", "p", LINK_LOCK, "mutex of glibc", .stack = stacks},
	{3, 5, "\xff", NULL, LINK_LOCK},
	{3, 6, "joined", NULL, LINK_FUTEX, "its end", .stack = stacks},
	{.pid = 7,
	 .process = "system_server",
	 .how = LINK_BINDER,
	 .what = "code 3",
	 .queued_ns = {true, 1250000000},
	 .threads = {true, 15},
	 .at_work = {true, 15}},
	{7, 8, "binder:7_1", "system_server", LINK_BINDER, "at work on another call",
	 .stack = stacks},
	{9, 10, "Binder:9_2", NULL, LINK_BINDER, "code 4294967295", .queued_ns = {true, 0},
	 .served_ns = {true, 2500000}, .served_cpu_ns = {true, 2400000}},
};

static struct record_block block = {
	.pid = 4194303,
	.tid = 4194303,
	.package = "com.example",
	.process = "com.example.a.rather.long.package.name.of.an.application:remote",
	.start_boot_ns = BOOT,
	.wall_ns = 123456700000ull,
	.state = BLOCK_OPEN,
	.class = BLOCK_ANR,
	.merged = true,
	.detector = "uprobe",
	.ledger = {33456700000ull, 30000000000ull, 30000000000ull, 30000000000ull, 0},
	.reasons = reasons,
	.reason_count = COUNT(reasons),
	.waker = {true, 1, 2, "Binder:1_2", "system_server", "ioctl", stacks},
	.owner = {true, 3, 4, "worker", NULL},
	.chain = chain,
	.chain_count = COUNT(chain),
	.chain_cut = true,
	.deadlock = true,
	.preemptors = preemptors,
	.preemptor_count = COUNT(preemptors),
	.faults_minor = {true, 5},
	.faults_major = {true, 0},
	.machine_busy_ns = {true, 6},
	.app_cpu_ns = {true, 7},
	.app_rss_bytes = {true, 8},
	.stacks = stacks,
	.stack_count = COUNT(stacks),
	.top = {true, 1},
};

static struct jank_thread jank_threads[] = {
	{4194303,
	 4194303,
	 "example.a",
	 "com.example",
	 JANK_ROLE_MAIN,
	 {5000000, 9800000, 1000000, 2000000, 0, 300000},
	 {true, 12000000},
	 reasons,
	 COUNT(reasons),
	 preemptors,
	 COUNT(preemptors),
	 {true, 1, 2, "Binder:1_2", "system_server", NULL, NULL},
	 {true, 2841600}},
	{4194303, 4194310, "RenderThread", NULL, JANK_ROLE_RENDER, {.unknown_ns = 18100000}},
};
static const struct record_jank jank = {
	.pid = 4194303,
	.package = "com.example",
	.process = "com.example:remote",
	.layer = "com.example/com.example.Main#12",
	.surface_frame_token = {true, 81},
	.display_frame_token = {true, 82},
	.expected_start_ns = {true, BOOT + 10 * SEC},
	.expected_end_ns = {true, BOOT + 10 * SEC + 16600000},
	.actual_start_ns = BOOT + 10 * SEC + 100000,
	.actual_end_ns = BOOT + 10 * SEC + 18100000,
	.window_start_ns = BOOT + 10 * SEC,
	.window_end_ns = BOOT + 10 * SEC + 18100000,
	.late_ns = 16600000,
	.jank_type = "App Deadline Missed",
	.cause = JANK_CAUSE_NO_CPU,
	.second_cause = JANK_CAUSE_IO,
	.cause_ns = {true, 9000000},
	.second_cause_ns = {true, 6000000},
	.cause_thread = {true, 0},
	.culprit = {true, 99, 100, "dex2oat64", "dex2oat"},
	.confidence = 0.875,
	.clock_error_ns = {true, 1500},
	.threads = jank_threads,
	.thread_count = COUNT(jank_threads),
	.chain = chain,
	.chain_count = 1,
	.chain_cut = true,
	.deadlock = true,
	.stacks = stacks,
	.stack_count = 1,
	.top = {true, 0},
};
static const struct record_jank dropped = {.pid = 1,
					   .layer = "\xff",
					   .actual_end_ns = 5,
					   .dropped = true,
					   .cause_thread = {true, 7}}; /* past the end */

static const struct record_addition addition = {.of = 6,
						.of_boot_ns = BOOT + 3 * SEC,
						.stack = {BOOT + 2 * SEC, 1500000000,
							  CAPTURE_SNAPSHOT, true, "outermost frame",
							  frames, 5}};
static const struct record_addition bare_addition = {.of = 3};

static const struct record_block died = {
	.pid = 1, .tid = 1, .wall_ns = 500000000, .state = BLOCK_EXITED, .class = BLOCK_SHORT};
static const struct record_block closed = {.pid = 1,
					   .tid = 1,
					   .process = "p",
					   .wall_ns = 2000000000,
					   .state = BLOCK_CLOSED,
					   .class = BLOCK_LONG,
					   .waker = {true, 2, 3, "\x1b[2J", "q", "write", stacks},
					   .top = {true, 9}}; /* past the end */

static const struct record_event events[] = {
	{.event = "start"},
	{.event = "target_start",
	 .keys = {{"pid", NULL, 4194303},
		  {"uid", NULL, 4294967294},
		  {"start_boot_ns", NULL, 4999000000000},
		  {"process", "com.example.a.rather.long.package.name.of.an.application:remote", 0},
		  {"package", "com.example.a.rather.long.package.name.of.an.application", 0}},
	 .key_count = 5},
	{.event = "target_exit", .keys = {{"process", "\x1b[2J\xff", 0}}, .key_count = 1},
	{.event = "suspend", .keys = {{"dur_ns", NULL, 60000000000}}, .key_count = 1},
	{.event = "clock_jump", .keys = {{"step_ns", NULL, -3600000000000}}, .key_count = 1},
};

static struct summary_total totals[] = {
	{"intervals", 604800},
	{"dur_ns", 604800e9},
	{"cpu.busy_ns", 4838399.875e9},
	{"targets.cpu_ns", 3000002.0e9},
	{"targets.rx_bytes", 1},
	{"targets.tx_bytes", 2},
	{"frames.shown", 185},
	{"frames.janky", 3},
	{"frames.dropped", 1},
	{"frames.jank_pct", 1.5},
	{"frames.late", 4},
	{"frames.late_ns", 48500000},
	{"frames.causes.no_cpu", 1},
	{"frames.causes.no_cpu_ns", 16600000},
	{"frames.causes.lock", 2},
	{"frames.causes.lock_ns", 30400000},
	{"frames.causes.unexplained", 1},
	{"frames.causes.unexplained_ns", 1500000},
	{"cpu.idle_ns", 1e9},
	{"cpu.unaccounted_ns", -246913},
	{"cpu.tasks_exited", 12345678},
	{"cpu.deep.er.path", 0.5},
	{"net.rx_bytes", 9007199254740991.0},
	{"net.tx_bytes", 9007199254740993.0 * 1024},
	{"net.loopback.rx_bytes", 1099511627776.0},
	{"net.loopback.tx_bytes", 1099511627776.0},
	{"net.unattributed.rx_bytes", 1},
	{"net.unattributed.tx_bytes", 2},
	{"blocks.count", 2},
	{"blocks.total_ns", 2.5e9},
	{"self.cpu_ns", 604800e6},
	{"self.anon_bytes", 8388608},
	{"self.memory_bytes", 8388608},
	{"self.stops", 4},
	{"lost_pct", 0.0123},
	{"lost_pct_of.cpu_time", 0.0123},
	{"lost_pct_of.blocks", 0},
	{"lost_pct_of.records", 0.0011},
	{"tables_dropped", 12},
	{"memory.total_bytes", 8589934592.0},
	{"memory.pressure_some_ns", 1.5e9},
};

static struct record_distribution distributions[] = {
	{"memory.available_bytes", 2, 1u << 30, 1u << 31, 1.5e9, 1u << 30, 1u << 31, 1u << 31,
	 1u << 31},
	{"blocks.wall_ns", 2, 500000000, 2000000000, 1250000000, 500000000, 2e9, 2e9, 2e9},
	{"interval.dur_ns", 1, 1, 1, 1.5, 1, 1, 1, 1},
};

static const struct footer_usage top_threads[] = {
	{4194303,
	 4194303,
	 10123,
	 "RenderThread",
	 "com.example.a.rather.long.package.name.of.an.application",
	 "com.example.a",
	 77,
	 1,
	 0,
	 true,
	 3000000000000000ull,
	 {true, 5}},
	{0, 0, 0, "\x1b[31mred\x07\x7f", "/usr/bin/evil\nname", NULL, 0, 12345, 0, false,
	 2000000000},
	{5, 6, 0, "ksoftirqd/0", NULL, NULL, 3, 1, 0, false, 1},
};
static const struct footer_usage top_processes[] = {
	{4194303,
	 0,
	 10123,
	 NULL,
	 "com.example.a.rather.long.package.name.of.an.application",
	 "com.example.a",
	 77,
	 1,
	 64,
	 false,
	 3000000000000000ull,
	 {true, 5}},
	{0, 0, 0, NULL, "sleep", NULL, 0, 12345, 1, true, 2000000000},
	/* Right-to-left override, zero width and wide characters */
	{8, 0, 0, NULL,
	 "\xe2\x80\xae"
	 "evil\xe2\x80\x8b \xe6\xbc\xa2\xe5\xad\x97",
	 NULL, 1, 1, 1, false, 1},
};
static const struct footer_usage top_uids[] = {
	{.uid = 10123,
	 .package = "com.example.a.rather.long.package.name.of.an.application",
	 .count = 1,
	 .cpu_ns = 3000000000000000ull,
	 .rx_bytes = {true, 1ull << 60},
	 .tx_bytes = {true, 0}},
	{.uid = 4294967294u, .count = 1, .rx_bytes = {true, 5}, .tx_bytes = {true, 6}},
};
static const struct footer_layer footer_layers[] = {
	{4321, "com.example", "SurfaceView[com.example/com.example.MainActivity](BLAST)#0", 118, 1,
	 3},
	{.layer = NULL, .shown = 60},
};
static const struct footer_block_path block_paths[] = {
	{"main;void ns::Map<int, std::string>::put<Other>(int, Other&&) const", 2, 2000000000,
	 1500000000},
	/* the same in short as the one before */
	{"main;void ns::Map<long, std::string>::put<Other>(long, Other&&) const", 1, 500000000,
	 500000000},
	{NULL, 1, 1, 1},
};

static const struct footer_memory memory_runs[] = {
	{.pid = 4194303,
	 .process = "com.example.a.rather.long.package.name.of.an.application:remote",
	 .package = "com.example",
	 .start_boot_ns = 77,
	 .exited = true,
	 .pss = {9, 1 << 20, 9 << 20, 4194304.5, 4 << 20, 8 << 20, 8 << 20, 9 << 20},
	 .rss = {90, 2 << 20, 10 << 20, 5194304, 5 << 20, 9 << 20, 9 << 20, 10 << 20},
	 .has_pss = true,
	 .has_rss = true,
	 .pss_slope = {true, 5 << 20},
	 .low = {true, -(1 << 20)},
	 .high = {true, 6 << 20},
	 .rss_slope = {true, 4 << 20},
	 .rss_low = {true, 3 << 20},
	 .rss_high = {true, 5 << 20},
	 .threads_max = {true, 113},
	 .fds_max = {true, 400},
	 .vss_max_bytes = {true, 1ull << 40}},
	{.pid = 5,
	 .process = "\x1b[31mred",
	 .rss = {1, 4096, 4096, 4096, 4096, 4096, 4096, 4096},
	 .has_rss = true},
};

static struct record_footer footer = {
	.totals = totals,
	.total_count = COUNT(totals),
	.distributions = distributions,
	.distribution_count = COUNT(distributions),
	.top_present = true,
	.any_layer = true,
	.any_block = true,
	.threads = {top_threads, COUNT(top_threads), 17},
	.processes = {top_processes, COUNT(top_processes), 18},
	.uids = {top_uids, COUNT(top_uids), 19, {true, 20}, {true, 21}},
	.layers = footer_layers,
	.layer_count = COUNT(footer_layers),
	.other_layers = {.shown = 7},
	.block_paths = block_paths,
	.block_path_count = COUNT(block_paths),
	.other_block_paths = {NULL, 3, 4, 2},
	.memory = memory_runs,
	.memory_count = COUNT(memory_runs),
	.other_memory = 3,
};

static const struct record_header bare_header = {
	.session = "01234567-89ab-cdef-0123-456789abcdef", .kernel = "Linux 6.1", .arch = "x86_64"};
static const struct record_interval bare_interval = {.dur_ns = 1};
static struct record_task bare_tasks[] = {{.tid = 1, .pid = 1, .thread = "init", .cpu_ns = 1}};
static const struct record_interval bare_cpu = {
	.dur_ns = SEC,
	.cpu = {.present = true,
		.online_cpus = 1,
		.busy_ns = 1,
		.tasks = bare_tasks,
		.task_count = 1},
	.net = {.present = true},
	.frames = {.present = true},
};
static const struct record_block bare_block = {.pid = 1, .tid = 1};
static const struct record_footer bare_footer = {0};

static const struct record full_run[] = {
	{RECORD_HEADER, 0, BOOT, .header = &header},
	{RECORD_EVENT, 1, BOOT + 1000000, .event = &events[0]},
	{RECORD_EVENT, 2, BOOT + 2000000, .event = &events[1]},
	{RECORD_INTERVAL, 3, BOOT + SEC, .interval = &full},
	{RECORD_BLOCK, 4, BOOT + 2 * SEC, .block = &block},
	{RECORD_BLOCK, 5, BOOT + 3 * SEC, .block = &died},
	{RECORD_BLOCK, 6, BOOT + 3 * SEC, .block = &closed},
	{RECORD_EVENT, 7, BOOT + 4 * SEC, .event = &events[2]},
	{RECORD_EVENT, 8, BOOT + 64 * SEC, .event = &events[3]},
	{RECORD_EVENT, 9, BOOT + 65 * SEC, .event = &events[4]},
	{RECORD_INTERVAL, 10, BOOT + 99999 * SEC, .interval = &last},
	{RECORD_STACK, 11, BOOT + 99999 * SEC, .addition = &addition},
	{RECORD_JANK, 12, BOOT + 11 * SEC, .jank = &jank},
	{RECORD_JANK, 13, BOOT + 12 * SEC, .jank = &dropped},
	{RECORD_FOOTER, 14, BOOT + 99999 * SEC, .footer = &footer},
};

static const struct record bare_run[] = {
	{RECORD_HEADER, 0, BOOT, .header = &bare_header},
	{RECORD_INTERVAL, 1, BOOT + 1, .interval = &bare_interval},
	{RECORD_INTERVAL, 2, BOOT + SEC, .interval = &bare_cpu},
	{RECORD_BLOCK, 3, BOOT + SEC, .block = &bare_block},
	{RECORD_STACK, 4, BOOT + SEC, .addition = &bare_addition},
	{RECORD_FOOTER, 5, BOOT + SEC, .footer = &bare_footer},
};

static const struct golden runs[] = {
	{"full", full_run, COUNT(full_run)},
	{"bare", bare_run, COUNT(bare_run)},
};

static void lists(void)
{
	static const char *const losses[] = {
		"records_dropped",       "cpu_task_map_full", "cpu_death_ring_full",
		"net_header_unreadable", "net_lost_bytes",
	};
	static const char *const late[] = {"interval_overruns", "cpu_walks_skipped"};
	struct histogram *histogram = histogram_new();

	for (size_t i = 0; i < COUNT(losses); i++)
		cr_assert_eq(counter_list_add(&full.lost, losses[i], 1ull << (10 * i)), 0);
	for (size_t i = 0; i < COUNT(late); i++)
		cr_assert_eq(counter_list_add(&full.late, late[i], i + 1), 0);
	cr_assert_eq(counter_list_add(&full.repaired, "cpu_missed_switches", 1234567), 0);
	cr_assert_eq(counter_list_merge(&footer.late, &full.late), 0);
	cr_assert_eq(counter_list_merge(&footer.repaired, &full.repaired), 0);
	cr_assert_eq(missing_list_set(&memory_rows[1].missing, "rss_bytes",
				      "it has no memory: a zombie or a kernel thread"),
		     0);
	cr_assert_eq(missing_list_set(&full.missing, "frames", "no SurfaceFlinger here"), 0);
	for (uint64_t i = 0; i < 100; i++)
		cr_assert_eq(histogram_add(histogram, 8333333 + i % 3 * 8333333), 0);
	layers[0].interval_hist = histogram;
	cr_assert_eq(counter_list_add(&block.lost, "preemptors", 3), 0);
	cr_assert_eq(missing_list_set(&block.missing, "waker", "unknown"), 0);
	cr_assert_eq(counter_list_merge(&footer.lost, &full.lost), 0);
	cr_assert_eq(missing_list_set(&footer.missing, "cpu.tasks.sleeping_ns",
				      "the off-CPU split needs a hook on every switch, which this "
				      "kernel refused: \x1b[1mnot permitted"),
		     0);
}

const struct golden *golden_runs(size_t *count)
{
	if (!full.lost.count)
		lists();
	*count = COUNT(runs);
	return runs;
}

bool golden_equal(const char *file, const char *text, size_t length)
{
	const char *mode = getenv("JANKSCOPE_GOLDEN");
	char path[128], *want;
	size_t size, at = 0, line = 1;
	FILE *f;

	snprintf(path, sizeof(path), "tests/unit/golden/%s", file);
	if (mode && !strcmp(mode, "write")) {
		f = fopen(path, "w");
		cr_assert_not_null(f, "%s", path);
		cr_assert_eq(fwrite(text, 1, length, f), length);
		fclose(f);
		return true;
	}
	f = fopen(path, "r");
	cr_assert_not_null(f, "%s", path);
	want = malloc(1 << 20);
	size = fread(want, 1, 1 << 20, f);
	fclose(f);
	while (at < size && at < length && want[at] == text[at])
		line += text[at++] == '\n';
	if (size != length || at != size)
		fprintf(stderr,
			"%s:%zu: differs at byte %zu (%zu bytes, now %zu); see "
			"JANKSCOPE_GOLDEN=write\n want: %.60s\n  got: %.60s\n",
			path, line, at, size, length, at < size ? want + at : "",
			at < length ? text + at : "");
	free(want);
	return size == length && at == size;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* What perfetto is asked for: text of protos/perfetto/config/trace_config.proto. */
#pragma once

static const char perfetto_config[] =
	"buffers { size_kb: 16384 fill_policy: RING_BUFFER }\n"
	"data_sources { config { name: \"android.surfaceflinger.frametimeline\" } }\n"
	"data_sources { config { name: \"linux.process_stats\" process_stats_config {\n"
	"  scan_all_processes_on_start: true } } }\n"
	"data_sources { config { name: \"android.packages_list\" } }\n"
	/* Up to v40 (Android 14) at the least the service says what it lost every ten seconds, not
	 * when it ends. */
	"builtin_data_sources { snapshot_interval_ms: 1000 }\n"
	"write_into_file: true\n"
	"file_write_period_ms: 500\n"
	"flush_period_ms: 1000\n";
/* A file is as long as what was read of it: at its end perfetto is started again. */
static const char perfetto_limit[] = "max_file_size_bytes: 134217728\n";
/* ActivityManager's markers alone, for --startup: some bytes for each activity that is launched.
 * atrace tells each process that its tags have changed, so that they are not asked for without. */
static const char perfetto_launches[] =
	"data_sources { config { name: \"linux.ftrace\" ftrace_config {\n"
	"  ftrace_events: \"ftrace/print\" atrace_categories: \"am\" buffer_size_kb: 512 } } }\n";

/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of the records themselves, in the order of their keys. What a source adds to an interval
 * stands in the source's folder. */
#include "record/fields.h"
#include "record/fields_private.h"

/* ---- header ---- */

#define TEXT_OF(number)  TEXT_OF_(number)
#define TEXT_OF_(number) #number

static const char *const schema_words[] = {TEXT_OF(RECORD_SCHEMA), NULL};
static const char *const version_words[] = {JANKSCOPE_VERSION, NULL};
static const char *const arch_words[] = {"arm64", "x86_64", NULL};
static const char *const source_state_words[] = {"ok", "degraded", "absent", NULL};

static const struct field clock_rows[] = {
	FIELD_AS("boot_ns", struct record_header, clock.boot_ns, REQUIRED, NS,
		 "CLOCK_BOOTTIME, the clock of all t_boot_ns"),
	FIELD_AS("mono_ns", struct record_header, clock.mono_ns, REQUIRED, NS, "CLOCK_MONOTONIC"),
	FIELD_AS("unix_ns", struct record_header, clock.unix_ns, REQUIRED, NS,
		 "wall time since 1970, a label only"),
};
static const struct field_type clock_type = FIELD_TYPE("clock", struct record_header, clock_rows);

static const struct field android_rows[] = {
	FIELD_AS("fingerprint", struct record_header, android.fingerprint, OPTIONAL, NAME,
		 "ro.build.fingerprint: which build it is", TEXT_IS(WORD)),
	FIELD_AS("release", struct record_header, android.release, OPTIONAL, NAME,
		 "ro.build.version.release, as 14", TEXT_IS(WORD)),
	FIELD_AS("api", struct record_header, android.api, OPTIONAL, ID,
		 "ro.build.version.sdk: the API level"),
	FIELD_AS("build_type", struct record_header, android.build_type, OPTIONAL, NAME,
		 "ro.build.type: user, userdebug or eng", TEXT_IS(WORD)),
};
static const struct field_type android_type =
	FIELD_TYPE("android", struct record_header, android_rows);

static const struct field header_target_rows[] = {
	FIELD(struct header_target, package, OPTIONAL, NAME, "the name that was given"),
	FIELD(struct header_target, uid, OPTIONAL, ID, "the uid that was given"),
	FIELD(struct header_target, pid, OPTIONAL, ID, "the pid that was given"),
};
static const struct field_type header_target_type =
	FIELD_TYPE("target", struct header_target, header_target_rows, .some = true);

static const struct field header_source_rows[] = {
	FIELD(struct header_source, name, REQUIRED, NAME, "the source, like cpu", TEXT_IS(WORD)),
	FIELD(struct header_source, state, REQUIRED, NAME, "how it runs",
	      .words = source_state_words),
	FIELD(struct header_source, variant, OPTIONAL, NAME, "which of its twins runs",
	      TEXT_IS(WORD)),
	FIELD(struct header_source, reason, OPTIONAL, NAME, "why it is not ok", TEXT_IS(SENTENCE)),
};
static const struct field_type header_source_type =
	FIELD_TYPE("source", struct header_source, header_source_rows);

static const struct field segment_rows[] = {
	FIELD_AS("number", struct record_header, segment.number, NONZERO, ID,
		 "its number, from 1 in each folder"),
	FIELD_AS("first_seq", struct record_header, segment.first_seq, NONZERO, ID,
		 "seq of the record behind this header; where it is more than 1 the header is told "
		 "again with the seq and the time that it had"),
	FIELD_AS("resolution_ns", struct record_header, segment.resolution_ns, NONZERO, NS,
		 "--keep merged the intervals of each such time into one"),
};
static const struct field_type segment_type =
	FIELD_TYPE("segment", struct record_header, segment_rows);

static const struct field estimate_rows[] = {
	FIELD_AS("bytes_per_day", struct record_header, estimate.bytes_per_day, NONZERO, BYTES,
		 "what a day of it was expected to take in the file or, compressed, in the folder"),
	FIELD_AS("processes", struct record_header, estimate.processes, NONZERO, COUNT,
		 "processes that there were"),
	FIELD_AS("threads", struct record_header, estimate.threads, NONZERO, COUNT,
		 "threads that these had"),
	FIELD_AS("active_threads", struct record_header, estimate.active_threads, NONZERO, COUNT,
		 "how many of them were expected to run in each interval"),
};
static const struct field_type estimate_type =
	FIELD_TYPE("estimate", struct record_header, estimate_rows);

static const struct field header_rows[] = {
	{.key = "schema",
	 .kind = FIELD_FIXED,
	 .need = FIELD_REQUIRED,
	 .unit = UNIT_COUNT,
	 .words = schema_words,
	 .meaning = "version of the schema"},
	{.key = "version",
	 .kind = FIELD_FIXED,
	 .need = FIELD_REQUIRED,
	 .unit = UNIT_NAME,
	 .words = version_words,
	 .meaning = "version of jankscope"},
	FIELD(struct record_header, session, REQUIRED, UUID, "identity of the recording",
	      TEXT_IS(WORD)),
	FIELD(struct record_header, boot_id, REQUIRED, NAME,
	      "identity of the boot: CLOCK_BOOTTIME of two recordings compares only within one",
	      TEXT_IS(WORD)),
	FIELD(struct record_header, kernel, REQUIRED, NAME, "name and release of the kernel",
	      TEXT_IS(WORD)),
	FIELD(struct record_header, arch, REQUIRED, NAME, "machine", .words = arch_words),
	FIELD(struct record_header, device, OPTIONAL, NAME, "model of the device", TEXT_IS(WORD)),
	FIELD_GROUP_AS("android", NONZERO, &android_type,
		       "the Android that the device runs, by its properties"),
	FIELD(struct record_header, selinux, OPTIONAL, NAME,
	      "SELinux context of the recorder: u:r:su:s0 on userdebug, u:r:magisk:s0 with Magisk",
	      TEXT_IS(WORD)),
	FIELD(struct record_header, page_bytes, OPTIONAL, BYTES, "size of a page of memory"),
	FIELD_GROUP("clock", &clock_type, "the clocks, read at one moment"),
	FIELD(struct record_header, interval_ns, REQUIRED, NS, "length that intervals are to have"),
	FIELD(struct record_header, block_ns, REQUIRED, NS,
	      "length from which on a block is told; 0: blocks are not looked for"),
	FIELD_ROWS("targets", struct record_header, targets, target_count, REQUIRED,
		   &header_target_type, "what was asked for; none: the whole device"),
	FIELD_ROWS("sources", struct record_header, sources, source_count, REQUIRED,
		   &header_source_type, "what measures, and by which means"),
	FIELD_GROUP_AS("estimate", NONZERO, &estimate_type,
		       "of a recording of the whole device: its size, as it was foreseen"),
	FIELD_GROUP_AS("segment", NONZERO, &segment_type,
		       "of a recording in a folder: the part of it that begins here"),
};
static const struct field_type header_type =
	FIELD_TYPE("header", struct record_header, header_rows,
		   .meaning = "the first record: device, kernel, clocks, what is recorded and how");

/* ---- interval ---- */

static const struct field self_rows[] = {
	FIELD(struct record_self, cpu_ns, REQUIRED, NS, "CPU time of jankscope and its helpers",
	      MERGED(SUM)),
	FIELD(struct record_self, anon_bytes, OPTIONAL, BYTES,
	      "anonymous memory of the recorder's process", MERGED(LAST)),
	FIELD(struct record_self, memory_bytes, OPTIONAL, BYTES,
	      "what a memory cgroup would charge beside the cache of files, within 10 % and 1 "
	      "MiB: memory of all processes of jankscope, a shared page counted once, and the "
	      "kernel's for the processes, BPF maps and programs",
	      MERGED(LAST)),
	FIELD(struct record_self, unwinder_cache_bytes, OPTIONAL, BYTES,
	      "of this: files of code that the unwinder has read, and forgets by use when there "
	      "are 16 MiB of ELF files or of methods of runtimes, or 256 files",
	      MERGED(LAST)),
	FIELD(struct record_self, stops, REQUIRED, COUNT,
	      "how often a thread of a target was stopped by ptrace", MERGED(SUM)),
	FIELD(struct record_self, stop_max_ns, REQUIRED, NS, "the longest of these stops",
	      MERGED(MAX)),
};
static const struct field_type self_type = FIELD_TYPE("self", struct record_self, self_rows);

static const struct field seqs_rows[] = {
	FIELD(struct record_seqs, first, REQUIRED, ID, "first seq"),
	FIELD(struct record_seqs, last, REQUIRED, ID, "last seq"),
};
static const struct field_type seqs_type = FIELD_TYPE("seqs", struct record_seqs, seqs_rows);

static const struct field merged_rows[] = {
	FIELD(struct record_merged, intervals, REQUIRED, COUNT, "how many intervals these were",
	      MERGED(SUM)),
	FIELD(struct record_merged, begin_boot_ns, REQUIRED, NS, "when the first of them began",
	      MERGED(MIN)),
	FIELD_ROWS("seqs", struct record_merged, seqs, seq_count, REQUIRED, &seqs_type,
		   "the seq that they had, as ranges; this record has the last one", MERGED(LAST)),
	FIELD(struct record_merged, parts, REQUIRED, COUNT,
	      "what each source measured: in how many of the intervals it is"),
	FIELD(struct record_merged, absent, REQUIRED, COUNT,
	      "in how many of the intervals each key of missing was absent"),
};
static const struct field_type merged_type =
	FIELD_TYPE("merged", struct record_merged, merged_rows);

static const struct field interval_rows[] = {
	FIELD(struct record_interval, dur_ns, REQUIRED, NS, "measured length of the interval",
	      MERGED(SUM)),
	FIELD(struct record_interval, last, NONZERO, NONE,
	      "shorter or longer than the others, by the end of the run"),
	FIELD(struct record_interval, marked, NONZERO, NONE,
	      "it ended early, where a scene begins or ends"),
	FIELD_STRUCT_IF("merged", struct record_interval, merged, merged.present, &merged_type,
			"--keep made it of several: dur_ns and what is counted are their sums, "
			"readings are the newest, and missing has what some of them lack"),
	{.kind = FIELD_PARTS},
	COUNTERS(struct record_interval, lost, REQUIRED, LOST_MEANING),
	COUNTERS(struct record_interval, late, ALWAYS, LATE_MEANING),
	COUNTERS(struct record_interval, repaired, ALWAYS, REPAIRED_MEANING),
	MISSING(struct record_interval),
	FIELD_STRUCT("self", struct record_interval, self, &self_type,
		     "what jankscope itself costs"),
};
static const struct field_type interval_type =
	FIELD_TYPE("interval", struct record_interval, interval_rows,
		   .meaning = "what happened since the interval before, t_boot_ns is its end");

/* ---- stacks ---- */

static const char *const kind_words[] = {"native", "jit", "dex", "kernel", "vdso", NULL};
static const char *const by_words[] = {"cfi", "fp", "lr", "scan", "quick", NULL};
static const char *const capture_words[] = {"snapshot", "perf", "ptrace", "kernel", NULL};

static const struct field frame_rows[] = {
	FIELD(struct record_frame, module, OPTIONAL, NAME, "file of the code"),
	FIELD(struct record_frame, build_id, OPTIONAL, HEX, "build id of that file"),
	{.key = "offset",
	 .kind = FIELD_ADDRESS,
	 FIELD_PLACE(struct record_frame, offset),
	 .need = FIELD_REQUIRED,
	 .unit = UNIT_BYTES,
	 .meaning = "place in the file; the address where there is no file"},
	FIELD(struct record_frame, symbol, OPTIONAL, NAME, "name of the function, demangled"),
	FIELD_WORDS(struct record_frame, kind, REQUIRED, kind_words, "what kind of code it is"),
	FIELD_WORDS(struct record_frame, by, NONZERO, by_words,
		    "how the frame was found from the one inside it; absent: by unwind tables "
		    "(cfi)"),
	FIELD(struct record_frame, shared, NONZERO, NONE,
	      "one copy of the code stands for several functions: symbol names none of them"),
	FIELD(struct record_frame, line, NONZERO, NONE,
	      "of a method of Java: its line, as the app's file has it (R8 may have changed it)"),
	FIELD(struct record_frame, dex_pc, OPTIONAL, COUNT,
	      "of code that ART compiled ahead of time: the place in the method's byte code, in "
	      "units of 16 bits (what dexdump prints). The compiler keeps it for calls: absent "
	      "where "
	      "the thread itself stands, of a JIT compiler's code, and of an oat file that is not "
	      "known"),
	FIELD(struct record_frame, inlined, NONZERO, NONE,
	      "the compiler made this method a part of the next frame's"),
};
static const struct field_type frame_type = FIELD_TYPE("frame", struct record_frame, frame_rows);

static const struct field stack_body_rows[] = {
	FIELD(struct record_stack, weight_ns, REQUIRED, NS,
	      "how much of the block this stack stands for"),
	FIELD_WORDS(struct record_stack, capture, REQUIRED, capture_words, "how it was captured"),
	FIELD(struct record_stack, complete, REQUIRED, NONE,
	      "it reaches the thread's first function"),
	FIELD(struct record_stack, end_reason, OPTIONAL, NAME, "why it ends where it ends",
	      TEXT_IS(SENTENCE)),
	FIELD(struct record_stack, in_wait, NONZERO, NONE,
	      "the innermost frame waits for events: it does no work, or is a nested loop"),
	FIELD_ROWS("frames", struct record_stack, frames, frame_count, REQUIRED, &frame_type,
		   "its frames, innermost first"),
};
static const struct field_type stack_body_type =
	FIELD_TYPE("stack_body", struct record_stack, stack_body_rows);

static const struct field stack_rows[] = {
	FIELD(struct record_stack, t_boot_ns, REQUIRED, NS, "time of the capture"),
	FIELD(struct record_stack, tid, NONZERO, ID, "of a late frame: whose stack it is"),
	FIELD(struct record_stack, asleep, NONZERO, NONE,
	      "of a late frame: the thread slept in it"),
	FIELD(struct record_stack, samples, NONZERO, COUNT,
	      "of a late frame: how many samples met the thread so"),
	{.kind = FIELD_INLINE, .of = &stack_body_type},
};
const struct field_type record_stack_type = FIELD_TYPE("stack", struct record_stack, stack_rows);

static const struct field addition_rows[] = {
	FIELD(struct record_addition, of, REQUIRED, ID, "seq of the block"),
	FIELD_SAME_LEVEL(struct record_addition, stack, &stack_body_type),
};
static const struct field_type addition_type = FIELD_TYPE(
	"addition", struct record_addition, addition_rows,
	.meaning = "a stack that came after its block; t_boot_ns is that of the capture");

/* ---- block ---- */

static const char *const state_words[] = {"open", "closed", "exited", NULL};
static const char *const class_words[] = {"short", "long", "anr", NULL};

static const struct field ledger_rows[] = {
	FIELD_AS("running_ns", struct record_block, ledger.running_ns, REQUIRED, NS, "on a CPU"),
	FIELD_AS("runnable_ns", struct record_block, ledger.runnable_ns, REQUIRED, NS,
		 "ready to run, without a CPU"),
	FIELD_AS("sleeping_ns", struct record_block, ledger.sleeping_ns, REQUIRED, NS,
		 "asleep (state S): locks, binder, timers"),
	FIELD_AS("uninterruptible_ns", struct record_block, ledger.uninterruptible_ns, REQUIRED, NS,
		 "asleep in the kernel (state D): disk, page faults"),
	FIELD_AS("stopped_ns", struct record_block, ledger.stopped_ns, REQUIRED, NS,
		 "stopped, traced or frozen"),
};
static const struct field_type ledger_type = FIELD_TYPE("ledger", struct record_block, ledger_rows);

static const struct field reason_rows[] = {
	FIELD(struct block_reason, reason, REQUIRED, NAME, "what was waited for, like futex",
	      TEXT_IS(WORD)),
	FIELD(struct block_reason, ns, REQUIRED, NS, "for how long in sum"),
};
const struct field_type record_reason_type = FIELD_TYPE("reason", struct block_reason, reason_rows);

static const struct field thread_rows[] = {
	FIELD(struct record_thread, pid, REQUIRED, ID, "its process"),
	FIELD(struct record_thread, tid, REQUIRED, ID, "thread id"),
	FIELD(struct record_thread, thread, REQUIRED, NAME, "its name"),
	FIELD(struct record_thread, process, OPTIONAL, NAME, "its process's name"),
};
const struct field_type record_thread_type =
	FIELD_TYPE("thread", struct record_thread, thread_rows);

static const struct field waker_rows[] = {
	FIELD(struct record_waker, pid, REQUIRED, ID, "its process"),
	FIELD(struct record_waker, tid, REQUIRED, ID, "thread id"),
	FIELD(struct record_waker, thread, REQUIRED, NAME, "its name"),
	FIELD(struct record_waker, process, OPTIONAL, NAME, "its process's name"),
	FIELD(struct record_waker, what, OPTIONAL, NAME,
	      "what it was doing in the wake-up, like futex, write, exit", TEXT_IS(WORD)),
	{.key = "stack",
	 .kind = FIELD_POINTER,
	 FIELD_PLACE(struct record_waker, stack),
	 .need = FIELD_OPTIONAL,
	 .of = &record_stack_type,
	 .meaning = "its stack in the wake-up, where the sleep was half of --block or longer; "
		    "missing[\"waker.stack\"] says why it is not there"},
};
const struct field_type record_waker_type = FIELD_TYPE("waker", struct record_waker, waker_rows);

static const struct field preemptor_rows[] = {
	FIELD(struct block_preemptor, tid, ALWAYS, ID, "thread id"),
	FIELD(struct block_preemptor, thread, REQUIRED, NAME, "its name"),
	FIELD(struct block_preemptor, process, OPTIONAL, NAME, "its process's name"),
	FIELD(struct block_preemptor, ns, REQUIRED, NS, "how long it ran meanwhile"),
};
const struct field_type record_preemptor_type =
	FIELD_TYPE("preemptor", struct block_preemptor, preemptor_rows);

static const struct field sleep_waker_rows[] = {
	FIELD_AS("pid", struct block_sleep, waker_pid, REQUIRED, ID, "its process"),
	FIELD_AS("tid", struct block_sleep, waker_tid, REQUIRED, ID, "thread id"),
	FIELD_AS("thread", struct block_sleep, waker, REQUIRED, NAME, "its name"),
};
static const struct field_type sleep_waker_type =
	FIELD_TYPE("sleep_waker", struct block_sleep, sleep_waker_rows);

static const struct field sleep_rows[] = {
	FIELD(struct block_sleep, t_boot_ns, REQUIRED, NS, "when it began"),
	FIELD(struct block_sleep, ns, REQUIRED, NS,
	      "its length, without the wait for a CPU at its end"),
	FIELD(struct block_sleep, reason, REQUIRED, NAME, "what was waited for", TEXT_IS(WORD)),
	FIELD(struct block_sleep, syscall, OPTIONAL, ID, "number of the system call"),
	{.key = "waker",
	 .kind = FIELD_OBJECT,
	 .more_offset = offsetof(struct block_sleep, waker_tid),
	 .more_size = sizeof(pid_t),
	 .need = FIELD_OPTIONAL,
	 .of = &sleep_waker_type,
	 .meaning = "the thread that ended it"},
};
static const struct field_type sleep_type = FIELD_TYPE("sleep", struct block_sleep, sleep_rows);

static const char *const how_words[] = {"lock", "binder", "futex", "socket", "wakeup", NULL};

static const struct field link_rows[] = {
	FIELD(struct block_link, pid, REQUIRED, ID, "its process"),
	FIELD(struct block_link, tid, NONZERO, ID,
	      "thread id; absent: no thread of the process has taken the call yet"),
	FIELD(struct block_link, thread, NONZERO, NAME, "its name"),
	FIELD(struct block_link, process, OPTIONAL, NAME, "its process's name"),
	FIELD_WORDS(struct block_link, how, REQUIRED, how_words,
		    "how the one before waits for it: lock: it holds a lock; binder: it serves a "
		    "call; futex: no lock, but its word says who ends the wait (pthread_join); "
		    "socket: it is at the other end; wakeup: it ended the wait"),
	FIELD(struct block_link, what, OPTIONAL, NAME,
	      "what kind of lock; the code of the call, or that it is at work on another one",
	      TEXT_IS(SENTENCE)),
	FIELD(struct block_link, queued_ns, OPTIONAL, NS,
	      "how long the call waited for a thread, so far where none has taken it"),
	FIELD(struct block_link, served_ns, OPTIONAL, NS,
	      "how long the thread was at work on the call, so far where it is still"),
	FIELD(struct block_link, served_cpu_ns, OPTIONAL, NS,
	      "of that, on a CPU, as of its last switch or timer tick; for the rest it waited"),
	FIELD(struct block_link, threads, OPTIONAL, COUNT,
	      "where the call waits for a thread: how many serve binder in the process"),
	FIELD(struct block_link, at_work, OPTIONAL, COUNT, "and how many of them were at work"),
	{.key = "stack",
	 .kind = FIELD_POINTER,
	 FIELD_PLACE(struct block_link, stack),
	 .need = FIELD_OPTIONAL,
	 .of = &record_stack_type,
	 .meaning = "what it did at that moment"},
};
const struct field_type record_link_type = FIELD_TYPE("link", struct block_link, link_rows);

static const struct field block_rows[] = {
	FIELD(struct record_block, pid, REQUIRED, ID, "process"),
	FIELD(struct record_block, tid, REQUIRED, ID,
	      "thread: the main thread, or that of --thread"),
	FIELD(struct record_block, package, OPTIONAL, NAME, "package"),
	FIELD(struct record_block, process, OPTIONAL, NAME, "name of the process"),
	FIELD(struct record_block, start_boot_ns, REQUIRED, NS, "when it began"),
	FIELD(struct record_block, wall_ns, REQUIRED, NS,
	      "how long the thread did not come back to its poll"),
	FIELD_WORDS(struct record_block, state, REQUIRED, state_words,
		    "open: it goes on and is told again; exited: the thread died in it"),
	FIELD_WORDS(struct record_block, class, REQUIRED, class_words,
		    "long: from 2 s; anr: from 5 s"),
	FIELD(struct record_block, detector, OPTIONAL, NAME, "how it was found", TEXT_IS(WORD)),
	FIELD(struct record_block, merged, NONZERO, NONE,
	      "the detector could not tell neighbouring messages apart"),
	FIELD_GROUP("ledger", &ledger_type, "where wall_ns went"),
	FIELD(struct record_block, cpu_ns, OPTIONAL, NS,
	      "the thread's CPU time as the kernel charges it: running_ns without interrupts and "
	      "steal"),
	FIELD_ROWS("reasons", struct record_block, reasons, reason_count, REQUIRED,
		   &record_reason_type, "what the thread slept for, longest first"),
	FIELD_STRUCT_IF("waker", struct record_block, waker, waker.present, &record_waker_type,
			"the thread that ended its longest sleep"),
	FIELD_STRUCT_IF("owner", struct record_block, owner, owner.present, &record_thread_type,
			"the thread that held the lock that was waited for"),
	FIELD_ROWS("preemptors", struct record_block, preemptors, preemptor_count, REQUIRED,
		   &record_preemptor_type,
		   "who ran while the thread waited for a CPU, longest first"),
	FIELD(struct record_block, faults_minor, OPTIONAL, COUNT, "page faults without a disk"),
	FIELD(struct record_block, faults_major, OPTIONAL, COUNT, "page faults that read a disk"),
	FIELD_ROWS("sleeps", struct record_block, sleeps, sleep_count, NONZERO, &sleep_type,
		   "its longest times off the CPU, longest first"),
	FIELD(struct record_block, load_dur_ns, OPTIONAL, NS,
	      "the end of the block that the three values below are of"),
	FIELD(struct record_block, machine_busy_ns, OPTIONAL, NS, "busy time of all CPUs"),
	FIELD(struct record_block, app_cpu_ns, OPTIONAL, NS,
	      "CPU time of all threads of the process"),
	FIELD(struct record_block, app_rss_bytes, OPTIONAL, BYTES,
	      "resident memory of the process"),
	FIELD_ROWS("stacks", struct record_block, stacks, stack_count, REQUIRED, &record_stack_type,
		   "its stacks; missing.stacks is \"follows\" where they come as records of type "
		   "stack"),
	FIELD(struct record_block, top, OPTIONAL, ID, "index of the stack with most weight"),
	FIELD(struct record_block, unsampled_ns, OPTIONAL, NS,
	      "part of wall_ns that is in no stack"),
	{.key = "owner_stack",
	 .kind = FIELD_POINTER,
	 FIELD_PLACE(struct record_block, owner_stack),
	 .need = FIELD_OPTIONAL,
	 .of = &record_stack_type,
	 .meaning = "what the owner of the lock did"},
	FIELD_ROWS("chain", struct record_block, chain, chain_count, NONZERO, &record_link_type,
		   "who waits for whom, outermost first, as met last: the owner of the lock that "
		   "the thread waited for, or the thread that served its binder call, whom that "
		   "one waited for, and so on (at most 8)"),
	FIELD(struct record_block, chain_cut, NONZERO, NONE,
	      "the last of the chain waited for one more thread, which was not followed"),
	FIELD(struct record_block, deadlock, NONZERO, NONE,
	      "the last of the chain waited for one of it, or for the thread itself, and none of "
	      "them ran: they wait for ever"),
	COUNTERS(struct record_block, lost, REQUIRED, "what of this block could not be told"),
	MISSING(struct record_block),
};
static const struct field_type block_type =
	FIELD_TYPE("block", struct record_block, block_rows,
		   .meaning = "a time in which a main thread did not come back to its poll");

/* ---- event ---- */

static const struct field event_rows[] = {
	FIELD(struct record_event, event, REQUIRED, NAME,
	      "start, target_start, target_exit, suspend, clock_jump, cpu_offline, cpu_online, "
	      "gap, degraded, startup, launch, focus, disk_full, disk_ok, records_dropped, "
	      "segments_removed, "
	      "segment_taken, "
	      "recording_resumed, sync_failed ...; its own keys follow",
	      TEXT_IS(WORD)),
	{.kind = FIELD_EVENT_KEYS},
};
static const struct field_type event_type = FIELD_TYPE("event", struct record_event, event_rows,
						       .meaning = "something that happened once");

const char *const record_type_names[RECORD_TYPES + 1] = {
	[RECORD_HEADER] = "header", [RECORD_INTERVAL] = "interval", [RECORD_BLOCK] = "block",
	[RECORD_EVENT] = "event",   [RECORD_FOOTER] = "footer",     [RECORD_STACK] = "stack",
	[RECORD_JANK] = "jank",
};

const struct field_type *const record_types[RECORD_TYPES] = {
	[RECORD_HEADER] = &header_type,        [RECORD_INTERVAL] = &interval_type,
	[RECORD_BLOCK] = &block_type,          [RECORD_EVENT] = &event_type,
	[RECORD_FOOTER] = &record_footer_type, [RECORD_STACK] = &addition_type,
	[RECORD_JANK] = &record_jank_type,
};

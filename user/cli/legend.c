/* SPDX-License-Identifier: BSD-2-Clause */
#include "cli/legend.h"

#include "cli/options_private.h"

#define WORD_COLUMN 20

static const struct legend_row start_rows[] = {
	{"sources:", "how each source measures: the programs that were loaded. (degraded) and "
		     "(absent) stand behind one that measures less, or nothing; the header of the "
		     "recording has the reason"},
	{"* start",
	 "an event, as are target_start, target_exit, suspend, clock_jump, cpu_offline, "
	 "cpu_online, thermal_cap (CPUs may not run at their full frequency, and when "
	 "they may again) and gap (an interval that came late; of the source frames: what was "
	 "shown between from_boot_ns and until_boot_ns is lost)"},
	{"loop", "of target_start: what the main thread waits in for its work: epoll, poll, "
		 "select, io_uring, or none with the reason. A thread without a loop has no "
		 "blocks"},
};

static const struct legend_row cpu_rows[] = {
	{"target N %core", "CPU time of all targets together, in per cent of one core: two busy "
			   "threads are 200 %"},
	{"busy, idle", "of all CPUs of the machine together; what is missing to 100 % is "
		       "unaccounted"},
	{"%core", "CPU time in per cent of one core"},
	{"CPU ms", "CPU time in this interval; s behind it: in seconds"},
	{"wait ms", "how long it was ready to run and had no CPU"},
	{"vol", "switches: the thread went to sleep by itself"},
	{"invol", "switches: the thread was pushed off its CPU. k and M: thousands, millions"},
	{"PID/TID", "of a process its pid; of a thread, indented below it, its tid"},
	{"(N threads)", "so many of its threads ran in this interval"},
	{"xN", "N processes of this name and uid that began or ended in this interval, in one "
	       "row; in the summary N that lived shorter than 5 s, or ended and were light"},
	{"ended", "it ended in this interval"},
	{"in N other processes", "those that have no row (15 rows, --top)"},
	{"not the target's", "CPU time of the rest of the machine"},
	{"net uid N", "bytes and packets of a uid, without loopback; rx received, tx sent"},
	{"net no uid", "forwarded, the kernel's own, or without a socket"},
	{"frames", "of a layer: frames shown, frames with jank, refreshes dropped, frames a second "
		   "while it was active (fps_active; -: of one frame there is none)"},
	{"power", "the battery's current with the kernel's sign (mostly below 0 while it is "
		  "discharged), voltage, charge and status; the hottest thermal zone; which CPUs "
		  "may not run at their full frequency"},
	{"external power", "it comes from USB or the mains: the current is not what the device "
			   "uses"},
	{"mem",
	 "of a target's process: resident memory (rss), and its share of it, where a page "
	 "is divided by those who map it (pss: read every --smaps, - between); threads (thr) "
	 "and descriptors (fds) that it has"},
	{"mem available", "what a program could get without swapping; waited for: time in which "
			  "some task waited for memory (PSI)"},
	{"LOST", "what is missing in this interval, by name; lost: none if nothing is"},
	{"late, repaired", "told later than it should be, or made good: nothing is missing. In "
			   "the table with -v, in the summary always"},
	{"self", "what jankscope itself costs, helpers included: CPU time and memory"},
	{"-", "not measured"},
};

static const struct legend_row block_rows[] = {
	{"BLOCK", "a main thread did not come back to its loop: short is up to 2 s, long up to "
		  "5 s, ANR from 5 s on"},
	{"so far", "the block lasts still; it is told again when it ends"},
	{", then it died", "the process ended in its block"},
	{"(merged)", "neighbouring messages could not be told apart"},
	{"run", "share of the block that the thread was on a CPU"},
	{"wait", "share that it was ready and had no CPU"},
	{"sleep", "share that it slept"},
	{"D", "share in uninterruptible sleep, mostly disk or memory"},
	{"function < caller", "innermost first, of the heaviest stack: the first function that is "
			      "not of the C library, a wait, a lock or an allocator, and who "
			      "called it. ..., in brackets: arguments left out; ? behind it: found "
			      "by a guess; file+0xN: code without a name"},
	{"+ N frames of ART", "of a Java method: trampolines, the interpreter and what else the "
			      "virtual machine did above it; --native shows them"},
	{"futex, binder, ...", "what it slept for: io, page_fault, read, poll, sleep and others"},
	{"held by", "the thread that held the lock"},
	{"until", "the thread that woke it"},
	{"after", "the thread that ran in its place"},
	{"no stack: ...", "why none could be taken; stack follows: it comes in a line of its own"},
	{"LATE", "a frame that was late, and by how much; whether the app (app) or the display "
		 "(sf) was; why. caller < function: here the one that tells stands last, and in "
		 "the paths of BLOCK and below why late: first"},
	{"(deadlock)", "these threads wait for each other, and none of them ran"},
};

static const struct legend_row summary_rows[] = {
	{"MiB/h", "how fast a process's PSS grew: the median of the slopes of all pairs of "
		  "readings; 95 % from, to: bounds of its confidence interval. (rss): of resident "
		  "memory, where smaps was not read; (ended): the process was no more"},
	{"unaccounted", "CPUs x time less busy and idle: interrupts, what a hypervisor took, a "
			"switch that was not shown"},
	{"tasks ended", "threads and processes that ended in the run"},
	{"N not freed yet", "of --cpu iter: tasks whose last microseconds the kernel had not told "
			    "when the run ended"},
	{"N, at least", "its row was dropped for want of room and made anew; the rest of its time "
			"is in the others'"},
	{"N x T, longest L:", "N blocks whose heaviest stacks show this path, T in all"},
	{"_[i], or", "of report --mapping: inlined into the next one; it is one of these methods, "
		     "and the recording does not tell which"},
	{"captures", "how stacks were taken: snapshot and perf stop nothing, ptrace stops the "
		     "thread for the time that follows, kernel has no user stack"},
	{"stops", "how often a thread was stopped by ptrace"},
	{"EINTR risk", "stops whose thread may have had EINTR as the result of a system call; 0 "
		       "unless ptrace was used"},
	{"lost (N %)", "the largest share that was lost of one whole, as CPU time, bytes or "
		       "blocks; above --max-lost the exit status is 3"},
	{"missing", "a value that could not be read, and why"},
};

static const struct legend_row frames_rows[] = {
	{"SHOWN", "frames of the layer that reached the screen"},
	{"fps raw", "frames over all time"},
	{"fps activ", "frames over the time in which the app wanted to draw"},
	{"p50, p99", "ms between two frames: half, and 99 of 100, came within this time"},
	{"DROP", "refreshes that a frame came late by"},
	{"SLOW", "frames whose work took more than one refresh period"},
	{"FROZ", "frames whose work took more than 700 ms"},
	{"Matrix, GT SM, PerfDog", "the figures that Matrix, GT and PerfDog give for the same "
				   "frames"},
	{"visible", "late frames that a person could see: no earlier frame hid them"},
	{"KIND",
	 "of a launch: cold (a new process), warm (a new activity) or hot, as ActivityManager "
	 "says"},
	{"FRAME", "ms from the intent until a frame of the app was on the screen"},
	{"DRAWN", "ms from the intent until its windows were drawn"},
	{"LATE", "of one frame: how late it was shown, in ms"},
	{"WORK", "how long the app worked on it"},
	{"doFrm, Draw", "its Choreographer#doFrame on the main thread, its DrawFrame on the render "
			"thread"},
	{"at, ts, token", "seconds since the trace began, and where Perfetto's UI has the frame: "
			  "its time stamp, and the name of its slice in the Actual Timeline"},
	{"main, render", "what these threads did meanwhile: running, runnable (no CPU), sleeping, "
			 "in D (disk or memory)"},
	{"LATE ... s", "with --why, a frame that was late: when the app began it, in seconds since "
		       "the trace began; by how much it was late; whether the app (app) or the "
		       "display (sf) was; why"},
	{"why late", "late frames, what they were late by in all, and both of each cause"},
};

#define PART(title, verbs, rows)                                   \
	{                                                          \
		title, verbs, rows, sizeof(rows) / sizeof(*(rows)) \
	}

const struct legend_part legend_parts[] = {
	PART("At the start", VERB_LIVE, start_rows),
	PART("Each interval", VERB_LIVE, cpu_rows),
	PART("Long blocks", VERB_LIVE, block_rows),
	PART("The summary", VERB_LIVE | VERB_REPORT, summary_rows),
	PART("Frames of a trace", VERB_FRAMES, frames_rows),
};
const size_t legend_part_count = sizeof(legend_parts) / sizeof(*legend_parts);

void legend_print(FILE *out, unsigned verb)
{
	bool first = true;

	for (size_t i = 0; i < legend_part_count; i++) {
		const struct legend_part *part = &legend_parts[i];

		if (!(part->verbs & verb))
			continue;
		fprintf(out, "%s%s\n", first ? "" : "\n", part->title);
		first = false;
		for (size_t r = 0; r < part->count; r++) {
			const char *word = part->rows[r].word;

			fprintf(out, "  %-*s", WORD_COLUMN - 3, word);
			if (strlen(word) > WORD_COLUMN - 3)
				fprintf(out, "\n%*s", WORD_COLUMN, "");
			else
				fputc(' ', out);
			options_print_wrapped(out, part->rows[r].meaning, WORD_COLUMN, 79);
		}
	}
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of a late frame. */
#include "record/fields.h"
#include "record/fields_private.h"

const char *const record_jank_roles[] = {
	[JANK_ROLE_OTHER] = "other",     [JANK_ROLE_MAIN] = "main",
	[JANK_ROLE_RENDER] = "render",   [JANK_ROLE_HWUI_TASK] = "hwui_task",
	[JANK_ROLE_SF_MAIN] = "sf_main", [JANK_ROLE_RENDER_ENGINE] = "render_engine",
	[JANK_ROLE_HWC] = "hwc",         [JANK_ROLES] = NULL,
};

const char *const record_jank_causes[] = {
	[JANK_CAUSE_UNKNOWN] = "unknown",
	[JANK_CAUSE_MAIN_CPU] = "main_cpu",
	[JANK_CAUSE_RENDER_CPU] = "render_cpu",
	[JANK_CAUSE_NO_CPU] = "no_cpu",
	[JANK_CAUSE_BINDER] = "binder",
	[JANK_CAUSE_LOCK] = "lock",
	[JANK_CAUSE_IO] = "io",
	[JANK_CAUSE_PAGE_FAULT] = "page_fault",
	[JANK_CAUSE_GPU] = "gpu",
	[JANK_CAUSE_SURFACEFLINGER] = "surfaceflinger",
	[JANK_CAUSE_HWC] = "hwc",
	[JANK_CAUSE_STUFFING] = "stuffing",
	[JANK_CAUSES] = NULL,
};

const char *record_jank_total(enum jank_cause cause)
{
	if (cause == JANK_CAUSE_UNKNOWN)
		return "unexplained";
	return cause == JANK_CAUSE_STUFFING ? "stuffed" : record_jank_causes[cause];
}

#define LEDGER(member, need_, meaning_) FIELD(struct jank_ledger, member, need_, NS, meaning_)
static const struct field ledger_rows[] = {
	LEDGER(running_ns, REQUIRED, "on a CPU"),
	LEDGER(runnable_ns, REQUIRED, "ready to run, without a CPU"),
	LEDGER(sleeping_ns, REQUIRED, "asleep (state S)"),
	LEDGER(uninterruptible_ns, REQUIRED, "asleep in the kernel (state D)"),
	LEDGER(stopped_ns, REQUIRED, "stopped, traced or frozen"),
	LEDGER(unknown_ns, NONZERO, "not covered by what was recorded of the thread"),
};
static const struct field_type ledger_type =
	FIELD_TYPE("jank_ledger", struct jank_ledger, ledger_rows);

static const struct field thread_rows[] = {
	FIELD(struct jank_thread, pid, NONZERO, ID, "its process"),
	FIELD(struct jank_thread, tid, REQUIRED, ID, "thread id"),
	FIELD(struct jank_thread, thread, REQUIRED, NAME, "its name"),
	FIELD(struct jank_thread, process, OPTIONAL, NAME, "its process's name"),
	FIELD_WORDS(struct jank_thread, role, REQUIRED, record_jank_roles,
		    "its part in making the frame"),
	FIELD_STRUCT("ledger", struct jank_thread, ledger, &ledger_type,
		     "where the window went; the sum is window_end_ns - window_start_ns"),
	FIELD(struct jank_thread, critical_ns, OPTIONAL, NS,
	      "for how long the frame waited for this thread"),
	FIELD_ROWS(
		"reasons", struct jank_thread, reasons, reason_count, NONZERO, &record_reason_type,
		"what it slept for, as far as it is known, longest first; throttled: for so long "
		"its cgroup had no quota, which is in runnable_ns"),
	FIELD_ROWS("preemptors", struct jank_thread, preemptors, preemptor_count, NONZERO,
		   &record_preemptor_type,
		   "who ran while the thread waited for a CPU, longest first"),
	FIELD_STRUCT_IF("waker", struct jank_thread, waker, waker.present, &record_waker_type,
			"the thread that ended its longest sleep of the window"),
	FIELD(struct jank_thread, max_khz, OPTIONAL, NONE,
	      "the highest frequency that its CPU had while it ran, in kHz"),
};
static const struct field_type jank_thread_type =
	FIELD_TYPE("jank_thread", struct jank_thread, thread_rows);

static const struct field jank_rows[] = {
	FIELD(struct record_jank, pid, REQUIRED, ID, "the app's process"),
	FIELD(struct record_jank, package, OPTIONAL, NAME, "package"),
	FIELD(struct record_jank, process, OPTIONAL, NAME, "name of the process"),
	FIELD(struct record_jank, layer, OPTIONAL, NAME, "name of the layer"),
	FIELD(struct record_jank, surface_frame_token, OPTIONAL, ID,
	      "of the app's frame: the vsync id of its doFrame"),
	FIELD(struct record_jank, display_frame_token, OPTIONAL, ID,
	      "of the frame of the display that it was in"),
	FIELD(struct record_jank, expected_start_ns, OPTIONAL, NS,
	      "when the app was to begin it; absent: nothing was predicted"),
	FIELD(struct record_jank, expected_end_ns, OPTIONAL, NS, "when it was to be ready"),
	FIELD(struct record_jank, actual_start_ns, REQUIRED, NS, "when the app began it"),
	FIELD(struct record_jank, actual_end_ns, REQUIRED, NS, "when it was ready"),
	FIELD(struct record_jank, window_start_ns, REQUIRED, NS,
	      "what the ledgers are of: from the expected start, or the actual one where none was "
	      "predicted"),
	FIELD(struct record_jank, window_end_ns, REQUIRED, NS,
	      "to the actual end, or that of the display's frame where the app was in time"),
	FIELD(struct record_jank, late_ns, REQUIRED, NS,
	      "how much later than predicted it was on the screen; of a frame that was never shown "
	      "and where no present was predicted, how much later than expected it was ready"),
	FIELD(struct record_jank, dropped, NONZERO, NONE, "it was never shown"),
	FIELD(struct record_jank, jank_type, OPTIONAL, NAME,
	      "what SurfaceFlinger calls it, in Perfetto's words", TEXT_IS(WORD)),
	FIELD_WORDS(struct record_jank, cause, REQUIRED, record_jank_causes,
		    "what explains most of the delay"),
	FIELD_WORDS(struct record_jank, second_cause, NONZERO, record_jank_causes,
		    "another one that explains over a third of it"),
	FIELD(struct record_jank, cause_ns, OPTIONAL, NS,
	      "how much of the delay the cause explains"),
	FIELD(struct record_jank, second_cause_ns, OPTIONAL, NS, "the same of the second one"),
	FIELD(struct record_jank, cause_thread, OPTIONAL, ID,
	      "index of the thread that ran too long or was held up"),
	FIELD_STRUCT_IF("culprit", struct record_jank, culprit, culprit.present,
			&record_thread_type,
			"another thread to which the cause points: who ran instead, who ended the "
			"wait, who served the call"),
	FIELD(struct record_jank, confidence, REQUIRED, NONE,
	      "from 0 to 1: the part of the delay that the two causes explain, less what of the "
	      "threads is not known"),
	FIELD(struct record_jank, clock_error_ns, OPTIONAL, NS,
	      "by how much the clock of the threads' times may differ from that of the frame's; "
	      "absent: it is one clock"),
	FIELD_ROWS("threads", struct record_jank, threads, thread_count, REQUIRED,
		   &jank_thread_type, "the threads that make frames"),
	FIELD_ROWS("chain", struct record_jank, chain, chain_count, NONZERO, &record_link_type,
		   "who waited for whom, outermost first, where the thread waited longest"),
	FIELD(struct record_jank, chain_cut, NONZERO, NONE,
	      "the last of the chain waited for one more thread, which was not followed"),
	FIELD(struct record_jank, deadlock, NONZERO, NONE,
	      "the last of the chain waited for one of it, or for the thread itself, and none of "
	      "them ran"),
	FIELD_ROWS("stacks", struct record_jank, stacks, stack_count, NONZERO, &record_stack_type,
		   "what the main thread and the RenderThread did when they were sampled"),
	FIELD(struct record_jank, top, OPTIONAL, ID,
	      "index of the stack that tells most: the heaviest of "
	      "the thread that the cause is about"),
	COUNTERS(struct record_jank, lost, NONZERO, "what of this frame could not be told"),
	MISSING(struct record_jank),
};
const struct field_type record_jank_type = FIELD_TYPE("jank", struct record_jank, jank_rows,
						      .meaning = "a late or dropped frame of a "
								 "target, and why it was late");

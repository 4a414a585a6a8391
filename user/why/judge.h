/* SPDX-License-Identifier: BSD-2-Clause */
/* Why a frame was late: the written rule (why/README.md) on a frame and its threads' spells. Pure:
 * the flight recorder and a trace file go through the same code. */
#pragma once
#include "why/cut.h"

#define WHY_NO_TIME INT64_MIN /* a time that is not known */
#define WHY_NONE    SIZE_MAX

/* A thread that has a part in a frame. */
struct why_thread {
	int32_t tid, pid;
	char comm[RECORD_COMM_LEN];
	const char *process; /* NULL: not known */
	enum jank_role role;
	const struct spell
		*spells; /* in order, of the window at least; count 0: nothing is known */
	size_t spell_count;
	/* filled by why_judge() */
	struct why_ledger ledger; /* of the whole window */
	int64_t critical_ns;      /* for how long the frame waited for this thread */
};

/* A frame. Times are of the clock of the spells; WHY_NO_TIME where one is not known. */
struct why_frame {
	int64_t expected_start_ns, expected_end_ns; /* of the app's row */
	int64_t actual_start_ns, actual_end_ns;     /* these two are always known */
	/* On the screen: when it was, when it was predicted to be. */
	int64_t present_ns, predicted_ns;
	/* When SurfaceFlinger began to make the display's frame, and when it was to. */
	int64_t compose_start_ns, compose_due_ns;
	/* When the main thread handed the frame to the RenderThread, and when that one queued the
	 * buffer; not known: the rule finds them in the spells. */
	int64_t handed_ns, queued_ns;
	uint32_t jank; /* bits of jankscope/timeline.h; 0: not classified */
	bool dropped;
	int64_t clock_error_ns;     /* 0: one clock */
	struct why_thread *threads; /* of a role with several, as hwui_task, each one */
	size_t thread_count;
};

struct why_part {
	enum jank_cause cause;       /* JANK_CAUSE_UNKNOWN: none */
	int64_t ns;                  /* of late_ns that it explains */
	size_t thread;               /* index; WHY_NONE: none */
	struct spell_thread culprit; /* another thread that it points to; tid 0: none */
};

struct why_verdict {
	int64_t window_start_ns, window_end_ns;
	int64_t late_ns; /* 0: it was not late */
	struct why_part first, second;
	double confidence; /* 0 to 1 */
};

/* How much later than predicted it was shown, or was ready where it was not shown or no present was
 * predicted; 0: it was in time, or nothing was predicted. */
int64_t why_late(const struct why_frame *frame);
/* Cut each thread's window and judge. Never fails: what is not known is JANK_CAUSE_UNKNOWN. */
void why_judge(struct why_frame *frame, struct why_verdict *verdict);

/* SPDX-License-Identifier: BSD-2-Clause */
/* A late or dropped frame and why it was late; a part of record.h, whose types it uses. */
#pragma once

/* Numbers of `role` and `cause` in records: the words stand in record/fields_jank.c. */
enum jank_role {
	JANK_ROLE_OTHER = 0,
	JANK_ROLE_MAIN = 1,
	JANK_ROLE_RENDER = 2, /* RenderThread */
	JANK_ROLE_HWUI_TASK = 3,
	JANK_ROLE_SF_MAIN = 4,
	JANK_ROLE_RENDER_ENGINE = 5,
	JANK_ROLE_HWC = 6, /* the composer HAL */
	JANK_ROLES = 7,
};

enum jank_cause {
	JANK_CAUSE_UNKNOWN = 0,
	JANK_CAUSE_MAIN_CPU = 1,
	JANK_CAUSE_RENDER_CPU = 2,
	JANK_CAUSE_NO_CPU = 3,
	JANK_CAUSE_BINDER = 4,
	JANK_CAUSE_LOCK = 5,
	JANK_CAUSE_IO = 6,
	JANK_CAUSE_PAGE_FAULT = 7,
	JANK_CAUSE_GPU = 8,
	JANK_CAUSE_SURFACEFLINGER = 9,
	JANK_CAUSE_HWC = 10,
	JANK_CAUSE_STUFFING = 11,
	JANK_CAUSES = 12,
};

/* Where the time of the window went; the six add up to window_end - window_start exactly. */
struct jank_ledger {
	uint64_t running_ns, runnable_ns, sleeping_ns, uninterruptible_ns, stopped_ns;
	uint64_t unknown_ns; /* not covered by what was recorded */
};

struct jank_thread {
	pid_t pid, tid; /* pid 0: not known */
	char thread[RECORD_COMM_LEN];
	const char *process; /* NULL: not known */
	enum jank_role role;
	struct jank_ledger ledger;
	/* The part of the ledger in which the frame waited for this thread (why/README.md). */
	struct opt_u64 critical_ns;
	struct block_reason *reasons; /* longest first */
	size_t reason_count;
	struct block_preemptor *preemptors; /* longest first */
	size_t preemptor_count;
	struct record_waker waker; /* who ended its longest sleep in the window */
	struct opt_u64 max_khz;    /* the highest frequency at which it ran */
};

struct record_jank {
	pid_t pid;
	const char *package, *process, *layer; /* NULL: not known */
	struct opt_i64 surface_frame_token, display_frame_token;
	/* CLOCK_BOOTTIME. What was expected is absent where nothing was predicted. */
	struct opt_u64 expected_start_ns, expected_end_ns;
	uint64_t actual_start_ns, actual_end_ns;
	/* What the ledgers are of: from the expected start (else the actual one) to the actual end.
	 */
	uint64_t window_start_ns, window_end_ns;
	uint64_t late_ns;      /* how much later than expected it was shown, or else was ready */
	bool dropped;          /* it was never shown */
	const char *jank_type; /* Perfetto's text; NULL: the source does not classify */
	enum jank_cause cause, second_cause; /* second: unknown stands for none */
	/* How much of late_ns each explains. */
	struct opt_u64 cause_ns, second_cause_ns;
	/* Thread and process that the cause is about: who ran, who ran instead, who held the lock
	 * ...; index into threads of the thread of the app that it held up. */
	struct opt_u64 cause_thread;
	struct record_thread culprit;
	double confidence;             /* 0 to 1 */
	struct opt_u64 clock_error_ns; /* of the scheduler's times against the frame's, at most */
	struct jank_thread *threads;
	size_t thread_count;
	struct block_link *chain;
	size_t chain_count;
	bool chain_cut; /* the last of the chain waited for one more, which was not followed */
	bool deadlock;  /* the last of the chain waited for one of it, or for the thread itself */
	struct record_stack *stacks;
	size_t stack_count;
	struct opt_u64 top; /* index of the path with most weight */
	struct counter_list lost;
	struct missing_list missing;
};

struct record_header;
/* Whether each late frame of a target that FrameTimeline tells of has a jank record: the flight
 * recorder runs beside a frame source of this machine. */
bool record_header_judges_frames(const struct record_header *header);

/* SPDX-License-Identifier: BSD-2-Clause */
/* A block of a watched thread, its stacks and whom it waited for; a part of record.h, whose types
 * it uses. */
#pragma once

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

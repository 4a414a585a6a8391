/* SPDX-License-Identifier: BSD-2-Clause */
/* The seam for stacks. A capture copies a thread's user registers and the bytes of its stack in
 * microseconds, by the cheapest way that works; unwinding and symbolising happen later, off the
 * copied bytes, at leisure.
 *
 *	struct stack_service *service;          one a run
 *	stack_capture(service, &thread, STACK_AUTO, capture);   a capture, or the reason why not
 *	stack_unwind(service, capture, &trace);                 frames: module + offset + function
 *key stack_merge_add(merge, &trace, weight_ns);              user/stack/stack_merge.h
 *	stack_symbolise(service, &trace.frames[i], &names);     text, late, for what is printed
 *
 * Threads: stack_capture calls must not overlap each other, and unwind/symbolise calls must not
 * overlap each other; a capture may run beside an unwind (they share only the maps cache, which
 * locks). */
#pragma once
#include "abi/looper.h"
#include "jankscope/record.h"

/* ---- whose stack ---- */

/* start_boot_ns is the start time of the thread (of BPF or of /proc/PID/task/TID/stat, in which
 * only whole 10 ms ticks count); 0: not known, then only the pidfd tells a reused pid. pidfd is
 * that of the process; -1 where there is none. Borrowed for the call. */
struct stack_thread {
	pid_t pid, tid;
	int pidfd;
	uint64_t start_boot_ns;
};

/* ---- registers ---- */

enum stack_arch { STACK_X86_64 = 0, STACK_ARM64 = 1 };
#define STACK_REGISTERS 33

/* By DWARF number: x86_64 0..15 and 16 = rip (7 = rsp, 6 = rbp); arm64 x0..x30, 31 = sp, 32 = pc
 * (29 = fp, 30 = lr). A bit of valid says that the register is known. syscall_nr is the number
 * that the thread entered the kernel with, -1 when it was not by a syscall or is not known. */
struct stack_registers {
	enum stack_arch arch;
	uint64_t valid;
	uint64_t value[STACK_REGISTERS];
	int64_t syscall_nr;
};

/* ---- a capture ---- */

enum stack_request {
	STACK_AUTO = 0, /* down the ladder: snapshot, perf, ptrace, kernel */
	STACK_SNAPSHOT = 1,
	STACK_PERF = 2,
	STACK_PTRACE = 3,
	STACK_KERNEL = 4,
};

/* Why there is no capture (or none above STACK_KERNEL). Each is one event, never a retry storm. */
enum stack_failure {
	STACK_OK = 0,
	STACK_GONE = 1,            /* dead, or dying while we looked */
	STACK_REUSED = 2,          /* the pid belongs to another process now */
	STACK_TRACED = 3,          /* a debugger holds it */
	STACK_STOPPED = 4,         /* its user stopped it (SIGSTOP, SIGTSTP) */
	STACK_UNINTERRUPTIBLE = 5, /* D state: cannot be stopped */
	STACK_IN_POLL = 6,         /* in a syscall that a stop would end with EINTR: not stopped */
	STACK_COMPAT = 7,          /* 32-bit user code */
	STACK_KERNEL_THREAD = 8,
	STACK_NOT_PERMITTED = 9,
	STACK_ON_CPU = 10,         /* snapshot: it runs */
	STACK_OFF_CPU = 11,        /* perf: it did not run within the wait */
	STACK_MOVED = 12,          /* snapshot: it ran while its stack was read */
	STACK_NOT_WATCHED = 13,    /* snapshot: no registers were stashed for it */
	STACK_DEADLINE = 14,       /* ptrace: no stop within 20 ms; the request was withdrawn */
	STACK_WORKER_LOST = 15,    /* ptrace: the worker died or froze and was replaced */
	STACK_NO_MEMORY_READ = 16, /* its stack pointer leads to no readable memory */
	STACK_UNSUPPORTED = 17,    /* this kernel has no such way, or it is switched off */
	STACK_FAILURES
};

/* A few words for a person: "already traced", "stopped by its user", ... Never NULL. */
const char *stack_failure_text(enum stack_failure failure);

struct stack_maps; /* user/stack/maps.h: a counted, immutable picture of /proc/PID/maps */

#define STACK_KERNEL_FRAMES 32

/* Reusable: stack_capture overwrites it. Owns its buffer and a reference to its maps. */
struct stack_capture {
	struct stack_thread thread; /* its pidfd is not kept: -1 */
	enum capture_kind kind;
	enum stack_failure failure; /* why the ladder had to go down to kind; STACK_OK: no detour */
	uint64_t t_boot_ns;         /* when the registers were taken or found valid */
	uint64_t cost_ns;           /* wall time of the call */
	uint64_t stop_ns;  /* upper bound of what the target was stopped for; 0: not at all */
	uint64_t sequence; /* of looper_registers; 0: none */

	struct stack_registers registers; /* valid == 0: CAPTURE_KERNEL has no user registers */
	uint64_t stack_base;              /* address of stack[0]: the stack pointer */
	uint8_t *stack;
	size_t stack_bytes, stack_room;
	struct stack_maps *maps;

	/* CAPTURE_KERNEL: what the kernel says of a thread that cannot be looked at otherwise */
	char state; /* of /proc/TID/stat, 0: not read */
	char wchan[64];
	char *kernel_frames[STACK_KERNEL_FRAMES]; /* symbols, innermost first; owned */
	size_t kernel_frame_count;
};

/* A capture with room for stack_bytes (0: 256 KiB, at most 16 MiB), touched so that a capture
 * takes no page fault. NULL with errno. */
struct stack_capture *stack_capture_new(size_t stack_bytes);
void stack_capture_free(struct stack_capture *capture);

/* ---- the service ---- */

/* Where the snapshot finds registers: the mmapable map of bpf/looper.bpf.c, or a test's own. */
struct stack_stash {
	/* Copy the thread's words as they are together: the sequence must be the same before and
	 * after the copy. 0; -ENOENT: not watched; -EAGAIN: on a CPU or being written. */
	int (*read)(void *ctx, pid_t tid, struct looper_registers *out);
	/* The sequence as it is now, 0 when the thread is not watched any more. */
	uint64_t (*sequence)(void *ctx, pid_t tid);
	void *ctx;
};

struct bounded_calls;
struct stack_config {
	const struct stack_stash
		*stash;              /* NULL: no snapshots. Borrowed for the life of the service */
	bool no_perf, no_ptrace;     /* leave these rungs of the ladder out */
	uint64_t perf_wait_ns;       /* how long a sample may take; 0: 5 ms, at most 50 ms */
	uint64_t ptrace_deadline_ns; /* 0: 20 ms, at most 20 ms */
	size_t cache_bytes;          /* tables and symbol indexes kept; 0: 16 MiB */
	const char *root;            /* "" or NULL: /proc of this machine */
	struct bounded_calls
		*calls; /* util/bounded_call.h, borrowed; NULL: reads are not bounded */
};

struct stack_service;

/* Make a service and, unless no_ptrace, start its worker process. The worker dies with the thread
 * that calls this (PR_SET_PDEATHSIG). NULL with errno. */
struct stack_service *stack_service_new(const struct stack_config *config);
void stack_service_free(struct stack_service *service);

/* Capture the thread's stack. 0 with capture filled (its kind says how); otherwise -errno, and
 * capture->failure says why in our words. Never waits longer than 50 ms, never leaves the thread
 * stopped, never stops a thread that sits in an epoll wait. STACK_AUTO ends in CAPTURE_KERNEL for
 * any thread that is alive, so it only fails when the thread is gone, reused or not permitted. */
int stack_capture(struct stack_service *service, const struct stack_thread *thread,
		  enum stack_request request, struct stack_capture *capture);

/* What the run prints about its captures. Times in ns; stop percentiles over the last 4096 stops.
 */
struct stack_stats {
	uint64_t captures[4]; /* by enum capture_kind */
	uint64_t failures[STACK_FAILURES];
	uint64_t stops, stop_p50_ns, stop_p99_ns, stop_max_ns;
	uint64_t eintr_risk; /* stops that met the thread in an epoll wait after all */
	uint64_t workers_replaced;
};
void stack_service_stats(const struct stack_service *service, struct stack_stats *stats);

/* The pid of the ptrace worker, or -1: for tests that kill and freeze it. */
pid_t stack_service_worker(const struct stack_service *service);

/* ---- unwinding ---- */

enum stack_method {
	METHOD_START = 0,  /* the innermost frame: from the registers */
	METHOD_CFI = 1,    /* by tables */
	METHOD_SIGNAL = 2, /* out of a signal frame */
	METHOD_LINK_REGISTER =
		3, /* no tables for the innermost frame: return address from lr / [sp] */
	METHOD_FRAME_POINTER = 4, /* no tables: a guess along the frame pointers */
};

enum stack_end {
	END_OUTERMOST = 0,  /* the tables say that nobody called this frame: complete */
	END_TRUNCATED = 1,  /* needs memory outside the copied bytes */
	END_NO_TABLES = 2,  /* no unwind tables here and no frame pointer to follow */
	END_BAD_TABLES = 3, /* the tables make no sense */
	END_NOT_MAPPED = 4, /* the return address is in no executable mapping */
	END_NO_MODULE = 5,  /* mapped, but the file cannot be read or is no ELF */
	END_CYCLE = 6,      /* the stack stops advancing */
	END_FRAME_LIMIT = 7,
	END_KERNEL_ONLY = 8,  /* CAPTURE_KERNEL: no user frames */
	END_NO_REGISTERS = 9, /* a register that the tables need is not known */
	END_COMPAT = 10,      /* 32-bit code */
};

/* A few words for end_reason of the record. Never NULL. */
const char *stack_end_text(enum stack_end end);

struct stack_frame {
	uint64_t pc;     /* of callers: the return address */
	uint64_t offset; /* ELF address in the module (what addr2line takes); pc without a module */
	uint64_t
		function; /* the same for all addresses of one function; what paths are merged by */
	uint32_t module;  /* for stack_module(); 0: none */
	enum frame_kind kind;
	enum stack_method method;
	bool exact;       /* pc is where it runs, not where a call returns to */
	const char *text; /* FRAME_KERNEL: its symbol, owned by the trace; else NULL */
};

#define STACK_MAX_FRAMES 512

struct stack_trace {
	struct stack_frame *frames; /* innermost first; room for STACK_MAX_FRAMES */
	size_t count;
	enum stack_end end;
	bool complete;        /* END_OUTERMOST and no frame by frame pointer */
	uint64_t end_address; /* what was missing: the address of the failed read, or the last pc */
	char *text;           /* storage of the frames' texts */
};

int stack_trace_init(struct stack_trace *trace);
void stack_trace_free(struct stack_trace *trace);

/* Unwind a capture into trace. 0 always yields a trace, maybe of one frame, whose end says why it
 * ended; -ENOMEM. Reads ELF files of the target the first time it meets them. */
int stack_unwind(struct stack_service *service, struct stack_capture *capture,
		 struct stack_trace *trace);

struct stack_module {
	const char *path;     /* of the mapping; NULL for module 0 */
	const char *build_id; /* hex; NULL: none in the file, or file not readable */
};
/* The module of a frame. Valid until the service is freed. */
struct stack_module stack_module(const struct stack_service *service, uint32_t module);

/* Name a frame. out->symbol is demangled and, like the other strings, valid until
 * stack_service_free or until stack_symbols_drop. 0; symbol NULL when nothing is known. */
int stack_symbolise(struct stack_service *service, const struct stack_frame *frame,
		    struct record_frame *out);
/* Forget all symbol texts handed out (they are kept once each, up to 4 MiB in all). */
void stack_symbols_drop(struct stack_service *service);

/* Losses of unwinding by name (elf_unreadable, elf_malformed, symbols_too_many, ...). */
int stack_service_losses(const struct stack_service *service, struct counter_list *lost);

/* SPDX-License-Identifier: BSD-2-Clause */
/* The seam for stacks. A capture copies a thread's user registers and the bytes of its stack in
 * microseconds, by the cheapest way that works; unwinding and naming happen later, off the copied
 * bytes, at leisure and in another process.
 *
 *	stack_capture(capturer, &thread, STACK_AUTO, capture);  a capture, or the reason why not
 *	unwinder_push(unwinder, capture, done, ctx);            user/stack/unwinder.h: hand it over
 *	done(ctx, unwound)                                      frames with names, self-contained
 *	stack_merge_add(merge, unwound, ...);                   user/stack/stack_merge.h
 *
 * The two halves share no state. The unwinding half reads nothing of a target itself: it asks a
 * struct stack_files. */
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
	STACK_IN_POLL = 6,         /* in a syscall that a stop may end with EINTR: not stopped */
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
	STACK_HELD_UP = 18,        /* not tried: its process held up a capture a moment before */
	STACK_THINNED = 19,        /* not tried: samples cost too much by then */
	STACK_FAILURES
};

/* A few words for a person: "already traced", "stopped by its user", ... Never NULL. */
const char *stack_failure_text(enum stack_failure failure);

#define STACK_KERNEL_FRAMES 32

/* Reusable: stack_capture overwrites it. Owns its buffer. */
struct stack_capture {
	struct stack_thread thread; /* its pidfd is not kept: -1 */
	enum capture_kind kind;
	enum stack_failure failure; /* why the ladder had to go down to kind; STACK_OK: no detour */
	uint64_t t_boot_ns;         /* when the registers were taken or found valid */
	uint64_t cost_ns;           /* wall time of the call */
	bool eintr_risk;            /* the stop may have ended a system call with EINTR */
	uint64_t stop_ns;  /* upper bound of what the target was stopped for; 0: not at all */
	uint64_t sequence; /* of looper_registers; 0: none */

	struct stack_registers registers; /* valid == 0: CAPTURE_KERNEL has no user registers */
	uint64_t stack_base;              /* address of stack[0]: the stack pointer */
	uint8_t *stack;
	size_t stack_bytes, stack_room;

	/* CAPTURE_KERNEL: what the kernel says of a thread that cannot be looked at otherwise */
	char state; /* of /proc/TID/stat, 0: not read */
	char wchan[64];
	char *kernel_frames[STACK_KERNEL_FRAMES]; /* symbols, innermost first; owned */
	size_t kernel_frame_count;
};

/* A capture with room for stack_bytes (0: 256 KiB, at most 16 MiB), touched so that a capture
 * takes no page fault. NULL with errno. */
struct stack_capture *stack_capture_new(size_t stack_bytes);
/* Forget what was captured; the room for it stays. */
void stack_capture_clear(struct stack_capture *capture);
void stack_capture_free(struct stack_capture *capture);

/* ---- capturing ---- */

/* Where the snapshot finds registers: the mmapable map of bpf/looper.bpf.c, or a test's own. */
struct stack_stash {
	/* Copy the thread's words as they are together: the sequence must be the same before and
	 * after the copy. 0; -ENOENT: not watched; -EAGAIN: on a CPU or being written. */
	int (*read)(void *ctx, pid_t tid, struct looper_registers *out);
	/* The sequence as it is now, 0 when the thread is not watched any more. */
	uint64_t (*sequence)(void *ctx, pid_t tid);
	void *ctx;
};

struct stack_capture_config {
	const struct stack_stash
		*stash;              /* NULL: no snapshots. Borrowed for the life of the capturer */
	bool no_perf, no_ptrace;     /* leave these rungs of the ladder out */
	uint64_t perf_wait_ns;       /* how long a sample may take; 0: 5 ms, at most 50 ms */
	uint64_t ptrace_deadline_ns; /* 0: 20 ms, at most 20 ms */
	const char *root;            /* "" or NULL: /proc of this machine */
};

struct stack_capturer;

/* Make a capturer and, unless no_ptrace, start its worker process. The worker dies with the thread
 * that calls this (PR_SET_PDEATHSIG). NULL with errno. */
struct stack_capturer *stack_capturer_new(const struct stack_capture_config *config);
void stack_capturer_free(struct stack_capturer *capturer);

/* Capture the thread's stack. 0 with capture filled (its kind says how); otherwise -errno, and
 * capture->failure says why in our words. Never waits longer than 50 ms, never leaves the thread
 * stopped, never stops a thread that sits in an epoll wait. STACK_AUTO ends in CAPTURE_KERNEL for
 * any thread that is alive, so it only fails when the thread is gone, reused or not permitted.
 * Calls on one capturer must not overlap. */
int stack_capture(struct stack_capturer *capturer, const struct stack_thread *thread,
		  enum stack_request request, struct stack_capture *capture);

/* As stack_capture with STACK_PERF, for a thread that is sampled again and again: where the event
 * of the capture before is open still, it can be of no other thread, and none of the thread's files
 * is read. start_boot_ns of the thread must be known. */
int stack_capture_running(struct stack_capturer *capturer, const struct stack_thread *thread,
			  struct stack_capture *capture);

/* Close what is kept open for the next captures and was not used for 2 s (perf events). Call it
 * from time to time when no capture is due. */
void stack_capturer_rest(struct stack_capturer *capturer);

/* What the run prints about its captures. Times in ns; percentiles over the last 4096 stops, and
 * over the last 4096 snapshots (what one took, which the thread did not notice). */
struct stack_stats {
	uint64_t captures[4]; /* by enum capture_kind */
	uint64_t failures[STACK_FAILURES];
	uint64_t stops, stop_p50_ns, stop_p99_ns, stop_max_ns;
	uint64_t snapshot_p50_ns, snapshot_p99_ns; /* of the blocks source only */
	uint64_t eintr_risk; /* stops that met the thread in an epoll wait after all */
	uint64_t workers_replaced;
};
void stack_capturer_stats(const struct stack_capturer *capturer, struct stack_stats *stats);

/* The pid of the ptrace worker, or -1: for tests that kill and freeze it. */
pid_t stack_capturer_worker(const struct stack_capturer *capturer);

/* ---- what the unwinding half reads of a target ---- */

struct stack_process {
	pid_t pid;
	uint64_t start_ticks; /* 10 ms of CLOCK_BOOTTIME; 0: whoever has the pid */
};

/* One line of /proc/PID/maps. */
struct stack_mapping {
	uint64_t start, end, offset, inode;
	uint32_t dev;     /* major << 20 | minor */
	const char *path; /* not terminated */
	size_t path_len;
};

/* A file as it was at one moment. A file system uses the inode number of a deleted file again,
 * mostly for the very next one; the kernel sets ctime at each change, and a program cannot choose
 * it. */
struct stack_file_version {
	uint64_t device, inode, size_bytes, ctime_ns;
};

/* A file of a target, or a copy of it. */
struct stack_file {
	int fd; /* for reading; the caller's */
	/* which file it is, also where fd is a copy */
	uint64_t device, inode, size_bytes, mtime_ns, ctime_ns;
};

struct jit_list_request;

/* user/stack/files_direct.c reads by itself, user/stack/files_remote.c asks the recorder. */
struct stack_files {
	/* The file of a mapping. 0 or -errno; what is not a regular file is not opened. */
	int (*open)(void *ctx, const struct stack_process *process,
		    const struct stack_mapping *mapping, struct stack_file *file);
	/* The file in which a process with a JIT compiler names its code, /tmp/perf-PID.map of its
	 * own mount namespace: a descriptor, the caller's, or -errno. */
	int (*open_jit_names)(void *ctx, const struct stack_process *process);
	/* The text of /proc/PID/maps, malloc'ed, or what of it a stack can need
	 * (prober/maps_filter.h). 0, or -errno: -ESRCH when the process is gone. */
	int (*maps)(void *ctx, const struct stack_process *process, bool fresh, char **text,
		    size_t *length);
	/* Bytes of its memory: how many were copied, or -errno. */
	ssize_t (*memory)(void *ctx, const struct stack_process *process, uint64_t address,
			  void *to, size_t length);
	/* The list of a runtime's code (prober/jit_list.h), read without a stop. 1: *message,
	 * malloc'ed, of *length bytes; 0: it is as known; or -errno. NULL: cannot be asked for. */
	int (*jit_list)(void *ctx, const struct stack_process *process,
			const struct jit_list_request *request, uint8_t **message, size_t *length);
	/* Said before the bytes of a file are read; NULL: nobody wants to know. */
	void (*reading)(void *ctx, const struct stack_file_version *file);
	void *ctx;
};

/* ---- unwinding ---- */

enum stack_method {
	METHOD_START = 0,  /* the innermost frame: from the registers */
	METHOD_CFI = 1,    /* by tables */
	METHOD_SIGNAL = 2, /* out of a signal frame */
	METHOD_LINK_REGISTER =
		3, /* no tables for the innermost frame: return address from lr / [sp] */
	METHOD_FRAME_POINTER = 4, /* no tables: a guess along the frame pointers */
	METHOD_SCAN = 5,  /* no tables: a guess, the next word of the stack that follows a call */
	METHOD_QUICK = 6, /* no tables: by what ART's compiler keeps of its frames */
	METHOD_COUNT = 7,
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
	END_JIT = 11,         /* code that no file holds: nothing tells how to go on */
	END_LEFT_OUT = 12,    /* the process has more executable mappings than are kept, and the
			       * return address is in none of those that are */
	END_MAPS_UNREAD = 13, /* the mappings could not be asked for, or not in time */
	END_COUNT = 14,
};

/* A few words for end_reason of the record. Never NULL. */
const char *stack_end_text(enum stack_end end);

/* Each frame of the trace is known by tables or by a signal frame; one found along frame pointers,
 * by a scan or by the link register may name a function that was not called. */
static inline bool stack_method_is_guess(enum stack_method method)
{
	return method >= METHOD_LINK_REGISTER && method != METHOD_QUICK;
}

#define STACK_MAX_FRAMES 512

struct unwound_frame {
	uint64_t pc;     /* of callers: the return address */
	uint64_t offset; /* ELF address in the module (what addr2line takes); pc without a module */
	uint64_t function;  /* the same for all addresses of one function; paths are merged by it */
	const char *module; /* path of the mapping, or NULL */
	const char *build_id; /* hex, or NULL */
	const char *symbol;   /* demangled, or NULL: unresolved */
	enum frame_kind kind;
	enum stack_method method;
	uint32_t line;      /* of the source, for Java code; 0: not known */
	uint32_t dex_place; /* pc in the method's byte code + 1, of compiled code; 0: not known */
	bool exact;         /* pc is where it runs, not where a call returns to */
	bool inlined;       /* into the next frame, whose machine code it is a part of */
	bool shared; /* the linker or ART kept one copy for several functions: symbol is no name */
};

/* A trace with everything that it needs, in one malloc'ed block: free() it. */
struct unwound {
	size_t count;
	struct unwound_frame *frames; /* innermost first */
	enum stack_end end;
	bool complete;        /* END_OUTERMOST and no frame by frame pointer or scan */
	uint64_t end_address; /* what was missing: the address of the failed read, or the last pc */
};

/* A trace of copies of these frames and of their texts; what is said of its end is zero. Frames of
 * one module that follow each other have the same pointers for it. NULL: no memory. */
struct unwound *unwound_new(const struct unwound_frame *frames, size_t count);
struct unwound *unwound_copy(const struct unwound *from);
/* The trace of a CAPTURE_KERNEL: its kernel frames. NULL: no memory. */
struct unwound *unwound_from_kernel(const struct stack_capture *capture);

/* ---- unwinding inside one process ---- */

struct stack_unwind_config {
	const struct stack_files *files; /* borrowed */
	size_t cache_bytes;              /* tables and symbol indexes kept; 0: 16 MiB */
};

struct stack_unwinder;

/* Heap bytes of what is kept of the code of runtimes (ART's methods), of all processes: at most
 * 16 MiB when an unwinding begins. */
size_t stack_unwinder_code_bytes(const struct stack_unwinder *unwinder);
/* Heap bytes of all that is kept from one unwinding to the next and given back by use: that code,
 * and tables and symbols of ELF files, within cache_bytes. */
size_t stack_unwinder_cache_bytes(const struct stack_unwinder *unwinder);

/* NULL with errno. Calls on one unwinder must not overlap. */
struct stack_unwinder *stack_unwinder_new(const struct stack_unwind_config *config);
void stack_unwinder_free(struct stack_unwinder *unwinder);

/* Read the maps of a process now, and its vdso, for captures that are unwound when it is gone. */
void stack_unwinder_prime(struct stack_unwinder *unwinder, const struct stack_process *process);

/* A frame before it is named. */
struct stack_frame {
	uint64_t pc, offset, function; /* as in struct unwound_frame */
	uint64_t function_pc;          /* where its function begins in the process; 0: not known */
	uint64_t at_sp;  /* of a caller: the word at its stack pointer; 0: not known */
	uint32_t module; /* for stack_module(); 0: none */
	enum frame_kind kind;
	enum stack_method method;
	uint32_t line, dex_place; /* as in struct unwound_frame */
	bool exact;
	/* How many methods down to this one were inlined into the frame's; 0: it is the frame's own
	 */
	uint8_t inlined;
	bool oat;      /* its file has what ART's compiler wrote beside its code */
	bool provided; /* a code provider has its name, not its file */
};

struct stack_trace {
	struct stack_frame *frames; /* innermost first; room for STACK_MAX_FRAMES */
	size_t count;
	enum stack_end end;
	bool complete;
	uint64_t end_address;
};

int stack_trace_init(struct stack_trace *trace);
void stack_trace_free(struct stack_trace *trace);

/* Unwind a capture that has user registers. 0 always yields a trace, maybe of one frame, whose end
 * says why it ended; -ENOMEM; -EINVAL: no registers. Reads ELF files of the target the first time
 * it meets them. */
int stack_unwind(struct stack_unwinder *unwinder, const struct stack_capture *capture,
		 struct stack_trace *trace);

/* Name the frames of the last trace of this unwinder. NULL with errno. */
struct unwound *stack_unwound(struct stack_unwinder *unwinder, const struct stack_trace *trace);

/* Losses of unwinding, totals so far. */
struct stack_unwind_losses {
	uint64_t elf_unreadable, elf_malformed, elf_tables_bad, symbols_dropped, names_dropped,
		modules_full;
	uint64_t
		mappings_left_out; /* traces with an address where mappings were too many to keep */
	/* frames in code that a runtime's list may have, which could not be read, or not as it was
	 * at one moment; ELF files of it that could not be had
	 * or make no sense, and that are too many to keep */
	uint64_t jit_lists_unread, jit_elf_malformed, jit_elf_dropped;
	/* DEX files, and files that hold some, that make no sense, and that could not be read */
	uint64_t dex_malformed, dex_unread;
	/* files of ART's compiler that make no sense, and of versions that are not known */
	uint64_t oat_malformed, oat_unsupported;
	/* what was known of a runtime's code and was freed to keep the budget: it is read again */
	uint64_t code_given_back;
};
void stack_unwinder_losses(const struct stack_unwinder *unwinder,
			   struct stack_unwind_losses *losses);

/* SPDX-License-Identifier: BSD-2-Clause */
/* What bpf/binder.bpf.c and user space both read of synchronous binder calls. Fixed width, sizes
 * asserted, no pointers; what is called an address is one of the kernel's, only ever handed back to
 * binder_look, which reads it by fault-proof reads. Times are CLOCK_MONOTONIC. */
#pragma once
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

/* Threads whose calls are followed at a time: those of watched processes, and those that serve
 * them. One is 384 bytes. */
#define BINDER_MAX_THREADS 512
/* Calls of one thread that stand at a time, one in the other, because the callee called back. */
#define BINDER_DEPTH 4
/* Low bits of ids and of addresses by which nearly all transactions of others are told. */
#define BINDER_FILTER 4096
/* Threads of a process that are told to be at work. */
#define BINDER_AT_WORK 8
/* Threads of a process that are looked at. */
#define BINDER_MAX_STEPS 192

/* One synchronous call. debug_id is the kernel's serial number of the transaction. Written in the
 * context of the caller (before it sleeps), of the thread that receives it and of the one that
 * replies: each time is one whole store, and a reader believes it where debug_id is that of the
 * call that the kernel says the thread waits for. */
struct binder_call {
	__u64 transaction;                      /* address */
	__u64 sent_ns, received_ns, replied_ns; /* 0: not yet */
	__u64 task, task_cpu_ns; /* of the thread that received it: address, CPU time then */
	__u64 served_cpu_ns;     /* what it ran from then to its reply; with replied_ns */
	__u32 debug_id, code;
	__u32 received_tid, received_tgid;
};

/* A call that the thread serves. */
struct binder_served {
	__u32 caller_tid, debug_id;
};

struct binder_thread_calls {
	/* Addresses of its struct binder_thread: that of its last call, and of another one of its
	 * (another context: a second device, or the same opened twice) before; 0: not known. */
	__u64 thread, other;
	__u64 touched_ns; /* when anything of it changed last */
	__u32 tid, tgid;
	__u32 serving; /* how many of served stand */
	__u32 reserved;
	struct binder_call calls[BINDER_DEPTH];
	struct binder_served served[BINDER_DEPTH];
};

/* A call that nobody has received yet, by the address of its transaction. */
struct binder_waiting {
	__u32 caller_tid, place; /* in calls */
	__u32 debug_id;
};

/* The question to binder_look, and its answer. */
struct binder_look {
	/* in */
	__u32 tid, tgid;
	__u64 process; /* address of the struct binder_proc that the thread is of; 0: not known */
	/* out: the synchronous call that the thread waits for now */
	__u64 to_process;           /* as process, of the callee */
	__u64 sent_ns, received_ns; /* 0: not known */
	__u64 task_cpu_ns; /* CPU time of the callee's thread since, as of its last switch or tick
			    */
	__u32 waits;       /* 1: it does, and what follows is there */
	__u32 debug_id, code;
	__u32 to_pid, to_tid; /* to_tid 0: nobody has taken the call yet */
	__u32 has_cpu;
	/* Where nobody has taken it: threads that serve binder there, and those at work. */
	__u32 threads, at_work, all_seen; /* all_seen 0: there are more threads */
	__u32 at_work_tids[BINDER_AT_WORK];
	__u32 reserved;
};

/* What binder_look returns where the kernel's BTF has none of the driver's types. */
#define BINDER_NO_TYPES 1

enum binder_loss {
	BINDER_LOSS_THREADS_FULL = 0, /* calls of threads that found no room */
	BINDER_LOSS_DEPTH = 1,        /* calls deeper than BINDER_DEPTH */
	BINDER_LOSS_MAX = 2,
};

_Static_assert(sizeof(struct binder_call) == 72, "struct binder_call");
_Static_assert(sizeof(struct binder_thread_calls) == 40 + BINDER_DEPTH * 80,
	       "struct binder_thread_calls has no holes");
_Static_assert(sizeof(struct binder_waiting) == 12, "struct binder_waiting");
_Static_assert(sizeof(struct binder_look) == 120, "struct binder_look has no holes");

/* SPDX-License-Identifier: BSD-2-Clause */
/* What the recorder and the sampler process say to each other. The sampler maps the slots of the
 * watched threads, finds out by itself when a sample of a busy thread is due, takes it, and sends
 * it as one message. It runs above nice 0 because samples are due at a time on machines that are
 * overloaded: that is when threads block. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "jankscope/stack.h"

enum sampler_type {
	/* to the sampler */
	SAMPLER_SETUP = 0x6a6b0101,
	SAMPLER_WATCH = 0x6a6b0102,
	SAMPLER_UNWATCH = 0x6a6b0103,
	SAMPLER_PING = 0x6a6b0104,
	SAMPLER_WARDEN = 0x6a6b0105, /* fork a warden on the socket that comes with it */
	SAMPLER_FRAMES = 0x6a6b0106,
	SAMPLER_FRAME_WATCH = 0x6a6b0107,
	SAMPLER_FRAME_UNWATCH = 0x6a6b0108, /* a struct sampler_unwatch */
	/* from it */
	SAMPLER_SAMPLE = 0x6a6b0111,
	SAMPLER_PONG = 0x6a6b0112,
};

/* First of all, with descriptors: the maps of slots and stashes, the ring of wakes, then the two of
 * the task iterator (kernel/task_registers.h) where there is one, then the two of the look at
 * binder calls (kernel/binder_kernel.h) where there is one. */
struct sampler_setup {
	uint32_t type;
	uint32_t room;                      /* slots */
	uint32_t request;                   /* enum stack_request */
	uint32_t plain;                     /* as looper_view.plain */
	uint32_t has_registers, has_binder; /* those descriptors came */
	uint64_t block_ns;
};

/* SAMPLER_WARDEN is a struct sampler_ping with the socket. */

/* With the pidfd of the process, where there is one. */
struct sampler_watch {
	uint32_t type, index;
	uint64_t slot_id; /* as in the slot: tells its users apart */
	uint64_t start_boot_ns;
	int32_t pid, tid;
	uint32_t from_birth; /* its first period began with the process: sampled although no loop is
				known yet */
	uint32_t reserved;
	uint64_t left_alone_until_ns; /* it held up a sampler; CLOCK_MONOTONIC */
};

struct sampler_unwatch {
	uint32_t type, index;
	uint64_t slot_id;
};

/* How threads that make frames are sampled; with the descriptors of the flight recorder's threads
 * and entries when it is said first, and without any to change it. */
struct sampler_frames {
	uint32_t type, plain; /* plain: as looper_view.plain */
	uint64_t period_ns;   /* of a frame */
	uint64_t step_ns;     /* between two samples; 0: none is taken */
};

/* A thread that makes frames, by its index in the flight recorder's table. */
struct sampler_frame_watch {
	uint32_t type, index;
	uint64_t slot_id; /* tells the users of an index apart */
	int32_t pid, tid;
	uint32_t is_main, reserved;
};

struct sampler_ping {
	uint32_t type, reserved;
	uint64_t serial;
};

/* The answer comes from a thread that does nothing else, so it says whether the process is given a
 * CPU; stuck says how many of its sampling threads wait for a target. */
struct sampler_pong {
	uint32_t type, stuck;
	uint64_t serial;
	uint64_t oldest_stuck_ns,
		stuck_slot_id;       /* since when the longest waits, and for which thread */
	int32_t workers[4];          /* processes that stop threads (--stack ptrace); 0: none */
	uint64_t samples, not_taken; /* in all; not_taken: the recorder did not read them in time */
	uint64_t resynced;           /* slots that it made agree again (looper_read.h) */
	uint64_t frames_thinned;     /* samples of frames that would have cost too much */
};

/* For a process with more threads than are looked at (abi/binder.h). */
#define SAMPLER_NOT_COUNTED UINT32_MAX

/* Owners of locks that are followed. */
#define SAMPLER_CHAIN 8

/* Why a look at a chain went no further than the thread before. */
enum sampler_chain_end {
	CHAIN_GOES_ON = 0, /* a sample of the next thread */
	CHAIN_DEADLOCK =
		1,     /* it waits for tid, which the chain has already, and none of them runs */
	CHAIN_CUT = 2, /* it waits for one more thread than are followed */
	CHAIN_NO_OWNER = 3, /* it waits for a futex whose words do not say who has it */
};

/* How the thread before waits for the one that is told of. */
enum sampler_link {
	LINK_BY_LOCK = 0,
	LINK_BY_BINDER = 1, /* it serves its call, or its process is to */
	LINK_AT_WORK = 2,   /* it serves another call in the process that is to serve this one */
};

/* A sample, or (failure not STACK_OK and stack_bytes 0) why there is none. Behind it lie
 * stack_bytes of the stack and text_bytes of kernel symbols, each ended by 0. */
struct sampler_sample {
	uint32_t type, index;
	uint64_t slot_id, period;
	/* It is (also) of a thread that makes frames: its index there + 1, and its slot_id. index
	 * is that of a slot, or room + that index, where no block has part in it. */
	uint64_t frame_id;
	uint32_t frame, reserved;
	uint64_t spell; /* of the watched thread: off the CPU in this spell; 0: it ran */
	uint64_t t_ns,
		t_boot_ns; /* CLOCK_MONOTONIC of the request, CLOCK_BOOTTIME of the registers */
	uint64_t cost_ns, stop_ns;
	uint64_t app_rss_bytes; /* of the process; 0: not read */
	int32_t pid, tid;
	uint32_t taken; /* there is a capture */
	/* tid is the thread that holds the lock that the watched one waits for (1), or that the
	 * owner before it waits for (2 ...): the chain of this walk. 0: tid is the watched one. */
	uint32_t owner;
	uint64_t walk_ns; /* when the look at the chain began: the same for all of it */
	uint32_t how;     /* enum sampler_link */
	uint32_t lock;    /* enum probe_lock of that lock */
	/* of LINK_BY_BINDER: the call, by its caller and its number, and its times as far as they
	 * are known (0: not); tid 0: nobody has taken it, and of `threads` that serve there
	 * `at_work` are at work */
	int32_t caller_pid, caller_tid;
	uint32_t debug_id, code, threads, at_work;
	uint64_t sent_ns, received_ns;
	uint64_t process_start_boot_ns; /* of pid; 0: not read */
	uint32_t end;     /* enum sampler_chain_end; but for CHAIN_GOES_ON there is no sample */
	uint32_t kind;    /* enum capture_kind */
	uint32_t failure; /* enum stack_failure */
	uint32_t eintr_risk;
	char thread[16]; /* of tid, where it is an owner */
	char state;
	char wchan[63];
	struct stack_registers registers;
	uint64_t stack_base, sequence;
	uint32_t stack_bytes, text_bytes;
};

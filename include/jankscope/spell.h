/* SPDX-License-Identifier: BSD-2-Clause */
/* What a thread did from when to when: the seam between those who see the scheduler (the flight
 * recorder, a trace) and those who ask why a frame was late (user/why/). Times are nanoseconds of
 * one clock, that of the frames. The spells of a thread stand in order of time and do not overlap;
 * what lies between two of them was not seen. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "abi/looper.h"
#include "jankscope/record.h"

enum spell_state {
	SPELL_UNKNOWN = 0, /* not covered: before the recording began, a lost event, a full ring */
	SPELL_RUNNING = 1,
	SPELL_RUNNABLE = 2,        /* on a run queue, without a CPU */
	SPELL_SLEEPING = 3,        /* S: locks, binder, timers */
	SPELL_UNINTERRUPTIBLE = 4, /* D */
	SPELL_STOPPED = 5,         /* stopped, traced or frozen */
	SPELL_STATES = 6,
};

/* Why it left its CPU: a number of enum looper_reason, as blocks have it, or one of these. */
enum spell_reason {
	SPELL_REASON_UNKNOWN = LOOPER_REASON_MAX, /* nothing says what it waited for */
	SPELL_REASON_GPU,                         /* a fence: it waited for the GPU to be done */
	SPELL_REASON_BUFFER,                      /* the display had not given back a buffer yet */
	/* epoll, in which a looper waits for something to do; LOOPER_REASON_POLL is another poll
	   then */
	SPELL_REASON_LOOPER,
	SPELL_REASONS,
};

struct spell_thread {
	int32_t tid, tgid; /* tid 0: not known, and for a wait: nobody; tgid 0: not known */
	char comm[RECORD_COMM_LEN]; /* may be empty; always ends in a NUL */
};

/* [begin_ns, end_ns). One wait for a CPU during which several threads ran on that CPU is several
 * spells, one behind the other, each with who ran in it; so is a run in which the frequency
 * changed, where that is told. */
struct spell {
	int64_t begin_ns, end_ns;
	uint8_t state;  /* enum spell_state */
	uint8_t reason; /* of a sleep (S or D): enum looper_reason or spell_reason */
	int16_t cpu;    /* where it ran, or on whose queue it waited; -1: not known */
	uint32_t khz;   /* of a run; 0: not known */
	/* of RUNNABLE: who ran on that CPU meanwhile; of a sleep: who ended it */
	struct spell_thread other;
};

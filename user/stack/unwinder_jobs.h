/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside of the recorder's side of the unwinder: unwinder.c has the queue of jobs,
 * unwinder_helper.c the process that does them, unwinder_take.c takes what it says,
 * unwinder_needs.c gets what it asks for. */
#pragma once
#include "prober/pool.h"
#include "prober/warden.h"
#include "proc/read.h"
#include "proc/status.h"
#include "stack/refused_files.h"
#include "stack/unwinder.h"
#include "stack/unwinder_debts.h"
#include "stack/unwinder_wire.h"

/* Processes whose pids are so far apart share what may wait; the scan of all of them takes a
 * microsecond or two, where there is no room. */
#define UNWINDER_SHARES 4096

#define KEPT_MAPS     64
#define KEPT_BYTES    (4u << 20)
#define MESSAGE_BYTES (WIRE_MAX_BYTES > 65536 ? WIRE_MAX_BYTES : 65536)

struct job {
	struct job *next;
	enum wire_type type; /* of its question */
	unsigned deaths;     /* processes that died at it */
	uint64_t number;     /* on the wire, once it was sent */
	struct stack_process process;
	void *ctx;
	/* WIRE_UNWIND */
	struct stack_capture *capture;
	unwound_fn unwound; /* NULL: cancelled */
	/* WIRE_WAITS */
	int fd;
	uint64_t elf_start;
	wait_places_fn places; /* NULL: cancelled */
};

struct kept_maps {
	struct stack_process process; /* pid 0: the slot is free */
	int fd;
	uint64_t length, read_ns, used;
};

/* An asking for maps of unwinder_prime. */
struct primer {
	struct primer *next;
	struct unwinder *unwinder;
	struct stack_process process;
	int64_t id;
};

struct unwinder {
	struct warden *warden;
	struct prober_pool *pool;
	struct loop *loop;
	struct helper helper; /* socket -1: no process */
	int timer, pump;      /* deadline of what is under way; start of the next job */
	uint64_t retry_ns, not_before_ns;
	/* Jobs. The first `sent` are with the process, which works on current, the first of them.
	 */
	struct job *first, **last;
	struct job *gave_way; /* had to make room for others; their owners do not know yet */
	struct job *current;
	size_t sent, waiting_bytes;
	uint32_t bytes_of[UNWINDER_SHARES]; /* of waiting_bytes, by process: job_share() */
	uint64_t serial;                    /* of the job that was sent last */
	uint64_t number;                    /* of the job that is at work */
	uint64_t left_ns, resumed_ns; /* what the process has left for it, since when it runs */
	uint64_t given_up_ns;         /* when the job is given up, whatever it waits for */
	struct proc_kept schedstat;   /* of the process */
	struct proc_schedstat began;  /* what that was when the job began; zeros: not told */
	uint64_t given_back_ns;       /* of the waits for a CPU since then */
	struct stack_file_version reading; /* what the process reads; inode 0: no file */
	/* the need under way; need.kind 0: none */
	struct wire_need need;
	int64_t probe;
	struct kept_maps kept[KEPT_MAPS];
	uint64_t kept_bytes, uses;
	struct primer *primers;
	struct refused_files refused;
	struct unwinder_debts debts;
	/* totals */
	struct wire_losses seen; /* of this process */
	struct wire_losses losses;
	uint64_t cache_bytes; /* as this process told it last */
	uint64_t died, late, not_unwound, too_costly, no_memory, elf_refused, replaced, malformed;
	uint8_t message[MESSAGE_BYTES] __attribute__((aligned(8)));
};

/* Have the loop start, feed and watch the process. 0 or -errno. */
int unwinder_watch(struct unwinder *unwinder);
/* End that: the process is dropped, killed if a job is with it. */
void unwinder_unwatch(struct unwinder *unwinder);
/* Get what the process needs and send it; an answer that can be given at once is sent during the
 * call. 0, or -errno: the process must be replaced. */
int unwinder_needs(struct unwinder *unwinder, const struct wire_need *need);
/* Forget the need under way. */
void unwinder_forget_need(struct unwinder *unwinder);
void unwinder_free_kept(struct unwinder *unwinder);
/* The time of the process runs again. */
void unwinder_resume(struct unwinder *unwinder);
/* It does not take what it asked for: replace it. -EPIPE: it died meanwhile, and the next one does
 * the job. */
void unwinder_lose_process(struct unwinder *unwinder, int err);
/* Put a job at the end of the queue. */
void unwinder_append(struct unwinder *unwinder, struct job *job);
/* Where the first job that was not sent hangs. */
struct job **unwinder_find_unsent(struct unwinder *unwinder);
/* Have the loop send what waits, after ns; 0: in its next turn. */
void unwinder_pump_after(struct unwinder *unwinder, uint64_t ns);
/* The process is at the first job from now on: its time runs. */
void unwinder_begin(struct unwinder *unwinder);
/* The job that is at work ends without a result; hung: its time was over, else the process died of
 * it. */
void unwinder_give_up(struct unwinder *unwinder, bool hung);
/* One message of the process. 0 or -errno: it is not to be trusted. */
int unwinder_take_message(struct unwinder *unwinder, size_t length);
/* The process did its job: the next one may start. */
void unwinder_job_done(struct unwinder *unwinder);
/* The process waits for us now; what it used is gone. */
void unwinder_pause(struct unwinder *unwinder);
/* Take the job that is at work from the queue and tell its owner. trace is taken over; NULL: err
 * says why. */
void unwinder_finish_unwind(struct unwinder *unwinder, int err, struct unwound *trace);
/* Tell the owners of the jobs that had to make room. */
void unwinder_finish_gave_way(struct unwinder *unwinder);
void unwinder_finish_waits(struct unwinder *unwinder, int err, const struct wait_places *places);
/* What the job that is at work took so far is its process's to pay. */
void unwinder_charge(struct unwinder *unwinder);
/* Its process has cost much lately: the job is done when nobody else has one. */
bool unwinder_is_slow(const struct unwinder *unwinder, const struct job *job);
struct job *unwinder_take_first(struct unwinder *unwinder);
void unwinder_free_job(struct unwinder *unwinder, struct job *job);

/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of the sampler process: what it sees of the kernel side and when a row is due
 * (sampler_view.c), how one hand takes a sample (sampler_hand.c), and whom a thread waits for
 * (sampler_chain.c). */
#pragma once
#include <stdbool.h>

#include "abi/looper.h"
#include "kernel/binder_kernel.h"
#include "kernel/looper_read.h"
#include "kernel/task_registers.h"
#include "prober/sampler.h"
#include "stack/stack_merge.h"

struct ring_buffer;

#define SAMPLER_NO_SPELL UINT64_MAX

/* One watched thread. */
struct sampler_row {
	uint32_t index;
	uint64_t slot_id;
	struct stack_thread thread; /* owns its pidfd */
	bool from_birth;
	bool claimed; /* a hand samples it now */
	bool gone;    /* not watched any more; the hand frees it */
	uint64_t period;
	struct stack_schedule schedule;
	uint64_t sampled_spell; /* that the last sample was of; SAMPLER_NO_SPELL: none */
	uint64_t chain_ns;      /* when whom it waits for was looked at last */
	bool only_chain;        /* due for that alone: the sample of its spell is out */
	uint64_t next_ns; /* when it is to be looked at again, CLOCK_MONOTONIC; UINT64_MAX: it wakes
			     the sampler */
	uint64_t backoff_ns, left_alone_until_ns;
	/* It is due but left alone: the sample says so, once a period, in place of a capture. */
	bool refuse;
	/* It sleeps in the binder call of its last sample still: only whom it waits for is asked
	 * again. */
	bool chain_only;
	uint64_t chain_signature; /* of the look at its chain before; 0: none */
	uint64_t refused_period;
	/* It is that of a thread that makes frames (sampler_frames.c), and slot is made of what the
	 * flight recorder has; or a sample of this row is that of such a thread too. */
	bool for_frame;
	uint32_t frame; /* index in the flight recorder's table + 1; 0: none */
	uint64_t frame_id;
	bool is_main, polls;   /* polls: it was seen to wait in a poll */
	bool idle;             /* at the last look it waited for its next frame */
	uint64_t idle_ns;      /* since when */
	uint64_t waited_ns;    /* the last look at which it did */
	uint64_t sample_ns;    /* no sample before that */
	uint64_t slept_off_ns; /* the sleep that was sampled last */
	uint64_t frame_ns;     /* begin of the frame that was sampled last, and its samples */
	unsigned frame_samples;
	uint64_t thinned_ns; /* begin of the frame of which samples were left out last */
	/* as found when it became due */
	struct looper_slot slot;
};

typedef int (*sampler_wake_fn)(void *ctx, const struct looper_event *event, size_t size);

/* Sampling of frames. */
struct sampler_frame_view {
	struct flight_kernel *kernel; /* NULL: not wanted */
	uint64_t period_ns, step_ns;
	uint64_t phase_ns; /* of the looks: one each period_ns from there on */
	/* What it may cost still: it grows by 1 % of the time, and each sample takes of it. */
	int64_t budget_ns;
	uint64_t budget_at_ns, thinned;
};

/* What the sampler maps and reads. Written once at the set-up. */
struct sampler_view {
	uint32_t room;
	enum stack_request request;
	uint64_t block_ns, first_ns;
	struct looper_view loopers; /* slots are read under the sampler's lock */
	int wakes_fd;               /* readable when a parked thread works again */
	struct ring_buffer *wakes;
	bool has_registers;
	struct task_registers registers; /* the task iterator */
	bool has_binder;
	struct binder_fds binder;
	struct sampler_frame_view frames; /* under the sampler's lock */
	sampler_wake_fn wake;
	void *wake_ctx;
};

/* Takes over the descriptors. 0 or -errno. */
int sampler_view_open(struct sampler_view *view, const struct sampler_setup *setup, const int *fds,
		      size_t fd_count);
/* Call wake for each event of the ring. */
void sampler_view_wakes(struct sampler_view *view, sampler_wake_fn wake, void *ctx);
/* Look at the slot of a row: whether a sample is due; sets when it is to be looked at again. */
bool sampler_row_is_due(struct sampler_view *view, struct sampler_row *row, uint64_t now_ns);

/* Have the row's thread wake the sampler with its next busy period. False: it is in one, or is not
 * known to loop. */
bool sampler_row_parks(struct sampler_view *view, struct sampler_row *row);

/* ---- sampler_frames.c ---- */
/* Rows of threads that make frames stand behind those of the slots, FLIGHT_THREADS of them. The
 * descriptors stay the caller's. 0 or -errno. */
int sampler_frames_set(struct sampler_view *view, struct sampler_row **rows,
		       const struct sampler_frames *message, const int *fds, size_t fd_count);
/* NULL: the thread is gone, or there is no memory. */
struct sampler_row *sampler_frame_new(const struct sampler_view *view,
				      const struct sampler_frame_watch *message);
/* As sampler_row_is_due, of a row that is for_frame. */
bool sampler_frame_is_due(struct sampler_view *view, struct sampler_row *row, uint64_t now_ns);
/* Look no more at a row that has nothing to do until its process's main thread works again. */
void sampler_frames_rest(struct sampler_view *view, struct sampler_row **rows,
			 struct sampler_row *row, uint64_t now_ns);
void sampler_frames_wake(const struct sampler_view *view, struct sampler_row **rows, pid_t pid,
			 uint64_t begin_ns);
/* The sample of a block's row that is taken now is one of the frame that its thread is amid, too.
 */
void sampler_frames_share(const struct sampler_view *view, struct sampler_row **rows,
			  struct sampler_row *row, uint64_t now_ns);
/* Have the calling hand run although frames are made by threads that nothing else preempts. */
void sampler_frames_queue_first(void);
/* A sample was taken that took so much CPU time of its hand. */
void sampler_frame_charge(struct sampler_view *view, uint64_t cpu_ns);
/* It sleeps in the spell that row->slot tells. */
bool sampler_frame_sleeps(const struct sampler_view *view, const struct sampler_row *row);

/* Watched threads whose files a hand keeps open; those that share a place are opened each time. */
#define SAMPLER_KEPT 8

struct sampler_hand {
	const struct sampler_view *view;
	const struct sampler_row *row; /* of the sample that is taken */
	struct stack_stash stash;
	bool by_task;   /* the registers came from the task iterator, not from a stash */
	bool read_once; /* of this sample; the first time did not ask whether it ran unseen */
	struct looper_task task;
	struct stack_capturer *capturer;
	struct stack_capture *capture;
	enum stack_request link_request; /* for threads that are waited for: never a stop */
	struct {
		struct proc_kept schedstat, statm;
	} kept[SAMPLER_KEPT];
	uint64_t page_bytes;
	uint64_t perf_used_ns; /* when a perf event was used last; 0: none is open */
};

struct sampler_hand *sampler_hand_new(const struct sampler_view *view);
/* Close what captures left open and did not use again; returns when to be called again
 * (CLOCK_MONOTONIC), UINT64_MAX: nothing is open. */
uint64_t sampler_hand_rest(struct sampler_hand *hand, uint64_t now_ns);
/* The process that stops threads for this hand, 0: none. */
pid_t sampler_hand_worker(const struct sampler_hand *hand);
/* Take the sample that is due and send it. May wait for the target for as long as the target likes.
 * 0; -EAGAIN: the recorder did not take the samples before this one; -EPIPE: it is gone. */
int sampler_hand_sample(struct sampler_hand *hand, struct sampler_row *row, int socket);
/* Send the sample, with what hand->capture holds if it is taken. As sampler_hand_sample. */
int sampler_hand_send(const struct sampler_hand *hand, struct sampler_sample *sample, int socket);

/* ---- sampler_chain.c ---- */
/* Sample the owner of the futex that the watched thread sleeps in, or the thread that serves its
 * binder call, then the thread that this one waits for, and so on. As sampler_hand_sample. */
int sampler_chain_sample(struct sampler_hand *hand, struct sampler_row *row, int socket);

/* ---- sampler_binder.c ---- */
/* By its registers the thread is in a call of the binder driver, maybe waiting for work. */
bool sampler_binder_is_call(const struct stack_registers *registers);
/* Whom the thread's synchronous call waits for. process: its address of abi/binder.h, 0: not known.
 * 0; -ENOENT: it waits in no such call, or that is not known; -errno. */
int sampler_binder_look(const struct sampler_view *view, pid_t pid, pid_t tid, uint64_t process,
			struct binder_look *look);
/* A number for the calls that the thread and those behind it wait for; 0: none. It changes when one
 * of the calls is another one, or was taken. */
uint64_t sampler_binder_signature(const struct sampler_view *view, pid_t pid, pid_t tid);

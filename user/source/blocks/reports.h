/* SPDX-License-Identifier: BSD-2-Clause */
/* Block records on their way out. A record waits for the stacks of its samples for 200 ms at the
 * most; a stack that comes later follows as a record of its own. */
#pragma once
#include "source/blocks/chain.h"
#include "source/blocks/waker.h"

struct block_report {
	struct block_report *next;
	struct record_block block;
	char *process, *package; /* owned copies that block points to */
	char *names;             /* process names in the record, owned */
	uint64_t slot_id, period;
	uint64_t created_ns; /* CLOCK_MONOTONIC */
	bool last;           /* the period is over; samples and spells below are the report's own */
	bool held;           /* the thread is not known to loop yet */
	bool doubted;        /* its loop is perhaps shared: own.c */
	bool early;          /* it ended with the first wait that was seen of its thread */
	bool unknown;        /* its thread was not known to loop before it ended */
	bool emitted;
	uint64_t seq, t_boot_ns;    /* of its record, once emitted */
	const char *no_stacks;      /* why nothing can be captured at all; NULL: it can */
	uint64_t failed;            /* captures that were tried and gave nothing */
	enum stack_failure failure; /* why the last of them did not; STACK_OK: not known */
	/* the samples as of now with their weights; after the record is out, those that it lacks */
	struct block_sample **samples;
	uint64_t *weights;
	size_t sample_count;
	/* of a period that is over: what the weights come from */
	struct block_samples list;
	struct block_spells spells;
	uint64_t begin_ns, end_ns;
	struct block_chain chain;
	struct block_wake wake;               /* of the record's waker; spell 0: none was told */
	uint64_t longest_ns;                  /* the sleep that the waker ended */
	uint64_t block_ns;                    /* the threshold */
	const char *processes[SAMPLER_CHAIN]; /* of its links; in names */
};

struct block_reports {
	struct block_report *first, **last;
	size_t count;
	uint64_t stacks_late;      /* came after their record, and followed */
	uint64_t stacks_abandoned; /* did not come within FOLLOW_NS of their record */
	bool some_early;           /* a report that is held or early may be among them */
};

/* As source_context.emit, which stamps the record. */
typedef void (*report_emit_fn)(void *ctx, struct record *record);

void block_reports_init(struct block_reports *reports);
/* Take a report in. */
void block_reports_add(struct block_reports *reports, struct block_report *report);
/* Weigh the samples of a report: all of the list, up to its end. 0, -ENOMEM. */
int block_report_weigh(struct block_report *report, const struct block_samples *list,
		       const struct block_spells *spells, uint64_t open_spell,
		       uint64_t open_since_ns);
/* A sample of a period that is over came: add it to its report. False: its record is out. Takes the
 * reference over either way. */
bool block_reports_late_sample(struct block_reports *reports, uint64_t slot_id, uint64_t period,
			       struct block_sample *sample);
/* The same of what the sampler says of an owner of a lock, with or without a capture. */
void block_reports_late_owner(struct block_reports *reports, const struct sampler_sample *sample);
/* The same of a capture that gave nothing. */
void block_reports_late_failure(struct block_reports *reports, uint64_t slot_id, uint64_t period,
				enum stack_failure failure);
/* Emit what is due at now_ns (all that is possible, if final); returns when to look again, 0: not
 * by itself. */
uint64_t block_reports_emit(struct block_reports *reports, uint64_t now_ns, bool final,
			    report_emit_fn emit, void *ctx);
/* The thread of a slot is known to loop (release), to loop in an epoll of its own (trust), or known
 * not to (drop what was held, early or doubted). */
void block_reports_release(struct block_reports *reports, uint64_t slot_id);
void block_reports_trust(struct block_reports *reports, uint64_t slot_id);
void block_reports_drop_held(struct block_reports *reports, uint64_t slot_id);
/* The thread of a slot has ended: no question about its loop is answered any more. What it did
 * before it was known to loop is dropped, the rest goes out. */
void block_reports_end(struct block_reports *reports, uint64_t slot_id);
/* No report waits for a stack. */
bool block_reports_settled(const struct block_reports *reports);
void block_report_free(struct block_report *report);
void block_reports_free(struct block_reports *reports);

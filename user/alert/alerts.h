/* SPDX-License-Identifier: BSD-2-Clause */
/* The rules of a run against its records: what holds for how long, what was told, what is over.
 * One rule has a state for each process, thread, uid or layer that it holds for. */
#pragma once
#include "alert/rule.h"

/* Whom one rule can hold for at a time. */
#define ALERT_SUBJECTS 1024

struct alerts;

/* One that is told. */
struct alert {
	const struct alert_rule *rule;
	const struct metric_subject *subject;
	bool fired; /* false: it is over */
	double value;
	uint64_t held_ns; /* between the first and the last record in which it held */
};

typedef void (*alert_fn)(void *ctx, const struct alert *alert);

/* Copies the rules. NULL with ENOMEM. */
struct alerts *alerts_new(const struct alert_rule *rules, size_t count, alert_fn fn, void *ctx);
void alerts_free(struct alerts *alerts);
/* Look at an interval or a block; others are of no interest. fn is called for what begins and what
 * is over; it may emit records, which must not come here. 0 or -ENOMEM. */
int alerts_take(struct alerts *alerts, const struct record *record);
/* Rules whose metric no record had so far; the n-th of them, NULL past the end. */
const struct alert_rule *alerts_unseen(const struct alerts *alerts, size_t n);
/* How often alerts began and were over, and how many values were not followed because a rule held
 * for ALERT_SUBJECTS others. */
struct alert_counts {
	uint64_t fired, cleared, left_out;
};
struct alert_counts alerts_counts(const struct alerts *alerts);

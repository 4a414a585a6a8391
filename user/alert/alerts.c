/* SPDX-License-Identifier: BSD-2-Clause */
#include "alert/alerts.h"

#include <errno.h>
#include <stdlib.h>
#include <uthash.h>

#include "util/clock.h"

/* Of whom no record told for so long the state is dropped: it is gone. */
#define FORGET_NS (600 * NSEC_PER_SEC)
/* More processes than these are not in the foreground at a time. */
#define SHOWN 64

struct state {
	UT_hash_handle hh;
	uint64_t identity;
	struct metric_subject subject;
	/* on the clock of alerts.awake_ns: the first record of those in which it holds (0: it does
	 * not), and the last one that had a value */
	uint64_t since_ns, seen_awake_ns;
	uint64_t fired_ns;      /* when it was told last; 0: never */
	uint64_t seen_ns;       /* the last record that had a value */
	uint64_t block_boot_ns; /* of a block: the one that was told last */
	bool active;            /* told, and not over */
};

struct rule_state {
	struct alert_rule rule;
	struct state *states;
	uint64_t last_ns; /* the record before */
	bool seen;
};

struct alerts {
	struct rule_state *rules;
	size_t count;
	alert_fn fn;
	void *ctx;
	struct alert_counts counts;
	/* How long the intervals were together, and 1. Nothing holds while the machine is
	 * suspended: what was so before and is so after it did not last that long. */
	uint64_t awake_ns;
	/* Targets that the last interval had in the foreground at both of its ends. */
	pid_t shown[SHOWN];
	size_t shown_count;
	bool knows_shown; /* it told of any target whether it is */
};

struct alerts *alerts_new(const struct alert_rule *rules, size_t count, alert_fn fn, void *ctx)
{
	struct alerts *alerts = calloc(1, sizeof(*alerts));

	if (alerts)
		alerts->rules = calloc(count + 1, sizeof(*alerts->rules));
	if (!alerts || !alerts->rules) {
		free(alerts);
		return NULL;
	}
	alerts->count = count;
	alerts->awake_ns = 1;
	alerts->fn = fn;
	alerts->ctx = ctx;
	for (size_t i = 0; i < count; i++)
		alerts->rules[i].rule = rules[i];
	return alerts;
}

static void drop(struct rule_state *rule, struct state *state)
{
	HASH_DEL(rule->states, state);
	free(state);
}

void alerts_free(struct alerts *alerts)
{
	struct state *state, *next;

	if (!alerts)
		return;
	for (size_t i = 0; i < alerts->count; i++)
		HASH_ITER (hh, alerts->rules[i].states, state, next)
			drop(&alerts->rules[i], state);
	free(alerts->rules);
	free(alerts);
}

struct looking {
	struct alerts *alerts;
	struct rule_state *rule;
	const struct record *record;
	uint64_t now_ns;
	double dur_s;
	int err;
};

static struct state *find(struct rule_state *rule, uint64_t identity)
{
	struct state *state;

	HASH_FIND(hh, rule->states, &identity, sizeof(identity), state);
	return state;
}

/* Room for whom the rule holds now: who is gone, or does not hold any more, makes it. Whose row
 * comes later in this record was seen in the one before. */
static bool make_room(struct looking *looking)
{
	struct state *state, *next;

	if (HASH_COUNT(looking->rule->states) < ALERT_SUBJECTS)
		return true;
	HASH_ITER (hh, looking->rule->states, state, next)
		if (!state->active && (!state->since_ns || state->seen_ns < looking->rule->last_ns))
			drop(looking->rule, state);
	return HASH_COUNT(looking->rule->states) < ALERT_SUBJECTS;
}

static struct state *add_state(struct looking *looking, const struct metric_subject *subject)
{
	struct rule_state *rule = looking->rule;
	struct state *state;

	if (!make_room(looking)) {
		looking->alerts->counts.left_out++;
		return NULL;
	}
	state = calloc(1, sizeof(*state));
	if (!state) {
		looking->err = -ENOMEM;
		return NULL;
	}
	state->identity = subject->identity;
	HASH_ADD(hh, rule->states, identity, sizeof(state->identity), state);
	return state;
}

static void tell(struct looking *looking, struct state *state, bool fired, double value)
{
	const struct alert alert = {
		.rule = &looking->rule->rule,
		.subject = &state->subject,
		.fired = fired,
		.value = value,
		.held_ns = state->since_ns ? looking->alerts->awake_ns - state->since_ns : 0,
	};

	state->active = fired;
	if (fired) {
		state->fired_ns = looking->now_ns;
		looking->alerts->counts.fired++;
	} else {
		looking->alerts->counts.cleared++;
	}
	looking->alerts->fn(looking->alerts->ctx, &alert);
}

static bool cools(const struct looking *looking, const struct state *state)
{
	return state->fired_ns && looking->now_ns - state->fired_ns < looking->rule->rule.cool_ns;
}

/* A block is told when it is found, while it lasts and when it is over: one alert. */
static void look_at_block(struct looking *looking, struct state *state, double value)
{
	uint64_t start_boot_ns = looking->record->block->start_boot_ns;

	if (state->block_boot_ns == start_boot_ns || cools(looking, state))
		return;
	state->block_boot_ns = start_boot_ns;
	state->since_ns = 0;
	tell(looking, state, true, value);
	state->active = false;
}

/* It holds no more. */
static void leave(struct looking *looking, struct state *state, double value)
{
	if (state->active)
		tell(looking, state, false, value);
	state->since_ns = 0;
}

static void look(struct looking *looking, struct state *state, double value)
{
	const struct alert_rule *rule = &looking->rule->rule;
	uint64_t awake_ns = looking->alerts->awake_ns;

	if (comparison_holds(rule->op, value, rule->limit)) {
		if (!state->since_ns)
			state->since_ns = awake_ns;
		if (!state->active && awake_ns - state->since_ns >= rule->for_ns &&
		    !cools(looking, state))
			tell(looking, state, true, value);
		return;
	}
	if (state->active && comparison_holds(rule->op, value, rule->clear))
		return; /* between the two limits */
	leave(looking, state, value);
}

/* What is of no process (a uid's bytes, the machine's memory) counts while any target is. */
static bool is_shown(const struct alerts *alerts, pid_t pid)
{
	for (size_t i = 0; i < alerts->shown_count; i++)
		if (pid <= 0 || alerts->shown[i] == pid)
			return true;
	return false;
}

static bool is_hidden(const struct looking *looking, const struct metric_subject *subject)
{
	return looking->rule->rule.foreground && !is_shown(looking->alerts, subject->pid);
}

static void take_context(struct alerts *alerts, const struct record_context *context)
{
	alerts->knows_shown = context->process_count > 0;
	alerts->shown_count = 0;
	for (size_t i = 0; i < context->process_count && alerts->shown_count < SHOWN; i++)
		if (context->processes[i].state == CONTEXT_FOREGROUND &&
		    !context->processes[i].changed)
			alerts->shown[alerts->shown_count++] = context->processes[i].pid;
}

static void take_value(void *ctx, double value, const struct metric_subject *subject)
{
	struct looking *looking = ctx;
	const struct alert_rule *rule = &looking->rule->rule;
	struct state *state = find(looking->rule, subject->identity);
	bool hidden = is_hidden(looking, subject);

	if (hidden && !looking->alerts->knows_shown)
		return;
	looking->rule->seen = true;
	if (rule->scale != ALERT_AS_IT_IS) {
		if (looking->dur_s <= 0)
			return;
		value /= looking->dur_s;
		if (rule->scale == ALERT_PERCENT)
			value /= 1e7; /* ns a second: 1e9 are 100 % */
	}
	if (!state && (hidden || !comparison_holds(rule->op, value, rule->limit)))
		return;
	if (!state)
		state = add_state(looking, subject);
	if (!state)
		return;
	state->subject = *subject;
	state->seen_ns = looking->now_ns;
	state->seen_awake_ns = looking->alerts->awake_ns;
	if (hidden)
		leave(looking, state, value);
	else if (rule->metric.type == RECORD_BLOCK)
		look_at_block(looking, state, value);
	else
		look(looking, state, value);
}

/* The table lists fewer tasks than ran: who is not there may have used time. */
static bool is_cut(const struct looking *looking)
{
	return looking->record->type == RECORD_INTERVAL && looking->record->interval->cpu.cut_count;
}

static void look_at_absent(struct looking *looking, bool known)
{
	struct rule_state *rule = looking->rule;
	struct state *state, *next;

	HASH_ITER (hh, rule->states, state, next) {
		if (state->seen_ns == looking->now_ns)
			continue;
		if (known && rule->rule.metric.sums && state->identity && !is_cut(looking)) {
			if (!is_hidden(looking, &state->subject))
				look(looking, state, 0);
			else if (looking->alerts->knows_shown)
				leave(looking, state, 0);
			if (state->active || state->since_ns)
				continue;
		}
		if (!state->active && !state->since_ns && !cools(looking, state))
			drop(rule, state);
		else if (looking->alerts->awake_ns - state->seen_awake_ns > FORGET_NS)
			drop(rule, state);
	}
}

int alerts_take(struct alerts *alerts, const struct record *record)
{
	struct looking looking = {.alerts = alerts, .record = record, .now_ns = record->t_boot_ns};

	if (record->type != RECORD_INTERVAL && record->type != RECORD_BLOCK)
		return 0;
	if (record->type == RECORD_INTERVAL) {
		looking.dur_s = (double)record->interval->dur_ns / 1e9;
		alerts->awake_ns += record->interval->dur_ns;
		take_context(alerts, &record->interval->context);
	}
	for (size_t i = 0; i < alerts->count; i++) {
		struct rule_state *rule = &alerts->rules[i];
		bool known;

		if (rule->rule.metric.type != record->type)
			continue;
		looking.rule = rule;
		known = metric_read(&rule->rule.metric, record, take_value, &looking);
		/* A task or uid that is in no row of a list of sums had 0; one whose row
		 * lacks the value had none. */
		rule->seen |= known && rule->rule.metric.sums &&
			      (!rule->rule.foreground || alerts->knows_shown);
		if (record->type == RECORD_INTERVAL)
			look_at_absent(&looking, known);
		rule->last_ns = looking.now_ns;
	}
	return looking.err;
}

const struct alert_rule *alerts_unseen(const struct alerts *alerts, size_t n)
{
	for (size_t i = 0; i < alerts->count; i++) {
		const struct rule_state *rule = &alerts->rules[i];

		if (rule->seen || rule->rule.metric.type == RECORD_BLOCK)
			continue;
		if (!n--)
			return &rule->rule;
	}
	return NULL;
}

struct alert_counts alerts_counts(const struct alerts *alerts)
{
	return alerts->counts;
}

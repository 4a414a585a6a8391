/* SPDX-License-Identifier: BSD-2-Clause */
/* What a run does with an alert (alert/README.md): an event, a line on stderr, a command. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "alert/alerts.h"
#include "alert/command.h"
#include "core/session_private.h"
#include "record/fields.h"
#include "record/redact.h"
#include "summary/summary.h"
#include "util/talk.h"

static struct event_key number_key(const char *name, double value)
{
	struct event_key key = {.name = name, .value = (int64_t)value};

	if (fabs(value) >= 0x1p53 || value != (double)(int64_t)value) {
		key.real = true;
		key.number = value;
	}
	return key;
}

static void add_key(struct record_event *event, struct event_key key)
{
	event->keys[event->key_count++] = key;
}

static void tell_event(struct session *session, const struct alert *alert)
{
	const struct alert_rule *rule = alert->rule;
	struct record_event event = {.event = "alert"};

	add_key(&event,
		(struct event_key){.name = "state", .text = alert->fired ? "fired" : "cleared"});
	add_key(&event, (struct event_key){.name = "rule", .text = rule->text});
	add_key(&event, (struct event_key){.name = "metric", .text = rule->metric.path});
	if (alert->subject->text[0])
		add_key(&event,
			(struct event_key){.name = "subject", .text = alert->subject->text});
	if (alert->subject->pid > 0)
		add_key(&event, (struct event_key){.name = "pid", .value = alert->subject->pid});
	add_key(&event, number_key("value", alert->value));
	add_key(&event, number_key("limit", rule->limit));
	add_key(&event, (struct event_key){.name = "held_ns", .value = (int64_t)alert->held_ns});
	session_emit_event(session, &event);
}

static void tell_user(const struct session *session, const struct alert *alert, const char *value)
{
	char name[SESSION_TEXT], text[SESSION_TEXT];
	const char *subject = alert->subject->text;
	const char *rule = session_text(session, alert->rule->text, text);

	if (session->options.redactor)
		subject = redactor_name(session->options.redactor, subject, name, sizeof(name));
	if (alert->fired)
		talk("alert: %s%s%s is %s (%s)\n", subject, *subject ? ": " : "",
		     alert->rule->metric.path, value, rule);
	else
		talk("alert is over: %s%s%s is %s (%s)\n", subject, *subject ? ": " : "",
		     alert->rule->metric.path, value, rule);
}

static size_t put_variable(char *text, size_t used, size_t size, const char *name,
			   const char *value)
{
	int n = snprintf(text + used, size - used, "%s=%s", name, value);

	return n >= 0 && (size_t)n < size - used ? used + (size_t)n + 1 : used;
}

static void run_command(struct session *session, const struct alert *alert, const char *value)
{
	char text[1536], number[40];
	size_t used = 0;

	used = put_variable(text, used, sizeof(text), "JANKSCOPE_ALERT", alert->rule->text);
	used = put_variable(text, used, sizeof(text), "JANKSCOPE_METRIC", alert->rule->metric.path);
	used = put_variable(text, used, sizeof(text), "JANKSCOPE_SUBJECT", alert->subject->text);
	snprintf(number, sizeof(number), "%.15g", alert->value);
	used = put_variable(text, used, sizeof(text), "JANKSCOPE_VALUE", number);
	used = put_variable(text, used, sizeof(text), "JANKSCOPE_VALUE_TEXT", value);
	snprintf(number, sizeof(number), "%d", alert->subject->pid);
	if (alert->subject->pid > 0)
		used = put_variable(text, used, sizeof(text), "JANKSCOPE_PID", number);
	commands_run(session->commands, text, used);
}

static void on_alert(void *ctx, const struct alert *alert)
{
	struct session *session = ctx;
	char value[64];

	alert_value_text(alert->rule, alert->value, value, sizeof(value));
	tell_event(session, alert);
	tell_user(session, alert, value);
	if (session->commands && alert->fired)
		run_command(session, alert, value);
}

int session_join_alerts(struct session *session)
{
	const struct session_options *options = &session->options;

	if (!options->alert_count)
		return 0;
	session->alerts = alerts_new(options->alerts, options->alert_count, on_alert, session);
	if (session->alerts && options->on_alert && options->warden) {
		session->commands = commands_new(options->on_alert, options->warden, session->loop);
		if (!session->commands)
			return -ENOMEM;
	}
	return session->alerts ? 0 : -ENOMEM;
}

void session_leave_alerts(struct session *session)
{
	alerts_free(session->alerts);
	commands_free(session->commands);
}

void session_take_alerts(struct session *session, const struct record *record)
{
	if (session->alerts && alerts_take(session->alerts, record))
		session->error = -ENOMEM;
}

static bool is_of_absent_source(const struct session *session, const struct alert_rule *rule,
				const char **reason)
{
	const char *part = rule->metric.steps[0]->key;
	size_t index = 0;
	const struct field *row = NULL;

	if (rule->metric.type == RECORD_BLOCK)
		part = "blocks";
	else
		while ((row = record_next_part(&index)) && row != rule->metric.steps[0])
			;
	if (rule->metric.type == RECORD_INTERVAL && row != rule->metric.steps[0])
		return false; /* of no source */
	*reason = "it was not asked for";
	for (size_t i = 0; i < session->source_count; i++) {
		const struct source *source = session->sources[i].source;

		if (strcmp(source->ops->name, part))
			continue;
		*reason = source->reason;
		return !session->sources[i].open || source->state == SOURCE_ABSENT;
	}
	return true;
}

void session_check_alerts(const struct session *session)
{
	char name[SESSION_TEXT], text[SESSION_TEXT];
	const char *reason = "";

	for (size_t i = 0; i < session->options.alert_count; i++)
		if (is_of_absent_source(session, &session->options.alerts[i], &reason))
			talk("warn: --alert %s: never fires, the source is absent: %s\n",
			     session_text(session, session->options.alerts[i].text, text),
			     session_text(session, reason, name));
}

int session_sum_alerts(struct session *session)
{
	struct alert_counts alerts;
	struct command_counts commands;
	const struct alert_rule *rule;
	char text[SESSION_TEXT];
	int err = 0;

	if (!session->alerts)
		return 0;
	alerts = alerts_counts(session->alerts);
	for (size_t i = 0; (rule = alerts_unseen(session->alerts, i)); i++)
		talk("warn: --alert %s: no record had a value\n",
		     session_text(session, rule->text, text));
	err |= summary_set_total(session->summary, "alerts.fired", (double)alerts.fired);
	err |= summary_set_total(session->summary, "alerts.cleared", (double)alerts.cleared);
	if (alerts.left_out)
		err |= summary_set_total(session->summary, "alerts.left_out",
					 (double)alerts.left_out);
	if (session->commands) {
		commands = commands_counts(session->commands);
		err |= summary_set_total(session->summary, "alerts.commands.started",
					 (double)commands.started);
		err |= summary_set_total(session->summary, "alerts.commands.failed",
					 (double)(commands.failed + commands.not_found));
		err |= summary_set_total(session->summary, "alerts.commands.killed",
					 (double)commands.killed);
		err |= summary_set_total(session->summary, "alerts.commands.not_run",
					 (double)commands.not_run);
		if (commands.unanswered)
			err |= summary_set_total(session->summary, "alerts.commands.unanswered",
						 (double)commands.unanswered);
		if (commands.failed + commands.not_found + commands.killed + commands.not_run)
			talk("warn: --on-alert: %llu failed, %llu were not found, %llu were killed "
			     "after 5 min, %llu were not run\n",
			     (unsigned long long)commands.failed,
			     (unsigned long long)commands.not_found,
			     (unsigned long long)commands.killed,
			     (unsigned long long)commands.not_run);
	}
	return err;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* --alert and --on-alert of `record`. */
#pragma once
#include "alert/command.h"
#include "alert/rule.h"
#include "verb/verb.h"

struct record_alerts {
	struct alert_rule *rules;
	size_t count;
	struct command command;
};

/* Read the rules, of files too, and split the command. EXIT_FINE, or what is wrong was said in one
 * line. *alerts begins as 0, and is freed in both cases. */
enum exit_code record_alerts_take(struct record_alerts *alerts, const struct options *options);
void record_alerts_free(struct record_alerts *alerts);

/* SPDX-License-Identifier: BSD-2-Clause */
/* report --by-activity: the activity that had the focus as a scene. The frames source tells a
 * change of the focus seconds later, with its time (event focus), so that a recording is read
 * twice: for the changes, and with a mark put in front of the first record behind each. */
#pragma once
#include "jankscope/record.h"

struct report_activity;

/* NULL with errno ENOMEM. */
struct report_activity *report_activity_new(void);
void report_activity_free(struct report_activity *activity);
/* Read the changes of a recording. 0, -ENOMEM, -ENODATA: it has none; what cannot be read is left
 * to whoever reads it for its records. */
int report_activity_begin(struct report_activity *activity, const char *file);
/* Hand the marks that lie before a record on, as records of their own, and then nothing: the caller
 * hands on the record. 0, or what put returned. */
int report_activity_take(struct report_activity *activity, const struct record *record,
			 int (*put)(void *ctx, const struct record *record), void *ctx);

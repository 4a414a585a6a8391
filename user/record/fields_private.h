/* SPDX-License-Identifier: BSD-2-Clause */
/* What fields.c, fields_jank.c and fields_footer.c share. */
#pragma once
#include "jankscope/field.h"

#define COUNTERS(struct_, member, need_, meaning_) FIELD(struct_, member, need_, COUNT, meaning_)
#define MISSING(struct_)                                                                      \
	FIELD(struct_, missing, REQUIRED, NAME, "keys that are absent, each with its reason", \
	      TEXT_IS(SENTENCE))
#define LOST_MEANING "what is in no record, by reason"
#define LATE_MEANING                                                                            \
	"what is told later than it should be, as the sums of an interval that was overrun in " \
	"the next one (interval_overruns), by reason"
#define REPAIRED_MEANING "what was missed and is in the sums nevertheless, by reason"

extern const struct field_type record_footer_type, record_jank_type;
/* Rows that a block and a jank both have. */
extern const struct field_type record_reason_type, record_preemptor_type, record_waker_type,
	record_thread_type, record_link_type, record_stack_type;

/* SPDX-License-Identifier: BSD-2-Clause */
/* The figures of an interval that become timelines of an HTML report. */
#pragma once
#include "jankscope/record.h"
#include "sink/thinned.h"

/* Between thinned_begin() and thinned_end(). judges_frames: each late frame has its cause. 0 or
 * -ENOMEM. */
int html_interval_add(struct thinned *thinned, const struct record_interval *interval,
		      bool judges_frames);

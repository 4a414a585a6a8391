/* SPDX-License-Identifier: BSD-2-Clause */
/* The late frames of an HTML report: the latest ones with what their threads did, and the sums of
 * all by cause. */
#pragma once
#include <stdint.h>

#include "jankscope/record.h"
#include "record/json_buffer.h"

struct html_janks;

/* NULL with ENOMEM. */
struct html_janks *html_janks_new(void);
void html_janks_free(struct html_janks *janks);
/* x_ns: where its window begins on the x axis. 0, -ENOMEM. */
int html_janks_add(struct html_janks *janks, const struct record_jank *jank, uint64_t x_ns);
/* "late": {...}. */
void html_janks_put(struct html_janks *janks, struct json_buffer *to);

/* SPDX-License-Identifier: BSD-2-Clause */
/* The page of a run that goes on, for Prometheus: families, names and units are those of `report
 * --openmetrics` (sink/openmetrics.h), the counters count from the begin of the run, and none
 * shrinks. In bounded memory. */
#pragma once
#include "jankscope/record.h"

struct live_metrics;

/* NULL with ENOMEM. */
struct live_metrics *live_metrics_new(void);
void live_metrics_free(struct live_metrics *metrics);
/* Count a record, as others see it. */
void live_metrics_take(struct live_metrics *metrics, const struct record *record);
/* The page as of the last interval; totals and distributions are those of sums (NULL: there are
 * none yet). text is the caller's. 0 or -ENOMEM. */
int live_metrics_write(const struct live_metrics *metrics, const struct record_footer *sums,
		       char **text, size_t *bytes);

/* SPDX-License-Identifier: BSD-2-Clause */
/* What a run used, as OpenMetrics 1.0 text for Prometheus. */
#pragma once
#include <stdio.h>

#include "jankscope/sink.h"

/* Samples that are written at the most. */
#define OPENMETRICS_SERIES 200

/* A sink that takes the header and the footer of a recording and writes, in its finish(), one
 * sample of each total, distribution, and of the heaviest threads, processes, uids and layers, with
 * the sum of all others as "_other". Names and units follow Prometheus' conventions: seconds,
 * bytes, ratios, _total for sums; the key path is in HELP. Labels are names and uids, never pids,
 * so that the number of series does not grow with restarts; who has the same labels is one series.
 * The device is in target_info. Of a recording of several runs the last one counts. The caller owns
 * `to` and closes it after the sink. NULL with errno. */
struct sink *openmetrics_sink_new(FILE *to);

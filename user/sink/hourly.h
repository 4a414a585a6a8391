/* SPDX-License-Identifier: BSD-2-Clause */
/* report --hourly: a table with one row an hour of the wall clock. An interval and a block count
 * for the hour in which they ended. */
#pragma once
#include <stdio.h>

#include "jankscope/sink.h"

/* Writes to a stream that stays the caller's, at finish(). NULL with errno ENOMEM. */
struct sink *hourly_sink_new(FILE *to);

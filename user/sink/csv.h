/* SPDX-License-Identifier: BSD-2-Clause */
/* Records as a table of single figures for spreadsheets and data frames (RFC 4180). */
#pragma once
#include <stdio.h>

#include "jankscope/sink.h"

/* A sink that writes one row a value: which record, of whom (pid, tid, uid, package, process,
 * thread, name), the metric's key path, its unit and the value. All rows have the same columns, and
 * come from the table of fields, so that a new metric is in the file by itself. Stacks and chains
 * are left out: --folded has the stacks. A text that a spreadsheet would take for a formula begins
 * with ' (OWASP, "CSV Injection"). The caller owns `to` and closes it after the sink. NULL with
 * errno. */
struct sink *csv_sink_new(FILE *to);

/* SPDX-License-Identifier: BSD-2-Clause */
/* A run of record with another view of it on stdout. */
#pragma once
#include "sink/table.h"
#include "verb/verb.h"

/* Opens the sink that shows a run on stdout. NULL with errno. */
typedef struct sink *(*record_view)(const struct table_options *table);

/* What verb_record() does in the foreground, shown by another sink than the table. */
enum exit_code record_with_view(const struct options *options, record_view view);

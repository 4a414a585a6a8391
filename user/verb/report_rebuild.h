/* SPDX-License-Identifier: BSD-2-Clause */
/* The footer of a run that was not written to its end, or of a part of a run, made of the records
 * that there are. */
#pragma once
#include "jankscope/record.h"

struct report_rebuild;

/* selected: it is of a part. NULL with errno ENOMEM. */
struct report_rebuild *report_rebuild_new(bool selected);
void report_rebuild_free(struct report_rebuild *rebuild);
/* The next record of the run, its header first. 0 or -ENOMEM. */
int report_rebuild_add(struct report_rebuild *rebuild, const struct record *record);
/* The records from then on are added, which began at begin_boot_ns. */
void report_rebuild_skip(struct report_rebuild *rebuild, uint64_t begin_boot_ns);
/* How many records were added. */
uint64_t report_rebuild_records(const struct report_rebuild *rebuild);
/* The footer, with a reason in `missing` that says what it is; it lives as long as rebuild. NULL
 * with errno ENOMEM. */
const struct record *report_rebuild_footer(struct report_rebuild *rebuild);

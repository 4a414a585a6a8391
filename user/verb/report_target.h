/* SPDX-License-Identifier: BSD-2-Clause */
/* report --target: a record with the rows of some apps only. */
#pragma once
#include <stdbool.h>

#include "jankscope/record.h"
#include "jankscope/target.h"

struct report_target;

/* Each a pid, or a name: of a package, of a process (also without its ":suffix" or its folder), or
 * a glob over these. Borrowed. NULL with errno ENOMEM. */
struct report_target *report_target_new(const struct target_spec *specs, size_t count);
void report_target_free(struct report_target *target);
/* Whether a row of this process or package is the target's; 0 and NULL: not known. */
bool report_target_is(const struct report_target *target, pid_t pid, const char *package,
		      const char *process);
/* A copy of the interval with the target's rows: the CPU time and the bytes on disk of other tasks
 * are in `other`; what no row has, as the sums of the machine, stays. It lives until the next call.
 * NULL with errno ENOMEM. */
const struct record_interval *report_target_interval(struct report_target *target,
						     const struct record_interval *interval);

/* SPDX-License-Identifier: BSD-2-Clause */
/* Times that no interval covers: an interval's length is monotonic time, so between its end and the
 * end of the one before there is more where the device was suspended, or nobody recorded. */
#pragma once
#include <stdint.h>

#include "jankscope/record.h"

/* before_boot_ns: the end of the interval before, 0: there was none in this run. *begin_boot_ns:
 * where this one begins, behind the hole. Returns how long the hole is; 0 for what is only jitter.
 */
uint64_t hole_before(uint64_t before_boot_ns, const struct record_interval *interval,
		     uint64_t end_boot_ns, uint64_t *begin_boot_ns);

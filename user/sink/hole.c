/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/hole.h"

#define JITTER_NS 50000000

uint64_t hole_before(uint64_t before_boot_ns, const struct record_interval *interval,
		     uint64_t end_boot_ns, uint64_t *begin_boot_ns)
{
	uint64_t hole_ns;

	if (!before_boot_ns || before_boot_ns > end_boot_ns) {
		*begin_boot_ns =
			end_boot_ns > interval->dur_ns ? end_boot_ns - interval->dur_ns : 0;
		if (interval->merged.present && interval->merged.begin_boot_ns < end_boot_ns)
			*begin_boot_ns = interval->merged.begin_boot_ns;
		return 0;
	}
	*begin_boot_ns = before_boot_ns;
	hole_ns = end_boot_ns - before_boot_ns;
	hole_ns -= interval->dur_ns < hole_ns ? interval->dur_ns : hole_ns;
	if (hole_ns <= interval->dur_ns / 20 + JITTER_NS)
		return 0;
	*begin_boot_ns += hole_ns;
	return hole_ns;
}

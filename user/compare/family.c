/* SPDX-License-Identifier: BSD-2-Clause */
#include "compare/family.h"

#include <math.h>

#define CHANCE 0.05

void family_judge(const double *chances, size_t count, bool *differ)
{
	size_t judged = 0, least;

	for (size_t i = 0; i < count; i++) {
		differ[i] = false;
		judged += !isnan(chances[i]);
	}
	/* From the least likely on; the first that chance may have made ends it. */
	for (; judged; judged--) {
		least = count;
		for (size_t i = 0; i < count; i++)
			if (!differ[i] && !isnan(chances[i]) &&
			    (least == count || chances[i] < chances[least]))
				least = i;
		if (chances[least] > CHANCE / (double)judged)
			return;
		differ[least] = true;
	}
}

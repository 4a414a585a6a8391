/* SPDX-License-Identifier: BSD-2-Clause */
#include "summary/koom.h"

unsigned koom_look(struct koom *koom, struct opt_u64 fds, struct opt_u64 threads,
		   struct opt_u64 vss_bytes, bool is_32_bit)
{
	const struct {
		struct opt_u64 now;
		uint64_t limit, gap;
	} parts[KOOM_LIMITS] = {
		[KOOM_LIMIT_FDS] = {fds, KOOM_FDS, KOOM_GAP},
		[KOOM_LIMIT_THREADS] = {threads, KOOM_THREADS, KOOM_GAP},
		[KOOM_LIMIT_VSS] = {is_32_bit ? vss_bytes : (struct opt_u64){0}, KOOM_VSS_BYTES,
				    UINT64_MAX},
	};
	unsigned over = 0;

	for (unsigned i = 0; i < KOOM_LIMITS; i++) {
		uint64_t now = parts[i].now.value, last = koom->last[i];
		bool fell = last > now && last - now > parts[i].gap;

		if (parts[i].now.present && now > parts[i].limit && !fell)
			koom->hits[i]++;
		else
			koom->hits[i] = 0;
		koom->last[i] = parts[i].now.present ? now : 0;
		over |= (unsigned)(koom->hits[i] >= KOOM_HITS) << i;
	}
	return over;
}

#!/usr/bin/env bash
# What the unwinder holds, and whether that grows, when its cache of 256 files takes one for another
# all the time: an hour of a busy machine in two seconds (soak_unwinder.c).
set -u
"$BUILD/tests/bench/soak_unwinder" 8000 "$BUILD/tests/apps/churn" | awk '
	# of each look: jobs, bytes that the cache counts, private memory
	{ jobs[NR] = $1; cache[NR] = $4; private[NR] = $7 + 0; if ($4 > most) most = $4 }
	END {
		for (i = 1; i <= NR && cache[i] < 0.95 * most; i++)
			;
		full = jobs[++i]; low = high = private[i]
		for (; i <= NR; i++) {
			if (private[i] < low) low = private[i]
			if (private[i] > high) high = private[i]
		}
		printf "  %-44s %10d KiB  %-26s %s\n", "unwinder: private memory, cache full", high, "[" low ".." high "] from job " full, "grows <= 64 KiB"
		printf "  %-44s %10d KiB\n", "  of it the cache, as it counts itself", most
	}'

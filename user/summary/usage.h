/* SPDX-License-Identifier: BSD-2-Clause */
/* Who used what over a run: CPU time by thread, process and uid, bytes by uid, frames by layer, and
 * the share of the targets. In bounded memory; what has no row is in the footer's `other` sums. */
#pragma once
#include "jankscope/record.h"

struct usage;

/* NULL with ENOMEM. */
struct usage *usage_new(void);
void usage_free(struct usage *usage);
/* Learn from the header what the targets are. 0 or -ENOMEM. */
int usage_begin(struct usage *usage, const struct record_header *header);
/* Add an interval that ended at end_boot_ns. 0 or -ENOMEM. */
int usage_add(struct usage *usage, const struct record_interval *interval, uint64_t end_boot_ns);
/* Whether all bytes of that uid are the targets'. */
bool usage_is_of_target(const struct usage *usage, uid_t uid, const char *package);
/* Fill in the footer's rows, `count` of each kind at most. They are owned by the usage and valid
 * until the next call. 0 or -ENOMEM. */
int usage_take(struct usage *usage, size_t count, struct record_footer *footer);

/* Sums of the targets; absent where there is no target, or none that has a uid of its own. */
struct usage_targets {
	struct opt_u64 cpu_ns, runnable_ns, rx_bytes, tx_bytes;
};
struct usage_targets usage_targets(const struct usage *usage);
/* Frames with jank, by cause, of all layers; false: there was no layer. */
struct usage_causes {
	uint64_t app, sf, hw, stuffing, dropped, unknown;
	uint64_t judged; /* frames, those without jank too */
};
bool usage_causes(const struct usage *usage, struct usage_causes *causes);

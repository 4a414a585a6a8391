/* SPDX-License-Identifier: BSD-2-Clause */
/* Late frames of the targets as `jank` records: what the flight recorder kept of the threads that
 * made them, judged by the rule of why/README.md. */
#pragma once
#include "frames/stream.h"
#include "jankscope/source.h"

struct frames_janks;

/* flight: the flight recorder, borrowed. NULL with errno ENOMEM. */
struct frames_janks *frames_janks_new(const struct source_context *context, struct source *flight);
void frames_janks_free(struct frames_janks *janks);
/* Judge a late frame of a stream and emit it, at once or when its stacks are unwound; package: of
 * the layer, NULL: not known. The times are of CLOCK_BOOTTIME. 0 or -ENOMEM. */
int frames_janks_take(struct frames_janks *janks, const struct layer *layer, const char *package,
		      const char *process, const struct timeline_late *late);
/* Emit what waits for stacks still. */
void frames_janks_flush(struct frames_janks *janks);
struct why_ledger;
/* What the main thread of a process did in [from_ns, to_ns) of CLOCK_BOOTTIME. False: not all of it
 * was recorded. */
bool frames_janks_ledger(struct frames_janks *janks, pid_t pid, int64_t from_ns, int64_t to_ns,
			 struct why_ledger *ledger);
/* CLOCK_BOOTTIME of a time of CLOCK_MONOTONIC, as far as suspends were seen. False: there was none.
 */
bool frames_janks_boot_of(struct frames_janks *janks, int64_t mono_ns, int64_t *boot_ns);
typedef void (*janks_lose)(void *ctx, const char *name, uint64_t count);
/* Tell what was lost since the last call. From now on as many frames as at first may be judged. */
void frames_janks_turn(struct frames_janks *janks, janks_lose lose, void *ctx);

/* SPDX-License-Identifier: BSD-2-Clause */
/* Which processes are targets, or were until lately: frames come up to half a minute late, when
 * their process may have ended. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct owners;
struct target_set;

/* NULL with errno on failure. targets (NULL: all processes are) must live as long. */
struct owners *owners_new(const struct target_set *targets);
void owners_free(struct owners *owners);
/* The frames source calls this when a target has come, and each second: owners notes which
 * processes are targets now. now_ns is CLOCK_MONOTONIC. 0 or -ENOMEM. */
int owners_look(struct owners *owners, uint64_t now_ns);
/* The same when a target ends that is in the set still. */
int owners_look_at_end(struct owners *owners, uint64_t now_ns);
/* Whether the process that had this pid at at_boot_ns (0: at any time) is or was a target. */
bool owners_have(const struct owners *owners, int32_t pid, uint64_t at_boot_ns);
/* What that process called itself, if it is or was a target; else NULL. Valid until the next look.
 */
const char *owners_name(const struct owners *owners, int32_t pid, uint64_t at_boot_ns);
/* The same of one that has ended: others may have its pid by now. */
const char *owners_left(const struct owners *owners, int32_t pid, uint64_t at_boot_ns);
/* The pid is a target's that began later, and whose it was at at_boot_ns is not known: what the
 * kernel says of the pid now is not about that time. */
bool owners_began_later(const struct owners *owners, int32_t pid, uint64_t at_boot_ns);
/* Whether a target is or was of this package (NULL: of none), or has or had that name. */
bool owners_are_called(const struct owners *owners, const char *package);

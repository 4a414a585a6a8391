/* SPDX-License-Identifier: BSD-2-Clause */
/* report --folded: the stacks of blocks as lines for a flame graph. */
#pragma once
#include "core/paths.h"
#include "verb/verb.h"

/* Write "a;b;c MICROSECONDS" for each path, or with old ones (not NULL) "a;b;c OLD NEW" for those
 * of both. file "-": stdout. An error is said on stderr. */
enum exit_code report_folded_write(struct paths *old, struct paths *paths, const char *file);

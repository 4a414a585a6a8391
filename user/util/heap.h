/* SPDX-License-Identifier: BSD-2-Clause */
/* glibc's malloc keeps up to seven freed blocks of each of 64 sizes for the next call (its tcache),
 * and gives them back at no time: some 230 KiB in the end, of which a busy recorder had a third
 * after half a minute and half after four. In a run of weeks that looks like a leak. */
#pragma once

/* Take at once what it would take in the end, before a process settles down. */
void heap_fill_cache(void);

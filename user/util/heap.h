/* SPDX-License-Identifier: BSD-2-Clause */
/* glibc's malloc keeps up to seven freed blocks of each of 64 sizes for the next call (its tcache),
 * and gives them back at no time: some 230 KiB in the end, of which a busy recorder had a third
 * after half a minute and half after four. In a run of weeks that looks like a leak. */
#pragma once

/* From now on a block of a page and more for which the heap has no room does not make it grow: it
 * is a mapping of its own, and goes with its free(). What is there for one job only would leave
 * holes between what stays. glibc would raise this bound to the largest block that was ever freed.
 */
void heap_map_pages(void);

/* Take at once what it would take in the end, before a process settles down. */
void heap_fill_cache(void);

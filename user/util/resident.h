/* SPDX-License-Identifier: BSD-2-Clause */
/* A program that runs on when memory is short. */
#pragma once

/* Keep the calling process's program (and its libraries, where it has some) in memory once it has
 * been there, mlock2(2) with MLOCK_ONFAULT. The kernel drops pages of a program that were not used
 * for a while, and reads them again from the disk: a process that wakes once a second is away for
 * as long as that takes, and most so when the device is short of memory, which is when its figures
 * are wanted (Android's lmkd does the same, system/memory/lmkd/lmkd.cpp, with mlockall, whose lock
 * of the heap would forbid to give pages of it back). A child does not have the lock. 0, or -errno
 * of the first part that could not be locked: then that is as it was. */
int resident_keep(void);

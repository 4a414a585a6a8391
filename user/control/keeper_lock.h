/* SPDX-License-Identifier: BSD-2-Clause */
/* The lock file of a folder's keeper (DIR/keeper): locked while the keeper lives, and it says the
 * keeper's pid, at the keeper's end its exit code. Who finds and ends a keeper by it:
 * control/keeper.h. */
#pragma once
#include <sys/types.h>

/* Of the keeper that begins: the file, made where there is none, and locked. Its descriptor;
 * -EBUSY: another keeper has it; -EPERM: it is no plain file; another -errno. flock() that a file
 * system does not know is no error. The lock ends with the last descriptor of it. */
int keeper_lock_take(int dir_fd);
/* exit_code -1: the keeper lives. On a full disk the lock holds without a text. */
void keeper_lock_tell(int lock_fd, pid_t pid, int exit_code);

/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors that a run can do without give way to those that it cannot. */
#pragma once

/* Give back a descriptor that is only an improvement (a pidfd that tells an exit sooner), or -1 and
 * close it when it is one of the last that the limit leaves: programs, maps and timers need those.
 * fd may be -1. */
int spare_fd(int fd);

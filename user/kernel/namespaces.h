/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once
#include <stddef.h>

/* BPF programs see the pids and the clocks of the initial namespaces. 0: so do we; -ENOTSUP: in our
 * namespaces they mean something else, with a line in reason. What cannot be read is no obstacle.
 */
int namespaces_check(char *reason, size_t size);

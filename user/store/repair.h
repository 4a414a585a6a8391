/* SPDX-License-Identifier: BSD-2-Clause */
/* What can be put right of a recording that nobody writes any more. */
#pragma once
#include <stdint.h>

/* Move what a file has from this offset on into a new file beside it, NAME.torn, and cut it off.
 * The new file is on the disk before anything is cut. 0 or -errno. */
int store_cut_tail(int dir_fd, const char *name, uint64_t offset);
/* Make the index anew from the segments. 0 or -errno: then the old one is there. */
int store_index_rebuild(int dir_fd);

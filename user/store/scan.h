/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once
#include "store/index.h"

/* Read a segment to its end: its facts, as far as it is whole. 0; -EBADMSG: it ends in a torn line,
 * or a line or the compressed data is damaged; another -errno. */
int store_scan(int dir_fd, uint64_t number, struct segment_facts *facts);

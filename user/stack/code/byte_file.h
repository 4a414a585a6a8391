/* SPDX-License-Identifier: BSD-2-Clause */
/* A file as a byte source. It is read with pread and never mapped: an app that cuts it must not
 * raise SIGBUS here. */
#pragma once
#include "stack/code/byte_source.h"

/* fd is borrowed, and stays where it is as long as the source is used. */
struct byte_source byte_file_source(const int *fd, uint64_t size);

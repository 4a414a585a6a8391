/* SPDX-License-Identifier: BSD-2-Clause */
/* Block time by stack as a profile of pprof (github.com/google/pprof, proto/profile.proto). */
#pragma once
#include <stdio.h>

#include "jankscope/sink.h"

/* A sink that takes the headers and blocks of recordings and writes, in its finish(), one profile,
 * compressed by gzip as pprof wants it. Its values are `samples` (stacks that were taken) and
 * `block` (ns that main threads were blocked); its labels are the process and the class of the
 * block. An address is a place in the file of the mapping, which has its build id. Time of which no
 * stack was taken is "[not sampled]". What does not fit into 64 MiB is counted in `dropped`, in
 * blocks. The caller owns `to` and closes it after the sink. NULL with errno. */
struct sink *pprof_sink_new(FILE *to);

/* SPDX-License-Identifier: BSD-2-Clause */
/* Block time and CPU samples by stack as a profile of pprof (github.com/google/pprof,
 * proto/profile.proto). */
#pragma once
#include <stdio.h>

#include "jankscope/sink.h"

/* A sink that takes the headers, blocks and janks of recordings and writes, in its finish(), one
 * profile, compressed by gzip as pprof wants it. Its values are `samples` (stacks that were taken),
 * `block` (ns that main threads were blocked) and `cpu` (ns that threads ran in late frames, by the
 * samples of
 * --frame-samples that met them running); its labels are the process and the class of the block, or
 * "late frame". An address is a place in the file of the mapping, which has its build id. Block
 * time of which no stack was taken is "[not sampled]". What does not fit into 64 MiB is counted in
 * `dropped`, in blocks and janks. The caller owns `to` and closes it after the sink. NULL with
 * errno. */
struct sink *pprof_sink_new(FILE *to);

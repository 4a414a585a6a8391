/* SPDX-License-Identifier: BSD-2-Clause */
/* Block time by stack for speedscope (https://www.speedscope.app/file-format-schema.json). */
#pragma once
#include <stdio.h>

#include "jankscope/sink.h"

/* A sink that takes the blocks of recordings and writes, in its finish(), one profile a process,
 * that with most block time first. Weights are ns; time of which no stack was taken is
 * "[not sampled]", so that a profile's sum is the time that the main threads of that name were
 * blocked. What does not fit into 64 MiB is counted in `dropped`, in blocks. The caller owns `to`
 * and closes it after the sink. NULL with errno. */
struct sink *speedscope_sink_new(FILE *to);

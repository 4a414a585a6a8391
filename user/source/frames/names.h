/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of processes that a trace of this device does not name: tracefs knows only numbers. */
#pragma once
#include "frames/names.h"
#include <stdint.h>

struct frames_names;

/* NULL with errno. */
struct frames_names *frames_names_new(void);
void frames_names_free(struct frames_names *names);
/* Put the name of a process into the table, from /proc, once for each process that has the pid. */
void frames_names_look(struct frames_names *names, struct name_table *table, int32_t pid);

/* SPDX-License-Identifier: BSD-2-Clause */
/* The names of the frames that a provider located in the unwinding under way: what it took them
 * from may be gone by the time that they are asked for. */
#pragma once
#include <stdint.h>

struct frame_name;

/* Copy the name of the frame at pc into the list, unless it is there. */
void frame_names_keep(struct frame_name **names, uint64_t pc, const char *text);
/* NULL: there is none. */
const char *frame_names_find(const struct frame_name *names, uint64_t pc);
/* Leave the list empty. */
void frame_names_clear(struct frame_name **names);

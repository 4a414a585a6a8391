/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of sources, and what each declares about itself in its folder. */
#pragma once
#include "jankscope/field.h"

/* Rows of struct record_interval. */
extern const struct field cpu_part, net_part, frames_part;

/* SPDX-License-Identifier: BSD-2-Clause */
/* The power source: what /sys tells of batteries, temperatures, frequency limits and energy. */
#pragma once
#include "jankscope/source.h"

/* NULL with errno ENOMEM. */
struct source *power_source_new(void);

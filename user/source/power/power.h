/* SPDX-License-Identifier: BSD-2-Clause */
/* The power source: what /sys tells of batteries, temperatures, frequency limits and energy. */
#pragma once
#include "jankscope/source.h"

/* asked_for: a machine that has nothing of it is to be warned of. NULL with errno ENOMEM. */
struct source *power_source_new(bool asked_for);

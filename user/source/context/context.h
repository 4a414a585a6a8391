/* SPDX-License-Identifier: BSD-2-Clause */
/* The context source: what the targets and the device are for the user while they are measured. */
#pragma once
#include "jankscope/source.h"

/* NULL with errno ENOMEM. */
struct source *context_source_new(void);

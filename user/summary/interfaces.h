/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes of all uids by interface over a run, in bounded memory. */
#pragma once
#include "jankscope/record.h"

/* Interfaces with a row of their own; those that come later are one row without a name. */
#define INTERFACE_SUMS 64

struct interface_sums;

/* NULL with ENOMEM. */
struct interface_sums *interface_sums_new(void);
void interface_sums_free(struct interface_sums *sums);
/* Nothing where interfaces are not told apart. 0 or -ENOMEM. */
int interface_sums_add(struct interface_sums *sums, const struct record_net *net);
/* Fill in footer->interfaces, most bytes first; owned by sums, valid until the next call. 0. */
int interface_sums_take(struct interface_sums *sums, struct record_footer *footer);

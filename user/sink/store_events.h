/* SPDX-License-Identifier: BSD-2-Clause */
/* What happens to a recording in a folder, as events of that recording. */
#pragma once
#include "jankscope/record.h"
#include "store/store.h"

/* The event of a notice; its texts live as long as the notice and *event. */
void store_event_make(const struct store_notice *notice, struct record_event *event);
/* Records that the notice tells the loss of. */
uint64_t store_notice_lost(const struct store_notice *notice);

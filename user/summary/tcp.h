/* SPDX-License-Identifier: BSD-2-Clause */
/* The sums of a uid's TCP connections. */
#pragma once
#include "jankscope/record.h"

#define TCP_PARTS 10

struct summary_part {
	const char *key; /* "tcp.retransmits" */
	uint64_t value;
};

/* What a row adds to each of them; the keys are static. */
void tcp_parts(const struct record_uid_tcp *row, struct summary_part parts[TCP_PARTS]);

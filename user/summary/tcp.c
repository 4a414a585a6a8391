/* SPDX-License-Identifier: BSD-2-Clause */
#include "summary/tcp.h"

#include <string.h>

void tcp_parts(const struct record_uid_tcp *row, struct summary_part parts[TCP_PARTS])
{
	const struct summary_part all[TCP_PARTS] = {
		{"tcp.retransmits", row->retransmits},
		{"tcp.connects", row->connects},
		{"tcp.accepts", row->accepts},
		{"tcp.failed.refused", row->failed.refused},
		{"tcp.failed.timed_out", row->failed.timed_out},
		{"tcp.failed.unreachable", row->failed.unreachable},
		{"tcp.failed.other", row->failed.other},
		{"tcp.failed.given_up", row->failed.given_up},
		{"tcp.timeouts", row->timeouts},
		{"tcp.resets_received", row->resets_received},
	};

	memcpy(parts, all, sizeof(all));
}

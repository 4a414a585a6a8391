/* SPDX-License-Identifier: BSD-2-Clause */
/* What the TCP source adds to an interval. */
#include "jankscope/field.h"
#include "source/declarations.h"

#define FAILED(member, meaning_)                                                          \
	FIELD_AS(#member, struct record_uid_tcp, failed.member, NONZERO, COUNT, meaning_, \
		 MERGED(SUM))

static const struct field failed_rows[] = {
	FAILED(refused, "nobody listened, or would not (ECONNREFUSED)"),
	FAILED(timed_out, "nobody answered (ETIMEDOUT)"),
	FAILED(unreachable, "a router, or the own host, knew no way"),
	FAILED(other, "any other error"),
	FAILED(given_up, "the program closed the socket before an answer came"),
};
static const struct field_type failed_type =
	FIELD_TYPE("failed_connects", struct record_uid_tcp, failed_rows);

static const struct field uid_rows[] = {
	FIELD(struct record_uid_tcp, uid, REQUIRED, ID, "owner of the sockets", MERGED(KEY)),
	FIELD(struct record_uid_tcp, package, OPTIONAL, NAME,
	      "package; absent where several share the uid"),
	FIELD(struct record_uid_tcp, retransmits, REQUIRED, COUNT,
	      "segments that were sent again, SYNs and their answers included", MERGED(SUM)),
	FIELD(struct record_uid_tcp, connects, REQUIRED, COUNT,
	      "connections that it began and that were answered", MERGED(SUM)),
	FIELD(struct record_uid_tcp, accepts, REQUIRED, COUNT,
	      "connections that others began and that came to stand", MERGED(SUM)),
	FIELD_GROUP_AS("failed", NONZERO, &failed_type,
		       "connections that it began and that came to nothing"),
	FIELD(struct record_uid_tcp, timeouts, NONZERO, COUNT,
	      "connections that stood and ended because nobody answered any more", MERGED(SUM)),
	FIELD(struct record_uid_tcp, resets_received, NONZERO, COUNT,
	      "connections that stood and that the other end reset", MERGED(SUM)),
	FIELD(struct record_uid_tcp, rtt_samples, REQUIRED, COUNT,
	      "segments that acknowledged something: each has the round trip of its connection, "
	      "as the kernel smoothes it, when it came",
	      MERGED(SUM)),
	FIELD(struct record_uid_tcp, rtt_mean_ns, OPTIONAL, NS, "mean of these round trips",
	      MERGED(ABSENT)),
	FIELD(struct record_uid_tcp, rtt_hist, OPTIONAL, NS,
	      "[lowest ns, highest ns, count] of each bucket of these round trips"),
};
static const struct field_type uid_type = FIELD_TYPE("uid_tcp", struct record_uid_tcp, uid_rows);

static const struct field tcp_rows[] = {
	FIELD_ROWS("uids", struct record_tcp, uids, uid_count, REQUIRED, &uid_type,
		   "uids whose connections did any of this, loopback included"),
};
static const struct field_type tcp_type = FIELD_TYPE("tcp", struct record_tcp, tcp_rows);

const struct field tcp_part = FIELD_STRUCT_IF("tcp", struct record_interval, tcp, tcp.present,
					      &tcp_type, "how well TCP gets through (--tcp)");

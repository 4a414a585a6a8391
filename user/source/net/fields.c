/* SPDX-License-Identifier: BSD-2-Clause */
/* What the net source adds to an interval. */
#include "jankscope/field.h"
#include "source/declarations.h"

static const struct field traffic_rows[] = {
	FIELD(struct record_bytes, rx_bytes, REQUIRED, BYTES, "bytes received, with IP headers",
	      MERGED(SUM)),
	FIELD(struct record_bytes, rx_packets, REQUIRED, COUNT, "packets received", MERGED(SUM)),
	FIELD(struct record_bytes, tx_bytes, REQUIRED, BYTES, "bytes sent, with IP headers",
	      MERGED(SUM)),
	FIELD(struct record_bytes, tx_packets, REQUIRED, COUNT, "packets sent", MERGED(SUM)),
};
static const struct field_type traffic_type =
	FIELD_TYPE("traffic", struct record_bytes, traffic_rows);

static const struct field uid_rows[] = {
	FIELD(struct record_uid_net, uid, REQUIRED, ID, "owner of the sockets", MERGED(KEY)),
	FIELD(struct record_uid_net, package, OPTIONAL, NAME,
	      "package; absent where several share the uid"),
	FIELD_SAME_LEVEL(struct record_uid_net, bytes, &traffic_type),
};
static const struct field_type uid_type = FIELD_TYPE("uid_net", struct record_uid_net, uid_rows);

static const struct field unattributed_rows[] = {
	FIELD_SAME_LEVEL(struct record_net, unattributed, &traffic_type),
	FIELD_STRUCT("forwarded", struct record_net, forwarded, &traffic_type,
		     "of these: packets that this machine passed on"),
	FIELD_STRUCT("kernel", struct record_net, kernel, &traffic_type,
		     "of these: the kernel's own"),
	FIELD_STRUCT("no_socket", struct record_net, no_socket, &traffic_type,
		     "of these: without a socket, as pings that were not answered"),
};
static const struct field_type unattributed_type =
	FIELD_TYPE("unattributed", struct record_net, unattributed_rows);

static const struct field net_rows[] = {
	FIELD_ROWS("uids", struct record_net, uids, uid_count, REQUIRED, &uid_type,
		   "bytes by the owner of the socket, at the IP layer, without loopback, over all "
		   "network namespaces"),
	FIELD_STRUCT("loopback", struct record_net, loopback, &traffic_type,
		     "what stayed on this machine"),
	FIELD_GROUP("unattributed", &unattributed_type, "what belongs to no uid"),
};
static const struct field_type net_type = FIELD_TYPE("net", struct record_net, net_rows);

const struct field net_part = FIELD_STRUCT_IF("net", struct record_interval, net, net.present,
					      &net_type, "bytes and packets");

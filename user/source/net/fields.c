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

static const struct field interface_rows[] = {
	FIELD(struct record_interface_net, interface, OPTIONAL, NAME,
	      "its name; absent in the row of what came or went by one that is not known: packets "
	      "of "
	      "one flow that came by several before their owner was known, and interfaces beyond "
	      "the first 1,024",
	      MERGED(KEY), TEXT_IS(WORD)),
	FIELD(struct record_interface_net, ifindex, NONZERO, ID, "its number in its namespace",
	      MERGED(KEY)),
	FIELD(struct record_interface_net, netns, NONZERO, ID,
	      "its network namespace, where that is not the recorder's: the cookie "
	      "(SO_NETNS_COOKIE), before Linux 5.14 the inode number",
	      MERGED(KEY)),
	FIELD_SAME_LEVEL(struct record_interface_net, bytes, &traffic_type),
};
static const struct field_type interface_type =
	FIELD_TYPE("interface_net", struct record_interface_net, interface_rows);

static const struct field uid_rows[] = {
	FIELD(struct record_uid_net, uid, REQUIRED, ID, "owner of the sockets", MERGED(KEY)),
	FIELD(struct record_uid_net, package, OPTIONAL, NAME,
	      "package; absent where several share the uid"),
	FIELD_SAME_LEVEL(struct record_uid_net, bytes, &traffic_type),
	FIELD_STRUCT_IF("netd", struct record_uid_net, netd, netd_present, &traffic_type,
			"what netd's own map has of the same time (--net-check)"),
	FIELD_ROWS("interfaces", struct record_uid_net, interfaces, interface_count, NONZERO,
		   &interface_type,
		   "the same by interface (--net-interfaces): the sum of these rows is this one"),
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
	FIELD_STRUCT_IF("netd", struct record_net, netd, netd_present, &traffic_type,
			"of all uids, what netd's own map has (--net-check)"),
};
static const struct field_type net_type = FIELD_TYPE("net", struct record_net, net_rows);

const struct field net_part = FIELD_STRUCT_IF("net", struct record_interval, net, net.present,
					      &net_type, "bytes and packets");

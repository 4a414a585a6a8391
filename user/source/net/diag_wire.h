/* SPDX-License-Identifier: BSD-2-Clause */
/* A dump as one flat blob, so that another process can make it: the request that it gets, and the
 * sealed memfd that it answers with. Both sides treat what they get as hostile. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "source/net/diag.h"

#define NET_DIAG_WIRE_TCP       1u
#define NET_DIAG_WIRE_UDP       2u
#define NET_DIAG_WIRE_BY_COOKIE 4u
#define NET_DIAG_WIRE_ALL       8u /* all namespaces that can be found */
#define NET_DIAG_WIRE_UDPLITE   16u

struct net_diag_request_wire {
	uint32_t flags;
	uint32_t namespace_count;
	uint64_t namespaces[NET_DIAG_MAX_NAMESPACES];
};

/* Bytes of a request with that many namespaces. */
size_t net_diag_request_bytes(uint32_t namespace_count);

/* Serve a request of `length` bytes; it takes as long as it takes, so call it in a process that may
 * hang. *memfd becomes a sealed file with the blob, the caller's. 0, -EBADMSG, or what
 * net_diag_read or memfd_create says. */
int net_diag_serve(const struct net_diag_request_wire *request, size_t length, int *memfd);

/* How many bytes net_diag_pack fills, and fill them. */
size_t net_diag_packed_bytes(const struct net_diag *diag);
void net_diag_pack(const struct net_diag *diag, void *to);
/* *diag becomes a view of the blob, which must be aligned to 8 bytes and outlive it; do not free
 * it. 0, or -EBADMSG: lengths that do not fit. */
int net_diag_unpack(struct net_diag *diag, const void *blob, size_t length);

/* Map the answer. Takes the descriptor. Free with net_diag_free. 0, -EBADMSG (not sealed, so that
 * it could shrink under the reader; lengths that do not fit), or a negative errno. */
int net_diag_map(struct net_diag *diag, int memfd);

/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams with descriptors over a SOCK_SEQPACKET socket pair: how the processes of one run talk.
 * No call here waits, but channel_wait. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define CHANNEL_FDS 40 /* descriptors in one message at the most */
/* A message at the most, with the header that its receiver expects. */
#define CHANNEL_BYTES (512u << 10)

/* Two connected sockets, close-on-exec and non-blocking, with room for a message of CHANNEL_BYTES.
 * 0 or -errno. */
int channel_pair(int ends[2]);

/* Give what this end sends the room that channel_pair gives, by the caller's own rights. */
void channel_widen(int socket);

/* Send one message of these parts with copies of these descriptors. 0; -EAGAIN: the receiver has
 * not taken what was sent before; -EPIPE: it is gone; another -errno. The descriptors stay the
 * caller's. */
int channel_send(int socket, const struct iovec *parts, size_t part_count, const int *fds,
		 size_t fd_count);

/* Take one message: its length; 0: the sender is gone; -EAGAIN: none is there; -EMSGSIZE: it did
 * not fit, and was dropped; another -errno. fds has room for CHANNEL_FDS, *fd_count becomes how
 * many came (they are close-on-exec and the caller's); with fds NULL they are closed. */
ssize_t channel_receive(int socket, void *to, size_t room, int *fds, size_t *fd_count);

/* Wait until a message is there or the sender is gone. False: neither by then. */
bool channel_wait(int socket, uint64_t timeout_ns);

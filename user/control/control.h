/* SPDX-License-Identifier: BSD-2-Clause */
/* The socket in a recording's folder by which other processes talk to its recorder: one request a
 * connection, one line each way ahead of what is told. README.md has the protocol. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct control;
struct loop;

#define CONTROL_NAME          "control"     /* of the socket in the folder */
#define CONTROL_REQUEST_BYTES 512           /* of a request with its newline, at the most */
#define CONTROL_REPLY_BYTES   (64u << 10)   /* of an answer, at the most */
#define CONTROL_CONNECTIONS   8             /* that are served at a time; more wait in the kernel */
#define CONTROL_TIMEOUT_NS    2000000000ull /* a connection is served so long */

/* Answer a request: write text (NUL-terminated, empty at first) to reply. 0: the client gets it as
 * the answer; -errno: as the reason of a refusal. Must not wait. */
typedef int (*control_fn)(void *ctx, const char *argument, char *reply, size_t room);

/* What may be asked. The argument is the rest of the line, of printable UTF-8 without control
 * characters; a row without one takes the bare request only. Of two rows that fit, the first one
 * answers. */
struct control_row {
	const char *request;
	bool argument;
	control_fn answer;
	/* Not done for a client that has gone before it was read: that one takes it for failed. */
	bool for_who_waits;
};

/* Listen in this folder (borrowed until control_free), in the place of a socket that a dead
 * recorder left: call it with the folder's lock held, before any thread is made, and before the
 * process gives up its rights. NULL with errno: EEXIST: something that is no socket has the name;
 * EADDRINUSE: a recorder listens there. */
struct control *control_new(int dir_fd);
/* Answer requests in this loop from now on; loop NULL: leave it, before it is freed. rows and ctx
 * stay the caller's. Who asks must have the uid of this process, or 0. 0 or -errno. */
int control_join_loop(struct control *control, struct loop *loop, const struct control_row *rows,
		      size_t row_count, void *ctx);
/* Listen anew where somebody has taken the socket's name away. */
void control_look(struct control *control);
/* Close, and take the socket's name away. */
void control_free(struct control *control);

/* ---- the side of the client ---- */

/* Ask the recorder of a folder, and wait for its answer so long. reply becomes the text of the
 * answer, or of the refusal; empty where there was neither. 0: answered. The recorder refused:
 * -errno as its control_fn gave it, with a text in reply. Nobody answers, reply is empty: -ENOENT,
 * -ECONNREFUSED: nobody records there; -EPERM: the socket belongs to a stranger, or it does not
 * talk to this user; -ECONNRESET: it hung up; -ETIMEDOUT: it hangs; -EPROTO: it does not talk like
 * a recorder; -EINVAL: no request; another -errno. */
int control_ask(int dir_fd, const char *request, char *reply, size_t room, uint64_t timeout_ns);

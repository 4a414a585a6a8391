/* SPDX-License-Identifier: BSD-2-Clause */
/* The last closes of probes, in a process of their own. Such a close waits for grace periods of RCU
 * and takes the mmap_lock of every process that maps the probed file, so it is made when each of
 * them gives its lock (mm_locks.h). The process ends when it has closed all that it was given and
 * its socket has ended; until then it may outlive the warden and the recorder. A SIGKILL of the
 * warden does not reach it: the kernel cannot remove a probe for a caller that is being killed (it
 * logs "leaking uprobe"). It closes nothing before the warden has said that its own copies are
 * closed: a warden that came second would make the last closes itself, one after the other, and
 * might be killed over one. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct closer {
	pid_t pid;   /* 0: there is none now */
	int socket;  /* -1: none */
	int program; /* of mm_locks_look, borrowed; -1: none */
	/* what found no room in the socket */
	int *pending;
	size_t pending_count, pending_room;
	bool unsaid; /* that our copies of what was sent are closed */
};

/* Have these descriptors closed; they are taken over. Waits for nobody where there is memory for a
 * process. */
void closer_add(struct closer *closer, const int *fds, size_t count);
/* Send what is pending. False: some is pending still. */
bool closer_flush(struct closer *closer);
/* The process with this pid was reaped. */
void closer_reaped(struct closer *closer, pid_t pid);
/* The caller has no more links for now: the closing process ends when it has closed all that it
 * has, and the next closer_add makes another process. */
void closer_let_go(struct closer *closer);

/* Close these when every process gives its mmap_lock; waits until then. */
void closer_close_here(int program, const int *fds, size_t count);

/* SPDX-License-Identifier: BSD-2-Clause */
/* Keeping a recorder running with nobody watching (record --daemon). The keeper is the recorder's
 * parent: it waits for signals, for its child's end and for what the child writes to stderr, and
 * begins a new recorder when one dies. It reads no record, no file of a target and no socket. It is
 * not the warden, which works for one recorder, ends with it, and frees what it held. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "control/run_status.h"

#define KEEPER_NAME                                                                  \
	"keeper" /* of its lock in the folder: its pid, and its exit code at its end \
		  */
#define KEEPER_LOG      "log"
#define KEEPER_LOG_OLD  "log.old"
#define KEEPER_RESTARTS 8
#define KEEPER_HANG_NS  60000000000ull

/* What a recorder gets from its keeper. */
struct keeper_seat {
	pid_t keeper_pid;
	int dir_fd;                /* of the recording's folder */
	struct run_status *status; /* shared with the keeper; what the recorders before counted */
	bool restarted;
	char reason[RUN_TEXT]; /* how the one before ended */
	int begun_fd;          /* of keeper_begun() */
};

/* The life of one recorder; its exit code. */
typedef int (*keeper_record_fn)(void *ctx, const struct keeper_seat *seat);

/* Fork the keeper, with its log in the folder, and wait until its first recorder has begun. Prints
 * what that says on stdout, and what goes wrong before on stderr. Returns the exit code of this
 * process: 0 when it has begun. restarts: how many recorders may die shortly after one another (one
 * more for each 30 s that one has run). hang_ns: a recorder that emits nothing for so long, and for
 * twelve intervals, is killed, and another one begins; 0: never. */
int keeper_start(int dir_fd, unsigned restarts, uint64_t hang_ns, keeper_record_fn record,
		 void *ctx);
/* Of a recorder: it has begun, and this is to be printed. */
void keeper_begun(const struct keeper_seat *seat, const char *line);

/* The pid of the folder's keeper, 0: none lives. *exit_code (may be NULL) is that of the last one
 * that ended in order, else -1. */
pid_t keeper_find(int dir_fd, int *exit_code);
/* Have the folder's keeper end: its recorder is told to, and is killed where it has not ended after
 * 10 s. 0; -ESRCH: none lives; -EPERM: what the folder names is no process of its owner, so that a
 * folder of somebody else cannot choose whom root signals; another -errno. */
int keeper_stop(int dir_fd);

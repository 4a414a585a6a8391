/* SPDX-License-Identifier: BSD-2-Clause */
/* Writing that the recorder never waits for. Each output has a small process of its own that does
 * what may hang: opening, write(), close(). The recorder puts whole records into memory that both
 * share; what finds no room there is dropped and counted by the caller. A process and not a thread,
 * because a thread in a write() that cannot be interrupted (FUSE, NFS, a dead disk) keeps its whole
 * process from ending. When the recorder dies, the writer writes what is queued and ends. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What the writers of the recorder may hold back at the most. */
#define WRITER_RECORD_BYTES (8u << 20)
#define WRITER_TABLE_BYTES  (256u << 10)

struct store_notice;
struct store_options;
struct termios;
struct writer;

struct writer_options {
	const char *path;                  /* what -o names; NULL: fd */
	const struct store_options *store; /* path is a folder of segments; NULL: it is a file */
	int fd; /* without a path: a descriptor that stays the caller's */
	bool overwrite;
	size_t queue_bytes;
	/* Of a terminal that shows a screen: what the writer does at its end while the screen is
	 * owed (writer_owe_screen), however the recorder ended. NULL: nothing. */
	const char *leave_screen;
	const struct termios *modes;
};

/* Fork the process and wait until its output is open; call it before any thread is made and before
 * signals are blocked, so that the user can end what hangs there. NULL with errno and, in why, the
 * reason where errno does not tell it (see output_file_open). */
struct writer *writer_start(const struct writer_options *options, char *why, size_t why_size);
/* Queue one record. 0; -EAGAIN: no room, nothing is queued; or the error that ended the writer. The
 * last record of a run may take room that the others leave. Never waits. */
int writer_put(struct writer *writer, const char *data, size_t length, bool last);
/* Memory of the queue, of *size bytes, in which the next record can be made: writer_put() of this
 * address then need not copy it. The writer does not see what is not put. NULL: there is none while
 * others wait. */
char *writer_room(struct writer *writer, size_t *size);
/* While it is held the writer is not woken for each record, but when it is let go, or for a lot of
 * them: a wake-up costs more than a record. */
void writer_hold(struct writer *writer, bool held);
/* Whether the terminal shows a screen that leave_screen ends. */
void writer_owe_screen(struct writer *writer, bool owed);
/* Nothing more comes. */
void writer_end(struct writer *writer);
/* Wait until all is written and closed. 0, also where all is written and the writer still waits for
 * the disk to have it (fdatasync of a folder), which it does whether it is waited for or not;
 * -ETIMEDOUT: not by then (CLOCK_MONOTONIC); or the error that ended the writer. */
int writer_wait(struct writer *writer, uint64_t deadline_mono_ns);
/* Whether writer_wait() saw its end. */
bool writer_has_ended(const struct writer *writer);
/* Free the recorder's side. A writer that hangs is left behind: it ends when it can write again, or
 * with its reader; with kill it ends at once if it can. */
void writer_free(struct writer *writer, bool kill);

/* The error that ended the writer: 0, -EPIPE, -ENOSPC ... -EIO if it was killed. */
int writer_error(const struct writer *writer);
/* What the writer of a folder has to tell (store/store.h), oldest first. False: nothing. */
bool writer_notice(struct writer *writer, struct store_notice *notice);
/* Readable when the writer has ended. */
int writer_fd(const struct writer *writer);
pid_t writer_pid(const struct writer *writer);
/* Records that were queued and are not written, and bytes of the records that are. */
uint64_t writer_unwritten(const struct writer *writer);
uint64_t writer_bytes(const struct writer *writer);
/* Why half a line could not be cut off after an error: -errno, or 0. */
int writer_torn(const struct writer *writer);

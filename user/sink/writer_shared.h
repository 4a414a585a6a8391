/* SPDX-License-Identifier: BSD-2-Clause */
/* What the recorder and a writer process share: a ring of records, written by one, read by one.
 *
 * Positions count bytes since the start and only grow. A record is its length as 8 bytes and its
 * text, rounded up to 8; WRITER_WRAP in place of a length: the next record begins at the begin of
 * the ring. When the ring is empty the recorder puts the next record at its begin (`base` is the
 * position of that), so that a writer that keeps up touches one page of it.
 *
 * Order: `base` and the record are stored before `head` is released; the writer stores `tail` with
 * release after its write(), and the recorder acquires it before it reuses the room. The writer
 * stores `sleeping`, full fence, loads `head`; the recorder stores `head`, full fence, loads
 * `sleeping`: one of both sees the other's, so that a writer that works is not woken. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sink/writer.h"
#include "store/store.h"

#define WRITER_WRAP UINT64_MAX

struct writer_shared {
	_Atomic uint64_t head, tail; /* of the recorder, of the writer */
	_Atomic uint64_t base;
	_Atomic uint64_t put, written; /* records */
	_Atomic uint64_t bytes;        /* of records that are written whole */
	_Atomic int error, torn;
	_Atomic bool finished; /* closed, with all that came */
	_Atomic bool
		drained;     /* of a folder: all is written; what is left is to wait for the disk */
	_Atomic bool screen; /* the terminal shows one that is to be left at the end */
	_Atomic bool sleeping; /* the writer waits for news at the pipe, or is about to */
	char why[128];         /* of an open that failed; valid when the process has ended */
	struct store_notices notices;
	uint64_t room; /* bytes of the ring */
};

/* The ring begins on a page, however large the kernel's pages are. */
#define WRITER_RING_OFFSET 65536

static inline char *writer_ring(struct writer_shared *shared)
{
	return (char *)shared + WRITER_RING_OFFSET;
}

/* The life of the writer process: never returns. wake_fd: readable for news, its end is the end of
 * the recorder; status_fd: told when the output is open. */
void writer_process(struct writer_shared *shared, const struct writer_options *options, int wake_fd,
		    int status_fd) __attribute__((noreturn));

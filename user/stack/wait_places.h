/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the code of an ELF file waits for events (epoll, poll, select, io_uring): the places for
 * pairs of uprobes. Pure: bytes in, offsets out; the unwinder process runs it. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct elf_file;

enum wait_kind {
	WAIT_EPOLL = 0,    /* epoll_wait, epoll_pwait, epoll_pwait2: argument 0 is the epoll fd */
	WAIT_POLL = 1,     /* poll, ppoll */
	WAIT_SELECT = 2,   /* select, pselect6 */
	WAIT_IO_URING = 3, /* io_uring_enter: argument 0 is the ring */
	WAIT_KINDS = 4,
};

#define WAIT_PLACES_MAX 32 /* of each kind of place, in one file */

struct wait_place_at {
	uint64_t offset; /* in the ELF file: add elf_start for a place in the whole file */
	uint32_t kind;   /* enum wait_kind */
	uint32_t back;   /* leave: so many bytes behind the system call's return address */
};

/* A probe on an `enter` place runs before the system call; one on a `leave` place runs when the
 * call is over. Where a jump or a nop stands within a few instructions that do no harm, it is
 * taken, because kernels emulate it instead of stepping it out of line (bpf/README.md, "Uprobes").
 * Offsets ascend; a place is named once for each kind. */
struct wait_places {
	uint32_t enter_count, leave_count;
	uint32_t left_out; /* found, but beyond WAIT_PLACES_MAX */
	uint32_t go;       /* 1: the file holds Go's runtime */
	struct wait_place_at enter[WAIT_PLACES_MAX], leave[WAIT_PLACES_MAX];
};

/* Find the places in the code of elf. 0, also without any where the file is Go's; -ENOENT: there
 * are none; -EIO; -ENOMEM. */
int wait_places_find(const struct elf_file *elf, struct wait_places *places);

/* SPDX-License-Identifier: BSD-2-Clause */
/* What the recorder and the unwinder process say to each other: datagrams of user/util/channel.h,
 * each a header and a struct, then bytes. A job is a question (WIRE_UNWIND, WIRE_WAITS,
 * WIRE_PRIME), then needs and their answers in turn, then the job's end. The process works on one
 * job at a time; up to WIRE_WINDOW questions may be with it, and it takes them in their order. Each
 * side checks every length, number and text of the other. Both come from one binary: the structs
 * need no version. */
#pragma once
#include "jankscope/stack.h"
#include "stack/wait_places.h"

enum wire_type {
	/* to the process */
	/* struct wire_unwind; the stack's bytes: behind it, or more than WIRE_INLINE_BYTES in the
	 * file of a descriptor */
	WIRE_UNWIND = 1,
	WIRE_WAITS = 2,  /* struct wire_waits; descriptor: the file */
	WIRE_PRIME = 3,  /* struct wire_prime */
	WIRE_ANSWER = 4, /* struct wire_answer; bytes or a descriptor, as the need says */
	/* to the recorder */
	WIRE_NEED = 16,    /* struct wire_need */
	WIRE_READING = 17, /* struct wire_reading */
	WIRE_TRACE = 18,   /* struct wire_trace, struct wire_frame[], texts; ends WIRE_UNWIND */
	WIRE_PLACES = 19,  /* struct wire_places; ends WIRE_WAITS */
	WIRE_PRIMED = 20,  /* struct wire_primed; ends WIRE_PRIME */
};

#define WIRE_WINDOW 16
/* A file for each stack costs a dozen microseconds in both processes; all questions of a window
 * with so many bytes fit into the socket. */
#define WIRE_INLINE_BYTES (32u << 10)

enum wire_need_kind {
	NEED_MAPS = 1,      /* descriptor, value = its length */
	NEED_FILE = 2,      /* of a mapping: descriptor, struct wire_file */
	NEED_JIT_NAMES = 3, /* descriptor, value = its length */
	NEED_MEMORY = 4,    /* bytes */
	NEED_LEAVE = 5,     /* may the file of WIRE_WAITS be read? value 0: yes */
	NEED_JIT_LIST = 6,  /* start = address of the descriptor: descriptor, value = length of a
			     * list (prober/jit_list.h); value 0: it is as known */
};

struct wire_header {
	uint32_t type;
	uint32_t bytes; /* of the whole message */
	uint64_t job;
};

struct wire_unwind {
	struct wire_header header;
	int32_t pid;
	uint32_t arch;
	uint64_t start_ticks;
	uint64_t valid, value[STACK_REGISTERS];
	int64_t syscall_nr;
	uint64_t stack_base, stack_bytes;
};

struct wire_waits {
	struct wire_header header;
	uint64_t elf_start;
};

struct wire_prime {
	struct wire_header header;
	int32_t pid;
	uint32_t reserved;
	uint64_t start_ticks;
};

union wire_question {
	struct wire_header header;
	struct wire_unwind unwind;
	struct wire_waits waits;
	struct wire_prime prime;
	uint8_t bytes[sizeof(struct wire_unwind) + WIRE_INLINE_BYTES];
};

struct wire_answer {
	struct wire_header header;
	uint64_t number; /* of the need */
	int64_t value;   /* or -errno */
	uint64_t length; /* of the bytes that follow */
};

#define WIRE_PATH         256 /* as struct probe_request: a longer path is cut */
#define WIRE_MEMORY_BYTES (32u << 10)

struct wire_need {
	struct wire_header header;
	uint64_t number;
	uint32_t kind;
	uint32_t fresh; /* NEED_MAPS: not what was kept */
	uint64_t start, end, offset, inode;
	uint32_t length;   /* NEED_MEMORY: from start */
	uint32_t symfiles; /* these three: NEED_JIT_LIST, as in struct jit_list_request */
	uint64_t known, since;
	struct stack_file_version file; /* NEED_LEAVE */
	char path[WIRE_PATH];
};

struct wire_file {
	uint64_t device, inode, size_bytes, mtime_ns, ctime_ns;
};

struct wire_reading {
	struct wire_header header;
	struct stack_file_version file;
};

struct wire_losses {
	uint64_t elf_unreadable, elf_malformed, elf_tables_bad, symbols_dropped, names_dropped,
		modules_full, mappings_left_out, jit_lists_unread, jit_elf_malformed,
		jit_elf_dropped, dex_malformed, dex_unread, oat_malformed, oat_unsupported,
		code_given_back;
};

#define WIRE_TEXT_BYTES (96u << 10)
#define WIRE_MOST_CACHE (1ull << 40) /* more than any process has is no answer */

struct wire_trace {
	struct wire_header header;
	int32_t error; /* -errno: no trace */
	uint32_t end, complete, frame_count, text_bytes, reserved;
	uint64_t end_address;
	struct wire_losses losses; /* since the process began */
	uint64_t cache_bytes;      /* stack_unwinder_cache_bytes */
};

struct wire_frame {
	uint64_t pc, offset, function;
	uint32_t module, build_id, symbol; /* where in the texts, plus 1; 0: none */
	uint8_t kind, method, exact, shared;
	uint32_t line, dex_place;
	uint32_t inlined, reserved;
};

struct wire_places {
	struct wire_header header;
	int32_t error;
	uint32_t reserved;
	struct wait_places places;
};

struct wire_primed {
	struct wire_header header;
	struct wire_losses losses;
	uint64_t cache_bytes;
};

#define WIRE_MAX_BYTES \
	(sizeof(struct wire_trace) + STACK_MAX_FRAMES * sizeof(struct wire_frame) + WIRE_TEXT_BYTES)

/* Check a trace of `length` bytes that came from the process, and make it a trace of our own. 0
 * with *trace (NULL: the process has none to give) and *losses; -EBADMSG; -ENOMEM. */
int wire_take_trace(const void *message, size_t length, struct unwound **trace,
		    struct wire_losses *losses);
int wire_take_places(const void *message, size_t length, int *error, struct wait_places *places);
/* Check a question of the process; path ends with 0 then. 0 or -EBADMSG. */
int wire_take_need(const void *message, size_t length, struct wire_need *need);
/* Put a trace into `to` (WIRE_MAX_BYTES): its length. Texts beyond the room are left out and
 * counted. */
size_t wire_put_trace(void *to, uint64_t job, int error, const struct unwound *trace,
		      uint64_t cache_bytes, struct wire_losses *losses);
/* Check a capture that came to the process; its stack's bytes follow the struct where it has no
 * descriptor. The registers are those of a stranger, the rest must make sense. 0 or -EBADMSG. */
int wire_take_unwind(const void *message, size_t length, bool has_fd, struct wire_unwind *unwind);

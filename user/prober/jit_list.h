/* SPDX-License-Identifier: BSD-2-Clause */
/* The list in which a runtime keeps the code that it makes, as gdb's JIT interface has it ("JIT
 * Compilation Interface" in gdb's manual), read from outside while the process goes on: entries
 * that each name an ELF file in memory (`__jit_debug_descriptor`) or a DEX file
 * (`__dex_debug_descriptor`). ART has two layouts of its own, which let a reader see whether what
 * it copied was changed meanwhile (runtime/jit/debugger_interface.cc). Every byte belongs to the
 * process: the list may lie, be endless, or never be the same twice. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JIT_LIST_ENTRIES  65536u
#define JIT_SYMFILE_BYTES (1u << 20)
#define JIT_ANSWER_BYTES  (16u << 20) /* of symfiles together */
#define JIT_LIST_NS       (200 * 1000 * 1000ull)
#define JIT_PARTS         64 /* of one reading */
#define JIT_MESSAGE_BYTES                                                                    \
	(sizeof(struct jit_list_header) + JIT_LIST_ENTRIES * sizeof(struct jit_list_entry) + \
	 JIT_ANSWER_BYTES)

enum jit_layout {
	JIT_PLAIN = 0,    /* gdb's: links only */
	JIT_ANDROID1 = 1, /* one sequence number of the whole list (Android 9, 10) */
	JIT_ANDROID2 = 2, /* and one of each entry (Android 11 and later) */
	JIT_LAYOUTS = 3,
};

/* Ways to the memory of the process. */
struct jit_part {
	uint64_t address;
	void *to;
	size_t length;
};
struct jit_memory {
	/* Copy the parts (at most JIT_PARTS), one after the other, up to the first that is not
	 * there: how many were copied, or -errno where the process cannot be read at all. */
	int (*read)(void *ctx, const struct jit_part *parts, size_t count);
	void *ctx;
};

struct jit_list_request {
	uint64_t descriptor; /* address of it */
	uint64_t known;      /* version of the list that the caller has; 0: none */
	uint64_t since;      /* timestamp of that list: symfiles of later entries only */
	bool symfiles;       /* copy their bytes */
};

/* The answer: this, entries, bytes of symfiles. */
struct jit_list_header {
	uint64_t version;   /* 0: it changed meanwhile, look again */
	uint64_t timestamp; /* of its last change before it was read, in ns of CLOCK_MONOTONIC of
			     * the process; 0: the layout has none */
	uint64_t bytes;     /* of symfiles that follow */
	uint32_t layout, count;
	uint32_t left_out; /* entries or symfiles beyond what is copied at most */
	uint32_t unread;   /* symfiles of live entries that the process has no memory for, or that
			    * changed */
};

struct jit_list_entry {
	uint64_t address, timestamp;
	uint64_t symfile, size;
	uint64_t offset; /* in the bytes, plus 1; 0: not copied */
	uint32_t seqlock;
	uint32_t reserved;
};

struct jit_list {
	struct jit_list_header header;
	struct jit_list_entry *entries;
	uint8_t *bytes;
};

/* 1: the list, which the caller frees; 0: it is as known; -EAGAIN: it was changed each time, or
 * its links go round; -ENOTSUP: a layout that is not known; -EFAULT: the descriptor is not there;
 * -ETIMEDOUT; -ENOMEM; or an error of the reading. */
int jit_list_read(const struct jit_memory *memory, const struct jit_list_request *request,
		  struct jit_list *list);
void jit_list_free(struct jit_list *list);
/* Whether an answer of so many bytes makes sense: then entries and bytes point into it. */
bool jit_list_view(uint8_t *message, size_t length, struct jit_list *list);

/* The same of a process by its pid, without a stop. */
int jit_list_read_process(int pid, const struct jit_list_request *request, struct jit_list *list);

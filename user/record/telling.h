/* SPDX-License-Identifier: BSD-2-Clause */
/* Which frame of a stack tells what a thread did, and how its function is called in short. Pure. */
#pragma once
#include "jankscope/record.h"

/* Room for a short name, and for a path of them. */
#define TELLING_NAME   256
#define TELLING_FRAMES 4

/* As flame graphs mark it. */
#define FRAME_INLINED "_[i]"

/* Whether the frame is code of the program itself, named or not: not of the kernel, the C library,
 * the loader or the vDSO, no wait stub, and no wrapper of a lock, an allocator or a sleep (the
 * lists are in telling.c). */
bool frame_tells(const struct record_frame *frame);
/* Index of the innermost frame that tells; where there is none, of the innermost one that has a
 * name, else 0. frame_count where the stack has no frame. In a stack with a method of Java ART's
 * own code (record/art_frames.h) does not tell, unless native is set. */
size_t telling_frame(const struct record_stack *stack, bool native);
/* The frame that tells and its callers that do, innermost first, as indices; at most room of them.
 * Returns how many: 0 only for a stack without frames. */
size_t telling_path(const struct record_stack *stack, bool native, size_t *frames, size_t room);
/* The same function tells in both; two that have no frame do not say. */
bool telling_same(const struct record_stack *a, const struct record_stack *b);
/* The stack that most of the block passed in, or NULL: it has none. */
const struct record_stack *heaviest_stack(const struct record_block *block);
/* A function's name with what is long in it cut short: arguments and template arguments become
 * "...", the type that it returns is left out. "void ns::Map<int, A>::put<B>(B&&) const" becomes
 * "ns::Map<...>::put<...>(...)". Returns buffer. */
const char *function_short(char *buffer, size_t size, const char *symbol);
/* The frame's function in full; for code without a name its file and place,
 * "libgame.so+0x1234". Behind it: '?' where the frame was found by a guess, FRAME_INLINED where it
 * is a function that was inlined into the next one. Returns buffer. */
const char *frame_name(char *buffer, size_t size, const struct record_frame *frame);

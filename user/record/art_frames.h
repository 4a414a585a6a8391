/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames of ART, the virtual machine of Android, in stacks of Java methods. Pure. */
#pragma once
#include "jankscope/record.h"

/* A method of Java: interpreted, compiled at run time, or compiled ahead (.oat, .odex). */
bool frame_is_java(const struct record_frame *frame);
bool stack_has_java(const struct record_stack *stack);
/* Code of ART itself: the way from one method to the next (a trampoline, the interpreter), or what
 * the runtime does for a method. */
bool frame_is_art(const struct record_frame *frame);
/* Mark the frames that are only the way from one method to the next: those that lie in a row beside
 * a Java method. Code of the app or of a library is never marked. folded has room for frame_count.
 * Returns how many are marked. */
size_t art_mark_folded(const struct record_stack *stack, bool *folded);

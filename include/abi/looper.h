/* SPDX-License-Identifier: BSD-2-Clause */
/* What bpf/looper.bpf.c and user space both read. Fixed width, sizes asserted, no pointers. */
#pragma once
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

/* User registers of a watched thread as they lay in pt_regs when it left its CPU, in the kernel's
 * own order:
 *   x86_64: the 21 words of struct pt_regs (r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di
 *           orig_ax ip cs flags sp ss)
 *   arm64:  the 34 words of struct user_pt_regs (x0..x30 sp pc pstate), then orig_x0 and
 *           syscallno (as a signed number) of struct pt_regs
 * sequence: 0 never written; odd: the thread is on a CPU or the words are being written; even:
 * the words are those of the thread as it waits now. The switch program adds 1 (atomically, with
 * the old value fetched: that orders the words before it) when the thread is switched in and again
 * after it stored the words at switch-out; so sequence / 2 counts the switch-outs, and an unchanged
 * sequence means an unchanged stack. One writer at a time: a thread is switched out on one CPU. */
#define LOOPER_REGISTER_WORDS 36

struct looper_registers {
	__u64 sequence;
	__u64 switched_out_mono_ns;
	__u32 tid, tgid;
	__u64 words[LOOPER_REGISTER_WORDS];
};

_Static_assert(sizeof(struct looper_registers) == 24 + 8 * LOOPER_REGISTER_WORDS,
	       "struct looper_registers has no holes");

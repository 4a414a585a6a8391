/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Maps of the binder calls, and the types of the driver. */
#pragma once
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "abi/binder.h"
#include "loss.bpf.h"

/* drivers/android/binder_internal.h; where the driver is a module, its own BTF has them
 * (36e68442d1af, 5.11), and vmlinux.h does not. */
struct binder_transaction;

struct binder_proc {
	int pid;
	struct rb_root threads;
} __attribute__((preserve_access_index));

struct binder_thread {
	struct binder_proc *proc;
	struct rb_node rb_node;
	int pid;
	int looper;
	struct binder_transaction *transaction_stack;
} __attribute__((preserve_access_index));

struct binder_transaction {
	int debug_id;
	struct binder_thread *from;
	struct binder_proc *to_proc;
	struct binder_thread *to_thread;
	struct binder_transaction *to_parent;
	unsigned int code;
	unsigned int flags;
} __attribute__((preserve_access_index));

/* Without them (a module of a kernel that gives modules no BTF) nothing below is reached, and
 * binder_look answers BINDER_NO_TYPES. */
#define HAS_DRIVER_TYPES                                                                           \
	(bpf_core_type_exists(struct binder_proc) && bpf_core_type_exists(struct binder_thread) && \
	 bpf_core_type_exists(struct binder_transaction))

#define TF_ONE_WAY 1 /* include/uapi/linux/android/binder.h */

/* binder_internal.h; a macro-like enum whose name is nowhere in BTF of modules */
#define LOOPER_REGISTERED 0x01
#define LOOPER_ENTERED    0x02
#define LOOPER_EXITED     0x04
#define LOOPER_WAITING    0x10
#define LOOPER_POLL       0x20

/* Memory: BINDER_MAX_THREADS x (360 + some 60 of the hash) bytes, and calls that nobody has taken
 * yet, at most one for each place of a thread: 370 KiB in all. Nothing of it is there unless a
 * target is watched on a kernel with binder. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, BINDER_MAX_THREADS);
	__type(key, __u32);
	__type(value, struct binder_thread_calls);
} binder_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, BINDER_MAX_THREADS *BINDER_DEPTH);
	__type(key, __u64);
	__type(value, struct binder_waiting);
} binder_waiting SEC(".maps");

/* Processes whose threads' calls are followed: tgid -> 1. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} binder_watched SEC(".maps");

/* Questions of user space: reader's tid -> question, then answer. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, struct binder_look);
} binder_questions SEC(".maps");

DEFINE_LOSSES(binder_losses, BINDER_LOSS_MAX);

/* How many keys of the maps above have these low bits: a transaction of others is told apart by two
 * loads, without a look-up. Written by atomic adds, of user space too. */
__u32 binder_filter_ids[BINDER_FILTER];
__u32 binder_filter_transactions[BINDER_FILTER];

/* Never written: what a new thread begins with. */
struct binder_thread_calls binder_new_thread;

static __always_inline __u32 transaction_bits(__u64 address)
{
	return (address >> 6 ^ address >> 18) & (BINDER_FILTER - 1);
}

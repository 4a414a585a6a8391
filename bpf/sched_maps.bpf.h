/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the programs of sched.bpf.c share: settings, maps, losses. */
#pragma once
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "abi/sched.h"
#include "loss.bpf.h"

#ifndef unlikely
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#endif
#ifndef likely
#define likely(condition) __builtin_expect(!!(condition), 1)
#endif

/* Set before load; what is false vanishes from the program. */
const volatile __u32 array_slots = 1;  /* tids from here on are in the hash; 0: all */
const volatile bool has_prev_state;    /* 9c2136be0878 (5.18): sched_switch's fourth argument */
const volatile bool watch_uids = true; /* nothing else shows each change of a uid */
const volatile __u32 cpu_count = 1;
const volatile __u32 death_wakeup_bytes; /* wake the reader when the ring holds more */
const volatile bool watch_loopers;       /* busy periods of main threads: looper_switch.bpf.h */

const volatile bool watch_flight; /* the flight recorder: flight.bpf.h */

/* The way from a task to its run queue, and so to the scheduler's own clock, needs
 * CONFIG_FAIR_GROUP_SCHED; without it the clock helper is called. */
#define HAS_RQ_CLOCK bpf_core_field_exists(((struct sched_entity *)0)->cfs_rq)

/* Counts read-outs; the reader increments it before it scans. */
__u32 read_epoch;
__u32 group_epochs[SCHED_GROUPS];
/* Execs that the ring tells of: see report_death. */
__u64 exec_count;
/* Once a task found no room: its finished slices are in the overflow row of its uid, and a slot
 * that told its sums from birth would count them again. From then on only a first slice makes a
 * slot. */
__u32 hash_was_full;
/* Something is in the hash. */
__u32 hash_was_used;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* pid_max, set before load */
	__type(key, __u32);
	__type(value, struct task_slot);
} tasks SEC(".maps");

/* All tasks where pid_max is too large for the array; else those whose tids are above what pid_max
 * was when the array was made. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct task_slot);
} tasks_hash SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SCHED_MAX_CPUS);
	__type(key, __u32);
	__type(value, struct cpu_slot);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SCHED_MAX_CPUS);
	__type(key, __u32);
	__type(value, struct running_task);
} running SEC(".maps");

/* CPU time by uid of tasks that found no room, so that totals stay right. Never LRU. Allocated as a
 * whole: it is written under the run-queue lock, where nothing may be allocated (and where 5.10 and
 * 5.15 warn at load: DataDog/datadog-agent#40998, iovisor/bcc#4044). One sum for all CPUs, because
 * it is seldom written. Memory: 1024 x about 70 bytes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u64);
} overflow SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} deaths SEC(".maps");

DEFINE_LOSSES(losses, SCHED_LOSS_MAX);

/* A zeroed slot to insert into the hash: 128 bytes are too many for some verifiers' stack budget
 * together with the rest, and memset of a per-CPU scratch costs less than a copy from the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct task_slot);
} empty_slot SEC(".maps");

/* Where follow_exec puts a slot together, for the same reason: 6.1 counts its frame together with
 * those of sched_switch, repair and end_time. [0] amid a switch, [1] amid an execve, which both run
 * to their end on their CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct task_slot);
} exec_slots SEC(".maps");

#define FAST_RECENT 64
#define FAST_WORDS  32

/* What the program without direct loads keeps for each CPU: the tids of tasks that came lately,
 * found by the task's address and believed where the slot of the tid has that address too; and room
 * for one long probe read. */
struct fast_cpu {
	__u64 idle; /* address of the CPU's idle task; 0: not seen yet */
	__u32 recent[FAST_RECENT];
	__u64 words[FAST_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* CPUs, where loads are not direct */
	__type(key, __u32);
	__type(value, struct fast_cpu);
} fast_cpus SEC(".maps");

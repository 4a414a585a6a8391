/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* CPUs that come and go, and the kernel's own account of how long each idled. */
#pragma once
#include "sched_events.bpf.h"
#include "sched_repair.bpf.h"

#define TICK_IDLE_ACTIVE_BIT 0x4 /* TS_FLAG_IDLE_ACTIVE, kernel/time/tick-sched.h */
#define STATE_TRIES          4

/* a478ffb2ae23 (6.8) made one word of flags of these */
struct tick_sched___before_6_8 {
	unsigned int idle_active : 1;
} __attribute__((preserve_access_index));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SCHED_MAX_CPUS);
	__type(key, __u32);
	__type(value, struct cpu_state);
} cpu_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SCHED_MAX_CPUS);
	__type(key, __u32);
	__type(value, struct cpu_reading);
} cpu_readings SEC(".maps");

/* The handler of the scheduler's tick, from /proc/kallsyms. */
const volatile __u64 tick_handler;
/* Where the kernel tells the addresses of its variables (CONFIG_KALLSYMS_ALL, as GKI has it) and
 * times each interrupt: __per_cpu_offset, and the per-CPU kernel_cpustat and tick_cpu_sched. 0: not
 * told. */
const volatile __u64 percpu_offsets, percpu_cpustat, percpu_tick;

/* Attached for a moment only: the tick's timer is a part of struct tick_sched, which has no other
 * way to it where the kernel does not tell the addresses of its per-CPU variables. */
SEC("?raw_tp/hrtimer_start")
int sched_find_tick(struct bpf_raw_tracepoint_args *ctx)
{
	struct hrtimer *timer = (struct hrtimer *)ctx->args[0];
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *state = bpf_map_lookup_elem(&cpu_states, &cpu);

	if (!state || state->tick || (__u64)BPF_CORE_READ(timer, function) != tick_handler)
		return 0;
	state->tick = (__u64)timer - bpf_core_field_offset(struct tick_sched, sched_timer);
	return 0;
}

struct tick_reading {
	__u64 sum_ns, entry_ns;
	__u32 active;
};

static __always_inline void read_tick(struct tick_sched *tick, struct tick_reading *out)
{
	struct tick_sched___before_6_8 *old = (void *)tick;

	out->sum_ns = (__u64)BPF_CORE_READ(tick, idle_sleeptime) +
		      (__u64)BPF_CORE_READ(tick, iowait_sleeptime);
	out->entry_ns = (__u64)BPF_CORE_READ(tick, idle_entrytime);
	if (bpf_core_field_exists(tick->flags))
		out->active = (BPF_CORE_READ(tick, flags) & TICK_IDLE_ACTIVE_BIT) != 0;
	else if (bpf_core_field_exists(old->idle_active))
		out->active = BPF_CORE_READ_BITFIELD_PROBED(old, idle_active);
	else
		out->active = 0;
}

/* Idle time of a CPU since it came up, interrupts that came in between left out. */
static __noinline __u64 tick_idle_ns(const struct cpu_state *state, __u64 now_ns)
{
	struct tick_sched *tick = (struct tick_sched *)state->tick;
	struct tick_reading one, two;
	int tries;

	if (!tick)
		return 0;
	read_tick(tick, &one);
	/* Kernels up to 6.1 take some shapes of a loop's begin for a way back. */
#pragma unroll
	for (tries = 0; tries < STATE_TRIES; tries++) {
		read_tick(tick, &two);
		if (two.sum_ns == one.sum_ns && two.entry_ns == one.entry_ns &&
		    two.active == one.active)
			break;
		one = two;
	}
	if (one.active && now_ns > one.entry_ns)
		one.sum_ns += now_ns - one.entry_ns;
	return one.sum_ns;
}

/* Of the online spell so far. The kernel may count the spell offline as idle when the CPU is back:
 * its idle loop was entered before. */
static __always_inline __u64 spell_idle_ns(const struct cpu_state *state, __u64 sum_ns,
					   __u64 now_ns)
{
	__u64 spell_ns = now_ns > state->online_since_ns ? now_ns - state->online_since_ns : 0;
	__u64 idle_ns = sum_ns > state->idle_base_ns ? sum_ns - state->idle_base_ns : 0;

	return idle_ns < spell_ns ? idle_ns : spell_ns;
}

static __always_inline void tell_cpu(__u32 cpu, __u32 kind)
{
	struct task_slot nothing = {};

	tell(&nothing, cpu, 0, kind);
}

ordering_part int cpu_went(__u32 cpu)
{
	struct cpu_state *state = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct cpu_slot *slot = bpf_map_lookup_elem(&cpus, &cpu);
	__u64 now_ns = bpf_ktime_get_ns(), rq_now_ns = now_ns + rq_clock_offset_ns, sum_ns;

	if (!state || !slot || state->offline)
		return 0;
	sum_ns = tick_idle_ns(state, now_ns);
	ordered_add(&state->sequence, 1);
	/* Before 9a574ea9069b (6.8) the kernel forgets the sum of a CPU that goes. */
	if (sum_ns < state->idle_last_ns)
		sum_ns = state->idle_last_ns;
	state->idle_ns += spell_idle_ns(state, sum_ns, now_ns);
	state->offline_since_ns = now_ns;
	state->offline = 1;
	ordered_add(&state->sequence, 1);
	/* Nothing runs there any more: its slot is ours until it is back. */
	if (slot->since_ns) {
		if (slot->tid) {
			catch_up(slot);
			slot->idle_ns += idle_after(slot, rq_now_ns);
		} else if (rq_now_ns > slot->since_ns) {
			slot->idle_ns += rq_now_ns - slot->since_ns;
		}
		slot->tid = 0;
		slot->since_ns = rq_now_ns;
	}
	tell_cpu(cpu, TASK_NOTE_CPU_OFFLINE);
	return 0;
}

ordering_part int cpu_came(__u32 cpu)
{
	struct cpu_state *state = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct cpu_slot *slot = bpf_map_lookup_elem(&cpus, &cpu);
	__u64 now_ns = bpf_ktime_get_ns();

	if (!state || !slot || !state->offline)
		return 0;
	ordered_add(&state->sequence, 1);
	state->offline_ns += now_ns - state->offline_since_ns;
	state->online_since_ns = now_ns;
	state->idle_base_ns = 0;
	if (state->tick) {
		struct tick_reading reading;

		read_tick((struct tick_sched *)state->tick, &reading);
		state->idle_base_ns = reading.sum_ns;
	}
	state->idle_last_ns = 0;
	state->offline = 0;
	ordered_add(&state->sequence, 1);
	slot->tid = 0;
	slot->since_ns = now_ns + rq_clock_offset_ns;
	tell_cpu(cpu, TASK_NOTE_CPU_ONLINE);
	return 0;
}

/* Both fire on the CPU that drives the change (args: cpu, target or state, step, function or
 * result). Also when the system suspends, which takes all CPUs but one down. */
SEC("?raw_tp/cpuhp_enter")
int sched_cpu_enter(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 cpu = ctx->args[0], target = ctx->args[1], step = ctx->args[2];
	struct cpu_state *state;

	/* A CPU that goes passes this step too, on its way down. */
	if (step == bpf_core_enum_value(enum cpuhp_state, CPUHP_BRINGUP_CPU))
		return target >= step ? cpu_came(cpu) : 0;
	if (step != bpf_core_enum_value(enum cpuhp_state, CPUHP_TEARDOWN_CPU))
		return 0;
	state = bpf_map_lookup_elem(&cpu_states, &cpu);
	if (state && !state->offline)
		state->idle_last_ns = tick_idle_ns(state, bpf_ktime_get_ns());
	return 0;
}

SEC("?raw_tp/cpuhp_exit")
int sched_cpu_exit(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 cpu = ctx->args[0], step = ctx->args[2];
	__s32 result = (__s32)ctx->args[3];

	if ((step == bpf_core_enum_value(enum cpuhp_state, CPUHP_TEARDOWN_CPU) && !result) ||
	    (step == bpf_core_enum_value(enum cpuhp_state, CPUHP_BRINGUP_CPU) && result))
		return cpu_went(cpu);
	return 0;
}

/* False: the CPU came or went meanwhile. Only the compiler is kept from another order: between the
 * two adds of a change lie a microsecond and the hotplug lock's barriers, and a reading that a
 * change came into is taken again at the next read-out. */
static __noinline bool copy_cpu_state(const struct cpu_state *state, struct cpu_reading *out,
				      __u64 now_ns)
{
	__u32 before = *(volatile __u32 *)&state->sequence;

	asm volatile("" : : : "memory");
	out->online = !state->offline;
	out->idle_known = state->tick || state->offline;
	out->offline_ns = state->offline_ns;
	out->idle_ns = state->idle_ns;
	if (state->offline)
		out->offline_ns += now_ns - state->offline_since_ns;
	else
		out->idle_ns += spell_idle_ns(state, tick_idle_ns(state, now_ns), now_ns);
	asm volatile("" : : : "memory");
	return !(before & 1) && *(volatile __u32 *)&state->sequence == before;
}

/* irqtime_account_delta in kernel/sched/cputime.c sums nanoseconds; /proc/stat cuts them. */
static __noinline int read_interrupts(__u32 cpu, struct cpu_state *state, struct cpu_reading *out)
{
	__u64 offset = 0, sums;

	if (bpf_probe_read_kernel(&offset, sizeof(offset), (void *)percpu_offsets + cpu * 8ull))
		return 0;
	if (!state->tick && percpu_tick)
		state->tick = percpu_tick + offset;
	sums = percpu_cpustat + offset;
	/* The order of these has not changed since 3292beb340c7 (3.3). */
	bpf_probe_read_kernel(&out->irq_ns, 8, (void *)sums + 8 * CPUTIME_IRQ);
	bpf_probe_read_kernel(&out->softirq_ns, 8, (void *)sums + 8 * CPUTIME_SOFTIRQ);
	bpf_probe_read_kernel(&out->steal_ns, 8, (void *)sums + 8 * CPUTIME_STEAL);
	return 0;
}

static __always_inline void read_cpu_state(__u32 cpu, __u64 now_ns)
{
	struct cpu_state *state = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct cpu_reading *out = bpf_map_lookup_elem(&cpu_readings, &cpu);
	struct cpu_slot *slot = bpf_map_lookup_elem(&cpus, &cpu);
	struct rq *rq;

	if (!state || !out || !slot)
		return;
	rq = (struct rq *)slot->rq;
	if (rq)
		out->uncharged_ns = BPF_CORE_READ(rq, clock) - BPF_CORE_READ(rq, clock_task);
	if (percpu_cpustat)
		read_interrupts(cpu, state, out);
	if (!copy_cpu_state(state, out, now_ns) && !copy_cpu_state(state, out, now_ns))
		copy_cpu_state(state, out, now_ns);
}

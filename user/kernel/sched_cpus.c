/* SPDX-License-Identifier: BSD-2-Clause */
/* Which CPUs are there, and how long each idled: counted at the switches, or, where none is hooked,
 * read from the kernel's own sums. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kernel/sched_private.h"
#include "util/clock.h"

#define TORN_TRIES 64
/* One tick of the slowest kernels (HZ=100), and a bit. */
#define TICK_WAIT_NS 12000000ull

/* Addresses that /proc/kallsyms tells; 0: it does not (kptr_restrict, no CONFIG_KALLSYMS_ALL), or
 * the kernel is another one. */
struct symbols {
	uint64_t tick_handler, percpu_offsets, cpustat, tick;
};

static void find_symbols(struct symbols *symbols)
{
	FILE *file = fopen("/proc/kallsyms", "re");
	unsigned long long address;
	char line[256], name[128];
	uint64_t timer = 0;

	*symbols = (struct symbols){0};
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%llx %*c %127s", &address, name) != 2)
			continue;
		/* Modules stand behind the kernel, and have names of their own. */
		if (strchr(line, '['))
			break;
		/* 3aedb7fcd88a (6.8) gave it the name that another one had before, which may stand
		 * in front of it or behind it. */
		if (!strcmp(name, "tick_sched_timer"))
			timer = symbols->tick_handler = address;
		else if (!timer && !strcmp(name, "tick_nohz_handler"))
			symbols->tick_handler = address;
		else if (!strcmp(name, "__per_cpu_offset"))
			symbols->percpu_offsets = address;
		else if (!strcmp(name, "kernel_cpustat"))
			symbols->cpustat = address;
		else if (!strcmp(name, "tick_cpu_sched"))
			symbols->tick = address;
	}
	if (file)
		fclose(file);
}

static bool times_irqs(const struct btf *btf)
{
	int id = btf ? btf__find_by_name_kind(btf, "rq", BTF_KIND_STRUCT) : -1;
	const struct btf_type *type = id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;

	for (int i = 0; type && i < btf_vlen(type); i++)
		if (!strcmp(btf__name_by_offset(btf, btf_members(type)[i].name_off),
			    "prev_irq_time"))
			return true;
	return false;
}

/* "0-3,5": whether cpu is in the list. */
static bool is_in_list(const char *text, unsigned cpu)
{
	unsigned first, last;
	int length;

	while (sscanf(text, "%u%n", &first, &length) == 1) {
		text += length;
		last = first;
		if (*text == '-' && sscanf(text + 1, "%u%n", &last, &length) == 1)
			text += 1 + length;
		if (cpu >= first && cpu <= last)
			return true;
		if (*text != ',')
			return false;
		text++;
	}
	return false;
}

static bool read_online_list(char *text, size_t size)
{
	FILE *file = fopen("/sys/devices/system/cpu/online", "re");
	bool ok = file && fgets(text, (int)size, file);

	if (file)
		fclose(file);
	return ok;
}

void sched_cpus_configure(struct sched_kernel *kernel, const struct btf *btf)
{
	struct sched_bpf *skeleton = kernel->skeleton;
	bool timed = times_irqs(btf);
	struct symbols symbols;

	bpf_program__set_autoload(skeleton->progs.sched_cpu_enter, true);
	bpf_program__set_autoload(skeleton->progs.sched_cpu_exit, true);
	/* The file is long: some 20 ms. */
	if (!kernel->iterating && !timed)
		return;
	find_symbols(&symbols);
	/* A per-CPU variable's address may be 0 on x86. */
	if (timed && symbols.percpu_offsets && symbols.cpustat) {
		skeleton->rodata->percpu_offsets = symbols.percpu_offsets;
		skeleton->rodata->percpu_cpustat = symbols.cpustat;
		skeleton->rodata->percpu_tick = symbols.tick;
	}
	if (!kernel->iterating)
		return;
	skeleton->rodata->tick_handler = symbols.tick_handler;
	bpf_program__set_autoload(skeleton->progs.sched_find_tick,
				  skeleton->rodata->tick_handler != 0);
}

/* Go to each CPU, so that it switches and its tick is started, and stay until the tick was seen
 * where that is waited for. */
static void visit_cpus(struct sched_kernel *kernel, bool wait_for_tick)
{
	cpu_set_t before, one;

	if (sched_getaffinity(0, sizeof(before), &before))
		return;
	for (unsigned cpu = 0; cpu < kernel->cpu_count && cpu < CPU_SETSIZE; cpu++) {
		const volatile struct cpu_state *state = &kernel->cpu_states[cpu];
		uint64_t until_ns;

		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (!CPU_ISSET(cpu, &before) || (wait_for_tick && state->tick) ||
		    sched_setaffinity(0, sizeof(one), &one))
			continue;
		sched_yield();
		until_ns = clock_now_ns(CLOCK_MONOTONIC) + TICK_WAIT_NS;
		while (wait_for_tick && !state->tick && clock_now_ns(CLOCK_MONOTONIC) < until_ns)
			;
	}
	sched_setaffinity(0, sizeof(before), &before);
}

void sched_kernel_find_idle(struct sched_kernel *kernel)
{
	struct bpf_link *link;

	if (!kernel->iterating || !kernel->skeleton->rodata->tick_handler)
		return;
	link = bpf_program__attach(kernel->skeleton->progs.sched_find_tick);
	if (!link)
		return;
	visit_cpus(kernel, true);
	bpf_link__destroy(link);
}

int sched_cpus_attach(struct sched_kernel *kernel)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	char online[512];

	kernel->cpu_enter_link = bpf_program__attach(kernel->skeleton->progs.sched_cpu_enter);
	kernel->cpu_exit_link = bpf_program__attach(kernel->skeleton->progs.sched_cpu_exit);
	if (!kernel->cpu_enter_link || !kernel->cpu_exit_link)
		return -errno;
	if (read_online_list(online, sizeof(online))) {
		for (unsigned cpu = 0; cpu < kernel->cpu_count; cpu++) {
			if (is_in_list(online, cpu))
				continue;
			kernel->cpu_states[cpu].offline_since_ns = now_ns;
			kernel->cpu_states[cpu].offline = 1;
		}
	}
	if (kernel->iterating)
		sched_kernel_find_idle(kernel);
	else
		visit_cpus(kernel, false);
	return 0;
}

static uint64_t clock_of_queues_ns(const struct sched_kernel *kernel, uint64_t mono_ns)
{
	return mono_ns + (uint64_t)kernel->skeleton->bss->rq_clock_offset_ns;
}

/* As counted at the switches. */
static bool read_idle(const struct sched_kernel *kernel, unsigned cpu, bool online,
		      uint64_t *idle_ns)
{
	const volatile struct cpu_slot *slot = &kernel->cpus[cpu];
	uint64_t now_ns = clock_of_queues_ns(kernel, kernel->skeleton->bss->read_mono_ns);

	for (int tries = 0; tries < TORN_TRIES; tries++) {
		uint32_t sequence = __atomic_load_n(&slot->sequence, __ATOMIC_ACQUIRE);
		uint64_t since_ns = slot->since_ns;
		uint32_t tid = slot->tid;

		*idle_ns = slot->idle_ns;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if ((sequence & 1) || slot->sequence != sequence)
			continue;
		if (!since_ns)
			return !online;
		if (!online)
			return true;
		/* A task that came unseen runs there: its end will tell how long the CPU idled. */
		if (!tid && now_ns > since_ns && !kernel->running[cpu].valid)
			*idle_ns += now_ns - since_ns;
		if (tid)
			*idle_ns += kernel->running[cpu].unseen_idle_ns;
		return true;
	}
	return true;
}

void sched_kernel_cpu(const struct sched_kernel *kernel, unsigned cpu, struct sched_cpu *out)
{
	const struct cpu_reading *reading = &kernel->cpu_readings[cpu];

	*out = (struct sched_cpu){
		.online = reading->online,
		.idle_known = reading->idle_known,
		.idle_ns = reading->idle_ns,
		.offline_ns = reading->offline_ns,
		.uncharged_ns = reading->uncharged_ns,
		.irqs_known = kernel->skeleton->rodata->percpu_cpustat,
		.irq_ns = reading->irq_ns,
		.softirq_ns = reading->softirq_ns,
		.steal_ns = reading->steal_ns,
		.idle_without_irqs_known = reading->idle_known,
		.idle_without_irqs_ns = reading->idle_ns,
	};
	if (!kernel->iterating)
		out->idle_known = read_idle(kernel, cpu, out->online, &out->idle_ns);
}

uint64_t sched_kernel_idle_now_ns(const struct sched_kernel *kernel)
{
	uint64_t now_ns = clock_of_queues_ns(kernel, clock_now_ns(CLOCK_MONOTONIC));
	uint64_t sum_ns = 0;

	for (unsigned cpu = 0; cpu < kernel->cpu_count; cpu++) {
		const volatile struct cpu_slot *slot = &kernel->cpus[cpu];
		uint64_t since_ns = slot->since_ns;

		sum_ns += slot->idle_ns;
		if (since_ns && !slot->tid && now_ns > since_ns && !kernel->cpu_states[cpu].offline)
			sum_ns += now_ns - since_ns;
	}
	return sum_ns;
}

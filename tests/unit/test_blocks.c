/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi/sched.h"
#include "core/paths.h"
#include "source/blocks/ledger.h"
#include "source/blocks/samples.h"
#include "prober/pool_wire.h"

#define MS 1000000ull

static void add_spell(struct block_spells *spells, uint64_t number, uint64_t begin_ms,
		      uint64_t end_ms, uint64_t wait_ms, uint32_t state, uint32_t reason)
{
	struct looper_spell_event event = {
		.head = {.begin_ns = begin_ms * MS, .end_ns = end_ms * MS},
		.spell = number,
		.wait_ns = wait_ms * MS,
		.state = state,
		.reason = reason,
		.syscall_nr = -1,
		.waker_tid = (uint32_t)number + 100,
		.waker_comm = "waker",
	};

	cr_assert_eq(block_spells_add(spells, &event), 0);
}

static struct block_samples chain(struct block_sample *samples, size_t count)
{
	for (size_t i = 0; i + 1 < count; i++)
		samples[i].next = &samples[i + 1];
	return (struct block_samples){&samples[0], &samples[count - 1], count};
}

Test(block_weights, a_running_sample_reaches_half_way)
{
	struct block_sample list[] = {{.t_ns = 100 * MS}, {.t_ns = 150 * MS}, {.t_ns = 300 * MS}};
	struct block_samples samples = chain(list, 3);
	struct block_spells none = {0};
	uint64_t weights[3];

	cr_expect_eq(block_sample_weights(&samples, &none, 0, 400 * MS, 0, 0, weights), 0);
	cr_expect_eq(weights[0], 125 * MS);
	cr_expect_eq(weights[1], 100 * MS);
	cr_expect_eq(weights[2], 175 * MS);
}

Test(block_weights, a_sleep_has_its_exact_time)
{
	struct block_sample list[] = {
		{.t_ns = 100 * MS}, {.t_ns = 250 * MS, .spell = 7}, {.t_ns = 450 * MS}};
	struct block_samples samples = chain(list, 3);
	struct block_spells spells = {0};
	uint64_t weights[3];

	/* Asleep from 200 to 400, of which the last 10 it waited for a CPU. */
	add_spell(&spells, 7, 200, 400, 10, OFF_CPU_SLEEPING, LOOPER_REASON_FUTEX);
	cr_expect_eq(block_sample_weights(&samples, &spells, 0, 500 * MS, 0, 0, weights), 0);
	cr_expect_eq(weights[1], 190 * MS);
	cr_expect_eq(weights[0] + weights[2], 310 * MS);
	cr_expect_geq(weights[0], 200 * MS);
	block_spells_free(&spells);
}

Test(block_weights, a_sleep_without_a_sample_is_in_no_stack)
{
	struct block_sample list[] = {{.t_ns = 300 * MS}};
	struct block_samples samples = chain(list, 1);
	struct block_spells spells = {0};
	uint64_t weights[1];

	add_spell(&spells, 1, 10, 90, 0, OFF_CPU_SLEEPING, LOOPER_REASON_SLEEP);
	cr_expect_eq(block_sample_weights(&samples, &spells, 0, 500 * MS, 0, 0, weights), 80 * MS);
	cr_expect_eq(weights[0], 420 * MS);
	block_spells_free(&spells);
}

Test(block_weights, a_preempted_stack_stands_as_long_as_it_waited)
{
	struct block_sample list[] = {{.t_ns = 120 * MS, .spell = 3}, {.t_ns = 400 * MS}};
	struct block_samples samples = chain(list, 2);
	struct block_spells spells = {0};
	uint64_t weights[2];

	add_spell(&spells, 3, 100, 300, 200, OFF_CPU_RUNNABLE, LOOPER_REASON_OTHER);
	cr_expect_eq(block_sample_weights(&samples, &spells, 0, 500 * MS, 0, 0, weights), 0);
	cr_expect_eq(weights[0], 350 * MS, "until half way between 300 and 400");
	cr_expect_eq(weights[1], 150 * MS);
	block_spells_free(&spells);
}

Test(block_weights, an_open_sleep_counts_until_now)
{
	struct block_sample list[] = {{.t_ns = 100 * MS, .spell = 9}};
	struct block_samples samples = chain(list, 1);
	struct block_spells none = {0};
	uint64_t weights[1];

	cr_expect_eq(block_sample_weights(&samples, &none, 0, 500 * MS, 9, 20 * MS, weights),
		     20 * MS);
	cr_expect_eq(weights[0], 480 * MS);
}

Test(block_ledger, sums_classes_and_longest_sleeps)
{
	struct looper_period_event period = {
		.head = {.begin_ns = 1000 * MS, .end_ns = 7000 * MS},
		.cpu_ns = 500 * MS,
		.sums = {.sleeping_ns = 1400 * MS,
			 .stopped_ns = 4100 * MS,
			 .reason_ns = {[LOOPER_REASON_FUTEX] = 1000 * MS,
				       [LOOPER_REASON_SLEEP] = 400 * MS}},
		.preempted_other_ns = 3,
		.preemptors = {{.ns = 5, .tid = 7, .comm = "a"}, {.ns = 9, .tid = 8, .comm = "b"}},
	};
	struct record_block block = {0};
	struct block_spells spells = {0};

	for (uint64_t i = 0; i < 12; i++)
		add_spell(&spells, i, 100 * i, 100 * i + 10 + i, 0, OFF_CPU_SLEEPING,
			  LOOPER_REASON_FUTEX);
	add_spell(&spells, 12, 2000, 2900, 0, OFF_CPU_RUNNABLE, LOOPER_REASON_OTHER);
	cr_assert_eq(block_ledger_fill(&block, &period, &spells, 5, NULL, NULL), 0);
	cr_expect_eq(block.start_boot_ns, 1000 * MS + 5);
	cr_expect_eq(block.wall_ns, 6000 * MS);
	cr_expect_eq(block.class, BLOCK_SHORT, "it was stopped for 4.1 of 6 s");
	cr_expect_eq(block.cpu_ns.value, 500 * MS);
	cr_expect_eq(block.ledger.running_ns, 500 * MS);
	cr_assert_eq(block.reason_count, 2);
	cr_expect_str_eq(block.reasons[0].reason, "futex");
	cr_assert_eq(block.preemptor_count, 3);
	cr_expect_str_eq(block.preemptors[0].thread, "b");
	cr_assert_eq(block.sleep_count, BLOCK_SLEEPS);
	for (size_t i = 0; i < block.sleep_count; i++) {
		cr_expect_eq(block.sleeps[i].ns, (21 - i) * MS);
		cr_expect_eq(block.sleeps[i].t_boot_ns, 100 * (11 - i) * MS + 5);
	}
	cr_expect(block.waker.present);
	cr_expect_eq(block.waker.tid, 111);
	cr_expect_null(block_spells_find(&spells, 99));
	cr_expect_eq(block_spells_find(&spells, 5)->begin_ns, 500 * MS);
	block_ledger_free(&block);
	block_spells_free(&spells);
}

/* A timer ended the longest sleep: who ended a shorter one is not its waker. */
Test(block_ledger, the_waker_is_that_of_the_longest_sleep)
{
	const struct looper_period_event period = {
		.head = {.begin_ns = 1000 * MS, .end_ns = 2000 * MS}};
	struct record_block block = {0};
	struct block_spells spells = {0};

	add_spell(&spells, 1, 100, 110, 0, OFF_CPU_SLEEPING, LOOPER_REASON_FUTEX);
	add_spell(&spells, 2, 200, 500, 0, OFF_CPU_SLEEPING, LOOPER_REASON_FUTEX);
	add_spell(&spells, 3, 600, 990, 0, OFF_CPU_RUNNABLE, LOOPER_REASON_OTHER);
	cr_expect_eq(block_spells_longest(&spells), &spells.items[1]);
	spells.items[1].waker_tid = 0;
	cr_assert_eq(block_ledger_fill(&block, &period, &spells, 0, NULL, NULL), 0);
	cr_expect(!block.waker.present);
	block_ledger_free(&block);
	spells.items[1].waker_tid = 102;
	block = (struct record_block){0};
	cr_assert_eq(block_ledger_fill(&block, &period, &spells, 0, NULL, NULL), 0);
	cr_expect_eq(block.waker.tid, 102);
	block_ledger_free(&block);
	block_spells_free(&spells);
}

/* The slot may be copied after the moment that its reader takes for now: what it holds by then is
 * in the block's time too, and no thread has more CPU time than time. */
Test(block_ledger, an_open_block_has_no_more_cpu_than_wall)
{
	const struct looper_slot slots[] = {
		/* on a CPU again since 1,400 ms, after 400 ms on CPUs */
		{.on_cpu = 1, .in_ns = 1400 * MS, .in_cpu_ns = 900 * MS},
		/* asleep since then */
		{.off_ns = 1400 * MS, .out_cpu_ns = 900 * MS, .off_state = OFF_CPU_SLEEPING},
	};

	for (size_t i = 0; i < sizeof(slots) / sizeof(*slots); i++) {
		struct looper_slot slot = slots[i];
		struct looper_period_event period;
		struct record_block block = {0};

		slot.busy_since_ns = 1000 * MS;
		slot.begin_cpu_ns = 500 * MS;
		block_period_now(&slot, 1300 * MS, &period);
		cr_assert_eq(block_ledger_fill(&block, &period, NULL, 0, NULL, NULL), 0);
		cr_expect_eq(block.cpu_ns.value, 400 * MS);
		cr_expect_eq(block.wall_ns, 400 * MS, "slot %zu: wall %llu ns", i,
			     (unsigned long long)block.wall_ns);
		cr_expect_eq(block.ledger.running_ns, 400 * MS);
		block_ledger_free(&block);
		block_period_now(&slot, 1500 * MS, &period);
		cr_assert_eq(block_ledger_fill(&block, &period, NULL, 0, NULL, NULL), 0);
		cr_expect_eq(block.wall_ns, 500 * MS);
		cr_expect_eq(block.cpu_ns.value, i ? 400 * MS : 500 * MS);
		block_ledger_free(&block);
	}
}

Test(block_ledger, spells_beyond_the_room_are_counted)
{
	struct looper_period_event period = {.head = {.end_ns = 1}};
	struct record_block block = {0};
	struct block_spells spells = {0};

	for (uint64_t i = 0; i < BLOCK_SPELLS + 3; i++)
		add_spell(&spells, i, i, i + 1, 0, OFF_CPU_SLEEPING, LOOPER_REASON_SLEEP);
	cr_assert_eq(block_ledger_fill(&block, &period, &spells, 0, NULL, NULL), 0);
	cr_expect_eq(counter_list_get(&block.lost, "block_spells_dropped"), 3);
	block_ledger_free(&block);
	block_spells_free(&spells);
}

/* Who holds the lock at this address, as a prober reads it; 0: nobody that can be told, or the
 * negative error. */
static pid_t owner_at(const void *address, pid_t waiter, uint32_t operation)
{
	const struct probe_request request = {
		.operation = PROBE_LOCK_OWNER,
		.pid = getpid(),
		.tid = waiter,
		.address = (uint64_t)(uintptr_t)address,
		.argument = operation,
	};
	struct probe_owner owner = {0};
	struct reply reply = {.data = (uint8_t *)&owner};
	int err = probe_read_lock_owner(&request, &reply);

	return err ? err : owner.tid;
}

Test(lock_owner, layouts)
{
	/* The words of a mutex that somebody else holds, as each library lays them out. */
	pid_t me = getpid(), other = me + 1000000;
	uint32_t id = (uint32_t)me;
	uint32_t glibc[5] = {2, 1, id, 1, 1}, art[5] = {3, id, 1}, pi[5] = {id | 0x80000000u};
	uint32_t free_lock[5] = {0}, nobody[5] = {2, 0, 0x3fffffff, 1};
	uint32_t robust[5] = {id | 0x80000000u, 0, id, 1, 16},
		 ceiling[5] = {2 | 5 << 19, 0, id, 1, 64};
	uint32_t writer[5] = {UINT32_MAX, id, 2}, recursive[5] = {0x4002, id};
	uint32_t checking[5] = {0x8002 | 3 << 2 | 1 << 13, id}, plain[5] = {2, id};
	/* Words of other things that have a thread's number by chance. */
	uint32_t arena[5] = {2, 0, id, 0, 0}, kind[5] = {2, 0, id, 1, 4},
		 rust[5] = {2, 0, id, 7, 9999};
	uint32_t contenders[5] = {0x7fffffff, id, 1}, readers[5] = {3, id, 0}, qt[5] = {3, 0, id},
		 often[5] = {3, id, 256};
	uint32_t robust_other[5] = {5 | 0x80000000u, 0, id, 1, 16}, bionic_pi[5] = {0xc002, id};
	uint32_t reserved[5] = {0x4002, id, 1}, wide[5] = {0x14002, id};
	uint32_t joined[5] = {id}, joined_bionic[5] = {id, id}, not_private[5] = {0x4002, id},
		 not_shared[5] = {0x6002, id};
	uint64_t list = (uint64_t)(uintptr_t)joined + 16;
	void *edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_expect_eq(owner_at(glibc, other, 0x80), me, "FUTEX_WAIT_PRIVATE on glibc's mutex");
	cr_expect_eq(owner_at(art, other, 0x80), me, "art::Mutex");
	cr_expect_eq(owner_at(pi, other, 6), me, "FUTEX_LOCK_PI");
	cr_expect_lt(owner_at(free_lock, other, 0x80), 0);
	cr_expect_lt(owner_at(nobody, other, 0x80), 0, "no such thread");
	cr_expect_lt(owner_at(glibc, other, 1), 0, "FUTEX_WAKE waits for nobody");
	cr_expect_eq(owner_at(glibc, me, 0), me, "a thread may wait for what it holds itself");
	cr_expect_eq(owner_at(robust, other, 0x80), me);
	cr_expect_eq(owner_at(ceiling, other, 0x80), me);
	cr_expect_eq(owner_at(writer, other, 0x80), me, "art::ReaderWriterMutex");
	cr_expect_eq(owner_at(recursive, other, 0x80), me, "recursive, bionic");
	cr_expect_eq(owner_at(checking, other, 0), me, "error-checking, shared, bionic");
	cr_expect_lt(owner_at(plain, other, 0x80), 0, "plain, bionic: has no owner");
	cr_expect_lt(owner_at(arena, other, 0x80), 0, "no user");
	cr_expect_lt(owner_at(kind, other, 0x80), 0, "no such kind");
	cr_expect_lt(owner_at(rust, other, 0x80), 0, "data behind another lock");
	cr_expect_lt(owner_at(contenders, other, 0x80), 0, "no such number of contenders");
	cr_expect_lt(owner_at(readers, other, 0x80), 0, "held by readers");
	cr_expect_lt(owner_at(qt, other, 0x80), 0);
	cr_expect_lt(owner_at(often, other, 0x80), 0, "no such depth of recursion");
	cr_expect_lt(owner_at(robust_other, other, 0x80), 0, "two owners");
	cr_expect_lt(owner_at(bionic_pi, other, 0x80), 0);
	cr_expect_lt(owner_at(reserved, other, 0x80), 0);
	cr_expect_lt(owner_at(wide, other, 0x80), 0);
	cr_expect_lt(owner_at(not_private, other, 0), 0, "a shared call for a private one, bionic");
	cr_expect_lt(owner_at(not_shared, other, 0x80), 0);
	/* pthread_join: the number of the thread, and what lies behind it. */
	cr_expect_lt(owner_at(joined, other, 0), 0, "nothing behind it");
	memcpy(&joined[2], &list, sizeof(list));
	cr_expect_eq(owner_at(joined, other, 0), me, "pthread_join of glibc");
	cr_expect_lt(owner_at(joined, other, 0x80), 0, "a private wait is no pthread_join");
	joined[0] = 0x3fffffff;
	cr_expect_lt(owner_at(joined, other, 0), 0, "no such thread");
	cr_expect_eq(owner_at(joined_bionic, other, 0), me, "pthread_join of bionic");
	joined_bionic[1] = 1;
	cr_expect_lt(owner_at(joined_bionic, other, 0), 0, "another process's number");
	cr_expect_lt(owner_at((void *)8, other, 0), 0, "not mapped");
	/* A PI word in the last four bytes of a mapping. */
	munmap((char *)edge + 4096, 4096);
	*(uint32_t *)((char *)edge + 4092) = id;
	cr_expect_eq(owner_at((char *)edge + 4092, other, 6), me);
}

Test(paths, merge_by_path_and_sort)
{
	struct record_frame frames[] = {{.symbol = "inner"}, {.symbol = "outer"}};
	struct record_stack stacks[] = {
		{.weight_ns = 3 * MS, .frames = frames, .frame_count = 2},
		{.weight_ns = 5 * MS, .frames = frames + 1, .frame_count = 1},
	};
	struct record_block block = {.stacks = stacks, .stack_count = 2};
	struct paths *paths = paths_new();
	const struct footer_path *top;

	cr_assert_eq(paths_add(paths, &block), 0);
	block.stack_count = 1;
	cr_assert_eq(paths_add(paths, &block), 0);
	cr_assert_eq(paths_top(paths, 10, &top), 2);
	cr_expect_str_eq(top[0].path, "outer;inner");
	cr_expect_eq(top[0].weight_ns, 6 * MS);
	cr_expect_eq(top[0].blocks, 2);
	cr_expect_eq(paths_top(paths, 1, &top), 1);
	paths_free(paths);
}

struct sum {
	size_t paths, bytes;
	uint64_t weight_ns;
};

static int add_up(void *ctx, const char *path, uint64_t weight_ns)
{
	struct sum *sum = ctx;

	sum->paths++;
	sum->bytes += strlen(path);
	sum->weight_ns += weight_ns;
	return 0;
}

/* A program that maps new code all day has a new path with each block: the memory stays, what was
 * heavy stays, and the sum is whole. */
Test(paths, many_paths_in_little_memory)
{
	char name[64];
	struct record_frame frame = {.symbol = name};
	struct record_stack stack = {.weight_ns = MS, .frames = &frame, .frame_count = 1};
	struct record_block block = {.stacks = &stack, .stack_count = 1};
	struct paths *paths = paths_new();
	const struct footer_path *top;
	struct sum sum = {0};
	uint64_t weight_ns;

	for (unsigned i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "a function of the %u. mapping", i);
		stack.weight_ns = i == 5 || i == 70000 ? 1000 * MS : MS;
		cr_assert_eq(paths_add(paths, &block), 0);
	}
	cr_assert_eq(paths_top(paths, 2, &top), 2);
	cr_expect_eq(top[0].weight_ns, 1000 * MS);
	cr_expect_eq(top[1].weight_ns, 1000 * MS);
	cr_assert_eq(paths_each(paths, add_up, &sum), 0);
	/* Slight ones make room long before the limit is reached. */
	cr_expect_lt(sum.paths, 1000);
	cr_expect_lt(sum.bytes, 64u << 10);
	cr_expect_eq(sum.weight_ns + paths_dropped_ns(paths), (100000 - 2 + 2000) * MS);
	cr_expect(paths_find(paths, "a function of the 70000. mapping", &weight_ns));
	cr_expect_eq(weight_ns, 1000 * MS);
	cr_expect(!paths_find(paths, "a function of the 6. mapping", &weight_ns) && !weight_ns);
	paths_free(paths);
}

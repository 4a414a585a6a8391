/* SPDX-License-Identifier: BSD-2-Clause */
/* The summary of memory: slopes of processes that leak, end and start again, over runs of any
 * length. */
#include <criterion/criterion.h>
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "summary/memory.h"

#define SEC  1000000000ull
#define HOUR 3600.0

static struct record_memory_process process_of(pid_t pid, uint64_t start_boot_ns, uint64_t pss)
{
	return (struct record_memory_process){.pid = pid,
					      .start_boot_ns = start_boot_ns,
					      .process = "leak",
					      .rss_bytes = SOME_U64(2 * pss),
					      .pss_bytes = SOME_U64(pss)};
}

static void add(struct memory_runs *runs, struct record_memory_process *rows, size_t count,
		uint64_t at_s)
{
	const struct record_memory memory = {
		.present = true, .processes = rows, .process_count = count};

	cr_assert_eq(memory_runs_add(runs, &memory, at_s * SEC), 0);
}

static const struct footer_memory *find(const struct record_footer *footer, pid_t pid)
{
	for (size_t i = 0; i < footer->memory_count; i++)
		if (footer->memory[i].pid == pid)
			return &footer->memory[i];
	cr_assert_fail("pid %d has no row", pid);
	return NULL;
}

/* 72 h at 1 s with a reading of PSS each 10 s: a leak of 1,000 bytes a second below a saw tooth of
 * 50 MB. */
Test(memory_runs, a_leak_of_72_hours)
{
	struct memory_runs *runs = memory_runs_new();
	struct record_footer footer = {0};
	const struct footer_memory *row;
	double want = 1000 * HOUR;

	for (uint64_t s = 1; s <= 72 * 3600; s++) {
		struct record_memory_process leak =
			process_of(7, 5, 100000000 + 1000 * s + s % 300 * 166666);

		leak.pss_bytes.present = s % 10 == 0;
		add(runs, &leak, 1, s);
	}
	cr_assert_eq(memory_runs_take(runs, 20, &footer), 0);
	row = find(&footer, 7);
	cr_expect_eq(row->pss.n, 72 * 360);
	cr_expect_eq(row->rss.n, 72 * 3600);
	cr_assert(row->pss_slope.present && row->low.present && row->high.present);
	cr_expect_lt(fabs((double)row->pss_slope.value - want), 0.01 * want, "%lld",
		     (long long)row->pss_slope.value);
	cr_expect_leq(row->low.value, row->pss_slope.value);
	cr_expect_geq(row->high.value, row->pss_slope.value);
	cr_expect_lt(fabs((double)row->rss_slope.value - 2 * want), 0.02 * want, "%lld",
		     (long long)row->rss_slope.value);
	cr_expect(!row->exited);
	memory_runs_free(runs);
}

/* Each start of a program is one process: 3 of one pid, that leak, shrink and stay. */
Test(memory_runs, a_process_that_ends_keeps_its_slope)
{
	static const int64_t per_s[] = {2000, -500, 0};
	struct memory_runs *runs = memory_runs_new();
	struct record_footer footer = {0};

	for (uint64_t s = 1; s <= 3000; s++) {
		size_t life = (s - 1) / 1000;
		struct record_memory_process row =
			process_of(7, life + 1,
				   (uint64_t)(50000000 + per_s[life] * (int64_t)(s - 1000 * life)));

		add(runs, &row, 1, s);
	}
	cr_assert_eq(memory_runs_take(runs, 20, &footer), 0);
	cr_assert_eq(footer.memory_count, 3);
	for (size_t i = 0; i < 3; i++) {
		const struct footer_memory *row = &footer.memory[i];
		int64_t want = per_s[row->start_boot_ns - 1] * 3600;

		cr_assert(row->pss_slope.present);
		cr_expect_leq(llabs(row->pss_slope.value - want), 1, "%lld, not %lld",
			      (long long)row->pss_slope.value, (long long)want);
		cr_expect_eq(row->low.value, row->high.value);
		cr_expect_eq(row->exited, row->start_boot_ns != 3);
		cr_expect_eq(row->pss.n, 1000);
	}
	memory_runs_free(runs);
}

/* A target that ends gives its series to the next one, and no reading with them. */
Test(memory_runs, one_that_comes_back_has_figures_of_its_own)
{
	struct memory_runs *runs = memory_runs_new();
	struct record_footer footer = {0};
	struct mallinfo2 before = {0};

	for (uint64_t life = 1; life <= 200; life++) {
		for (uint64_t s = 0; s < 8; s++) {
			struct record_memory_process row = process_of(
				(pid_t)life, life, life * 1000000 + s * (life % 3) * 1000);

			add(runs, &row, 1, life * 100 + s);
		}
		/* Nobody is there: the one before is settled. */
		for (uint64_t s = 8; s < 100; s++)
			add(runs, NULL, 0, life * 100 + s);
		if (life == 100)
			before = mallinfo2();
	}
	cr_expect_leq(mallinfo2().uordblks, before.uordblks + 1024, "%zu bytes more",
		      mallinfo2().uordblks - before.uordblks);
	cr_assert_eq(memory_runs_take(runs, 20, &footer), 0);
	cr_assert_eq(footer.memory_count, 20);
	for (pid_t life = 200; life > 180; life--) {
		const struct footer_memory *row = find(&footer, life);

		cr_expect_eq(row->pss.n, 8);
		cr_expect_eq(row->pss.min, (uint64_t)life * 1000000);
		cr_expect_eq(row->pss.max,
			     (uint64_t)life * 1000000 + 7 * (uint64_t)(life % 3) * 1000);
		cr_expect_eq(row->rss.min, 2 * (uint64_t)life * 1000000);
		cr_expect_eq(row->pss_slope.value, life % 3 * 3600000, "%lld",
			     (long long)row->pss_slope.value);
	}
	memory_runs_free(runs);
}

/* What the points are: exact up to 256 readings, then means of 2, 4 ... of them. */
Test(memory_runs, equal_numbers_of_readings_are_a_point)
{
	static const unsigned counts[] = {1, 2, 255, 256, 257, 258, 511, 512, 513, 1000, 5000};

	for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
		struct memory_runs *runs = memory_runs_new();
		struct record_footer footer = {0};

		for (unsigned s = 1; s <= counts[c]; s++) {
			struct record_memory_process row = process_of(1, 1, 1000000 + 77ull * s);

			add(runs, &row, 1, s);
		}
		cr_assert_eq(memory_runs_take(runs, 20, &footer), 0);
		/* A straight line is one whatever is averaged: any point that is a wrong mean
		 * would bend it. */
		cr_expect_eq(footer.memory[0].pss_slope.present, counts[c] > 1);
		if (counts[c] > 1)
			cr_expect_eq(footer.memory[0].pss_slope.value, 77 * 3600, "%u: %lld",
				     counts[c], (long long)footer.memory[0].pss_slope.value);
		if (counts[c] > 4)
			cr_expect_leq(footer.memory[0].high.value - footer.memory[0].low.value, 1);
		memory_runs_free(runs);
	}
}

Test(memory_runs, what_was_not_read_is_in_no_sum)
{
	struct record_memory_process none = process_of(1, 1, 5), some = process_of(2, 1, 5);
	struct memory_runs *runs = memory_runs_new();
	struct record_footer footer = {0};

	none.pss_bytes.present = none.rss_bytes.present = false;
	some.pss_bytes.present = false;
	add(runs, &none, 1, 1);
	add(runs, &some, 1, 2);
	cr_assert_eq(memory_runs_take(runs, 20, &footer), 0);
	cr_assert_eq(footer.memory_count, 1);
	cr_expect(!footer.memory[0].has_pss && footer.memory[0].has_rss);
	cr_expect(!footer.memory[0].pss_slope.present && !footer.memory[0].rss_slope.present);
	memory_runs_free(runs);
}

/* More processes than there is room for: the room stays, those that have none are counted. */
/* One process is read after the other: the sum of all is of the newest readings, each once. */
Test(memory_runs, pss_of_all_that_are_read_one_by_one)
{
	struct memory_runs *runs = memory_runs_new();
	struct record_memory memory = {.present = true};
	struct record_memory_process rows[3];
	unsigned sums = 0;

	for (unsigned turn = 0; turn < 9; turn++) {
		struct opt_u64 sum;

		for (unsigned i = 0; i < 3; i++) {
			rows[i] = process_of((pid_t)i + 1, 5, (i + 1) * 1000 + turn);
			rows[i].pss_bytes.present = turn % 3 == i;
			rows[i].rss_bytes = SOME_U64(9000);
		}
		memory = (struct record_memory){
			.present = true, .processes = rows, .process_count = 3};
		cr_assert_eq(memory_runs_add(runs, &memory, (turn + 1) * 1000000000ull), 0);
		sum = memory_runs_sum_pss(runs, &memory);
		cr_expect_eq(sum.present, turn % 3 == 2, "%u", turn);
		if (sum.present)
			cr_expect_eq(sum.value, 6000 + 3 * turn - 3, "%u", turn);
		sums += sum.present;
	}
	cr_expect_eq(sums, 3);
	/* One more that was not read yet: nothing is known of all. */
	memory.process_count = 0;
	cr_expect(!memory_runs_sum_pss(runs, &memory).present);
	rows[2] = process_of(77, 6, 0);
	rows[2].pss_bytes.present = false;
	memory.process_count = 3;
	for (unsigned i = 0; i < 2; i++)
		rows[i].pss_bytes.present = true;
	cr_assert_eq(memory_runs_add(runs, &memory, 20000000000ull), 0);
	cr_expect(!memory_runs_sum_pss(runs, &memory).present);
	memory_runs_free(runs);
}

Test(memory_runs, room_is_bounded)
{
	struct memory_runs *runs = memory_runs_new();
	struct record_footer footer = {0};
	const unsigned many = 4 * MEMORY_RUNS;

	for (unsigned i = 0; i < many; i++) {
		/* The first is the heaviest and has ended; each of the others lives for a moment.
		 */
		struct record_memory_process row = process_of((pid_t)i + 1, 1, i ? i : 1u << 30);

		add(runs, &row, 1, i + 1);
	}
	cr_assert_eq(memory_runs_take(runs, 20, &footer), 0);
	cr_expect_eq(footer.memory_count, 20);
	cr_expect_eq(footer.memory[0].pid, 1);
	cr_expect_eq(footer.other_memory, many - 20);
	memory_runs_free(runs);
}

/* A recording beside an app that comes and goes all day holds the last MEMORY_RUNS of its lives:
 * each of them costs what a few readings take, and not the room of a histogram of all numbers. */
Test(memory_runs, a_short_life_costs_little)
{
	struct memory_runs *runs = memory_runs_new();
	size_t before = mallinfo2().uordblks, each;

	for (unsigned i = 0; i < MEMORY_RUNS; i++)
		for (unsigned k = 0; k < 10; k++) {
			struct record_memory_process row =
				process_of((pid_t)i + 1, 1, (50u << 20) + k * 1000000);

			row.rss_bytes = SOME_U64(80u << 20);
			add(runs, &row, 1, 10 * i + k + 1);
		}
	each = (mallinfo2().uordblks - before) / MEMORY_RUNS;
	cr_expect_leq(each, 4096, "%zu bytes each", each);
	memory_runs_free(runs);
	/* Some lies in the cache of malloc() itself. */
	cr_expect_leq(mallinfo2().uordblks, before + (64u << 10));
}

/* An app that comes back each five minutes for a day and more: of its lives that are over, what the
 * footer tells is kept. */
Test(memory_runs, a_long_life_that_is_over_costs_little)
{
	struct memory_runs *runs = memory_runs_new();
	size_t before = mallinfo2().uordblks, each;

	for (unsigned s = 1; s <= 300 * (MEMORY_RUNS + 8); s++) {
		struct record_memory_process row =
			process_of((pid_t)(s / 300) + 1, 1, (50u << 20) + s % 300 * 1000);

		add(runs, &row, s % 300 < 280, s);
	}
	each = (mallinfo2().uordblks - before) / MEMORY_RUNS;
	cr_expect_leq(each, 1536 * MEMORY_SETTLED / MEMORY_RUNS, "%zu bytes each", each);
	memory_runs_free(runs);
}

/* Of 300 lives, one after the other and not in the order of their weight, the footer has the
 * heaviest, whenever they were, and the number of all. */
Test(memory_runs, the_heaviest_lives_stay)
{
	struct memory_runs *runs = memory_runs_new();
	struct record_footer footer = {0};

	for (unsigned life = 0; life < 300; life++)
		for (unsigned s = 0; s < 100; s++) {
			struct record_memory_process row = process_of(
				(pid_t)life + 1, 1, (50u << 20) + life * 77 % 300 * 4096);

			add(runs, &row, s < 10, 100 * life + s + 1);
		}
	cr_assert_eq(memory_runs_take(runs, 20, &footer), 0);
	cr_assert_eq(footer.memory_count, 20);
	for (unsigned i = 0; i < 20; i++)
		cr_expect_eq((unsigned)(footer.memory[i].pid - 1) * 77 % 300, 299 - i);
	cr_expect_eq(footer.memory_count + footer.other_memory, 300);
	memory_runs_free(runs);
}

/* It had no row for long, and has one again: two parts of one life, and no reading in both. */
Test(memory_runs, one_that_comes_back)
{
	struct memory_runs *runs = memory_runs_new();
	struct record_footer footer = {0};
	uint64_t readings = 0;

	for (unsigned s = 1; s <= 1000; s++) {
		struct record_memory_process row = process_of(7, 1, (50u << 20) + s * 1000);

		add(runs, &row, s <= 200 || s > 500, s);
	}
	cr_assert_eq(memory_runs_take(runs, 20, &footer), 0);
	cr_assert_eq(footer.memory_count, 2);
	for (size_t i = 0; i < 2; i++) {
		const struct footer_memory *row = &footer.memory[i];

		cr_expect(row->pid == 7 && row->start_boot_ns == 1 && row->process);
		cr_expect_leq(llabs(row->pss_slope.value - 3600000), 1);
		readings += row->pss.n;
	}
	cr_expect_eq(readings, 700);
	cr_expect(footer.memory[0].pss.n == 500 && !footer.memory[0].exited);
	cr_expect(footer.memory[1].exited);
	memory_runs_free(runs);
}

/* ---- KOOM ---- */

static struct memory_koom koom_of(uint64_t seconds, uint64_t every_s, uint64_t fds,
				  uint64_t fds_every_s, uint64_t threads)
{
	struct memory_runs *runs = memory_runs_new();
	struct memory_koom koom;

	for (uint64_t s = 100; s <= 100 + seconds; s += every_s) {
		struct record_memory_process rows[] = {process_of(7, 5, 1000),
						       process_of(8, 5, 1000)};

		rows[0].threads = SOME_U64(threads);
		if (s % fds_every_s == 0)
			rows[0].fds = SOME_U64(fds);
		rows[1].threads = rows[1].fds = SOME_U64(4);
		add(runs, rows, 2, s);
	}
	koom = memory_runs_koom(runs);
	memory_runs_free(runs);
	return koom;
}

/* Three looks in a row, 15 s apart, of a process that has too many descriptors or threads. */
Test(memory_runs, what_koom_would_call_short)
{
	struct memory_koom koom = koom_of(29, 1, 1001, 1, 751);

	cr_expect(!koom.judged, "there were two looks");
	koom = koom_of(31, 1, 1001, 1, 750);
	cr_expect(koom.judged);
	cr_expect_eq(koom.fd_processes, 1);
	cr_expect_eq(koom.thread_processes, 0);
	koom = koom_of(300, 1, 1000, 1, 751);
	cr_expect_eq(koom.fd_processes, 0);
	cr_expect_eq(koom.thread_processes, 1, "a process is counted once");
	/* Before Linux 6.2 descriptors are told each 10 s: a look has the newest ones. */
	koom = koom_of(60, 1, 1001, 10, 4);
	cr_expect_eq(koom.fd_processes, 1);
	/* With intervals of 30 s nobody looked each 15 s. */
	koom = koom_of(600, 30, 1001, 1, 751);
	cr_expect(!koom.judged);
	cr_expect_eq(koom.fd_processes, 0);
}

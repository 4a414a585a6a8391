/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>

#include "stack/refused_files.h"

#define NOW (1000 * NSEC_PER_SEC)

static struct refused_files refused;

static struct stack_file_version file(uint64_t inode, uint64_t ctime_ns)
{
	return (struct stack_file_version){8, inode, 4096, ctime_ns};
}

static bool has(struct stack_file_version version, uint64_t now_ns)
{
	return refused_files_has(&refused, &version, now_ns);
}

static void add(struct stack_file_version version, uint64_t now_ns)
{
	refused_files_add(&refused, &version, now_ns);
}

Test(refused_files, another_file_of_the_inode_is_not_refused)
{
	struct stack_file_version longer = file(7, 1);

	add(file(7, 1), NOW);
	longer.size_bytes++;
	cr_expect(has(file(7, 1), NOW));
	cr_expect_not(has(file(7, 2), NOW), "made or written since");
	cr_expect_not(has(longer, NOW));
	cr_expect_not(has(file(8, 1), NOW));
	add(file(0, 0), NOW);
	cr_expect_not(has(file(0, 0), NOW), "it read no file");
}

Test(refused_files, what_was_only_slow_is_tried_again)
{
	uint64_t now_ns = NOW, for_ns = REFUSED_FIRST_NS;

	for (int i = 0; i < 20; i++) {
		add(file(7, 1), now_ns);
		cr_expect(has(file(7, 1), now_ns + for_ns - 1), "%d", i);
		now_ns += for_ns;
		cr_expect_not(has(file(7, 1), now_ns), "%d", i);
		for_ns = for_ns * 2 < REFUSED_MOST_NS ? for_ns * 2 : REFUSED_MOST_NS;
	}
	cr_expect_eq(for_ns, REFUSED_MOST_NS);
}

Test(refused_files, the_oldest_makes_room)
{
	for (uint64_t i = 1; i <= REFUSED_FILES; i++)
		add(file(i, 1), NOW + i);
	add(file(1, 1), NOW + REFUSED_FILES + 1);
	add(file(REFUSED_FILES + 1, 1), NOW + REFUSED_FILES + 2);
	cr_expect(has(file(1, 1), NOW + REFUSED_FILES + 2), "it hung again since");
	cr_expect_not(has(file(2, 1), NOW + REFUSED_FILES + 2), "the oldest");
	for (uint64_t i = 3; i <= REFUSED_FILES + 1; i++)
		cr_expect(has(file(i, 1), NOW + REFUSED_FILES + 2));
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* One budget over what several providers keep. */
#include <criterion/criterion.h>

#include "stack/code/budget.h"

/* Pieces of 10 bytes each, by when they were used; 0: freed. */
struct keeper {
	uint64_t uses[4];
	bool stuck; /* it frees nothing */
};

static size_t bytes_of(const void *self)
{
	const struct keeper *k = self;
	size_t bytes = 0;

	for (unsigned i = 0; i < 4; i++)
		bytes += k->uses[i] ? 10 : 0;
	return bytes;
}

static uint64_t oldest_of(const void *self)
{
	const struct keeper *k = self;
	uint64_t oldest = UINT64_MAX;

	for (unsigned i = 0; i < 4; i++)
		if (k->uses[i] && k->uses[i] < oldest)
			oldest = k->uses[i];
	return oldest;
}

static bool give_back(void *self)
{
	struct keeper *k = self;
	uint64_t oldest = oldest_of(self);

	for (unsigned i = 0; i < 4 && !k->stuck; i++) {
		if (k->uses[i] == oldest) {
			k->uses[i] = 0;
			return true;
		}
	}
	return false;
}

static const struct code_provider provider = {
	.bytes = bytes_of, .oldest = oldest_of, .give_back = give_back};
static const struct code_provider unbounded = {0};

Test(code_budget, what_was_not_used_for_longest_goes)
{
	struct keeper a = {{5, 1, 9, 3}, false}, b = {{2, 8, 4, 7}, false};
	struct code_user users[] = {{&provider, &a}, {&unbounded, NULL}, {&provider, &b}};

	cr_expect_eq(code_kept_bytes(users, 3), 80);
	cr_expect_eq(code_keep_within(users, 3, 80), 0);
	cr_expect_eq(code_keep_within(users, 3, 45), 4);
	cr_expect_eq(code_kept_bytes(users, 3), 40);
	/* 1 to 4 are gone, whoever had them. */
	cr_expect(a.uses[0] == 5 && a.uses[2] == 9 && !a.uses[1] && !a.uses[3]);
	cr_expect(b.uses[1] == 8 && b.uses[3] == 7 && !b.uses[0] && !b.uses[2]);
	cr_expect_eq(code_keep_within(users, 3, 0), 4);
	cr_expect_eq(code_kept_bytes(users, 3), 0);
}

/* Who can free nothing does not hold the others up for ever. */
Test(code_budget, nothing_to_free)
{
	struct keeper a = {{1, 2, 3, 4}, true};
	struct code_user users[] = {{&provider, &a}};

	cr_expect_eq(code_keep_within(users, 1, 5), 0);
}

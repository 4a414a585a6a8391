/* SPDX-License-Identifier: BSD-2-Clause */
/* What a run's readings of /sys come to. */
#pragma once
#include "jankscope/record.h"
#include "source/power/board.h"

struct summary;

#define POWER_TOTAL_ROWS 96

struct power_totals {
	uint64_t read_outs, read_ns, read_max_ns, cpu_ns;
	uint64_t external, discharging; /* read-outs with power from outside; with that status */
	uint64_t external_untold;       /* read-outs that do not say whether there was */
	char battery[POWER_NAME];       /* that is summed up; empty: none so far */
	bool battery_changed;           /* another one took its place */
	double current_sum_ua;
	uint64_t current_count;
	struct opt_u64 first_pct, last_pct;
	struct opt_i64 first_uah, last_uah, hottest_mc;
	uint64_t first_boot_ns, last_boot_ns;
	struct power_total_row {
		char key[2 * POWER_NAME + 32];
		double value;
		bool highest; /* the largest value counts, not the sum */
	} rows[POWER_TOTAL_ROWS];
	size_t row_count;
};

/* Add a read-out. external_untold: a supply did not say whether it gives power. */
void power_totals_add(struct power_totals *totals, const struct record_power *power,
		      bool external_untold, uint64_t cpu_ns);
/* Why nothing is said of a discharge; NULL: it is, or it never was discharging. */
const char *power_totals_no_discharge(const struct power_totals *totals);
/* 0, -ENOMEM. */
int power_totals_tell(const struct power_totals *totals, struct summary *summary);

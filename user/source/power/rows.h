/* SPDX-License-Identifier: BSD-2-Clause */
/* From readings of /sys to the rows of an interval. Pure: a reading is copied bytes of another
 * process, and is hostile. */
#pragma once
#include "jankscope/record.h"
#include "source/power/board.h"

struct power_rows {
	struct power_reading now;
	struct {
		uint64_t boot_ns;
		size_t rail_count;
		struct power_rail_row rails[POWER_RAILS];
	} before;
	struct record_supply supplies[POWER_SUPPLIES];
	struct record_zone zones[POWER_ZONES];
	struct record_cooling coolings[POWER_COOLINGS];
	struct record_policy policies[POWER_POLICIES];
	struct record_rail rails[POWER_RAILS];
	bool external_untold; /* a supply that is no battery did not say whether it is online */
};

/* What was read becomes the interval's power, with what is missing of it; lost: what could not be
 * counted. The record points into rows until the next call. 0, -ENOMEM. */
int power_rows_take(struct power_rows *rows, const struct power_reading *reading,
		    struct record_interval *interval);

/* A policy whose limit came below the hardware's, or is there again. */
struct power_cap {
	uint32_t policy;
	bool capped;
	bool untold; /* it ended because the policy has no row any more */
	uint64_t since_boot_ns, limit_khz, max_khz; /* limit: the lowest so far */
};

struct power_caps {
	struct power_cap policies[POWER_POLICIES];
	size_t count;
};

/* What the policies of a read-out begin or end: told for each, with the cap as it was (`begun`: as
 * it is). at_boot_ns: when that was read. */
typedef void (*power_cap_fn)(void *ctx, const struct power_cap *cap, bool begun,
			     uint64_t at_boot_ns);
void power_caps_take(struct power_caps *caps, const struct record_power *power, power_cap_fn told,
		     void *ctx);

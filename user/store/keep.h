/* SPDX-License-Identifier: BSD-2-Clause */
/* How fine old intervals are kept: `--keep 100ms:10m,1s:24h,10s:30d`. Pure. */
#pragma once
#include "store/store.h"

/* Read RES:AGE,... into the options. NULL, or what is wrong with it. */
const char *keep_parse(const char *text, struct store_options *options);
/* The resolution that intervals of this age are kept at; 0: as they were written. *next_age_ns: the
 * age at which that changes, 0: it does not. */
uint64_t keep_resolution(const struct store_options *options, uint64_t age_ns,
			 uint64_t *next_age_ns);

/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys that stand twice in an object: no writer of records makes them, and readers of JSON take the
 * first or the last (RFC 8259, section 4). */
#pragma once
#include "record/json_tree.h"

/* 0 with the first key that was there before in *key, or 0 in it: each is there once. -ENOMEM. */
int json_double_key(const struct json_tree *tree, uint32_t object, uint32_t *key);

/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys of a JSON object, one call each. */
#pragma once
#include <jansson.h>

#include "jankscope/record.h"

/* jansson's setters take over the value and fail on NULL, so one check at the end is enough: a node
 * that could not be made leaves its key out, and the line is then refused. */
struct builder {
	bool failed;
};

void json_set(struct builder *b, json_t *object, const char *key, json_t *value);
void json_set_int(struct builder *b, json_t *object, const char *key, uint64_t value);
void json_set_text(struct builder *b, json_t *object, const char *key, const char *value);
void json_set_opt(struct builder *b, json_t *object, const char *key, struct opt_u64 value);
json_t *json_add_object(struct builder *b, json_t *array);
json_t *json_set_array(struct builder *b, json_t *object, const char *key);
json_t *json_set_object(struct builder *b, json_t *object, const char *key);
void json_set_counters(struct builder *b, json_t *object, const char *key,
		       const struct counter_list *list);
/* "lost", "late" and "repaired". */
void json_set_losses(struct builder *b, json_t *object, const struct counter_list *lost,
		     const struct counter_list *late, const struct counter_list *repaired);
void json_set_missing(struct builder *b, json_t *object, const struct missing_list *list);

/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/declarations.h"

#include "record/fields.h"

const struct field *const record_parts[] = {&cpu_part, &net_part, &frames_part};
const size_t record_part_count = sizeof(record_parts) / sizeof(*record_parts);

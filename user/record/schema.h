/* SPDX-License-Identifier: BSD-2-Clause */
/* The JSON schema (draft 2020-12), from the table of fields. */
#pragma once
#include "jankscope/field.h"

/* Of one line of a recording. The text ends in a newline; free() it. NULL with errno ENOMEM.
 * include/jankscope/record.schema.json holds the same text (make schema). */
char *record_schema(void);
/* Of one struct of this type, as it stands among the definitions of that schema; free() it. NULL
 * with errno ENOMEM. */
char *record_type_schema(const struct field_type *type);

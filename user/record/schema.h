/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The JSON schema (draft 2020-12) of one line of a recording, as text that ends in a newline. */
const char *record_schema(void);

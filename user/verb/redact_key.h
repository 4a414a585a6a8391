/* SPDX-License-Identifier: BSD-2-Clause */
/* The key of --redact. */
#pragma once
#include "record/redact.h"
#include "verb/verb.h"

/* A redactor that knows what was asked for, with the key of --redact-key or a new one that nobody
 * keeps. *redactor NULL where --redact was not given. EXIT_FINE, or what is wrong was said in one
 * line. */
enum exit_code redact_key_take(const struct options *options, struct redactor **redactor);

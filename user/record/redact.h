/* SPDX-License-Identifier: BSD-2-Clause */
/* Records to be shown to others: each name in them is a hash. Which texts are names follows from
 * the table of fields (enum field_text): all that no row calls a word. The same name has the same
 * hash,
 * "#" and 12 hexadecimal digits, as long as the key is the same; without the key nobody can try
 * names. */
#pragma once
#include "jankscope/record.h"

#define REDACT_KEY_BYTES 16

struct redactor;

/* NULL with errno ENOMEM. */
struct redactor *redactor_new(const unsigned char key[REDACT_KEY_BYTES]);
void redactor_free(struct redactor *redactor);
/* The record with hashes; it lives until the next call, and only as long as the record. NULL with
 * errno ENOMEM. */
const struct record *redactor_record(struct redactor *redactor, const struct record *record);
/* A name that is never to be seen, in whatever it stands: what was asked for. 0 or -ENOMEM. */
int redactor_add_name(struct redactor *redactor, const char *name);
/* The hash of one name. Returns to. */
const char *redactor_name(struct redactor *redactor, const char *name, char *to, size_t size);
/* A sentence of ours, in which known names and paths become hashes. Returns to. */
const char *redactor_sentence(struct redactor *redactor, const char *text, char *to, size_t size);

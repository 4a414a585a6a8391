/* SPDX-License-Identifier: BSD-2-Clause */
/* How the recording in a folder goes, for status and stop: asked of its recorder, or told from its
 * files. */
#pragma once
#include <jansson.h>
#include <sys/types.h>

#include "core/session.h"

/* The object of `status --json`: what the recorder answers, or the fold over the files, and what
 * the folder shows: disk_bytes, keeper_pid. NULL after a line on stderr, with *code. */
json_t *folder_state_get(const char *path, enum exit_code *code);
/* As people read it, three lines and one for the last error. */
void folder_state_print(const json_t *state);

const char *folder_state_text(const json_t *state, const char *key);
uint64_t folder_state_number(const json_t *state, const char *key);

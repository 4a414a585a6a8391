/* SPDX-License-Identifier: BSD-2-Clause */
/* One file a verb; each wires sources to sinks. */
#pragma once
#include "cli/options.h"
#include "core/session.h"

/* Find the verb of argv[1], parse its flags and run it. Returns the exit code. */
int verb_main(int argc, char **argv);

enum exit_code verb_record(const struct options *options);
enum exit_code verb_top(const struct options *options);
enum exit_code verb_doctor(const struct options *options);
enum exit_code verb_frames(const struct options *options);
enum exit_code verb_report(const struct options *options);
enum exit_code verb_verify(const struct options *options);
enum exit_code verb_status(const struct options *options);
enum exit_code verb_stop(const struct options *options);
enum exit_code verb_mark(const struct options *options);

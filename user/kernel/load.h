/* SPDX-License-Identifier: BSD-2-Clause */
/* What all BPF objects share: libbpf's talk goes one level down and is kept for error lines, and
 * the type information that CO-RE needs is found or named. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct btf;
struct bpf_object_open_opts;

/* Which twin of a program to use; automatic takes the first that loads and attaches. */
enum program_variant { VARIANT_AUTO = 0, VARIANT_TP_BTF = 1, VARIANT_RAW_TP = 2 };

const char *program_variant_name(enum program_variant variant);

/* Send libbpf's messages to a buffer instead of stderr; with verbose also to stderr as debug lines.
 * Call before anything else of libbpf. */
void kernel_log_init(bool verbose);
/* The last line of libbpf or of the verifier that says why; "" if none. Cleared by the call to
 * kernel_log_clear. */
const char *kernel_log_reason(void);
void kernel_log_clear(void);

/* How many arguments a tracepoint passes, without the private first one, by its btf_trace_NAME
 * typedef. -ENOENT: no such typedef (or no BTF). */
int tracepoint_arguments(const struct btf *btf, const char *tracepoint);

/* What a failed load or attach means to a user, and what to do; err is negative. Fills reason,
 * which is one line without the newline. */
void kernel_explain(int err, const char *what, char *reason, size_t size);

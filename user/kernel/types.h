/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of the kernel's type information that our BPF programs name. libbpf parses the whole of
 * it (5 MiB here, twice and with an index of its own: 19 MiB) for each object that is loaded; it
 * needs some hundred types for relocation, and one number for each tracepoint that is attached to
 * with types. Here both are taken out in one walk. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kernel_types {
	const char *path; /* for libbpf's btf_custom_path; NULL: libbpf finds the kernel's own */
	int fd;           /* of the memory that path names; -1: none */
	char memory_path[32];
	/* The kernel's BPF hashes allocate elements from caches of their own (7c8199e24fa0, 6.1):
	 * only then a program that runs anywhere may insert into one that is not preallocated. */
	bool has_element_caches;
	/* x86: how far the variable that counts what keeps a CPU from switching (or the struct
	 * pcpu_hot that it lies in) is from the run queue of the same CPU, by the places that both
	 * have in the section of such variables. */
	enum {
		PREEMPT_COUNT_UNKNOWN,
		PREEMPT_COUNT_IS_VARIABLE,
		PREEMPT_COUNT_IN_HOT
	} preempt_count;
	int64_t preempt_count_distance;
};

/* Take out what the BPF object (an ELF image) names, and let libbpf find the numbers of its typed
 * tracepoints and iterators here. btf_path, where it is not NULL, is used as it is. Never fails:
 * what cannot be read is left to libbpf, which says why. */
void kernel_types_open(struct kernel_types *types, const char *btf_path, const void *object,
		       size_t object_bytes);
/* The path is invalid from then on. Safe on a zeroed struct with fd -1. */
void kernel_types_close(struct kernel_types *types);

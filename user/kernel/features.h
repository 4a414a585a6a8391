/* SPDX-License-Identifier: BSD-2-Clause */
/* What this kernel and these rights give, found by doing it: programs are loaded and attached, maps
 * made, a child of our own is stopped and read. Versions are never looked at. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct feature {
	const char *name;      /* "tp_btf", "ringbuf", ... stable, for machines */
	const char *needed_by; /* what of the tool stands on it */
	bool required;         /* without it (and its fallback) `record` has no exact CPU times */
	bool ok;
	char detail[160]; /* how it is here, or why not */
	char remedy[160]; /* what to do where it is not ok; "" if nothing helps */
};

/* Probe everything; btf_file is --btf FILE or NULL. At most room rows are filled, in a fixed order.
 * Returns their number. Takes about 150 ms (most of it the kernel's BTF), starts and reaps two
 * children of our own, leaves nothing behind. Silence libbpf first: what it prints here is no news.
 */
size_t features_probe(struct feature *rows, size_t room, const char *btf_file);
/* How many rows features_probe knows. */
size_t features_count(void);
/* The row of that name, NULL: none. */
const struct feature *features_find(const struct feature *rows, size_t count, const char *name);

/* Before 5.11 BPF memory counts against RLIMIT_MEMLOCK: find out by making a map under a limit of
 * 0, and raise the limit if so. 1 raised, 0 not needed, -errno. */
int features_raise_memlock(void);
/* Raise the limit of open descriptors as far as this process may: each probe of each watched
 * process is one. 0 or -errno. */
int features_raise_nofile(void);

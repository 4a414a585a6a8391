/* SPDX-License-Identifier: BSD-2-Clause */
/* Symbol names as their source code has them: C++, Rust (both manglings). */
#pragma once

#define DEMANGLE_MAX                                                                \
	2048 /* bytes of a readable name; longer ones stay as they are, cut to this \
	      */

/* The name for a person; the name itself where it is not mangled, or does not make sense.
 * malloc'ed; NULL: no memory. */
char *demangle(const char *name);
/* Rust's v0 mangling ("_R...", RFC 2603). malloc'ed; NULL: it is none, or grows beyond
 * DEMANGLE_MAX. */
char *demangle_rust_v0(const char *name);

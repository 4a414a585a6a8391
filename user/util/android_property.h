/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads properties of Android from the files that init keeps for bionic (prop_area.h, prop_info.h
 * of its libc/system_properties), without running a program. Each file is a trie of one SELinux
 * context's properties; before Android 7 there was one for all. What a file says is not trusted. */
#pragma once
#include <stddef.h>

#define ANDROID_PROPERTY_BYTES 256

struct android_property {
	const char *name;
	char value[ANDROID_PROPERTY_BYTES]; /* "": absent */
};

/* Look for `count` properties below `path` (/dev/__properties__: a folder of files, or one file).
 * How many were found. At most 4096 files and 64 MiB are read. */
size_t android_properties_read(const char *path, struct android_property *wanted, size_t count);

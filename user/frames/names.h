/* SPDX-License-Identifier: BSD-2-Clause */
/* Whose frames: from a pid to its package, out of what a trace says. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct name_table;

struct name_table *name_table_new(void);
void name_table_free(struct name_table *names);

/* The name of a process (its cmdline[0], or a comm when nothing better is known) and its uid, -1:
 * not known. Later names win over earlier ones, cmdlines over comms. 0 or -ENOMEM. */
int name_table_process(struct name_table *names, int32_t pid, int64_t uid, const char *name,
		       size_t size);
/* Of threads only the main one's name counts, until its process has a better one. */
int name_table_thread(struct name_table *names, int32_t tid, int32_t tgid, const char *name,
		      size_t size);
int name_table_package(struct name_table *names, uint32_t uid, const char *name, size_t size);

/* The process's name, or NULL. */
const char *name_table_process_name(const struct name_table *names, int32_t pid);
/* The package of a process: its cmdline without ":suffix", else the package of its uid, else what
 * a layer of the form "TX - package/activity#id" says. NULL where none says anything. buffer
 * holds the answer when it is not one of the table's own strings. */
const char *name_table_package_of(const struct name_table *names, int32_t pid, const char *layer,
				  char *buffer, size_t size);
/* Whether the process may be the one that draws the layer: false only where the names of both are
 * known and say something else. */
bool name_table_may_draw(const struct name_table *names, int32_t pid, const char *layer);

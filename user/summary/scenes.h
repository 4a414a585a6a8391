/* SPDX-License-Identifier: BSD-2-Clause */
/* The totals and distributions of each scene of a run, in bounded memory. A scene is a name that
 * `jankscope mark` opens and closes; scenes may overlap as they like. What a record tells of counts
 * for each scene that was open all the time; where one began or ended meanwhile it counts as
 * `mixed`; where none was open, as `unknown`. */
#pragma once
#include "jankscope/record.h"

/* Scenes with a name of their own; later ones are one, `other`. */
#define SCENES     256
#define SCENE_NAME 64 /* bytes of a name at the most */
/* Rows that have distributions (30 KiB each); of later ones there are totals. */
#define SCENES_IN_DEPTH     16
#define SCENE_DISTRIBUTIONS 24

struct scenes;

/* NULL with ENOMEM. */
struct scenes *scenes_new(void);
void scenes_free(struct scenes *scenes);
/* Whether this may be a scene: 1 to SCENE_NAME bytes of UTF-8 that can be printed, and no word of
 * the summary. */
bool scene_name_is_good(const char *name);
bool scenes_is_open(const struct scenes *scenes, const char *name);
/* A scene begins or ends. 0; -EALREADY, -ENOENT: it is open, or is not; -ENOMEM. */
int scenes_mark(struct scenes *scenes, const char *name, bool end, uint64_t at_boot_ns);
/* What is added from now on lasted from begin to end. */
void scenes_select(struct scenes *scenes, uint64_t begin_boot_ns, uint64_t end_boot_ns);
/* Add to the total of that key path. 0 or -ENOMEM. */
int scenes_add(struct scenes *scenes, const char *key, double value);
/* Add a value to a distribution, by a number below SCENE_DISTRIBUTIONS. 0 or -ENOMEM. */
int scenes_add_value(struct scenes *scenes, unsigned distribution, uint64_t value);
/* The same of `count` values of [low, high], as histogram_each() tells them. */
int scenes_add_bucket(struct scenes *scenes, unsigned distribution, uint64_t low, uint64_t high,
		      uint64_t count);
/* Fill in footer->scenes, with the names of the distributions; nothing where nobody marked. Owned
 * by scenes, valid until the next call. 0 or -ENOMEM. */
int scenes_take(struct scenes *scenes, const char *const *names, size_t count,
		struct record_footer *footer);

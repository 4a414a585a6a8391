/* SPDX-License-Identifier: BSD-2-Clause */
/* How the live screen is looked at: what the keys have set. Pure; drawing is in draw.h. */
#pragma once
#include "sink/screen/model.h"

#define SCREEN_FILTER 64

enum screen_sort {
	SORT_CPU = 0,
	SORT_WAIT = 1,
	SORT_SWITCHES = 2,
	SORT_NAME = 3,
	SORT_COUNT = 4,
};

/* What the screen's owner has to do after a key. */
enum screen_wish {
	WISH_NOTHING = 0,
	WISH_DRAW = 1,
	WISH_QUIT = 2,
	WISH_SUSPEND = 3,
	WISH_REDRAW = 4, /* all of it, the terminal may show something else */
	WISH_PAUSE = 5,  /* `paused` has changed */
};

struct screen_view {
	enum screen_sort sort;
	bool processes; /* rows of processes, not of threads */
	char filter[SCREEN_FILTER];
	char before[SCREEN_FILTER]; /* the filter when editing began */
	bool editing, paused, help;
	/* The block that is picked; pid 0: none. */
	pid_t picked_pid, picked_tid;
	uint64_t picked_boot_ns;
	struct screen_block *frozen; /* held; NULL: none */
	int scroll;                  /* lines of the frozen block above the screen */
	int page;                    /* lines of it that the last frame showed */
	int scroll_max;              /* as of the last frame */
};

/* model: what is shown. */
enum screen_wish view_key(struct screen_view *view, const struct screen_model *model, int key);
/* Whether a row with these names is shown; NULL names never match. Upper and lower case of ASCII
 * are the same. */
bool view_matches(const struct screen_view *view, const char *const *names, size_t count);
/* The blocks that pass the filter, newest first. Returns how many. */
size_t view_blocks(const struct screen_view *view, const struct screen_model *model,
		   struct screen_block *blocks[SCREEN_BLOCKS]);
bool view_is_picked(const struct screen_view *view, const struct screen_block *block);
/* The tasks (or processes) that pass it, sorted. Ownership to the caller. NULL: none, or no memory.
 */
const struct screen_task **view_tasks(const struct screen_view *view,
				      const struct screen_model *model, size_t *count);
void view_clear(struct screen_view *view);
const char *view_sort_name(enum screen_sort sort);

/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/context/screen.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proc/read.h"

#define MAX_ENTRIES 256

static ssize_t read_text(const char *folder, const char *name, char *text, size_t size)
{
	char path[400];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	n = proc_read(AT_FDCWD, path, text, size);
	if (n >= 0)
		text[strcspn(text, "\n")] = 0;
	return n;
}

static bool read_number(const char *folder, const char *name, long *value)
{
	char text[32], *end;

	if (read_text(folder, name, text, sizeof(text)) <= 0)
		return false;
	*value = strtol(text, &end, 10);
	return end != text && !*end;
}

/* 1 lit, 0 dark, -1: it does not tell. A connector without a screen tells nothing. */
static int look(const char *folder)
{
	char text[32];
	long value;

	if (read_text(folder, "dpms", text, sizeof(text)) > 0) {
		char status[32];

		if (read_text(folder, "status", status, sizeof(status)) > 0 &&
		    strcmp(status, "connected"))
			return -1;
		return !strcmp(text, "On") ? 1
		       : !strcmp(text, "Off") || !strcmp(text, "Suspend") ||
				       !strcmp(text, "Standby")
			       ? 0
			       : -1;
	}
	/* FB_BLANK_UNBLANK is 0. */
	if (read_number(folder, "bl_power", &value) && value != 0)
		return 0;
	if (!read_number(folder, "brightness", &value) || value < 0)
		return -1;
	return value > 0;
}

static size_t add_folders(struct screen *screen, const char *class, const char *prefix,
			  const char *file)
{
	char path[300];
	const struct dirent *entry;
	size_t found = 0, seen = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/sys/class/%s", screen->root, class);
	dir = opendir(path);
	while (dir && seen++ < MAX_ENTRIES && screen->count < SCREEN_FILES &&
	       (entry = readdir(dir))) {
		char text[32], *place = screen->paths[screen->count];

		if (entry->d_name[0] == '.' || strncmp(entry->d_name, prefix, strlen(prefix)) ||
		    (size_t)snprintf(place, sizeof(screen->paths[0]), "%.250s/%.60s", path,
				     entry->d_name) >= sizeof(screen->paths[0]) ||
		    (file && read_text(place, file, text, sizeof(text)) <= 0))
			continue;
		if (!file) { /* only its name is asked for */
			found++;
			break;
		}
		screen->count++;
		found++;
	}
	if (dir)
		closedir(dir);
	return found;
}

int screen_find(struct screen *screen, const char *root)
{
	size_t backlights, connectors;

	*screen = (struct screen){.by = "backlight"};
	snprintf(screen->root, sizeof(screen->root), "%s", root);
	backlights = add_folders(screen, "backlight", "", "brightness");
	screen->has_panel = !backlights && add_folders(screen, "leds", "lcd-backlight", NULL);
	if (screen->has_panel)
		screen->by = "leds";
	connectors = add_folders(screen, "drm", "card", "dpms");
	if (connectors)
		screen->by = screen->has_panel ? "leds+drm" : backlights ? "backlight+drm" : "drm";
	return screen->count || screen->has_panel ? 0 : -ENOENT;
}

int screen_is_on(const struct screen *screen, struct opt_u64 panel_brightness)
{
	int lit = -1, connector = -1;

	if (screen->has_panel && panel_brightness.present)
		lit = panel_brightness.value > 0;
	for (size_t i = 0; i < screen->count; i++) {
		bool drm = strstr(screen->paths[i], "/class/drm/") != NULL;
		int one = look(screen->paths[i]);

		/* One screen that is on is enough; a dark panel is off whatever its connector
		 * says. */
		if (drm && one > connector)
			connector = one;
		if (!drm && one > lit)
			lit = one;
	}
	if (lit < 0 && connector < 0)
		return -EIO;
	return lit && connector ? 1 : 0;
}

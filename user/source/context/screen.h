/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether the screen is lit, from files of /sys that show what the kernel remembers: none of them
 * asks the hardware (drivers/video/backlight/backlight.c: brightness_show, bl_power_show;
 * drivers/gpu/drm/drm_sysfs.c: dpms_show, status_show). A panel in /sys/class/leds, which is looked
 * for where there is no backlight, asks its driver (drivers/leds/led-class.c: brightness_show), and
 * that may hang: the process that reads power's files reads it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "jankscope/record.h"

#define SCREEN_FILES 8

struct screen {
	char root[256]; /* "" on a device */
	char paths[SCREEN_FILES][320];
	size_t count;
	bool has_panel; /* leds/lcd-backlight */
	const char *by; /* "backlight", "leds", "drm", "backlight+drm" */
};

/* Look for the files. 0, or -ENOENT: there are none. */
int screen_find(struct screen *screen, const char *root);
/* panel_brightness: of has_panel, where it is known. 1 on: everything that can tell says so; 0 off;
 * -EIO: nothing could be read. */
int screen_is_on(const struct screen *screen, struct opt_u64 panel_brightness);

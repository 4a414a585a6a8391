/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether the screen is lit, by files of /sys with what phones, boards and nobody writes there. */
#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jankscope/source.h"
#include "jankscope/target.h"
#include "source/context/context.h"
#include "source/context/screen.h"

static char root[64];
static struct screen screen;
static const struct opt_u64 unknown;

static void put(const char *path, const char *text)
{
	char full[512];
	FILE *file;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); *p++ = '/') {
		*p = 0;
		mkdir(full, 0755);
	}
	file = fopen(full, "we");
	cr_assert(file);
	fputs(text, file);
	fclose(file);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void begin(void)
{
	strcpy(root, "/tmp/jankscope-screen.XXXXXX");
	cr_assert(mkdtemp(root));
}

static void end(void)
{
	nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

TestSuite(screen, .init = begin, .fini = end);

#define PANEL "sys/class/backlight/panel0-backlight/"
#define PLUG  "sys/class/drm/card0-DSI-1/"

Test(screen, none)
{
	cr_assert_eq(screen_find(&screen, root), -ENOENT);
	put("sys/class/leds/green/brightness", "255\n"); /* a lamp */
	cr_assert_eq(screen_find(&screen, root), -ENOENT);
}

Test(screen, backlight)
{
	put(PANEL "brightness", "120\n");
	put(PANEL "bl_power", "0\n");
	cr_assert_eq(screen_find(&screen, root), 0);
	cr_assert_str_eq(screen.by, "backlight");
	cr_assert_eq(screen_is_on(&screen, unknown), 1);
	put(PANEL "brightness", "0\n");
	cr_assert_eq(screen_is_on(&screen, unknown), 0);
	put(PANEL "brightness", "120\n");
	put(PANEL "bl_power", "4\n");
	cr_assert_eq(screen_is_on(&screen, unknown), 0);
}

Test(screen, display)
{
	put(PLUG "dpms", "On\n");
	put(PLUG "status", "connected\n");
	put("sys/class/drm/card0-HDMI-A-1/dpms", "Off\n");
	put("sys/class/drm/card0-HDMI-A-1/status", "disconnected\n");
	cr_assert_eq(screen_find(&screen, root), 0);
	cr_assert_str_eq(screen.by, "drm");
	cr_assert_eq(screen_is_on(&screen, unknown), 1);
	put(PLUG "dpms", "Off\n");
	cr_assert_eq(screen_is_on(&screen, unknown), 0);
	put(PLUG "status", "disconnected\n");
	cr_assert_eq(screen_is_on(&screen, unknown), -EIO);
	/* a dark panel at a display that is on */
	put(PLUG "status", "connected\n");
	put(PLUG "dpms", "On\n");
	put(PANEL "brightness", "0\n");
	cr_assert_eq(screen_find(&screen, root), 0);
	cr_assert_str_eq(screen.by, "backlight+drm");
	cr_assert_eq(screen_is_on(&screen, unknown), 0);
	put(PANEL "brightness", "9\n");
	cr_assert_eq(screen_is_on(&screen, unknown), 1);
}

/* The driver of a panel among the LEDs is asked by another process: what is in its file is not read
 * here. */
Test(screen, panel_among_leds)
{
	put("sys/class/leds/lcd-backlight/brightness", "200\n");
	cr_assert_eq(screen_find(&screen, root), 0);
	cr_assert_str_eq(screen.by, "leds");
	cr_assert_eq(screen_is_on(&screen, unknown), -EIO);
	cr_assert_eq(screen_is_on(&screen, SOME_U64(0)), 0);
	cr_assert_eq(screen_is_on(&screen, SOME_U64(200)), 1);
	put(PLUG "dpms", "Off\n");
	put(PLUG "status", "connected\n");
	cr_assert_eq(screen_find(&screen, root), 0);
	cr_assert_str_eq(screen.by, "leds+drm");
	cr_assert_eq(screen_is_on(&screen, SOME_U64(200)), 0);
	put(PANEL "brightness", "9\n");
	cr_assert_eq(screen_find(&screen, root), 0);
	cr_assert_not(screen.has_panel);
}

Test(screen, hostile)
{
	static const char *const texts[] = {"\n", "-1\n", "x\n", "0x10\n", "9 9\n", ") R 1 2\n"};
	char long_text[5000];

	put(PANEL "brightness", "1\n");
	cr_assert_eq(screen_find(&screen, root), 0);
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		put(PANEL "brightness", texts[i]);
		cr_assert_eq(screen_is_on(&screen, unknown), -EIO, "%s", texts[i]);
	}
	put(PANEL "brightness", "");
	cr_assert_eq(screen_is_on(&screen, unknown), -EIO);
	memset(long_text, '9', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = 0;
	put(PANEL "brightness", long_text);
	cr_assert_neq(screen_is_on(&screen, unknown), 0);
	/* more folders than are looked at */
	for (unsigned i = 0; i < 300; i++) {
		char path[128];

		snprintf(path, sizeof(path), "sys/class/backlight/b%u/brightness", i);
		put(path, "0\n");
	}
	cr_assert_eq(screen_find(&screen, root), 0);
	cr_assert_leq(screen.count, (size_t)SCREEN_FILES);
}

/* A device that does not say whether it is charged is not said to be on its battery. */
Test(screen, charging)
{
	static const struct {
		const char *status;
		struct opt_u64 usb;
		bool external;
		const char *charging;
	} cases[] = {
		{"Discharging", {true, 0}, false, "no"},
		{"Not charging", {0}, false, "no"},
		{"Charging", {0}, true, "yes"},
		{NULL, {true, 0}, false, "no"},
		{NULL, {0}, false, NULL},
		{"Unknown", {0}, false, NULL},
		{"Unknown", {true, 0}, false, "no"},
		{NULL, {true, 1}, true, "yes"},
	};
	struct source_context context = {.targets = target_set_new(NULL, 0, root)};
	struct source *source = context_source_new();

	cr_assert_eq(source->ops->open(source, &context), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct record_supply supplies[] = {
			{.name = "battery", .type = "Battery", .status = cases[i].status},
			{.name = "usb", .type = "USB", .online = cases[i].usb}};
		struct record_interval interval = {.power = {.present = true,
							     .battery_present = true,
							     .battery = supplies[0],
							     .supplies = supplies,
							     .supply_count = 2,
							     .external = cases[i].external}};

		cr_assert_eq(source->ops->sample(source, &interval), 0);
		cr_expect((!cases[i].charging && !interval.context.charging) ||
				  (cases[i].charging && interval.context.charging &&
				   !strcmp(cases[i].charging, interval.context.charging)),
			  "%zu: %s", i, interval.context.charging);
		cr_expect_eq(missing_reason(&interval.missing, "context.charging") != NULL,
			     !cases[i].charging);
		missing_list_free(&interval.missing);
	}
	source->ops->close(source);
	target_set_free(context.targets);
}

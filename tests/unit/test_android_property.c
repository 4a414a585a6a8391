/* SPDX-License-Identifier: BSD-2-Clause */
/* Property areas as bionic lays them out, written here by a writer of the test's own. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/android_property.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

struct writer {
	uint32_t head[32];
	char data[8192];
};

static uint32_t *at(struct writer *w, uint32_t place)
{
	return (uint32_t *)(void *)(w->data + place);
}

static uint32_t node(struct writer *w, const char *name, size_t length)
{
	uint32_t place = w->head[0];

	at(w, place)[0] = (uint32_t)length;
	memcpy(w->data + place + 20, name, length);
	w->head[0] += (uint32_t)((20 + length + 1 + 3) & ~3u);
	return place;
}

static void begin(struct writer *w)
{
	memset(w, 0, sizeof(*w));
	w->head[2] = 0x504f5250;
	w->head[3] = 0xfc6ed0ab;
	node(w, "", 0);
	w->head[0] += 92; /* bionic keeps room for a copy of a value behind the root */
}

static uint32_t child(struct writer *w, uint32_t parent, const char *name, size_t length)
{
	uint32_t link = parent / 4 + 4;

	for (;;) {
		uint32_t here = ((uint32_t *)(void *)w->data)[link], own;
		int order;

		if (!here) {
			here = node(w, name, length);
			((uint32_t *)(void *)w->data)[link] = here;
			return here;
		}
		own = at(w, here)[0];
		order = length != own ? (length < own ? -1 : 1)
				      : memcmp(name, w->data + here + 20, length);
		if (!order)
			return here;
		link = here / 4 + (order < 0 ? 2 : 3);
	}
}

static void put(struct writer *w, const char *name, const char *value)
{
	const char *full = name;
	uint32_t here = 0, place;
	size_t length = strlen(value);

	for (;;) {
		size_t part = strcspn(name, ".");

		here = child(w, here, name, part);
		if (!name[part])
			break;
		name += part + 1;
	}
	place = w->head[0];
	at(w, here)[1] = place;
	strcpy(w->data + place + 96, full);
	w->head[0] += (uint32_t)((96 + strlen(full) + 1 + 3) & ~3u);
	if (length < 92) {
		at(w, place)[0] = (uint32_t)length << 24;
		strcpy(w->data + place + 4, value);
		return;
	}
	at(w, place)[0] = 55u << 24 | 1u << 16;
	strcpy(w->data + place + 4, "Must use __system_property_read_callback() to read");
	at(w, place)[15] = w->head[0] - place;
	strcpy(w->data + w->head[0], value);
	w->head[0] += (uint32_t)((length + 1 + 3) & ~3u);
}

static char folder[64];

static void make_folder(void)
{
	strcpy(folder, "/tmp/jankscope-props-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

static void save(const char *name, const void *bytes, size_t size)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "w");
	cr_assert_not_null(f);
	cr_assert_eq(fwrite(bytes, 1, size, f), size);
	fclose(f);
}

TestSuite(android_property, .init = make_folder, .fini = remove_folder);

Test(android_property, found_in_the_file_of_its_context)
{
	struct android_property wanted[] = {
		{.name = "ro.build.fingerprint"},      {.name = "ro.build.version.sdk"},
		{.name = "ro.build.version.release"},  {.name = "ro.build"},
		{.name = "ro.build.version.sdk.more"}, {.name = "ro.empty"}};
	static char fingerprint[200];
	struct writer w;

	memset(fingerprint, 'f', sizeof(fingerprint) - 1);
	begin(&w);
	put(&w, "ro.build.id", "X");
	put(&w, "ro.build.version.sdk", "34");
	put(&w, "ro.build.version.release", "14");
	put(&w, "ro.empty", "");
	put(&w, "ro.a", "a");
	put(&w, "ro.zz", "z");
	save("u:object_r:build_prop:s0", &w, sizeof(w));
	begin(&w);
	put(&w, "ro.build.fingerprint", fingerprint);
	save("u:object_r:fingerprint_prop:s0", &w, sizeof(w));
	save("property_info", "no area", 7);
	cr_expect_eq(android_properties_read(folder, wanted, COUNT(wanted)), 3);
	cr_expect_str_eq(wanted[0].value, fingerprint);
	cr_expect_str_eq(wanted[1].value, "34");
	cr_expect_str_eq(wanted[2].value, "14");
	for (size_t i = 3; i < COUNT(wanted); i++)
		cr_expect_str_empty(wanted[i].value, "%s", wanted[i].name);
}

Test(android_property, one_file_for_all)
{
	struct android_property wanted[] = {{.name = "ro.build.version.sdk"}};
	char path[128];
	struct writer w;

	begin(&w);
	put(&w, "ro.build.version.sdk", "23");
	save("area", &w, sizeof(w));
	snprintf(path, sizeof(path), "%s/area", folder);
	cr_expect_eq(android_properties_read(path, wanted, 1), 1);
	cr_expect_str_eq(wanted[0].value, "23");
}

Test(android_property, no_android)
{
	struct android_property wanted[] = {{.name = "ro.build.version.sdk", .value = "old"}};
	char path[128];

	cr_expect_eq(android_properties_read("/nowhere/__properties__", wanted, 1), 0);
	cr_expect_str_empty(wanted[0].value);
	snprintf(path, sizeof(path), "%s/fifo", folder);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_expect_eq(android_properties_read(folder, wanted, 1), 0);
}

/* Each word of an area replaced by odd ones, and each shorter length: no read outside (SAN=1), an
 * end. */
Test(android_property, hostile_areas, .timeout = 60)
{
	static const uint32_t odd[] = {0,          1,          4,          0x7fffffff,
				       0x80000000, 0xffffffff, 0xffffffec, 8192};
	struct android_property wanted[] = {{.name = "ro.build.version.sdk"}, {.name = "ro.long"}};
	static char text[120];
	struct writer w, broken;
	uint32_t words;

	memset(text, 'x', sizeof(text) - 1);
	begin(&w);
	put(&w, "ro.build.version.sdk", "34");
	put(&w, "ro.long", text);
	words = 32 + w.head[0] / 4;
	for (uint32_t i = 0; i < words; i++)
		for (size_t k = 0; k < COUNT(odd); k++) {
			broken = w;
			((uint32_t *)(void *)&broken)[i] = odd[k];
			save("area", &broken, sizeof(broken));
			cr_expect_leq(android_properties_read(folder, wanted, 2), 2);
		}
	for (uint32_t i = 0; i < words; i++) {
		char path[128];

		save("area", &w, 4 * (size_t)i);
		cr_expect_leq(android_properties_read(folder, wanted, 2), 2);
		snprintf(path, sizeof(path), "%s/area", folder);
		unlink(path);
	}
	/* a ring: a node that is its own neighbour */
	broken = w;
	at(&broken, at(&broken, 0)[4])[2] = at(&broken, 0)[4];
	at(&broken, at(&broken, 0)[4])[3] = at(&broken, 0)[4];
	wanted[0].name = "r";
	wanted[1].name = "rooo";
	save("area", &broken, sizeof(broken));
	cr_expect_eq(android_properties_read(folder, wanted, 2), 0);
}

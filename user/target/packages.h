/* SPDX-License-Identifier: BSD-2-Clause */
/* Which package has which uid: /data/system/packages.list, or `cmd package list packages -U`. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* uid = user x 100000 + app id; packages.list holds app ids (AOSP UserHandle.java). */
#define PACKAGES_USER_RANGE 100000u
/* Below it live the system's own uids, which many packages share (android_filesystem_config.h). */
#define PACKAGES_FIRST_APP 10000u

enum packages_origin { PACKAGES_NONE = 0, PACKAGES_LIST = 1, PACKAGES_CMD = 2 };

struct package_row {
	const char *name;
	uid_t app_id;
	bool shared; /* another package has the same app id */
};

struct package_name;

/* Zero-initialise; the names live until packages_free, across reloads. */
struct packages {
	enum packages_origin origin;
	struct package_row *rows; /* by app id, then name */
	size_t count;
	const struct package_row **by_name;
	size_t rejected; /* lines that could not be understood */
	struct package_name *names;
	uint64_t list_ino, list_mtime_ns, list_size;
	bool cmd_tried;
};

/* Read ROOT/data/system/packages.list when it is new or changed; where it cannot be read, ask
 * ROOT/system/bin/cmd once in the life of the set (it costs a process start on the device).
 * 1: the table changed; 0: it did not (also: no Android here); -errno: the old table stays. */
int packages_refresh(struct packages *packages, const char *root);
void packages_free(struct packages *packages);

/* Lines of packages.list: name, uid, debuggable, dataDir, seinfo, gids, and up to four more that
 * are ignored (AOSP Settings.java writes 6 to 10). Adds to the table; call packages_sort after. */
int packages_parse_list(struct packages *packages, char *text);
/* Lines "package:NAME uid:U[,U...]". */
int packages_parse_cmd(struct packages *packages, char *text);
int packages_sort(struct packages *packages);

/* The first row of the uid's app id, NULL: none. */
const struct package_row *packages_of_uid(const struct packages *packages, uid_t uid);
const struct package_row *packages_of_name(const struct packages *packages, const char *name);

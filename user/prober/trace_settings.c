/* SPDX-License-Identifier: BSD-2-Clause */
#include "prober/trace_settings.h"
#include "util/child.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define TOOL_NS 1000000000ull

enum setting_kind { SETTING_NONE, SETTING_FILE, SETTING_MODE, SETTING_PROPERTY };

static const char decimal[] = "0123456789", hexadecimal[] = "0123456789abcdefABCDEFx";
/* of a package, a process ("com.example:remote") or "*" */
static const char package[] =
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:*/-";

static const struct {
	const char *name, *letters;
	enum setting_kind kind;
	int base; /* 0: no number */
	unsigned long low, high;
	size_t longest;
	bool may_be_empty;
} settings[TRACE_SETTINGS] = {
	[TRACE_TRACING_ON] = {"tracing_on", decimal, SETTING_FILE, 10, 0, 1, 1, false},
	[TRACE_CLOCK] = {"trace_clock", "abcdefghijklmnopqrstuvwxyz0123456789_-", SETTING_FILE, 0,
			 0, 0, 24, false},
	[TRACE_BUFFER_SIZE_KB] = {"buffer_size_kb", decimal, SETTING_FILE, 10, 1, 4194304, 7,
				  false},
	[TRACE_MARKER_MODE] = {"trace_marker", "01234567", SETTING_MODE, 8, 0, 0777, 4, false},
	[TRACE_PROPERTY_TAGS] = {"debug.atrace.tags.enableflags", hexadecimal, SETTING_PROPERTY, 0,
				 0, 0, 20, true},
	[TRACE_PROPERTY_APP_NUMBER] = {"debug.atrace.app_number", decimal, SETTING_PROPERTY, 0, 0,
				       0, 6, true},
	[TRACE_PROPERTY_APP_0] = {"debug.atrace.app_0", package, SETTING_PROPERTY, 0, 0, 0,
				  TRACE_VALUE_BYTES - 1, true},
};

const char *trace_setting_name(uint32_t setting)
{
	return setting < TRACE_SETTINGS ? settings[setting].name : NULL;
}

bool trace_setting_is_valid(uint32_t setting, const char *value)
{
	size_t size = strnlen(value, TRACE_VALUE_BYTES);
	unsigned long number;

	if (!trace_setting_name(setting) || size > settings[setting].longest)
		return false;
	if (!size)
		return settings[setting].may_be_empty;
	if (strspn(value, settings[setting].letters) != size)
		return false;
	if (!settings[setting].base)
		return true;
	number = strtoul(value, NULL, settings[setting].base);
	return number >= settings[setting].low && number <= settings[setting].high;
}

int trace_settings_root(void)
{
	static const char *const places[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};

	for (unsigned i = 0; i < 2; i++) {
		int fd = open(places[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
		struct statfs fs;

		if (fd >= 0 && !fstatfs(fd, &fs) && fs.f_type == TRACEFS_MAGIC)
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return -ENOENT;
}

/* What of the text in the file is to be written to have it again. */
static const char *current_of(uint32_t setting, char *text)
{
	char *from = text, *chosen = strchr(text, '['), *expanded = strstr(text, "(expanded: ");

	text[strcspn(text, "\n")] = 0;
	if (setting == TRACE_BUFFER_SIZE_KB && expanded)
		from = expanded + strlen("(expanded: ");
	else if (chosen && strchr(chosen, ']'))
		from = chosen + 1;
	from[strcspn(from, "]) ")] = 0;
	return from;
}

static int get_file(int root, uint32_t setting, char *value, size_t size)
{
	char text[256];
	int fd = openat(root, settings[setting].name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	const char *from;
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n < 0)
		return -EIO;
	text[n] = 0;
	from = current_of(setting, text);
	if (strlen(from) >= size)
		return -ERANGE;
	memcpy(value, from, strlen(from) + 1);
	return 0;
}

int trace_setting_get(int root, uint32_t setting, char *value, size_t size)
{
	struct stat st;
	int err = -EINVAL;

	switch (setting < TRACE_SETTINGS ? settings[setting].kind : SETTING_NONE) {
	case SETTING_FILE:
		err = get_file(root, setting, value, size);
		break;
	case SETTING_MODE:
		err = fstatat(root, settings[setting].name, &st, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
		if (!err)
			snprintf(value, size, "%o", st.st_mode & 07777);
		break;
	case SETTING_PROPERTY: {
		char *argv[] = {"getprop", (char *)settings[setting].name, NULL};

		err = child_run(argv, value, size, TOOL_NS);
		break;
	}
	case SETTING_NONE:
		break;
	}
	return !err && !trace_setting_is_valid(setting, value) ? -ERANGE : err;
}

int trace_setting_set(int root, uint32_t setting, const char *value)
{
	bool mode;
	int fd, err = 0;

	if (!trace_setting_is_valid(setting, value))
		return -EINVAL;
	if (settings[setting].kind == SETTING_PROPERTY) {
		char *argv[] = {"setprop", (char *)settings[setting].name, (char *)value, NULL};

		return child_run(argv, NULL, 0, TOOL_NS);
	}
	mode = settings[setting].kind == SETTING_MODE;
	fd = openat(root, settings[setting].name,
		    O_WRONLY | O_CLOEXEC | O_NOFOLLOW | (mode ? 0 : O_TRUNC));
	if (fd < 0)
		return -errno;
	if (mode)
		err = fchmod(fd, (mode_t)strtoul(value, NULL, 8)) ? -errno : 0;
	else if (write(fd, value, strlen(value)) < 0)
		err = -errno;
	close(fd);
	return err;
}

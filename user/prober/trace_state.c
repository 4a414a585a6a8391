/* SPDX-License-Identifier: BSD-2-Clause */
#include "prober/trace_state.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER    "jankscope"
#define FILE_NAME "trace-settings"
#define MAX_LINES 64
#define MAX_BYTES ((size_t)(MAX_LINES + 1) * (TRACE_VALUE_BYTES + 12))

#define BOOT_BYTES 37 /* an id of 36 characters and its newline */

struct trace_state {
	int fd;
	unsigned count;
	char boot[BOOT_BYTES + 1]; /* the file's first line: settings do not survive a reboot */
};

/* A folder that nobody but root can change; the sticky bit does not help, because another user may
 * have made what lies in such a folder. */
static bool is_roots(int fd, mode_t forbidden)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISDIR(st.st_mode) && st.st_uid == 0 &&
	       !(st.st_mode & forbidden);
}

static int open_parent(const char *parent)
{
	static const char *const places[] = {"/run", "/dev"};
	const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;

	if (parent)
		return open(parent, flags);
	for (unsigned i = 0; i < 2; i++) {
		int fd = open(places[i], flags);

		if (fd >= 0 && is_roots(fd, 0022))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	errno = ENOENT;
	return -1;
}

/* Our own folder; what has its name but is not ours is left alone. */
static int open_folder(const char *parent, char *reason, size_t size)
{
	const char *where = parent ? parent : "/run or /dev";
	int up = open_parent(parent), fd = -1, err = 0;

	if (up < 0 || !is_roots(up, 0022)) {
		err = up < 0 ? -errno : -EPERM;
		snprintf(reason, size, "%s: no folder that only root can write to", where);
		goto out;
	}
	if (mkdirat(up, FOLDER, 0700) && errno != EEXIST) {
		err = -errno;
		snprintf(reason, size, "%s/" FOLDER ": %s", where, strerror(-err));
		goto out;
	}
	fd = openat(up, FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || !is_roots(fd, 0077)) {
		err = fd < 0 ? -errno : -EPERM;
		snprintf(reason, size, "%s/" FOLDER " is not a folder of root with mode 0700",
			 where);
		if (fd >= 0)
			close(fd);
	}
out:
	if (up >= 0)
		close(up);
	return err ? err : fd;
}

/* NULL: the open file can be trusted; else what is wrong with it. */
static const char *distrust(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return "cannot be looked at";
	if (!S_ISREG(st.st_mode))
		return "is no regular file";
	if (st.st_uid != 0)
		return "is not root's";
	if ((st.st_mode & 07777) != 0600)
		return "has not mode 0600";
	if (st.st_nlink != 1)
		return "has other links";
	return (uint64_t)st.st_size > MAX_BYTES ? "is too long" : NULL;
}

static int open_file(int folder, char *reason, size_t size)
{
	const int flags = O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	int fd = openat(folder, FILE_NAME, flags), err;
	const char *wrong = fd >= 0 ? distrust(fd) : errno == ENOENT ? NULL : strerror(errno);

	if (fd >= 0 && !wrong)
		return fd;
	if (fd >= 0)
		close(fd);
	if (wrong) {
		snprintf(reason, size, FOLDER "/" FILE_NAME ": not read: %s", wrong);
		if (unlinkat(folder, FILE_NAME, 0))
			return -errno;
	}
	fd = openat(folder, FILE_NAME, flags | O_CREAT | O_EXCL, 0600);
	if (fd < 0) {
		err = -errno;
		snprintf(reason, size, FOLDER "/" FILE_NAME ": %s", strerror(-err));
		return err;
	}
	/* whatever the umask is */
	if (fchmod(fd, 0600)) {
		close(fd);
		return -EIO;
	}
	return fd;
}

static void read_boot(char boot[BOOT_BYTES + 1])
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, boot, BOOT_BYTES);

	if (fd >= 0)
		close(fd);
	boot[n > 0 ? n : 0] = 0;
	if (n != BOOT_BYTES)
		snprintf(boot, BOOT_BYTES + 1, "%s", "unknown\n");
}

/* Where /run is no tmpfs: what was kept before a reboot is of settings that are gone. */
static void drop_older_boot(struct trace_state *state)
{
	char first[BOOT_BYTES + 1] = "";
	size_t size = strlen(state->boot);

	if (pread(state->fd, first, size, 0) != (ssize_t)size || memcmp(first, state->boot, size))
		trace_state_clear(state);
}

int trace_state_open(struct trace_state **out, const char *parent, char *reason, size_t size)
{
	struct trace_state *state;
	int folder = open_folder(parent, reason, size), fd, err;

	if (folder < 0)
		return folder;
	fd = open_file(folder, reason, size);
	close(folder);
	if (fd < 0)
		return fd;
	/* A kernel without file locks (CONFIG_FILE_LOCKING=n) has none to take. */
	err = flock(fd, LOCK_EX | LOCK_NB) && errno != ENOSYS ? -errno : 0;
	if (err) {
		snprintf(reason, size, "%s",
			 err == -EWOULDBLOCK ? "another jankscope reads the trace buffer"
					     : strerror(-err));
		err = err == -EWOULDBLOCK ? -EBUSY : err;
		close(fd);
		return err;
	}
	state = calloc(1, sizeof(*state));
	if (!state) {
		close(fd);
		return -ENOMEM;
	}
	state->fd = fd;
	read_boot(state->boot);
	drop_older_boot(state);
	*out = state;
	return 0;
}

/* "NUMBER VALUE", with nothing before, between or behind. */
static bool parse_line(const char *line, uint32_t *setting, const char **value)
{
	size_t digits = strspn(line, "0123456789");

	if (!digits || digits > 4 || line[digits] != ' ')
		return false;
	*setting = (uint32_t)strtoul(line, NULL, 10);
	*value = line + digits + 1;
	return trace_setting_is_valid(*setting, *value);
}

void trace_state_each(const struct trace_state *state,
		      void (*visit)(void *ctx, uint32_t setting, const char *value), void *ctx)
{
	char *text = calloc(1, MAX_BYTES + 1), *lines[MAX_LINES + 1], *rest, *line;
	unsigned count = 0;
	const char *value;
	uint32_t setting;

	if (!text)
		return;
	if (pread(state->fd, text, MAX_BYTES, 0) > 0) {
		rest = text;
		/* a line without its end was not applied yet */
		while ((line = strsep(&rest, "\n")) && rest && count <= MAX_LINES)
			lines[count++] = line;
		while (count) {
			if (parse_line(lines[--count], &setting, &value))
				visit(ctx, setting, value);
		}
	}
	free(text);
}

int trace_state_add(struct trace_state *state, uint32_t setting, const char *value)
{
	char line[TRACE_VALUE_BYTES + 12];
	int n;

	if (!trace_setting_is_valid(setting, value))
		return -EINVAL;
	if (state->count == MAX_LINES)
		return -E2BIG;
	if (lseek(state->fd, 0, SEEK_END) == 0 &&
	    write(state->fd, state->boot, strlen(state->boot)) != (ssize_t)strlen(state->boot))
		return -EIO;
	n = snprintf(line, sizeof(line), "%u %s\n", setting, value);
	if (write(state->fd, line, (size_t)n) != n)
		return -EIO;
	state->count++;
	return 0;
}

void trace_state_clear(struct trace_state *state)
{
	if (!ftruncate(state->fd, 0))
		state->count = 0;
}

int trace_state_fd(const struct trace_state *state)
{
	return state->fd;
}

static void restore_one(void *ctx, uint32_t setting, const char *value)
{
	const int *root = ctx;

	trace_setting_set(*root, setting, value);
}

void trace_state_put_back(struct trace_state *state, int root)
{
	trace_state_each(state, restore_one, &root);
	trace_state_clear(state);
}

void trace_state_restore(int fd, int root)
{
	struct trace_state state = {.fd = fd};

	trace_state_put_back(&state, root);
	flock(fd, LOCK_UN);
}

void trace_state_free(struct trace_state *state)
{
	if (!state)
		return;
	close(state->fd);
	free(state);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/packages.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uthash.h>
#include "util/clock.h"

#define LIST_MAX_BYTES   (16u << 20)
#define LIST_MAX_ROWS    100000u
#define CMD_TIMEOUT_MS   5000
#define PACKAGE_NAME_MAX 255

/* Names outlive the table that they came with: records may still point at them. */
struct package_name {
	UT_hash_handle hh;
	char text[];
};

static const char *intern(struct packages *packages, const char *text)
{
	struct package_name *name;
	size_t len = strlen(text);

	HASH_FIND(hh, packages->names, text, len, name);
	if (name)
		return name->text;
	name = calloc(1, sizeof(*name) + len + 1);
	if (!name)
		return NULL;
	memcpy(name->text, text, len + 1);
	HASH_ADD_KEYPTR(hh, packages->names, name->text, len, name);
	return name->text;
}

static int add_row(struct packages *packages, const char *name, uid_t uid)
{
	struct package_row *rows;
	const char *owned;

	if (packages->count >= LIST_MAX_ROWS)
		return -E2BIG;
	if (!(packages->count & (packages->count - 1))) {
		size_t room = packages->count ? packages->count * 2 : 1;

		rows = realloc(packages->rows, room * sizeof(*rows));
		if (!rows)
			return -ENOMEM;
		packages->rows = rows;
	}
	owned = intern(packages, name);
	if (!owned)
		return -ENOMEM;
	packages->rows[packages->count++] =
		(struct package_row){.name = owned, .app_id = uid % PACKAGES_USER_RANGE};
	return 0;
}

static bool parse_uid(const char *text, uid_t *uid)
{
	unsigned long value;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || value >= UINT32_MAX)
		return false;
	*uid = value;
	return true;
}

static bool name_is_sane(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len <= PACKAGE_NAME_MAX && !strchr(name, '/');
}

int packages_parse_list(struct packages *packages, char *text)
{
	char *line, *save;

	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *field[6], *save_field, *at = line;
		size_t n = 0;
		uid_t uid;
		int err;

		while (n < 6 && (field[n] = strtok_r(at, " ", &save_field))) {
			at = NULL;
			n++;
		}
		if (n < 6 || !name_is_sane(field[0]) || !parse_uid(field[1], &uid)) {
			packages->rejected++;
			continue;
		}
		err = add_row(packages, field[0], uid);
		if (err)
			return err;
	}
	return 0;
}

int packages_parse_cmd(struct packages *packages, char *text)
{
	char *line, *save;

	for (line = strtok_r(text, "\r\n", &save); line; line = strtok_r(NULL, "\r\n", &save)) {
		char *uids = strstr(line, " uid:"), *one, *save_uid;
		bool any = false;

		if (strncmp(line, "package:", 8) || !uids) {
			packages->rejected++;
			continue;
		}
		*uids = '\0';
		uids += 5;
		/* One uid for each user that has the package: the app id is the same. */
		for (one = strtok_r(uids, ", ", &save_uid); one && !any;
		     one = strtok_r(NULL, ", ", &save_uid)) {
			uid_t uid;
			int err;

			if (!parse_uid(one, &uid) || !name_is_sane(line + 8))
				break;
			err = add_row(packages, line + 8, uid);
			if (err)
				return err;
			any = true;
		}
		packages->rejected += !any;
	}
	return 0;
}

static int compare_id(const void *a, const void *b)
{
	const struct package_row *x = a, *y = b;

	if (x->app_id != y->app_id)
		return x->app_id < y->app_id ? -1 : 1;
	return strcmp(x->name, y->name);
}

static int compare_name(const void *a, const void *b)
{
	const struct package_row *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

int packages_sort(struct packages *packages)
{
	struct package_row *rows = packages->rows;
	size_t i;

	free(packages->by_name);
	packages->by_name = calloc(packages->count + 1, sizeof(*packages->by_name));
	if (!packages->by_name)
		return -ENOMEM;
	if (!packages->count)
		return 0;
	qsort(rows, packages->count, sizeof(*rows), compare_id);
	for (i = 0; i < packages->count; i++) {
		rows[i].shared = (i > 0 && rows[i - 1].app_id == rows[i].app_id) ||
				 (i + 1 < packages->count && rows[i + 1].app_id == rows[i].app_id);
		packages->by_name[i] = &rows[i];
	}
	qsort(packages->by_name, packages->count, sizeof(*packages->by_name), compare_name);
	return 0;
}

static int64_t now_ms(void)
{
	return (int64_t)(clock_now_ns(CLOCK_MONOTONIC) / NSEC_PER_MSEC);
}

/* Read all of fd up to the cap, as text; stop at the deadline (CLOCK_MONOTONIC ms, 0: none). */
static int read_all(int fd, int64_t deadline_ms, char **text)
{
	size_t len = 0, room = 1 << 16;
	char *buf = malloc(room), *more;
	ssize_t n;
	int err = -ENOMEM;

	while (buf) {
		if (deadline_ms) {
			struct pollfd wait = {.fd = fd, .events = POLLIN};
			int64_t left = deadline_ms - now_ms();

			if (left <= 0 || poll(&wait, 1, (int)left) == 0) {
				err = -ETIMEDOUT;
				break;
			}
		}
		n = read(fd, buf + len, room - 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			err = -errno;
			break;
		}
		if (n == 0) {
			buf[len] = '\0';
			*text = buf;
			return 0;
		}
		len += n;
		if (len < room - 1)
			continue;
		if (room >= LIST_MAX_BYTES) {
			err = -E2BIG;
			break;
		}
		room *= 2;
		more = realloc(buf, room);
		if (!more)
			break;
		buf = more;
	}
	free(buf);
	return err;
}

/* Run ROOT/system/bin/cmd without a shell; its own child only, killed at the deadline. */
static int run_cmd(const char *root, char **text)
{
	char path[4096];
	char *argv[] = {path, "package", "list", "packages", "-U", NULL};
	char *envp[] = {"PATH=/system/bin", NULL};
	int pipefd[2], err, status;
	pid_t child;

	if ((size_t)snprintf(path, sizeof(path), "%s/system/bin/cmd", root) >= sizeof(path))
		return -ENAMETOOLONG;
	if (access(path, X_OK))
		return -ENOENT;
	if (pipe2(pipefd, O_CLOEXEC))
		return -errno;
	child = fork();
	if (child < 0) {
		err = -errno;
		close(pipefd[0]);
		close(pipefd[1]);
		return err;
	}
	if (child == 0) {
		sigset_t none;
		int null = open("/dev/null", O_RDWR);

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		if (null >= 0) {
			dup2(null, 0);
			dup2(null, 2);
		}
		dup2(pipefd[1], 1);
		execve(path, argv, envp);
		_exit(127);
	}
	close(pipefd[1]);
	err = read_all(pipefd[0], now_ms() + CMD_TIMEOUT_MS, text);
	close(pipefd[0]);
	if (err)
		kill(child, SIGKILL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return err;
}

static void drop_table(struct packages *packages)
{
	free(packages->rows);
	free(packages->by_name);
	packages->rows = NULL;
	packages->by_name = NULL;
	packages->count = 0;
}

int packages_refresh(struct packages *packages, const char *root)
{
	struct packages fresh = {.names = packages->names};
	char path[4096], *text = NULL;
	struct stat st;
	int fd, err;

	if ((size_t)snprintf(path, sizeof(path), "%s/data/system/packages.list", root) >=
	    sizeof(path))
		return -ENAMETOOLONG;
	/* The system replaces the file by rename, so that the inode number changes too. */
	if (!stat(path, &st)) {
		uint64_t mtime = st.st_mtim.tv_sec * 1000000000ull + st.st_mtim.tv_nsec;

		if (packages->list_ino == st.st_ino && packages->list_mtime_ns == mtime &&
		    packages->list_size == (uint64_t)st.st_size)
			return 0;
		fresh.list_ino = st.st_ino;
		fresh.list_mtime_ns = mtime;
		fresh.list_size = st.st_size;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		err = read_all(fd, 0, &text);
		close(fd);
		if (!err)
			err = packages_parse_list(&fresh, text);
		/* One that is too long stays so; another error may be over at the next look. */
		if (!err || err == -E2BIG) {
			packages->list_ino = fresh.list_ino;
			packages->list_mtime_ns = fresh.list_mtime_ns;
			packages->list_size = fresh.list_size;
		}
		fresh.origin = PACKAGES_LIST;
	} else {
		fresh.list_ino = 0;
		if (packages->cmd_tried || packages->origin == PACKAGES_LIST)
			return 0;
		packages->cmd_tried = true;
		err = run_cmd(root, &text);
		if (err == -ENOENT)
			return 0; /* not Android */
		if (!err)
			err = packages_parse_cmd(&fresh, text);
		fresh.origin = PACKAGES_CMD;
	}
	free(text);
	if (!err)
		err = packages_sort(&fresh);
	packages->names = fresh.names;
	if (err) {
		drop_table(&fresh);
		return err;
	}
	drop_table(packages);
	fresh.cmd_tried = packages->cmd_tried;
	*packages = fresh;
	return 1;
}

void packages_free(struct packages *packages)
{
	struct package_name *name, *next;

	HASH_ITER (hh, packages->names, name, next) {
		HASH_DEL(packages->names, name);
		free(name);
	}
	drop_table(packages);
	memset(packages, 0, sizeof(*packages));
}

const struct package_row *packages_of_uid(const struct packages *packages, uid_t uid)
{
	uid_t app_id = uid % PACKAGES_USER_RANGE;
	size_t low = 0, high = packages->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (packages->rows[mid].app_id < app_id)
			low = mid + 1;
		else
			high = mid;
	}
	if (low < packages->count && packages->rows[low].app_id == app_id)
		return &packages->rows[low];
	return NULL;
}

const struct package_row *packages_of_name(const struct packages *packages, const char *name)
{
	size_t low = 0, high = packages->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int order = strcmp(packages->by_name[mid]->name, name);

		if (!order)
			return packages->by_name[mid];
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/keeper_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/keeper.h"
#include "proc/read.h"
#include "proc/status.h"

/* The text has one length, so that it is replaced by one write: a reader never finds half of it. */
#define TEXT_BYTES 32

static int open_lock(int dir_fd, int flags)
{
	struct stat st;
	int fd = openat(dir_fd, KEEPER_NAME, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return -EPERM;
}

int keeper_lock_take(int dir_fd)
{
	int fd = open_lock(dir_fd, O_RDWR | O_CREAT);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
		close(fd);
		return -EBUSY;
	}
	return fd;
}

void keeper_lock_tell(int lock_fd, pid_t pid, int exit_code)
{
	char words[TEXT_BYTES], text[TEXT_BYTES + 1];

	if (exit_code < 0)
		snprintf(words, sizeof(words), "%d", pid);
	else
		snprintf(words, sizeof(words), "%d %d", pid, exit_code);
	snprintf(text, sizeof(text), "%-*s\n", TEXT_BYTES - 1, words);
	if (pwrite(lock_fd, text, TEXT_BYTES, 0) < 0)
		return;
}

pid_t keeper_find(int dir_fd, int *exit_code)
{
	int fd = open_lock(dir_fd, O_RDONLY), code, fields;
	char text[TEXT_BYTES + 1] = "";
	pid_t pid = 0;
	bool held;

	if (exit_code)
		*exit_code = -1;
	if (fd < 0)
		return 0;
	held = flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
	if (pread(fd, text, TEXT_BYTES, 0) < 0)
		*text = 0;
	close(fd);
	fields = sscanf(text, "%d %d", &pid, &code);
	if (fields == 2 && exit_code)
		*exit_code = code;
	return held && fields >= 1 && pid > 1 ? pid : 0;
}

int keeper_stop(int dir_fd)
{
	pid_t pid = keeper_find(dir_fd, NULL);
	struct proc_status status;
	struct stat st;
	int dir, err;

	if (!pid)
		return -ESRCH;
	if (fstat(dir_fd, &st))
		return -errno;
	dir = proc_open("", pid);
	if (dir < 0)
		return dir;
	err = proc_status(dir, &status);
	close(dir);
	if (err)
		return err;
	if (status.uid.value != st.st_uid)
		return -EPERM;
	return kill(pid, SIGTERM) ? -errno : 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* What network tests that run at the same time, of this run of the tests or of another one, keep
 * from each other. A file that cannot be opened locks nothing. */
#pragma once
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

static inline int lock_file(const char *path, int how)
{
	int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0)
		flock(fd, how);
	return fd;
}

/* What has no uid is in one sum for the whole machine: exact checks of it exclude each other. What
 * another test did while this one waited is in the next sample: read it out before. */
static inline int bench_lock(void)
{
	return lock_file("/tmp/jankscope-test-net.lock", LOCK_EX);
}

static inline void bench_unlock(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* Each network test has this lock while it runs, and lets others run beside it. */
static inline int machine_lock(void)
{
	return lock_file("/tmp/jankscope-test-net-machine.lock", LOCK_SH);
}

/* A test whose load fills the tables of the others, or is among the losses that they count, waits
 * until no other one runs, and the others wait for it. The caller must not have bench_lock(): a
 * test that runs may wait for that one. */
static inline void bench_alone(int machine)
{
	if (machine >= 0)
		flock(machine, LOCK_EX);
}

static inline void bench_beside_others(int machine)
{
	if (machine >= 0)
		flock(machine, LOCK_SH);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* What the programs of test_cpu_odd.c share. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu_run.h"

/* A program may become ODD_UIDS uids from odd_uid on; it begins as odd_uid with root's rights. */
#define ODD_UIDS 8
static uid_t odd_uid;

static inline bool odd_put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

/* Waits for all children; the first exit code that is not 0, which is an errno. */
static inline int odd_reap(void)
{
	int status, err = 0;
	pid_t pid;

	while ((pid = wait(&status)) > 0 || errno == EINTR)
		if (pid > 0 && WIFEXITED(status) && !err)
			err = WEXITSTATUS(status);
	return err;
}

static inline void *odd_burn(void *ms)
{
	burn_ms((unsigned)(uintptr_t)ms);
	return NULL;
}

/* Threads whose arguments are 1, 2, ...; the first errno. */
static inline int odd_threads(void *(*run)(void *), unsigned count)
{
	pthread_t threads[16];
	unsigned made = 0;
	int err = 0;

	while (made < count && !err) {
		err = pthread_create(&threads[made], NULL, run, (void *)(uintptr_t)(made + 1));
		made += !err;
	}
	for (unsigned i = 0; i < made; i++)
		pthread_join(threads[i], NULL);
	return err;
}

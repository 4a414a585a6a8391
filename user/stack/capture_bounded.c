/* SPDX-License-Identifier: BSD-2-Clause */
/* Files of /proc that a process's own locks stand before, read for who must not wait. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stack/capture.h"
#include "util/bounded_call.h"

struct file_job {
	char path[128], text[4096];
	ssize_t n;
};

static void run_file(void *ctx)
{
	struct file_job *job = ctx;

	job->n = capture_read_file(job->path, job->text, sizeof(job->text));
}

ssize_t capture_read_file_bounded(struct bounded_calls *calls, pid_t pid, const char *path,
				  char *text, size_t room)
{
	struct file_job *job;
	ssize_t n;
	int err;

	if (!calls || strlen(path) >= sizeof(job->path) || room > sizeof(job->text))
		return capture_read_file(path, text, room);
	text[0] = 0;
	job = malloc(sizeof(*job));
	if (!job)
		return -ENOMEM;
	strcpy(job->path, path);
	err = bounded_call(calls, pid, run_file, free, job);
	if (err == -ETIMEDOUT)
		return err;
	n = err ? err : job->n;
	if (n > 0) {
		n = n < (ssize_t)room ? n : (ssize_t)room - 1;
		memcpy(text, job->text, (size_t)n);
		text[n] = 0;
	}
	free(job);
	return n;
}

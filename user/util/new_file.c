/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_temporary(struct new_file *file)
{
	int fd, err = -ENOMEM;

	if (asprintf(&file->temporary, "%s.XXXXXX", file->path) < 0)
		file->temporary = NULL;
	else if ((fd = mkostemp(file->temporary, O_CLOEXEC)) < 0)
		err = -errno;
	else if ((file->stream = fdopen(fd, "w")))
		return 0;
	else {
		close(fd);
		unlink(file->temporary);
	}
	free(file->temporary);
	file->temporary = NULL;
	return err;
}

int new_file_open(struct new_file *file, const char *path)
{
	struct stat status;

	*file = (struct new_file){.path = path};
	if (!strcmp(path, "-")) {
		file->stream = stdout;
		return 0;
	}
	if (stat(path, &status) || S_ISREG(status.st_mode))
		return open_temporary(file);
	file->stream = fopen(path, "we");
	return file->stream ? 0 : -errno;
}

int new_file_end(struct new_file *file, int err)
{
	if (!file->stream)
		return err;
	if (!err && fflush(file->stream))
		err = -errno;
	/* What an earlier flush could not write is only in this. */
	if (!err && ferror(file->stream))
		err = -EIO;
	if (file->stream != stdout && fclose(file->stream) && !err)
		err = -errno;
	file->stream = NULL;
	if (file->temporary && !err && rename(file->temporary, file->path))
		err = -errno;
	if (file->temporary && err)
		unlink(file->temporary);
	free(file->temporary);
	file->temporary = NULL;
	return err;
}

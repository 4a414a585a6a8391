/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening what -o names so that nobody else can choose what is written to: a new file of our own
 * that only we can read, or one that was asked to be overwritten and is ours. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

struct output_file {
	int fd, dir_fd; /* dir_fd -1: not a name in a folder */
	bool regular;   /* a file that may be cut */
	bool made;      /* there was none before */
	char name[256]; /* below dir_fd */
};

/* Open a path for writing: a new file (mode 0600), a file of ours if overwrite is set (it keeps its
 * content, and is locked), a FIFO of ours, a character device, or /dev/stdout and /dev/fd/N, which
 * are descriptors of this process. Waits as long as the file system does, for a FIFO until it has a
 * reader. 0, or -errno with a reason in why where the error's own text does not tell (else why is
 * empty). What the user is to put right is -EEXIST, -EBUSY (another recorder writes it), -EISDIR,
 * -ELOOP (a link), -EPERM (someone else's, or has several names), -ENXIO (a socket, a disk). */
int output_file_open(struct output_file *file, const char *path, bool overwrite, char *why,
		     size_t why_size);
/* Take the file away again if it was made here. */
void output_file_remove(const struct output_file *file);

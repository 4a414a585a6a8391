/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads small files of /proc (and of /sys, which are like them): never more than the caller's
 * buffer holds, without stdio and without memory of its own, so that a thread that traces another
 * may call it. A process is opened as a folder where more than one of its files is read: the
 * descriptor stands for that process alone, so a pid that is used again can never mix two processes
 * in one answer. `root` is "" on a device, or the folder of a fixture that holds proc/ (tests). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Open ROOT/proc/PID. A descriptor, or a negative errno (-ENOENT, -ESRCH: no such process). */
int proc_open(const char *root, pid_t pid);

/* Read the file `name` of folder dirfd (or AT_FDCWD, and a path): at most size - 1 bytes, a NUL
 * after them. Length or a negative errno. */
ssize_t proc_read(int dirfd, const char *name, char *text, size_t size);

/* ROOT/proc/PID/NAME, and ROOT/proc/PID/task/TID/NAME. */
ssize_t proc_read_of(const char *root, pid_t pid, const char *name, char *text, size_t size);
ssize_t proc_read_of_thread(const char *root, pid_t pid, pid_t tid, const char *name, char *text,
			    size_t size);

/* A file of one thread that is read again and again, left open: that spares three system calls and
 * the walk along its path. The descriptor stands for that thread alone: it reads nothing of another
 * one that has its number later. */
struct proc_kept {
	pid_t pid, tid; /* 0: of none so far */
	int fd;         /* -1: not open */
};

/* From now on it is a file of this thread. */
void proc_keep(struct proc_kept *kept, pid_t pid, pid_t tid);
/* As proc_read_of_thread, of the thread that it was kept for; always the same name. For files that
 * one read gives whole: schedstat, statm. */
ssize_t proc_read_kept(struct proc_kept *kept, const char *name, char *text, size_t size);
/* Close it. */
void proc_drop_kept(struct proc_kept *kept);

/* argv[0] into name, cut to its size. It is read from the memory of the process, which can hold the
 * read up. Length, 0 for a kernel thread or zombie, or -errno. */
int proc_argv0(int dirfd, char *name, size_t size);

/* The path of the v2 hierarchy ("0::" line). 0, -ENOENT where there is none, or -errno. */
int proc_cgroup(int dirfd, char *path, size_t size);

/* Whether its program has 32-bit code: by the auxiliary vector, which the kernel keeps
 * (mm->saved_auxv) in words of the program's own width; to open the program's file would wait for
 * its file system. False where the vector cannot be read. */
bool proc_is_32_bit(int dirfd);

/* The number that a name of /proc or /proc/PID/task is; 0: it is none. */
pid_t proc_number(const char *name);

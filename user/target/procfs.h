/* SPDX-License-Identifier: BSD-2-Clause */
/* One process as /proc tells it. A process is opened as a folder first: the descriptor stands for
 * that process alone, so a pid that is used again can never mix two processes in one answer. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCFS_TICK_NS 10000000ull /* USER_HZ is 100 on every Linux that we run on */

struct procfs_stat {
	char comm[16];
	char state;
	pid_t ppid;
	long threads;         /* a leader may be a zombie while other threads live */
	uint64_t start_ticks; /* field 22, since boot, suspend included */
};

/* Open ROOT/proc/PID. A descriptor, or a negative errno (-ENOENT, -ESRCH: no such process). */
int procfs_open(const char *root, pid_t pid);

/* Read the file `name` of folder dirfd: at most size - 1 bytes, a NUL after them. Length or a
 * negative errno. */
ssize_t procfs_read(int dirfd, const char *name, char *buf, size_t size);

/* Parse the text of /proc/PID/stat. Comm may hold ") R 1 2", so the fields start behind the last
 * ')'. 0 or -EINVAL. */
int procfs_parse_stat(const char *text, struct procfs_stat *stat);
int procfs_stat(int dirfd, struct procfs_stat *stat);

/* Whether its program has 32-bit code: by the auxiliary vector, which the kernel keeps
 * (mm->saved_auxv) in words of the program's own width; to open the program's file would wait for
 * its file system. False where the vector cannot be read. */
bool procfs_is_32_bit(int dirfd);

/* argv[0] into name, cut to its size. Length, 0 for a kernel thread or zombie, or -errno. */
int procfs_argv0(int dirfd, char *name, size_t size);

/* Real uid (the first of status' Uid line) and tgid, 0 where the file does not say. 0 or -errno. */
int procfs_status(int dirfd, uid_t *uid, pid_t *tgid);

/* The path of the v2 hierarchy ("0::" line). 0, -ENOENT where there is none, or -errno. */
int procfs_cgroup(int dirfd, char *path, size_t size);

/* Find "uid_U/pid_P" anywhere in a cgroup path (Android 16 puts it below apps/ or system/;
 * libprocessgroup/processgroup.cpp). False if it is not there. */
bool procfs_cgroup_app(const char *path, uid_t *uid, pid_t *pid);

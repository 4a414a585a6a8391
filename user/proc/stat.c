/* SPDX-License-Identifier: BSD-2-Clause */
#include "proc/stat.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "proc/read.h"

#define LAST_FIELD 39

#define PF_EXITING 0x00000004 /* both of include/linux/sched.h */
#define PF_KTHREAD 0x00200000

static bool is_octal(char c, char highest)
{
	return c >= '0' && c <= highest;
}

/* proc_task_name in fs/proc/array.c writes newline and backslash as escapes: by letter, or in octal
 * before 5.15. */
static void unescape_comm(char *comm, const char *from, size_t length)
{
	size_t n = 0;

	for (size_t i = 0; i < length && n < PROC_COMM_LEN - 1; i++) {
		char c = from[i];

		if (c == '\\' && i + 1 < length && from[i + 1] == 'n') {
			c = '\n';
			i++;
		} else if (c == '\\' && i + 1 < length && from[i + 1] == '\\') {
			i++;
		} else if (c == '\\' && i + 3 < length && is_octal(from[i + 1], '3') &&
			   is_octal(from[i + 2], '7') && is_octal(from[i + 3], '7')) {
			c = (char)((from[i + 1] - '0') << 6 | (from[i + 2] - '0') << 3 |
				   (from[i + 3] - '0'));
			i += 3;
		}
		comm[n++] = c;
	}
	memset(comm + n, 0, PROC_COMM_LEN - n);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* One field behind a blank, negative or not. NULL: there is none, or its end was cut off. */
static const char *next_field(const char *p, const char *end, uint64_t *value)
{
	bool negative;

	*value = 0;
	while (p < end && *p == ' ')
		p++;
	negative = p < end && *p == '-';
	p += negative;
	if (p >= end || !is_digit(*p))
		return NULL;
	for (; p < end && is_digit(*p); p++)
		if (__builtin_mul_overflow(*value, 10, value) ||
		    __builtin_add_overflow(*value, (uint64_t)(*p - '0'), value))
			return NULL;
	if (p >= end || (*p != ' ' && *p != '\n'))
		return NULL;
	if (negative)
		*value = -*value;
	return p;
}

int proc_parse_stat(const char *text, size_t length, struct proc_stat *stat)
{
	const char *open = memchr(text, '(', length), *close = memrchr(text, ')', length);
	const char *p, *end = text + length;
	uint64_t value;

	if (!open || !close || close < open || end - close < 4 || close[1] != ' ')
		return -EBADMSG;
	*stat = (struct proc_stat){.state = close[2]};
	unescape_comm(stat->comm, open + 1, (size_t)(close - open - 1));
	p = close + 3;
	for (int field = 4; field <= LAST_FIELD; field++) {
		p = next_field(p, end, &value);
		if (!p)
			return field > 22 ? 0 : -EBADMSG;
		switch (field) {
		case 4:
			stat->ppid = (pid_t)value;
			break;
		case 9:
			stat->flags = value;
			break;
		case 10:
			stat->faults_minor = value;
			break;
		case 12:
			stat->faults_major = value;
			break;
		case 20:
			stat->threads = (long)value;
			break;
		case 22:
			if ((int64_t)value < 0)
				return -EBADMSG;
			stat->start_ticks = value;
			break;
		case 39:
			stat->cpu = (uint32_t)value;
			break;
		default:
			break;
		}
	}
	return 0;
}

int proc_stat(int dirfd, struct proc_stat *stat)
{
	char text[1024];
	ssize_t n = proc_read(dirfd, "stat", text, sizeof(text));

	return n < 0 ? (int)n : proc_parse_stat(text, (size_t)n, stat);
}

bool proc_stat_is_over(const struct proc_stat *stat)
{
	return stat->flags & PF_EXITING || stat->state == 'Z' || stat->state == 'X' ||
	       stat->state == 'x';
}

bool proc_stat_is_kernel_thread(const struct proc_stat *stat)
{
	return stat->flags & PF_KTHREAD;
}

int proc_open_survivor(int process)
{
	struct proc_stat stat;
	int err = proc_stat(process, &stat), fd;
	struct dirent *entry;
	DIR *threads;

	if (err || !proc_stat_is_over(&stat) || stat.threads < 2)
		return err ?: -ENOENT;
	fd = openat(process, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	threads = fd < 0 ? NULL : fdopendir(fd);
	if (!threads) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	fd = -ENOENT;
	while (fd < 0 && (entry = readdir(threads))) {
		if (!proc_number(entry->d_name))
			continue;
		fd = openat(dirfd(threads), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0 && (proc_stat(fd, &stat) || proc_stat_is_over(&stat))) {
			close(fd);
			fd = -ENOENT;
		}
	}
	closedir(threads);
	return fd < 0 ? -ENOENT : fd;
}

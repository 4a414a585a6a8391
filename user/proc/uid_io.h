/* SPDX-License-Identifier: BSD-2-Clause */
/* Android's /proc/uid_io/stats (drivers/misc/uid_sys_stats.c of its kernels): a line a uid, with
 * what its tasks read and wrote in the foreground and in the background, since boot. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_uid_io {
	uid_t uid;
	struct proc_uid_io_ground {
		uint64_t rchar_bytes, wchar_bytes, read_bytes, write_bytes, fsyncs;
	} foreground, background;
};

/* A line [line, end), without its newline: eleven whole numbers, and nothing else. False for any
 * other, as the lines of tasks ("task,...") of kernels with CONFIG_UID_SYS_STATS_DEBUG. */
bool proc_parse_uid_io(const char *line, const char *end, struct proc_uid_io *io);
/* Such a line of a task. */
bool proc_is_uid_io_task(const char *line, const char *end);

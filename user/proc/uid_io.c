/* SPDX-License-Identifier: BSD-2-Clause */
#include "proc/uid_io.h"

#include <string.h>

#define NUMBERS 11

/* Digits up to a blank or the end. NULL: no number, or one beyond 2^64 - 1. */
static const char *take_number(const char *at, const char *end, uint64_t *number)
{
	const char *begin = at;

	*number = 0;
	for (; at < end && *at >= '0' && *at <= '9'; at++)
		if (__builtin_mul_overflow(*number, 10, number) ||
		    __builtin_add_overflow(*number, (uint64_t)(*at - '0'), number))
			return NULL;
	return at == begin || (at < end && *at != ' ') ? NULL : at;
}

bool proc_parse_uid_io(const char *line, const char *end, struct proc_uid_io *io)
{
	uint64_t numbers[NUMBERS];
	const char *at = line;

	for (size_t i = 0; i < NUMBERS; i++) {
		if (i && at++ >= end)
			return false;
		at = take_number(at, end, &numbers[i]);
		if (!at)
			return false;
	}
	if (at != end || numbers[0] > UINT32_MAX)
		return false;
	*io = (struct proc_uid_io){
		.uid = (uid_t)numbers[0],
		.foreground = {numbers[1], numbers[2], numbers[3], numbers[4], numbers[9]},
		.background = {numbers[5], numbers[6], numbers[7], numbers[8], numbers[10]},
	};
	return true;
}

bool proc_is_uid_io_task(const char *line, const char *end)
{
	static const char task[] = "task,";

	return (size_t)(end - line) >= sizeof(task) - 1 && !memcmp(line, task, sizeof(task) - 1);
}

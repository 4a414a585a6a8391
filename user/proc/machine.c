/* SPDX-License-Identifier: BSD-2-Clause */
#include "proc/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proc/read.h"
#include "proc/stat.h"

/* A number of ticks behind blanks, as ns; -EBADMSG where there is none or it is none. */
static int take_ticks(const char **at, const char *end, uint64_t *ns)
{
	uint64_t ticks = 0;
	const char *digits;

	while (*at < end && **at == ' ')
		(*at)++;
	for (digits = *at; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
		if (ticks > UINT64_MAX / PROC_TICK_NS / 100)
			return -EBADMSG;
		ticks = ticks * 10 + (uint64_t)(**at - '0');
	}
	*ns = ticks * PROC_TICK_NS;
	return *at == digits || (*at < end && **at != ' ') ? -EBADMSG : 0;
}

/* Eight columns since 2.6.11; what stands behind them is in them already (guest). */
static int take_columns(const char *at, const char *end, struct proc_machine_cpu *out)
{
	uint64_t *const columns[] = {&out->user_ns,    &out->nice_ns,   &out->system_ns,
				     &out->idle_ns,    &out->iowait_ns, &out->irq_ns,
				     &out->softirq_ns, &out->steal_ns};
	int err = 0;

	for (size_t i = 0; i < sizeof(columns) / sizeof(*columns) && !err; i++)
		err = take_ticks(&at, end, columns[i]);
	return err;
}

int proc_parse_machine(const char *text, size_t length, struct proc_machine_cpu *all,
		       struct proc_machine_cpu *cpus, size_t room, size_t *count)
{
	const char *end = text + length, *line_end;
	bool first = true;

	*count = 0;
	for (; (line_end = memchr(text, '\n', (size_t)(end - text))); text = line_end + 1) {
		struct proc_machine_cpu one = {0};
		const char *at = text + 3;

		if (line_end - text < 4 || memcmp(text, "cpu", 3))
			break;
		if (first) {
			if (*at != ' ' || take_columns(at, line_end, all))
				return -EBADMSG;
			first = false;
			continue;
		}
		for (; at < line_end && *at >= '0' && *at <= '9' && one.cpu < 1 << 20; at++)
			one.cpu = one.cpu * 10 + (unsigned)(*at - '0');
		if (at == text + 3 || take_columns(at, line_end, &one))
			return -EBADMSG;
		if (*count < room)
			cpus[(*count)++] = one;
	}
	return first ? -EBADMSG : 0;
}

int proc_parse_load(const char *text, struct proc_load *load)
{
	char tasks[10], last_pid[10];

	if (sscanf(text, "%*9[0-9.] %*9[0-9.] %*9[0-9.] %*9[0-9]/%9[0-9] %9[0-9]", tasks,
		   last_pid) != 2)
		return -EBADMSG;
	*load = (struct proc_load){(uint32_t)strtoul(tasks, NULL, 10),
				   (pid_t)strtol(last_pid, NULL, 10)};
	return 0;
}

int proc_read_load(struct proc_load *load)
{
	char text[128];
	ssize_t n = proc_read(AT_FDCWD, "/proc/loadavg", text, sizeof(text));

	return n < 0 ? (int)n : proc_parse_load(text, load);
}

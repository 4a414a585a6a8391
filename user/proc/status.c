/* SPDX-License-Identifier: BSD-2-Clause */
#include "proc/status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proc/read.h"

static struct opt_u64 number_of(const char *line, const char *key, int base)
{
	size_t length = strlen(key);
	struct opt_u64 number = {0};
	char *end;

	if (strncmp(line, key, length))
		return number;
	number.value = strtoull(line + length, &end, base);
	number.present = end != line + length;
	return number;
}

static void take(struct opt_u64 *to, struct opt_u64 found)
{
	if (found.present && !to->present)
		*to = found;
}

void proc_parse_status(const char *text, struct proc_status *status)
{
	struct opt_u64 tgid = {0}, tracer = {0}, anon_kib = {0};
	const char *line;

	*status = (struct proc_status){0};
	for (line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		take(&tgid, number_of(line, "Tgid:", 10));
		take(&tracer, number_of(line, "TracerPid:", 10));
		take(&anon_kib, number_of(line, "RssAnon:", 10));
		take(&status->uid, number_of(line, "Uid:", 10));
		take(&status->capabilities, number_of(line, "CapEff:", 16));
		take(&status->no_new_privs, number_of(line, "NoNewPrivs:", 10));
		take(&status->seccomp, number_of(line, "Seccomp:", 10));
		take(&status->switches_voluntary, number_of(line, "voluntary_ctxt_switches:", 10));
		take(&status->switches_involuntary,
		     number_of(line, "nonvoluntary_ctxt_switches:", 10));
	}
	status->tgid = (pid_t)tgid.value;
	status->tracer = (pid_t)tracer.value;
	if (anon_kib.present)
		status->anon_bytes = SOME_U64(anon_kib.value * 1024);
}

int proc_status(int dirfd, struct proc_status *status)
{
	char text[4096];
	ssize_t n = proc_read(dirfd, "status", text, sizeof(text));

	if (n < 0)
		return (int)n;
	proc_parse_status(text, status);
	return status->uid.present ? 0 : -EBADMSG;
}

int proc_parse_schedstat(const char *text, struct proc_schedstat *schedstat)
{
	uint64_t *const numbers[] = {&schedstat->cpu_ns, &schedstat->runnable_ns,
				     &schedstat->arrivals};

	/* Not by sscanf, which takes longer than the kernel to make the text: each sample asks. */
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		char *end;

		*numbers[i] = strtoull(text, &end, 10);
		if (end == text)
			return -EBADMSG;
		text = end;
	}
	return 0;
}

int proc_schedstat_of_thread(const char *root, pid_t pid, pid_t tid,
			     struct proc_schedstat *schedstat)
{
	char text[96];
	ssize_t n = proc_read_of_thread(root, pid, tid, "schedstat", text, sizeof(text));

	if (n <= 0)
		return n ? (int)n : -ESRCH;
	return proc_parse_schedstat(text, schedstat);
}

int proc_schedstat_kept(struct proc_kept *kept, struct proc_schedstat *schedstat)
{
	char text[96];
	ssize_t n = proc_read_kept(kept, "schedstat", text, sizeof(text));

	if (n <= 0)
		return n ? (int)n : -ESRCH;
	return proc_parse_schedstat(text, schedstat);
}

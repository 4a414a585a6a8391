/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prober/warden_settings.h"
#include "proc/read.h"
#include "proc/stat.h"

static char folder[] = "/tmp/jankscope-settings-XXXXXX";

static char *path_of(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void put(const char *name, const char *text)
{
	FILE *file = fopen(path_of(name), "w");

	cr_assert_not_null(file);
	fputs(text, file);
	fclose(file);
}

static const char *get(const char *name)
{
	static char text[64];

	text[0] = 0;
	proc_read(AT_FDCWD, path_of(name), text, sizeof(text));
	return text;
}

static void make(void)
{
	cr_assert_not_null(mkdtemp(folder));
	put("tracing_on", "1");
	put("trace_clock", "boot");
	put("trace_marker", "");
	put("secret", "untouched");
}

static void clean(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", folder);
	cr_expect_eq(system(command), 0);
}

Test(warden_settings, files_and_modes, .init = make, .fini = clean)
{
	struct stat st;

	cr_expect_eq(setting_restore(SETTING_TRACING_ON, "0", folder), 0);
	cr_expect_str_eq(get("tracing_on"), "0");
	cr_expect_eq(setting_restore(SETTING_TRACE_CLOCK, "mono", folder), 0);
	cr_expect_str_eq(get("trace_clock"), "mono");
	chmod(path_of("trace_marker"), 0666);
	cr_expect_eq(setting_restore(SETTING_TRACE_MARKER_MODE, "220", folder), 0);
	cr_expect_eq(stat(path_of("trace_marker"), &st), 0);
	cr_expect_eq(st.st_mode & 07777, 0220);
}

/* Whoever can send numbers and values can change nothing but the settings. */
Test(warden_settings, nothing_else, .init = make, .fini = clean)
{
	char link[256];
	struct stat st;

	for (uint32_t i = 0; i < 3; i++)
		cr_expect_eq(setting_restore(i ? SETTING_COUNT + i : 0, "1", folder), -EINVAL);
	cr_expect_eq(setting_restore(UINT32_MAX, "1", folder), -EINVAL);
	cr_expect_eq(setting_restore(SETTING_TRACING_ON, "", folder), -EINVAL);
	cr_expect_eq(setting_restore(SETTING_TRACING_ON, "2", folder), -EINVAL);
	cr_expect_eq(setting_restore(SETTING_TRACE_CLOCK, "mono\nx", folder), -EINVAL);
	cr_expect_eq(setting_restore(SETTING_BUFFER_SIZE_KB, "../1", folder), -EINVAL);
	cr_expect_eq(setting_restore(SETTING_CHILD, "1 1", folder), -EINVAL, "never init");
	cr_expect_eq(setting_restore(SETTING_CHILD, "x", folder), -EINVAL);
	/* no set-uid bit by a mode, and no link is followed */
	cr_expect_eq(setting_restore(SETTING_TRACE_MARKER_MODE, "4755", folder), 0);
	cr_expect_eq(stat(path_of("trace_marker"), &st), 0);
	cr_expect_eq(st.st_mode & 07777, 0755);
	unlink(path_of("tracing_on"));
	snprintf(link, sizeof(link), "%s", path_of("secret"));
	cr_expect_eq(symlink(link, path_of("tracing_on")), 0);
	cr_expect_eq(setting_restore(SETTING_TRACING_ON, "0", folder), -ELOOP);
	cr_expect_str_eq(get("secret"), "untouched");
}

Test(warden_settings, child_by_its_start_time, .timeout = 30)
{
	struct proc_stat stat;
	char value[64];
	int status, dir;
	pid_t pid = fork();

	if (!pid)
		for (;;)
			pause();
	dir = proc_open("", pid);
	cr_assert_eq(proc_stat(dir, &stat), 0);
	close(dir);
	snprintf(value, sizeof(value), "%d %llu", pid, (unsigned long long)stat.start_ticks + 1);
	cr_expect_eq(setting_restore(SETTING_CHILD, value, NULL), -ESRCH, "another's pid by now");
	cr_expect_eq(waitpid(pid, &status, WNOHANG), 0);
	snprintf(value, sizeof(value), "%d %llu", pid, (unsigned long long)stat.start_ticks);
	cr_expect_eq(setting_restore(SETTING_CHILD, value, NULL), 0);
	cr_expect_eq(waitpid(pid, &status, 0), pid);
	cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

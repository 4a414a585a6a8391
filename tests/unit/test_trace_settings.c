/* SPDX-License-Identifier: BSD-2-Clause */
/* What is kept of the device's trace settings, and what of a setting is put back. */
#include "prober/trace_settings.h"
#include "prober/trace_state.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

Test(trace_settings, bounds)
{
	char longer[TRACE_VALUE_BYTES + 1] = "";

	cr_assert(trace_setting_is_valid(TRACE_TRACING_ON, "1"));
	cr_assert(!trace_setting_is_valid(TRACE_TRACING_ON, "2"));
	cr_assert(!trace_setting_is_valid(TRACE_TRACING_ON, ""));
	cr_assert(!trace_setting_is_valid(TRACE_TRACING_ON, "1\n"));
	cr_assert(trace_setting_is_valid(TRACE_CLOCK, "x86-tsc"));
	cr_assert(!trace_setting_is_valid(TRACE_CLOCK, "../x"));
	cr_assert(trace_setting_is_valid(TRACE_BUFFER_SIZE_KB, "4194304"));
	cr_assert(!trace_setting_is_valid(TRACE_BUFFER_SIZE_KB, "4194305"));
	cr_assert(!trace_setting_is_valid(TRACE_BUFFER_SIZE_KB, "0"));
	cr_assert(!trace_setting_is_valid(TRACE_BUFFER_SIZE_KB, "-1"));
	cr_assert(trace_setting_is_valid(TRACE_MARKER_MODE, "777"));
	cr_assert(!trace_setting_is_valid(TRACE_MARKER_MODE, "4755"));
	cr_assert(!trace_setting_is_valid(TRACE_MARKER_MODE, "8"));
	cr_assert(trace_setting_is_valid(TRACE_PROPERTY_TAGS, ""));
	cr_assert(trace_setting_is_valid(TRACE_PROPERTY_TAGS, "0x6e"));
	cr_assert(!trace_setting_is_valid(TRACE_PROPERTY_TAGS, "0x6e; x"));
	cr_assert(trace_setting_is_valid(TRACE_PROPERTY_APP_0, "com.example:remote"));
	cr_assert(!trace_setting_is_valid(TRACE_PROPERTY_APP_0, "a b"));
	memset(longer, 'a', TRACE_VALUE_BYTES);
	cr_assert(!trace_setting_is_valid(TRACE_PROPERTY_APP_0, longer));
	cr_assert(!trace_setting_is_valid(0, "1"));
	cr_assert(!trace_setting_is_valid(TRACE_SETTINGS, "1"));
	cr_assert_null(trace_setting_name(TRACE_SETTINGS));
	cr_assert_null(trace_setting_name(UINT32_MAX));
}

static int folder_of(char *path)
{
	strcpy(path, "/tmp/test_trace_settings.XXXXXX");
	cr_assert_not_null(mkdtemp(path));
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void put(int folder, const char *name, const char *text)
{
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static void expect_value(int folder, uint32_t setting, const char *text, const char *value)
{
	char got[TRACE_VALUE_BYTES] = "";

	put(folder, trace_setting_name(setting), text);
	cr_assert_eq(trace_setting_get(folder, setting, got, sizeof(got)), 0, "%s", text);
	cr_assert_str_eq(got, value);
}

Test(trace_settings, current_value)
{
	char path[64], got[TRACE_VALUE_BYTES];
	int folder = folder_of(path);

	expect_value(folder, TRACE_TRACING_ON, "1\n", "1");
	expect_value(folder, TRACE_CLOCK, "local global [mono_raw] boot\n", "mono_raw");
	expect_value(folder, TRACE_BUFFER_SIZE_KB, "1408\n", "1408");
	/* before the first use of the buffer; to write 7 would shrink it for good */
	expect_value(folder, TRACE_BUFFER_SIZE_KB, "7 (expanded: 1408)\n", "1408");
	put(folder, "buffer_size_kb", "X\n");
	cr_assert_eq(trace_setting_get(folder, TRACE_BUFFER_SIZE_KB, got, sizeof(got)), -ERANGE);
	cr_assert_eq(trace_setting_get(folder, TRACE_MARKER_MODE, got, sizeof(got)), -ENOENT);
	put(folder, "trace_marker", "");
	cr_assert_eq(fchmodat(folder, "trace_marker", 0220, 0), 0);
	cr_assert_eq(trace_setting_get(folder, TRACE_MARKER_MODE, got, sizeof(got)), 0);
	cr_assert_str_eq(got, "220");
	cr_assert_eq(trace_setting_set(folder, TRACE_MARKER_MODE, "222"), 0);
	cr_assert_eq(trace_setting_set(folder, TRACE_MARKER_MODE, "4777"), -EINVAL);
	cr_assert_eq(trace_setting_get(folder, TRACE_MARKER_MODE, got, sizeof(got)), 0);
	cr_assert_str_eq(got, "222");
	/* a link is not followed */
	put(folder, "elsewhere", "0");
	unlinkat(folder, "tracing_on", 0);
	cr_assert_eq(symlinkat("elsewhere", folder, "tracing_on"), 0);
	cr_assert_eq(trace_setting_set(folder, TRACE_TRACING_ON, "1"), -ELOOP);
	close(folder);
	unlink(strcat(path, "/elsewhere"));
}

struct seen {
	char text[256];
};

static void see(void *ctx, uint32_t setting, const char *value)
{
	struct seen *seen = ctx;
	size_t used = strlen(seen->text);

	snprintf(seen->text + used, sizeof(seen->text) - used, "%u=%s;", setting, value);
}

Test(trace_state, keeps_and_locks)
{
	struct trace_state *state = NULL, *second = NULL;
	char path[64], reason[160] = "";
	struct seen seen = {""};
	int folder = folder_of(path);

	if (geteuid())
		cr_skip_test("only root's folders are trusted");
	cr_assert_eq(trace_state_open(&state, path, reason, sizeof(reason)), 0, "%s", reason);
	cr_assert_str_eq(reason, "");
	cr_assert_eq(trace_state_add(state, TRACE_TRACING_ON, "0"), 0);
	cr_assert_eq(trace_state_add(state, TRACE_PROPERTY_TAGS, ""), 0);
	cr_assert_eq(trace_state_add(state, TRACE_MARKER_MODE, "4755"), -EINVAL);
	trace_state_each(state, see, &seen);
	cr_assert_str_eq(seen.text, "7=;1=0;");
	cr_assert_eq(trace_state_open(&second, path, reason, sizeof(reason)), -EBUSY);
	/* its owner died: the next one finds what it left */
	trace_state_free(state);
	reason[0] = 0;
	cr_assert_eq(trace_state_open(&second, path, reason, sizeof(reason)), 0, "%s", reason);
	seen.text[0] = 0;
	trace_state_each(second, see, &seen);
	cr_assert_str_eq(seen.text, "7=;1=0;");
	trace_state_clear(second);
	seen.text[0] = 0;
	trace_state_each(second, see, &seen);
	cr_assert_str_eq(seen.text, "");
	trace_state_free(second);
	/* of a boot before, and cut in its last line */
	put(folder, "jankscope/trace-settings", "00000000-0000-0000-0000-000000000000\n1 0\n");
	cr_assert_eq(trace_state_open(&state, path, reason, sizeof(reason)), 0, "%s", reason);
	trace_state_each(state, see, &seen);
	cr_assert_str_eq(seen.text, "");
	cr_assert_eq(trace_state_add(state, TRACE_TRACING_ON, "0"), 0);
	cr_assert_eq(write(trace_state_fd(state), "5 1\n3 -4\n3  4\n1 1 \n3 14", 24), 24);
	trace_state_each(state, see, &seen);
	cr_assert_str_eq(seen.text, "1=0;");
	trace_state_free(state);
	/* a parent that others write to */
	cr_assert_eq(fchmod(folder, 01777), 0);
	cr_assert_eq(trace_state_open(&state, path, reason, sizeof(reason)), -EPERM);
	close(folder);
}

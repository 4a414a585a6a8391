/* SPDX-License-Identifier: BSD-2-Clause */
/* The state that Android gives a process: shown, cached, frozen. Sources: libprocessgroup's
 * cgroups.json and task_profiles.json, ProcessList.java. */
#include "proc/read.h"
#include "target/set.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <fcntl.h>

int target_oom_score_adj(const struct target_set *set, pid_t pid, int *score)
{
	char text[32], *end;
	ssize_t n = proc_read_of(set->root, pid, "oom_score_adj", text, sizeof(text));
	long value;

	if (n < 0)
		return (int)n;
	/* OOM_SCORE_ADJ_MIN and OOM_SCORE_ADJ_MAX */
	value = strtol(text, &end, 10);
	if (end == text || strcmp(end, "\n") || value < -1000 || value > 1000)
		return -EBADMSG;
	*score = (int)value;
	return 0;
}

bool target_has_foreground(const char *root)
{
	/* version 1 of cgroups, and 2 */
	static const char *const layouts[] = {"dev/cpuset", "sys/fs/cgroup"};
	char path[4096];
	struct stat st;

	for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
		snprintf(path, sizeof(path), "%s/%s/top-app", root, layouts[i]);
		if (!stat(path, &st))
			return true;
	}
	return false;
}

int target_is_foreground(const struct target_set *set, pid_t pid)
{
	char text[4096];
	ssize_t n;
	int score, err;

	if (!target_has_foreground(set->root))
		return -ENOTSUP;
	/* The kernel shows the cpuset of either version of cgroups there. */
	n = proc_read_of(set->root, pid, "cpuset", text, sizeof(text));
	if (n < 0)
		return (int)n;
	if (text[0] != '/')
		return -EBADMSG;
	text[strcspn(text, "\n")] = '\0';
	if (strcmp(text, "/top-app"))
		return 0;
	err = target_oom_score_adj(set, pid, &score);
	return err ? err : score == 0;
}

int target_is_frozen(const struct target_set *set, pid_t pid)
{
	/* Android and today's distributions mount it at the first, hybrid ones at the second. */
	static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	char cgroup[1024], path[6144], text[256], *line;
	int dir = proc_open(set->root, pid), err;
	size_t i;

	if (dir < 0)
		return dir;
	err = proc_cgroup(dir, cgroup, sizeof(cgroup));
	close(dir);
	if (err)
		return err == -ENOENT ? -ENOTSUP : err;
	if (!strcmp(cgroup, "/"))
		return 0; /* the root cannot be frozen */
	if (cgroup[0] != '/' || strstr(cgroup, "/../") || !strncmp(cgroup, "/..", 3))
		return -ENOTSUP; /* outside of our cgroup namespace */
	for (i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		ssize_t n;

		snprintf(path, sizeof(path), "%s%s%s/cgroup.events", set->root, mounts[i], cgroup);
		n = proc_read(AT_FDCWD, path, text, sizeof(text));
		if (n < 0)
			continue;
		/* It came with Linux 5.2. */
		for (line = text; line && strncmp(line, "frozen ", 7);)
			line = (line = strchr(line, '\n')) ? line + 1 : NULL;
		return line && (line[7] == '0' || line[7] == '1') && line[8] == '\n'
			       ? line[7] == '1'
			       : -ENOTSUP;
	}
	return -ENOTSUP;
}

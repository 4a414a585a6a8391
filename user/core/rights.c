/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NO_GID     (-1)
#define HIDDEN     (-2)
#define MAX_GROUPS 256
#define PACKAGES   "/data/system/packages.list"

static const struct right table[] = {
	/* Until c8644cd0efe7 (6.0) every bpf(2) call needs it where unprivileged_bpf_disabled is
	 * set; from then on it needs none for a descriptor that is there. */
	{CAP_BPF, RIGHT_MAPS, "bpf(2) on its own maps and iterators"},
	/* setns(2) into the network namespace of another process */
	{CAP_SYS_ADMIN, RIGHT_DUMPS, "entering network namespaces"},
	/* /proc/PID/ns/net of a process of another uid (PTRACE_MODE_READ) */
	{CAP_SYS_PTRACE, RIGHT_DUMPS, "finding network namespaces"},
	/* a trace of uid 2000 that is replaced while it is followed */
	{CAP_DAC_READ_SEARCH, RIGHT_FILES, "files of other users"},
};

const struct right *rights_at(size_t n)
{
	return n < sizeof(table) / sizeof(*table) ? &table[n] : NULL;
}

/* CAP_BPF is a part of CAP_SYS_ADMIN before 2c78ee898d8f (5.8). */
static int on_this_kernel(int capability)
{
	return capability == CAP_BPF && prctl(PR_CAPBSET_READ, CAP_BPF, 0, 0, 0) < 0 ? CAP_SYS_ADMIN
										     : capability;
}

bool rights_keep(unsigned needs, int capability)
{
	if (needs & RIGHT_TARGETS)
		return true;
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (needs & table[i].needs && on_this_kernel(table[i].capability) == capability)
			return true;
	return false;
}

/* ---- groups ---- */

long rights_proc_gid(const char *text)
{
	long gid = NO_GID;

	for (const char *line = text; *line;) {
		char kind[64], options[512], *option, *rest = options;
		bool hidden = false;
		long of_line = HIDDEN;

		if (sscanf(line, "%*s /proc %63s %511s", kind, options) == 2 &&
		    !strcmp(kind, "proc")) {
			while ((option = strsep(&rest, ","))) {
				if (!strncmp(option, "hidepid=", 8))
					hidden = strcmp(option + 8, "0") &&
						 strcmp(option + 8, "off");
				if (!strncmp(option, "gid=", 4))
					of_line = atol(option + 4);
			}
			/* the last mount is the one that is seen */
			gid = hidden ? of_line : NO_GID;
		}
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return gid;
}

static long proc_gid(void)
{
	static const size_t room = 256 << 10;
	char *text = malloc(room);
	int fd = open("/proc/self/mounts", O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	ssize_t n = 0;
	long gid = NO_GID;

	while (text && fd >= 0 && used < room - 1 &&
	       (n = read(fd, text + used, room - 1 - used)) > 0)
		used += (size_t)n;
	if (text) {
		text[used] = 0;
		gid = rights_proc_gid(text);
	}
	if (fd >= 0)
		close(fd);
	free(text);
	return gid;
}

static int add_group(gid_t gid)
{
	gid_t groups[MAX_GROUPS + 1];
	int count = getgroups(MAX_GROUPS, groups);

	if (count < 0)
		return -errno;
	for (int i = 0; i < count; i++)
		if (groups[i] == gid)
			return 0;
	groups[count++] = gid;
	return setgroups((size_t)count, groups) ? -errno : 0;
}

/* Whether processes stay hidden from a recorder without rights. */
static bool add_groups(void)
{
	long gid = proc_gid();
	struct stat st;
	bool hidden = gid == HIDDEN;

	if (gid >= 0 && add_group((gid_t)gid))
		hidden = true;
	/* AOSP: 0640 system package_info */
	if (!stat(PACKAGES, &st) && st.st_mode & S_IRGRP && !(st.st_mode & S_IROTH))
		add_group(st.st_gid);
	return hidden;
}

/* ---- capabilities ---- */

int rights_drop(unsigned needs)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];
	uint64_t keep = 0;
	bool hidden;

	if (needs & RIGHT_TARGETS)
		return 0;
	hidden = add_groups();
	if (syscall(SYS_capget, &header, data))
		return -errno;
	for (int capability = 0; capability < 64; capability++) {
		/* Without it a /proc that is hidden shows nothing at all. */
		bool kept =
			rights_keep(needs, capability) || (hidden && capability == CAP_SYS_PTRACE);

		if (kept)
			keep |= 1ull << capability;
		/* Past the last capability this is -EINVAL; without CAP_SETPCAP -EPERM. */
		else if (prctl(PR_CAPBSET_READ, capability, 0, 0, 0) > 0)
			prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
	}
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	for (int i = 0; i < 2; i++) {
		data[i].permitted &= (uint32_t)(keep >> 32 * i);
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	if (syscall(SYS_capset, &header, data))
		return -errno;
	if (!(needs & RIGHT_EXEC) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return 0;
}

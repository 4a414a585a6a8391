/* SPDX-License-Identifier: BSD-2-Clause */
#include "verb/doctor_processes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/rights.h"
#include "prober/warden.h"
#include "proc/read.h"
#include "proc/status.h"
#include "util/channel.h"
#include "util/clock.h"

#define HELLO_NS  (2 * NSEC_PER_SEC)
#define SETTLE_NS (100 * NSEC_PER_MSEC)
/* On a busy machine it may take longer. */
#define SETTLE_LOOKS 20

static const char *const capability_names[] = {
	"chown",
	"dac_override",
	"dac_read_search",
	"fowner",
	"fsetid",
	"kill",
	"setgid",
	"setuid",
	"setpcap",
	"linux_immutable",
	"net_bind_service",
	"net_broadcast",
	"net_admin",
	"net_raw",
	"ipc_lock",
	"ipc_owner",
	"sys_module",
	"sys_rawio",
	"sys_chroot",
	"sys_ptrace",
	"sys_pacct",
	"sys_admin",
	"sys_boot",
	"sys_nice",
	"sys_resource",
	"sys_time",
	"sys_tty_config",
	"mknod",
	"lease",
	"audit_write",
	"audit_control",
	"setfcap",
	"mac_override",
	"mac_admin",
	"syslog",
	"wake_alarm",
	"block_suspend",
	"audit_read",
	"perfmon",
	"bpf",
	"checkpoint_restore",
};

void doctor_capabilities(const struct doctor_process *row, char *text, size_t size)
{
	size_t length = 0;

	snprintf(text, size, "%s", row->capabilities ? "" : "none");
	if (row->all_capabilities && row->capabilities) {
		snprintf(text, size, "all");
		return;
	}
	for (size_t i = 0; i < sizeof(capability_names) / sizeof(*capability_names); i++)
		if (row->capabilities >> i & 1 && length < size)
			length += (size_t)snprintf(text + length, size - length, "%s%s",
						   length ? " " : "", capability_names[i]);
}

static int read_nice(struct doctor_process *row, pid_t pid)
{
	char path[64];
	struct dirent *entry;
	DIR *folder;

	errno = 0;
	row->nice = row->nice_lowest = getpriority(PRIO_PROCESS, (id_t)pid);
	if (errno)
		return -errno;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	folder = opendir(path);
	while (folder && (entry = readdir(folder))) {
		int nice;

		if (entry->d_name[0] == '.')
			continue;
		errno = 0;
		nice = getpriority(PRIO_PROCESS, (id_t)atoi(entry->d_name));
		if (!errno && nice < row->nice_lowest)
			row->nice_lowest = nice;
	}
	if (folder)
		closedir(folder);
	return 0;
}

static struct opt_u64 read_limit(pid_t pid, int resource)
{
	struct rlimit limit;

	if (prlimit(pid, resource, NULL, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return (struct opt_u64){0};
	return SOME_U64(limit.rlim_cur);
}

static int read_status(struct doctor_process *row, pid_t pid)
{
	struct proc_status own, status;
	int dir = proc_open("", getpid()), err;

	err = dir < 0 ? dir : proc_status(dir, &own);
	if (dir >= 0)
		close(dir);
	if (err)
		return err;
	dir = proc_open("", pid);
	err = dir < 0 ? dir : proc_status(dir, &status);
	if (dir >= 0)
		close(dir);
	if (err)
		return err;
	if (!status.capabilities.present)
		return -EINVAL;
	row->uid = (uid_t)status.uid.value;
	row->capabilities = status.capabilities.value;
	row->all_capabilities = row->capabilities == own.capabilities.value;
	row->no_new_privs = status.no_new_privs.value;
	row->address_bytes = read_limit(pid, RLIMIT_AS);
	row->cpu_s = read_limit(pid, RLIMIT_CPU);
	row->seccomp = status.seccomp.present ? (int)status.seccomp.value : -1;
	err = read_nice(row, pid);
	row->ok = !err;
	return err;
}

static void fail(struct doctor_process *row, int err)
{
	row->ok = false;
	snprintf(row->reason, sizeof(row->reason), "%s", strerror(-err));
}

/* The hello of a helper; it gives up its rights after that, for which SETTLE_NS must do. */
static int await_hello(struct helper *helper)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + HELLO_NS, now_ns;
	char message[4096];
	int fds[CHANNEL_FDS];
	size_t count;

	while (!helper->pid && (now_ns = clock_now_ns(CLOCK_MONOTONIC)) < until_ns) {
		ssize_t n;

		channel_wait(helper->socket, until_ns - now_ns);
		n = channel_receive(helper->socket, message, sizeof(message), fds, &count);
		if (n == 0 || (n < 0 && n != -EAGAIN && n != -EMSGSIZE))
			return n ? (int)n : -EPIPE;
		if (n > 0 && helper_take_hello(helper, message, (size_t)n, fds, count))
			break;
		while (n > 0 && count)
			close(fds[--count]);
	}
	return helper->pid ? 0 : -ETIMEDOUT;
}

/* A recorder is this process after the drop; so a copy of it does that. */
static void look_at_recorder(struct doctor_process *row)
{
	int pipe_fds[2], status;
	char byte;
	pid_t pid;

	row->name = "recorder";
	if (pipe(pipe_fds)) {
		fail(row, -errno);
		return;
	}
	pid = fork();
	if (pid == 0) {
		if (!rights_drop(RIGHT_MAPS) && write(pipe_fds[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	close(pipe_fds[1]);
	if (pid < 0 || read(pipe_fds[0], &byte, 1) != 1)
		fail(row, pid < 0 ? -EAGAIN : -EPERM);
	else if ((status = read_status(row, pid)))
		fail(row, status);
	close(pipe_fds[0]);
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
}

static void look_at_helper(struct warden *warden, enum helper_kind kind, struct doctor_process *row)
{
	struct helper helper;
	int err = warden_spawn(warden, kind, &helper), looks = 0;

	if (!err) {
		err = await_hello(&helper);
		if (!err) {
			/* The sandbox of the unwinder is its last step. */
			do {
				poll(NULL, 0, (int)(SETTLE_NS / NSEC_PER_MSEC));
				err = read_status(row, helper.pid);
			} while (!err && kind == HELPER_UNWINDER && !row->seccomp &&
				 ++looks < SETTLE_LOOKS);
		}
		warden_drop(warden, &helper, false);
	}
	if (err)
		fail(row, err);
}

size_t doctor_processes(struct doctor_process *rows, size_t room)
{
	static const char *const names[HELPER_KINDS] = {
		[HELPER_WARDEN] = "warden",   [HELPER_PROBER] = "prober",
		[HELPER_SAMPLER] = "sampler", [HELPER_UNWINDER] = "unwinder",
		[HELPER_ASKER] = "asker",     [HELPER_POWER] = "power",
		[HELPER_RUNNER] = "runner",
	};
	struct warden *warden;
	size_t count = 0;

	if (room < HELPER_KINDS)
		return 0;
	memset(rows, 0, HELPER_KINDS * sizeof(*rows));
	look_at_recorder(&rows[count++]);
	warden = warden_start();
	for (int kind = HELPER_WARDEN; kind < HELPER_KINDS; kind++) {
		struct doctor_process *row = &rows[count++];

		row->name = names[kind];
		if (!warden)
			fail(row, -EAGAIN);
		else if (kind == HELPER_WARDEN) {
			struct helper list[1];
			struct warden_usage usage;

			for (int i = 0; i < 2000; i++) {
				/* takes its hello */
				warden_usage(warden, &usage);
				if (warden_list(warden, list, 1))
					break;
				poll(NULL, 0, 1);
			}
			if (!warden_list(warden, list, 1))
				fail(row, -ETIMEDOUT);
			else if (read_status(row, list[0].pid))
				fail(row, -ESRCH);
		} else {
			look_at_helper(warden, (enum helper_kind)kind, row);
		}
	}
	warden_stop(warden);
	return count;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/features_private.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/btf.h"
#include "kernel/namespaces.h"
#include "kernel/probe.h"
#include "proc/read.h"
#include "proc/selinux.h"
#include "proc/status.h"

int feature_tracefs(struct feature *row, const struct kernel_btf *btf)
{
	static const char *const mounts[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
	char path[64];
	int err = -ENOENT;
	size_t i;

	for (i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		snprintf(path, sizeof(path), "%s/trace_marker", mounts[i]);
		if (!access(path, W_OK)) {
			snprintf(row->detail, sizeof(row->detail), "%s can be written", path);
			return 0;
		}
		if (errno != ENOENT)
			err = -errno;
	}
	return feature_absent(row, err, "trace_marker",
			      err == -ENOENT ? "mount -t tracefs tracefs /sys/kernel/tracing"
					     : "run as root");
}

/* ---- the rest of the system ---- */

int feature_netns(struct feature *row, const struct kernel_btf *btf)
{
	int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), err = 0;

	if (fd < 0)
		return feature_absent(row, -errno, "/proc/self/ns/net", "needs CONFIG_NET_NS");
	if (setns(fd, CLONE_NEWNET))
		err = -errno;
	close(fd);
	return err ? feature_absent(row, err, "setns",
				    "sockets of other namespaces are not resolved")
		   : feature_found(row, "can be entered");
}

int feature_sock_diag(struct feature *row, const struct kernel_btf *btf)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

	if (fd < 0)
		return feature_absent(row, -errno, "NETLINK_SOCK_DIAG", "needs CONFIG_INET_DIAG");
	close(fd);
	return feature_found(row, "answers");
}

int feature_schedstat(struct feature *row, const struct kernel_btf *btf)
{
	struct proc_schedstat schedstat;
	int err = proc_schedstat_of_thread("", getpid(), getpid(), &schedstat);

	if (!err)
		return feature_found(row, "exact times without BPF");
	return feature_absent(row, err, "/proc/PID/schedstat",
			      err == -ENOENT ? "needs CONFIG_SCHED_INFO" : "");
}

/* Root is not enough: as u:r:shell:s0 it may not make a map, and as u:r:su:s0 it may. */
int feature_selinux(struct feature *row, const struct kernel_btf *btf)
{
	struct selinux selinux;
	int fd, err;

	selinux_read(&selinux, SELINUX_CONTEXT_FILE, SELINUX_ENFORCE_FILE);
	if (!selinux.context[0])
		return feature_found(row, "not in use");
	snprintf(row->detail, sizeof(row->detail), "%s, %s", selinux.context,
		 selinux.permissive ? "permissive" : "enforcing");
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "jankscope_probe", 4, 8, 1, NULL);
	err = fd < 0 ? -errno : 0;
	if (fd >= 0)
		close(fd);
	if (selinux.permissive || (err != -EPERM && err != -EACCES) || geteuid())
		return 0;
	snprintf(row->remedy, sizeof(row->remedy),
		 "run in a context that may use BPF, as after adb root or su (u:r:su:s0, "
		 "u:r:magisk:s0); dmesg has what was denied");
	return err;
}

int feature_capabilities(struct feature *row, const struct kernel_btf *btf)
{
	static const struct {
		unsigned bit;
		const char *name;
	} wanted[] = {
		{CAP_SYS_ADMIN, "sys_admin"}, {CAP_BPF, "bpf"},
		{CAP_PERFMON, "perfmon"},     {CAP_SYS_PTRACE, "sys_ptrace"},
		{CAP_NET_ADMIN, "net_admin"}, {CAP_SYS_RESOURCE, "sys_resource"},
		{CAP_SYS_NICE, "sys_nice"},   {CAP_DAC_READ_SEARCH, "dac_read_search"},
	};
	struct proc_status status;
	size_t i, length, missing = 0;
	uint64_t effective;
	int dir = proc_open("", getpid()), err;

	err = dir < 0 ? dir : proc_status(dir, &status);
	if (dir >= 0)
		close(dir);
	if (err)
		return feature_absent(row, err, "/proc/self/status", "mount /proc");
	effective = status.capabilities.value;
	length = (size_t)snprintf(row->detail, sizeof(row->detail), "without");
	for (i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		if (effective >> wanted[i].bit & 1)
			continue;
		/* bpf and perfmon are parts of sys_admin (2c78ee898d8f, 5.8). */
		if ((wanted[i].bit == CAP_BPF || wanted[i].bit == CAP_PERFMON) &&
		    effective >> CAP_SYS_ADMIN & 1)
			continue;
		missing++;
		if (length < sizeof(row->detail))
			length +=
				(size_t)snprintf(row->detail + length, sizeof(row->detail) - length,
						 " %s", wanted[i].name);
	}
	if (!missing)
		return feature_found(row, "all that are used");
	snprintf(row->remedy, sizeof(row->remedy),
		 geteuid() ? "run as root" : "this root is a limited one: leave its container");
	return -EPERM;
}

int feature_namespaces(struct feature *row, const struct kernel_btf *btf)
{
	int err = namespaces_check(row->detail, sizeof(row->detail));

	if (!err)
		return feature_found(row, "the initial pid namespace, no time offset");
	snprintf(row->remedy, sizeof(row->remedy), "until then CPU times are /proc's, degraded");
	return err;
}

int feature_vm_readv_row(struct feature *row, const struct kernel_btf *btf)
{
	int err = probe_child_memory();

	return err ? feature_absent(row, err, "process_vm_readv",
				    "needs CONFIG_CROSS_MEMORY_ATTACH; "
				    "/proc/PID/mem is read instead")
		   : feature_found(row, "reads a child's memory");
}

int feature_ptrace_row(struct feature *row, const struct kernel_btf *btf)
{
	int err = probe_child_ptrace();

	return err ? feature_absent(row, err, "ptrace", "a tracer, Yama or SELinux is in the way")
		   : feature_found(row, "a child was seized, stopped, read and released");
}

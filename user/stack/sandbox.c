/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* clone, execve, open, socket, ptrace, process_vm_*, bpf, perf_event_open, kill ... are not here.
 * rt_sigreturn: a signal may come before the list is in force. sysinfo: glibc's qsort asks how much
 * memory there is. */
static const int allowed[] = {
	SCMP_SYS(recvmsg),
	SCMP_SYS(sendmsg),
	SCMP_SYS(ppoll),
	SCMP_SYS(poll),
	SCMP_SYS(read),
	SCMP_SYS(pread64),
	SCMP_SYS(fstat),
	SCMP_SYS(lseek),
	SCMP_SYS(close),
	SCMP_SYS(munmap),
	SCMP_SYS(brk),
	SCMP_SYS(madvise),
	SCMP_SYS(futex),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(getrandom),
	SCMP_SYS(setitimer),
	SCMP_SYS(sysinfo),
	SCMP_SYS(getpid),
	SCMP_SYS(gettid),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(mremap),
};

static int allow(scmp_filter_ctx filter)
{
	int err = 0;

	for (size_t i = 0; i < sizeof(allowed) / sizeof(*allowed) && !err; i++)
		err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
	/* elfutils asks for the names of its descriptors, and does without (libdw,
	 * __libdw_filepath). */
	err = err ?: seccomp_rule_add(filter, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(readlink), 0);
	err = err ?: seccomp_rule_add(filter, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(readlinkat), 0);
	/* Memory that no file is behind and that cannot be executed. */
	err = err
		      ?: seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 2,
					  SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),
					  SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS | MAP_SHARED,
						  MAP_ANONYMOUS));
	err = err
		      ?: seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
					  SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	/* What glibc makes of fstat: an open descriptor, and no name below a directory. */
	return err
		       ?: seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(newfstatat), 2,
					   SCMP_A0(SCMP_CMP_LT, 65536),
					   SCMP_A3(SCMP_CMP_EQ, AT_EMPTY_PATH));
}

static int limit_system_calls(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int err;

	if (!filter)
		return -ENOMEM;
	err = allow(filter);
	err = err ?: seccomp_load(filter);
	seccomp_release(filter);
	return err;
}

static int limit_resources(void)
{
	static const struct {
		int resource;
		rlim_t limit;
	} limits[] = {
#ifndef __SANITIZE_ADDRESS__ /* its shadow memory alone is larger */
		{RLIMIT_AS, SANDBOX_BYTES},
#endif
		{RLIMIT_CPU, SANDBOX_CPU_S}, {RLIMIT_NOFILE, SANDBOX_DESCRIPTORS},
		{RLIMIT_FSIZE, 0},           {RLIMIT_CORE, 0},
		{RLIMIT_NPROC, 0},           {RLIMIT_MEMLOCK, 0},
		{RLIMIT_MSGQUEUE, 0},
	};

	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
		struct rlimit limit, now;

		if (getrlimit(limits[i].resource, &now))
			return -errno;
		limit.rlim_cur = limit.rlim_max =
			limits[i].limit < now.rlim_max ? limits[i].limit : now.rlim_max;
		if (setrlimit(limits[i].resource, &limit))
			return -errno;
	}
	return 0;
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	return syscall(SYS_capset, &header, none) ? -errno : 0;
}

int sandbox_enter(void)
{
	int err = limit_resources();

	if (err)
		return err;
	/* The bounding set first: it takes CAP_SETPCAP. It ends where the kernel's numbers end. */
	for (int capability = 0; capability < 64; capability++)
		if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) && errno == EINVAL)
			break;
	if (!geteuid()) {
		if (setgroups(0, NULL) || setresgid(SANDBOX_UID, SANDBOX_UID, SANDBOX_UID) ||
		    setresuid(SANDBOX_UID, SANDBOX_UID, SANDBOX_UID))
			return -errno;
	}
	err = drop_capabilities();
	if (err)
		return err;
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
#ifdef __SANITIZE_ADDRESS__
	/* The sanitizers write, open and make threads. */
	(void)limit_system_calls;
	return 0;
#else
	return limit_system_calls();
#endif
}

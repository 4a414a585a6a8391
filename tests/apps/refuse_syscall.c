/* SPDX-License-Identifier: BSD-2-Clause */
/* Run a program in which one system call fails, as under a seccomp filter of a container or in a
 * kernel without it, or in which the process that makes it is killed (SIGSYS) before it is done:
 * refuse_syscall bpf|perf_event_open|flock|rename|unlink EPERM|ENOSYS|EACCES|KILL PROGRAM
 * [ARGUMENTS...] */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef SYS_rename
#define OLD_RENAME SYS_rename
#else
#define OLD_RENAME SYS_renameat2 /* arm64 has no other */
#endif

static const struct {
	const char *name;
	unsigned numbers[3]; /* of what the library may call it by */
} calls[] = {
	{"bpf", {SYS_bpf, SYS_bpf, SYS_bpf}},
	{"perf_event_open", {SYS_perf_event_open, SYS_perf_event_open, SYS_perf_event_open}},
	{"flock", {SYS_flock, SYS_flock, SYS_flock}},
	{"rename", {SYS_renameat, SYS_renameat2, OLD_RENAME}},
	{"unlink", {SYS_unlinkat, SYS_unlinkat, SYS_unlinkat}},
};

int main(int argc, char **argv)
{
	unsigned action = SECCOMP_RET_ERRNO | EPERM;
	size_t call = 0;

	while (argc > 3 && call < sizeof(calls) / sizeof(*calls) &&
	       strcmp(argv[1], calls[call].name))
		call++;
	if (argc < 4 || call == sizeof(calls) / sizeof(*calls))
		return 2;
	if (!strcmp(argv[2], "ENOSYS"))
		action = SECCOMP_RET_ERRNO | ENOSYS;
	else if (!strcmp(argv[2], "EACCES"))
		action = SECCOMP_RET_ERRNO | EACCES;
	else if (!strcmp(argv[2], "KILL"))
		action = SECCOMP_RET_KILL_PROCESS;
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[call].numbers[0], 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[call].numbers[2], 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[call].numbers[1], 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("refuse_syscall: seccomp");
		return 2;
	}
	execv(argv[3], argv + 3);
	perror(argv[3]);
	return 2;
}

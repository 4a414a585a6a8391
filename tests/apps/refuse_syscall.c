/* SPDX-License-Identifier: BSD-2-Clause */
/* Run a program in which bpf() or perf_event_open() fails, as under a seccomp filter of a
 * container, or flock(), as in a kernel without it:
 * refuse_syscall bpf|perf_event_open|flock EPERM|ENOSYS|EACCES PROGRAM [ARGUMENTS...] */
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

int main(int argc, char **argv)
{
	unsigned number = argc > 1 && !strcmp(argv[1], "bpf")     ? SYS_bpf
			  : argc > 1 && !strcmp(argv[1], "flock") ? SYS_flock
								  : SYS_perf_event_open;
	unsigned error = argc > 2 && !strcmp(argv[2], "ENOSYS")   ? ENOSYS
			 : argc > 2 && !strcmp(argv[2], "EACCES") ? EACCES
								  : EPERM;
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};

	if (argc < 4)
		return 2;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("refuse_syscall: seccomp");
		return 2;
	}
	execv(argv[3], argv + 3);
	perror(argv[3]);
	return 2;
}

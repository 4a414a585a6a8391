/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Why a thread left its CPU, from the system call it is in. The kernel's BTF knows no call numbers;
 * these are asm/unistd_64.h's and asm-generic/unistd.h's. */
#pragma once
#include "abi/looper.h"
#include "abi/sched.h"

#define BINDER_WRITE_READ 0xc0306201u

#if defined(__TARGET_ARCH_x86) || defined(__x86_64__)
#define REASONS_OF_X86
#endif

enum syscall_number {
#ifdef REASONS_OF_X86
	NR_futex = 202,
	NR_futex_waitv = 449,
	NR_futex_wait = 455,
	NR_ioctl = 16,
	NR_pselect6 = 270,
	NR_ppoll = 271,
	NR_epoll_pwait = 281,
	NR_epoll_pwait2 = 441,
	NR_read = 0,
	NR_write = 1,
	NR_pread64 = 17,
	NR_pwrite64 = 18,
	NR_readv = 19,
	NR_writev = 20,
	NR_preadv = 295,
	NR_pwritev = 296,
	NR_preadv2 = 327,
	NR_pwritev2 = 328,
	NR_sendfile = 40,
	NR_splice = 275,
	NR_tee = 276,
	NR_vmsplice = 278,
	NR_copy_file_range = 326,
	NR_connect = 42,
	NR_accept = 43,
	NR_accept4 = 288,
	NR_sendto = 44,
	NR_recvfrom = 45,
	NR_sendmsg = 46,
	NR_recvmsg = 47,
	NR_sendmmsg = 307,
	NR_recvmmsg = 299,
	NR_openat = 257,
	NR_openat2 = 437,
	NR_close = 3,
	NR_sync = 162,
	NR_syncfs = 306,
	NR_fsync = 74,
	NR_fdatasync = 75,
	NR_msync = 26,
	NR_sync_file_range = 277,
	NR_nanosleep = 35,
	NR_clock_nanosleep = 230,
	NR_wait4 = 61,
	NR_waitid = 247,
	NR_clone = 56,
	NR_clone3 = 435,
	NR_poll = 7,
	NR_select = 23,
	NR_epoll_wait = 232,
	NR_open = 2,
	NR_fork = 57,
	NR_vfork = 58,
#else
	NR_futex = 98,
	NR_futex_waitv = 449,
	NR_futex_wait = 455,
	NR_ioctl = 29,
	NR_pselect6 = 72,
	NR_ppoll = 73,
	NR_epoll_pwait = 22,
	NR_epoll_pwait2 = 441,
	NR_read = 63,
	NR_write = 64,
	NR_pread64 = 67,
	NR_pwrite64 = 68,
	NR_readv = 65,
	NR_writev = 66,
	NR_preadv = 69,
	NR_pwritev = 70,
	NR_preadv2 = 286,
	NR_pwritev2 = 287,
	NR_sendfile = 71,
	NR_splice = 76,
	NR_tee = 77,
	NR_vmsplice = 75,
	NR_copy_file_range = 285,
	NR_connect = 203,
	NR_accept = 202,
	NR_accept4 = 242,
	NR_sendto = 206,
	NR_recvfrom = 207,
	NR_sendmsg = 211,
	NR_recvmsg = 212,
	NR_sendmmsg = 269,
	NR_recvmmsg = 243,
	NR_openat = 56,
	NR_openat2 = 437,
	NR_close = 57,
	NR_sync = 81,
	NR_syncfs = 267,
	NR_fsync = 82,
	NR_fdatasync = 83,
	NR_msync = 227,
	NR_sync_file_range = 84,
	NR_nanosleep = 101,
	NR_clock_nanosleep = 115,
	NR_wait4 = 260,
	NR_waitid = 95,
	NR_clone = 220,
	NR_clone3 = 435,
#endif
};

static inline __attribute__((always_inline)) __u32 reason_of_syscall(__s32 number, __u32 argument_1)
{
	switch (number) {
	case NR_futex:
	case NR_futex_waitv:
	case NR_futex_wait:
		return LOOPER_REASON_FUTEX;
	case NR_ioctl:
		return argument_1 == BINDER_WRITE_READ ? LOOPER_REASON_BINDER : LOOPER_REASON_OTHER;
	case NR_pselect6:
	case NR_ppoll:
	case NR_epoll_pwait:
	case NR_epoll_pwait2:
#ifdef REASONS_OF_X86
	case NR_poll:
	case NR_select:
	case NR_epoll_wait:
#endif
		return LOOPER_REASON_POLL;
	case NR_read:
	case NR_write:
	case NR_pread64:
	case NR_pwrite64:
	case NR_readv:
	case NR_writev:
	case NR_preadv:
	case NR_pwritev:
	case NR_preadv2:
	case NR_pwritev2:
	case NR_sendfile:
	case NR_splice:
	case NR_tee:
	case NR_vmsplice:
	case NR_copy_file_range:
	case NR_connect:
	case NR_accept:
	case NR_accept4:
	case NR_sendto:
	case NR_recvfrom:
	case NR_sendmsg:
	case NR_recvmsg:
	case NR_sendmmsg:
	case NR_recvmmsg:
		return LOOPER_REASON_READ;
	case NR_openat:
	case NR_openat2:
	case NR_close:
	case NR_sync:
	case NR_syncfs:
	case NR_fsync:
	case NR_fdatasync:
	case NR_msync:
	case NR_sync_file_range:
#ifdef REASONS_OF_X86
	case NR_open:
#endif
		return LOOPER_REASON_IO;
	case NR_nanosleep:
	case NR_clock_nanosleep:
		return LOOPER_REASON_SLEEP;
	case NR_wait4:
	case NR_waitid:
	case NR_clone:
	case NR_clone3:
#ifdef REASONS_OF_X86
	case NR_fork:
	case NR_vfork:
#endif
		return LOOPER_REASON_CHILD;
	}
	return LOOPER_REASON_OTHER;
}

/* Why a thread in this state (enum off_cpu) is off its CPU; number below 0: it is in no system
 * call.
 */
static inline __attribute__((always_inline)) __u32 reason_of_sleep(__u32 state, __s32 number,
								   __u32 argument_1)
{
	__u32 reason = LOOPER_REASON_PAGE_FAULT;

	if (state == OFF_CPU_RUNNABLE)
		return LOOPER_REASON_OTHER;
	if (state == OFF_CPU_STOPPED)
		return LOOPER_REASON_STOPPED;
	if (number >= 0) {
		reason = reason_of_syscall(number, argument_1);
		if (state == OFF_CPU_UNINTERRUPTIBLE &&
		    (reason == LOOPER_REASON_READ || reason == LOOPER_REASON_OTHER))
			reason = LOOPER_REASON_IO;
		else if (state == OFF_CPU_SLEEPING && reason == LOOPER_REASON_IO)
			reason = LOOPER_REASON_OTHER;
	}
	return reason;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel side of binder calls: loads bpf/binder.bpf.c where the kernel has the driver's
 * tracepoints, and hooks them while a process is watched. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/binder.h"

struct binder_kernel;

/* The kernel has the tracepoints (found by hooking one with an empty program for a moment). 0;
 * -ENOENT: no binder driver here, or its module is not loaded; -errno. */
int binder_kernel_probe(void);
/* Load, for this many processes that may be watched at a time; nothing is hooked yet. btf_path:
 * NULL or as --btf. NULL with errno and, where the kernel has binder, a line in reason (else ENOENT
 * and
 * ""). */
struct binder_kernel *binder_kernel_open(const char *btf_path, uint32_t max_watched, char *reason,
					 size_t size);
void binder_kernel_close(struct binder_kernel *kernel);

/* Follow the calls of this process's threads, and of those that serve them; the first watch hooks
 * the tracepoints, the last unwatch lets them go. 0 or -errno. Twice is once. */
int binder_kernel_watch(struct binder_kernel *kernel, pid_t pid);
void binder_kernel_unwatch(struct binder_kernel *kernel, pid_t pid);
bool binder_kernel_is_hooked(const struct binder_kernel *kernel);
/* Forget threads that are gone, or that have had nothing to do with a watched process for 10 s
 * (by now_ns, CLOCK_MONOTONIC). */
void binder_kernel_sweep(struct binder_kernel *kernel, uint64_t now_ns);

/* For binder_look_ask, also in another process; owned by the kernel. */
struct binder_fds {
	int look, questions;
};
struct binder_fds binder_kernel_fds(const struct binder_kernel *kernel);
/* The call of this thread with this number as it stands now. False: nothing is known of it. */
bool binder_kernel_call(const struct binder_kernel *kernel, pid_t tid, uint32_t debug_id,
			struct binder_call *call);
int binder_kernel_losses(const struct binder_kernel *kernel, uint64_t losses[BINDER_LOSS_MAX]);

/* Whom look->tid of look->tgid waits for (abi/binder.h), by the driver's own words. 0, with
 * look->waits 0 where it waits for nobody or is not known; -errno. Some 10 us, and 0.5 us a thread
 * of the callee where nobody has taken the call. */
int binder_look_ask(const struct binder_fds *fds, struct binder_look *look);

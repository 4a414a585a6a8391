/* SPDX-License-Identifier: BSD-2-Clause */
/* The program that tells when a task changes its uid. */
#include <errno.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/load.h"
#include "kernel/sched_private.h"

/* A kprobe costs nobody else anything; the tracepoint is passed by every look at a capability, some
 * thousand a second. */
static struct bpf_program *choose(const struct sched_bpf *skeleton, const struct btf *btf,
				  const struct sched_kernel_options *options)
{
	if (options->test_no_uid_hook)
		return NULL;
	if (!options->no_kprobe && !access("/sys/bus/event_source/devices/kprobe/type", R_OK))
		return skeleton->progs.sched_uid_kprobe;
	if (tracepoint_arguments(btf, "cap_capable") == 5)
		return skeleton->progs.sched_uid_capable;
	return NULL;
}

void sched_uids_configure(struct sched_kernel *kernel, const struct sched_kernel_options *options,
			  const struct btf *btf, bool direct)
{
	struct sched_bpf *skeleton = kernel->skeleton;

	kernel->uid_program = choose(skeleton, btf, options);
	if (kernel->uid_program)
		bpf_program__set_autoload(kernel->uid_program, true);
	/* A kprobe sees each change, so that a switch need not look: without direct loads that is
	 * two probe reads. A capability is not asked for when a task goes back to a uid that it
	 * had. */
	kernel->has_kprobe = kernel->uid_program == skeleton->progs.sched_uid_kprobe;
	kernel->uids_by_hook = !direct && kernel->has_kprobe;
	skeleton->rodata->watch_uids = !kernel->uids_by_hook;
}

/* A task that sets the capabilities that it has commits creds like any other, and nothing changes.
 */
static bool kprobe_runs(const struct sched_kernel *kernel)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct own[_LINUX_CAPABILITY_U32S_3];
	uint32_t before = __atomic_load_n(&kernel->skeleton->bss->kprobe_runs, __ATOMIC_RELAXED);

	if (syscall(SYS_capget, &header, own) || syscall(SYS_capset, &header, own))
		return true; /* not allowed here, so that it cannot be told */
	return __atomic_load_n(&kernel->skeleton->bss->kprobe_runs, __ATOMIC_RELAXED) != before;
}

/* Without a kprobe the tracepoint is tried, and without both a switch tells. */
int sched_uids_attach(struct sched_kernel *kernel)
{
	if (kernel->uid_program)
		kernel->uid_link = bpf_program__attach(kernel->uid_program);
	if (!kernel->has_kprobe)
		return 0;
	if (!kernel->uid_link)
		return -errno;
	return kprobe_runs(kernel) ? 0 : -ENODATA;
}

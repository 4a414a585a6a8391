/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the kernel shows of process 1, and how many births (tests/kernel/hides_init.h). */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

__u64 init_switches; /* of threads of process 1, as far as the kernel shows them */
__u64 births;        /* of all tasks, as far */

SEC("tp_btf/sched_switch")
int switch_of_init(__u64 *ctx)
{
	if (((const struct task_struct *)ctx[1])->tgid == 1)
		__sync_fetch_and_add(&init_switches, 1);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int birth(__u64 *ctx)
{
	__sync_fetch_and_add(&births, 1);
	return 0;
}

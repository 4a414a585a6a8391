/* SPDX-License-Identifier: BSD-2-Clause */
/* Binder calls of threads that are waited for, by what the kernel side knows of them. */
#include <errno.h>
#include <sys/syscall.h>

#include "abi/syscall_reason.h"
#include "prober/sampler_private.h"
#include "stack/registers.h"

bool sampler_binder_is_call(const struct stack_registers *registers)
{
	static const uint8_t numbers[] = {[STACK_X86_64] = 4, [STACK_ARM64] = 1}; /* rsi, x1 */
	uint8_t number = numbers[registers->arch];

	return registers->syscall_nr == SYS_ioctl && (registers->valid >> number & 1) &&
	       (uint32_t)registers->value[number] == BINDER_WRITE_READ;
}

int sampler_binder_look(const struct sampler_view *view, pid_t pid, pid_t tid, uint64_t process,
			struct binder_look *look)
{
	int err;

	if (!view->has_binder)
		return -ENOENT;
	*look = (struct binder_look){
		.tid = (uint32_t)tid, .tgid = (uint32_t)pid, .process = process};
	err = binder_look_ask(&view->binder, look);
	if (err)
		return err;
	return look->waits && look->to_pid ? 0 : -ENOENT;
}

uint64_t sampler_binder_signature(const struct sampler_view *view, pid_t pid, pid_t tid)
{
	uint64_t signature = 0, process = 0;

	for (size_t depth = 0; depth <= SAMPLER_CHAIN; depth++) {
		struct binder_look look;

		if (sampler_binder_look(view, pid, tid, process, &look))
			break;
		signature = (signature ^ (look.debug_id | (uint64_t)look.to_tid << 32)) *
			    0x9e3779b97f4a7c15ull;
		/* What is in the queue waits for whoever is at work there. */
		tid = (pid_t)(look.to_tid ? look.to_tid : look.at_work_tids[0]);
		pid = (pid_t)look.to_pid;
		process = look.to_process;
		if (!tid)
			break;
		signature ^= (uint64_t)tid;
	}
	return signature;
}

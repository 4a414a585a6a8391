/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/probe.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STOP_TRIES 200 /* of 1 ms: an emulated or loaded machine is slow */

static pid_t start_child(void)
{
	pid_t parent = getpid(), child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == parent)
			pause();
		_exit(0);
	}
	return child < 0 ? -errno : child;
}

static void end_child(pid_t child)
{
	kill(child, SIGKILL);
	while (waitpid(child, NULL, __WALL) < 0 && errno == EINTR)
		;
}

int probe_child_memory(void)
{
	static const char here[] = "jankscope";
	char there[sizeof(here)] = "";
	struct iovec local = {there, sizeof(there)};
	struct iovec remote = {(void *)here, sizeof(here)};
	pid_t child = start_child();
	ssize_t n;
	int err = 0;

	if (child < 0)
		return child;
	n = process_vm_readv(child, &local, 1, &remote, 1, 0);
	if (n < 0)
		err = -errno;
	else if (n != sizeof(here) || memcmp(here, there, sizeof(here)))
		err = -EIO;
	end_child(child);
	return err;
}

int probe_child_ptrace(void)
{
	unsigned long regs[64];
	struct iovec out = {regs, sizeof(regs)};
	struct timespec tick = {0, 1000000};
	pid_t child = start_child();
	int err = 0, tries, status;

	if (child < 0)
		return child;
	if (ptrace(PTRACE_SEIZE, child, 0, 0) || ptrace(PTRACE_INTERRUPT, child, 0, 0)) {
		err = -errno;
		goto cleanup;
	}
	for (tries = 0; tries < STOP_TRIES; tries++) {
		if (waitpid(child, &status, WNOHANG | __WALL) == child && WIFSTOPPED(status))
			break;
		nanosleep(&tick, NULL);
	}
	if (tries == STOP_TRIES) {
		err = -ETIMEDOUT;
		goto cleanup;
	}
	if (ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &out) ||
	    ptrace(PTRACE_DETACH, child, 0, 0))
		err = -errno;
cleanup:
	end_child(child);
	return err;
}

/* Never called: a place to set a uprobe on. */
static void __attribute__((noinline, used)) probe_place(void)
{
	__asm__ volatile("nop");
}

static int find_segment(struct dl_phdr_info *info, size_t size, void *ctx)
{
	uint64_t *found = ctx;
	uintptr_t place = (uintptr_t)probe_place;
	int i;

	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_LOAD && place >= start &&
		    place < start + segment->p_filesz) {
			*found = place - start + segment->p_offset;
			return 1;
		}
	}
	return 0;
}

int probe_own_file_offset(uint64_t *offset)
{
	return dl_iterate_phdr(find_segment, offset) ? 0 : -ENOENT;
}

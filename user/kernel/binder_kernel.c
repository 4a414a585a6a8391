/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/binder_kernel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "binder.skel.h"
#include "kernel/load.h"
#include "kernel/percpu.h"
#include "kernel/types.h"
#include "util/clock.h"

#define FORGET_NS (10 * NSEC_PER_SEC)
#define SWEEP_NS  NSEC_PER_SEC

struct binder_kernel {
	struct binder_bpf *skeleton;
	struct bpf_link *links[2]; /* NULL: not hooked */
	uint32_t watched;
	uint64_t swept_ns;
};

int binder_kernel_probe(void)
{
	/* r0 = 0; exit */
	const struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int program = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "binder", "GPL", code, 2, NULL);
	int link, err;

	if (program < 0)
		return -errno;
	link = bpf_raw_tracepoint_open("binder_transaction", program);
	err = link < 0 ? -errno : 0;
	if (link >= 0)
		close(link);
	close(program);
	return err;
}

static int load(struct binder_kernel *kernel, const char *btf_path, uint32_t max_watched)
{
	struct kernel_types types;
	size_t object_bytes;
	const void *object = binder_bpf__elf_bytes(&object_bytes);
	LIBBPF_OPTS(bpf_object_open_opts, options);
	int err;

	kernel_types_open(&types, btf_path, object, object_bytes);
	bpf_object_release(object);
	options.btf_custom_path = types.path;
	kernel->skeleton = binder_bpf__open_opts(&options);
	if (!kernel->skeleton) {
		err = -errno;
		goto cleanup;
	}
	bpf_map__set_max_entries(kernel->skeleton->maps.binder_watched, max_watched);
	bpf_program__set_autoload(kernel->skeleton->progs.binder_transaction_raw, true);
	bpf_program__set_autoload(kernel->skeleton->progs.binder_received_raw, true);
	bpf_program__set_autoload(kernel->skeleton->progs.binder_look, true);
	err = binder_bpf__load(kernel->skeleton);
cleanup:
	kernel_types_close(&types);
	return err;
}

static bool has_types(const struct binder_kernel *kernel)
{
	uint64_t context = 0;
	LIBBPF_OPTS(bpf_test_run_opts, run, .ctx_in = &context, .ctx_size_in = sizeof(context));

	return !bpf_prog_test_run_opts(binder_kernel_fds(kernel).look, &run) &&
	       run.retval != BINDER_NO_TYPES;
}

struct binder_kernel *binder_kernel_open(const char *btf_path, uint32_t max_watched, char *reason,
					 size_t size)
{
	struct binder_kernel *kernel;
	int err = binder_kernel_probe();

	if (size)
		reason[0] = 0;
	if (err) {
		if (err != -ENOENT)
			kernel_explain(err, "binder calls", reason, size);
		errno = -err;
		return NULL;
	}
	kernel = calloc(1, sizeof(*kernel));
	if (!kernel) {
		errno = ENOMEM;
		return NULL;
	}
	kernel_log_clear();
	err = load(kernel, btf_path, max_watched ? max_watched : 1);
	malloc_trim(0);
	if (!err && has_types(kernel))
		return kernel;
	if (err)
		kernel_explain(err, "binder calls", reason, size);
	else
		snprintf(reason, size,
			 "binder calls: the driver's types are not in this kernel's BTF");
	err = err ? err : -ENOTSUP;
	binder_kernel_close(kernel);
	errno = -err;
	return NULL;
}

/* Who sends is hooked last: a call whose receiving is not seen would look like one that waits. */
static int hook(struct binder_kernel *kernel)
{
	struct bpf_program *const programs[] = {
		kernel->skeleton->progs.binder_received_raw,
		kernel->skeleton->progs.binder_transaction_raw,
	};

	for (size_t i = 0; i < 2; i++) {
		kernel->links[i] = bpf_program__attach(programs[i]);
		if (!kernel->links[i])
			return -errno;
	}
	return 0;
}

static void unhook(struct binder_kernel *kernel)
{
	for (size_t i = 2; i-- > 0;) {
		bpf_link__destroy(kernel->links[i]);
		kernel->links[i] = NULL;
	}
}

void binder_kernel_close(struct binder_kernel *kernel)
{
	if (!kernel)
		return;
	unhook(kernel);
	binder_bpf__destroy(kernel->skeleton);
	free(kernel);
}

static void filter_add(struct binder_kernel *kernel, uint32_t id, uint32_t by)
{
	__atomic_fetch_add(&kernel->skeleton->bss->binder_filter_ids[id % BINDER_FILTER], by,
			   __ATOMIC_SEQ_CST);
}

int binder_kernel_watch(struct binder_kernel *kernel, pid_t pid)
{
	uint32_t key = (uint32_t)pid, one = 1;
	int err = 0;

	if (bpf_map_update_elem(bpf_map__fd(kernel->skeleton->maps.binder_watched), &key, &one,
				BPF_NOEXIST))
		return errno == EEXIST ? 0 : -errno;
	filter_add(kernel, key, 1);
	if (!kernel->watched++)
		err = hook(kernel);
	if (err)
		binder_kernel_unwatch(kernel, pid);
	return err;
}

void binder_kernel_unwatch(struct binder_kernel *kernel, pid_t pid)
{
	uint32_t key = (uint32_t)pid;

	if (bpf_map_delete_elem(bpf_map__fd(kernel->skeleton->maps.binder_watched), &key))
		return;
	filter_add(kernel, key, (uint32_t)-1);
	if (!--kernel->watched)
		unhook(kernel);
}

bool binder_kernel_is_hooked(const struct binder_kernel *kernel)
{
	return kernel->links[0] && kernel->links[1];
}

static bool is_alive(const struct binder_thread_calls *entry)
{
	return !syscall(SYS_tgkill, entry->tgid, entry->tid, 0) || errno != ESRCH;
}

static bool waits(const struct binder_kernel *kernel, uint32_t tid, uint32_t tgid)
{
	const struct binder_fds fds = binder_kernel_fds(kernel);
	struct binder_look look = {.tid = tid, .tgid = tgid};

	return !binder_look_ask(&fds, &look) && look.waits;
}

/* It waits for somebody, or somebody for it. What was seen is not enough: no event tells of a call
 * that failed. */
static bool is_busy(const struct binder_kernel *kernel, const struct binder_thread_calls *entry)
{
	int fd = bpf_map__fd(kernel->skeleton->maps.binder_threads);

	for (uint32_t i = 0; i < entry->serving && i < BINDER_DEPTH; i++) {
		struct binder_thread_calls caller;
		uint32_t tid = entry->served[i].caller_tid;
		struct binder_call call;

		if (binder_kernel_call(kernel, (pid_t)tid, entry->served[i].debug_id, &call) &&
		    !call.replied_ns && !bpf_map_lookup_elem(fd, &tid, &caller) &&
		    waits(kernel, tid, caller.tgid))
			return true;
	}
	return waits(kernel, entry->tid, entry->tgid);
}

static void forget(struct binder_kernel *kernel, const struct binder_thread_calls *entry)
{
	int waiting_fd = bpf_map__fd(kernel->skeleton->maps.binder_waiting);
	uint32_t tid = entry->tid;

	for (size_t i = 0; i < BINDER_DEPTH; i++) {
		uint64_t address = entry->calls[i].transaction;
		struct binder_waiting waiting;

		if (!address || bpf_map_lookup_elem(waiting_fd, &address, &waiting) ||
		    waiting.debug_id != entry->calls[i].debug_id ||
		    bpf_map_delete_elem(waiting_fd, &address))
			continue;
		__atomic_fetch_sub(
			&kernel->skeleton->bss
				 ->binder_filter_transactions[(address >> 6 ^ address >> 18) %
							      BINDER_FILTER],
			1, __ATOMIC_SEQ_CST);
	}
	if (!bpf_map_delete_elem(bpf_map__fd(kernel->skeleton->maps.binder_threads), &tid))
		filter_add(kernel, tid, (uint32_t)-1);
}

void binder_kernel_sweep(struct binder_kernel *kernel, uint64_t now_ns)
{
	int fd = bpf_map__fd(kernel->skeleton->maps.binder_threads);
	uint32_t tids[BINDER_MAX_THREADS], *before = NULL;
	size_t count = 0;

	if (now_ns - kernel->swept_ns < SWEEP_NS)
		return;
	kernel->swept_ns = now_ns;
	while (count < BINDER_MAX_THREADS && !bpf_map_get_next_key(fd, before, &tids[count]))
		before = &tids[count++];
	for (size_t i = 0; i < count; i++) {
		struct binder_thread_calls entry;

		if (bpf_map_lookup_elem(fd, &tids[i], &entry))
			continue;
		/* Its key says who it is also where the program is amid the first words of it. */
		entry.tid = tids[i];
		if (now_ns < entry.touched_ns + FORGET_NS)
			continue;
		if (!is_alive(&entry) || !is_busy(kernel, &entry))
			forget(kernel, &entry);
	}
}

struct binder_fds binder_kernel_fds(const struct binder_kernel *kernel)
{
	return (struct binder_fds){
		.look = bpf_program__fd(kernel->skeleton->progs.binder_look),
		.questions = bpf_map__fd(kernel->skeleton->maps.binder_questions),
	};
}

bool binder_kernel_call(const struct binder_kernel *kernel, pid_t tid, uint32_t debug_id,
			struct binder_call *call)
{
	struct binder_thread_calls entry;
	uint32_t key = (uint32_t)tid;

	if (!debug_id ||
	    bpf_map_lookup_elem(bpf_map__fd(kernel->skeleton->maps.binder_threads), &key, &entry))
		return false;
	for (size_t i = 0; i < BINDER_DEPTH; i++) {
		if (entry.calls[i].debug_id != debug_id)
			continue;
		*call = entry.calls[i];
		return true;
	}
	return false;
}

int binder_kernel_losses(const struct binder_kernel *kernel, uint64_t losses[BINDER_LOSS_MAX])
{
	return percpu_sum(bpf_map__fd(kernel->skeleton->maps.binder_losses), BINDER_LOSS_MAX, 1,
			  losses);
}

int binder_look_ask(const struct binder_fds *fds, struct binder_look *look)
{
	uint32_t self = (uint32_t)gettid();
	uint64_t context = 0;
	LIBBPF_OPTS(bpf_test_run_opts, run, .ctx_in = &context, .ctx_size_in = sizeof(context));
	int err = 0;

	if (bpf_map_update_elem(fds->questions, &self, look, BPF_ANY))
		return -errno;
	if (bpf_prog_test_run_opts(fds->look, &run) ||
	    bpf_map_lookup_elem(fds->questions, &self, look))
		err = -errno;
	bpf_map_delete_elem(fds->questions, &self);
	return err;
}

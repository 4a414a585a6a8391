/* SPDX-License-Identifier: BSD-2-Clause */
/* Uprobes of one process, set by the process that calls this. (The recorder has its probers do
 * that, prober/read_attach.c.) */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/looper_private.h"

struct looper_probes {
	int fds[LOOPER_PROBES]; /* uprobe_multi links; -1: none */
	struct bpf_link *links[LOOPER_MAX_PLACES];
	size_t link_count;
};

/* The part of union bpf_attr that BPF_LINK_CREATE reads for uprobe_multi. */
struct uprobe_multi_attr {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t count, multi_flags, pid, padding;
};

static int create_multi(int prog_fd, const char *path, const uint64_t *offsets, size_t count,
			pid_t pid)
{
	struct uprobe_multi_attr attr = {
		.prog_fd = (uint32_t)prog_fd,
		.attach_type = ATTACH_UPROBE_MULTI,
		.path = (uint64_t)(uintptr_t)path,
		.offsets = (uint64_t)(uintptr_t)offsets,
		.count = (uint32_t)count,
		.pid = (uint32_t)pid,
	};
	long fd = syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));

	return fd < 0 ? -errno : (int)fd;
}

/* 89ae89f53d20 in one look, without a whole object that does not load: a kernel that knows the link
 * refuses a folder as a file; others refuse the attach type. */
bool looper_has_multi(void)
{
	static const struct bpf_insn empty[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options,
		    .expected_attach_type = (enum bpf_attach_type)ATTACH_UPROBE_MULTI);
	uint64_t offset = 0;
	int program = bpf_prog_load(BPF_PROG_TYPE_KPROBE, NULL, "GPL", empty, 2, &options), fd;

	if (program < 0)
		return false;
	fd = create_multi(program, "/", &offset, 1, 0);
	close(program);
	if (fd >= 0)
		close(fd);
	return fd == -EBADF;
}

struct bpf_program *looper_probe_program(const struct looper_bpf *skeleton, enum looper_probe probe)
{
	struct bpf_program *const programs[LOOPER_PROBES] = {
		[LOOPER_PROBE_LEAVE] = skeleton->progs.looper_leave,
		[LOOPER_PROBE_EPOLL] = skeleton->progs.looper_enter_epoll,
		[LOOPER_PROBE_POLL] = skeleton->progs.looper_enter_poll,
		[LOOPER_PROBE_SELECT] = skeleton->progs.looper_enter_select,
	};

	return programs[probe];
}

static int attach_one_by_one(struct looper_probes *probes, struct bpf_program *program, pid_t pid,
			     const char *path, const uint64_t *offsets, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct bpf_link *link =
			bpf_program__attach_uprobe(program, false, pid, path, offsets[i]);

		if (!link)
			return -errno;
		probes->links[probes->link_count++] = link;
	}
	return 0;
}

struct looper_probes *looper_kernel_probe(struct looper_kernel *kernel, pid_t pid, const char *path,
					  const struct looper_place *places, size_t count)
{
	struct looper_probes *probes;
	uint64_t offsets[LOOPER_MAX_PLACES];
	int err = 0;

	if (count > LOOPER_MAX_PLACES) {
		errno = E2BIG;
		return NULL;
	}
	probes = calloc(1, sizeof(*probes));
	if (!probes)
		return NULL;
	for (enum looper_probe probe = 0; probe < LOOPER_PROBES; probe++)
		probes->fds[probe] = -1;
	for (enum looper_probe probe = 0; probe < LOOPER_PROBES && !err; probe++) {
		struct bpf_program *program = looper_probe_program(kernel->skeleton, probe);
		size_t n = 0;

		for (size_t i = 0; i < count; i++)
			if (places[i].probe == probe)
				offsets[n++] = places[i].offset;
		if (!n)
			continue;
		if (!kernel->multi) {
			err = attach_one_by_one(probes, program, pid, path, offsets, n);
			continue;
		}
		probes->fds[probe] = create_multi(bpf_program__fd(program), path, offsets, n, pid);
		if (probes->fds[probe] < 0)
			err = probes->fds[probe];
	}
	if (!err)
		return probes;
	looper_probes_free(probes);
	errno = -err;
	return NULL;
}

void looper_probes_free(struct looper_probes *probes)
{
	if (!probes)
		return;
	for (int i = 0; i < LOOPER_PROBES; i++)
		if (probes->fds[i] >= 0)
			close(probes->fds[i]);
	for (size_t i = 0; i < probes->link_count; i++)
		bpf_link__destroy(probes->links[i]);
	free(probes);
}

const char *looper_kernel_probe_name(const struct looper_kernel *kernel)
{
	return kernel->multi ? "uprobe_multi" : "uprobe";
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/features.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernel/features_private.h"
#include "proc/selinux.h"

int feature_found(struct feature *row, const char *detail)
{
	snprintf(row->detail, sizeof(row->detail), "%s", detail);
	return 0;
}

int feature_absent(struct feature *row, int err, const char *what, const char *remedy)
{
	struct selinux selinux = {.permissive = true};

	snprintf(row->detail, sizeof(row->detail), "%s: %s", what, strerror(-err));
	snprintf(row->remedy, sizeof(row->remedy), "%s", remedy);
	if (err != -EPERM && err != -EACCES)
		return err;
	selinux_read(&selinux, SELINUX_CONTEXT_FILE, SELINUX_ENFORCE_FILE);
	if (geteuid() != 0)
		snprintf(row->remedy, sizeof(row->remedy),
			 "run as root, or with CAP_BPF and CAP_PERFMON");
	else if (!selinux.permissive)
		snprintf(row->remedy, sizeof(row->remedy),
			 "SELinux keeps %.64s from it, perhaps: see the row selinux",
			 selinux.context);
	return err;
}

static const struct {
	const char *name, *needed_by;
	bool required;
	int (*probe)(struct feature *row, const struct kernel_btf *btf);
} probes[] = {
	{"bpf", "everything exact", true, feature_bpf},
	{"btf", "all BPF programs", true, feature_btf},
	{"memlock", "BPF maps", true, feature_memlock},
	{"tp_btf", "the cheaper twin of each program", false, feature_tp_btf},
	{"raw_tp", "the twin for kernels without BTF", false, feature_raw_tp},
	{"ringbuf", "dead threads, blocks", true, feature_ringbuf},
	{"mmap_array", "reading sums without a syscall", true, feature_mmap_array},
	{"iter_task", "the baseline at start, --cpu iter", false, feature_iter_task},
	{"sched_process_free", "--cpu iter", false, feature_process_free},
	{"sys_enter", "--detector syscall", false, feature_sys_enter},
	{"test_run", "what runs at read-out", false, feature_test_run},
	{"atomics", "cheaper counters", false, feature_atomics},
	{"helpers", "block detection without a hash", false, feature_helpers},
	{"perf_event", "--stack perf", false, feature_perf_event},
	{"uprobe", "--detector uprobe", false, feature_uprobe},
	{"process_vm_readv", "--stack snapshot and ptrace", false, feature_vm_readv_row},
	{"ptrace", "--stack ptrace", false, feature_ptrace_row},
	{"tracefs", "--frames live", false, feature_tracefs},
	{"netns", "sockets of all network namespaces", false, feature_netns},
	{"sock_diag", "owners of sockets that were open before", false, feature_sock_diag},
	{"schedstat", "CPU times without BPF", false, feature_schedstat},
	{"namespaces", "task ids and clocks as the kernel has them", true, feature_namespaces},
	{"selinux", "all of the above", false, feature_selinux},
	{"capabilities", "all of the above", false, feature_capabilities},
};

size_t features_count(void)
{
	return sizeof(probes) / sizeof(probes[0]);
}

size_t features_probe(struct feature *rows, size_t room, const char *btf_file)
{
	struct kernel_btf btf;
	int btf_err = kernel_btf_open(&btf, btf_file, NULL);
	size_t i;

	for (i = 0; i < features_count() && i < room; i++) {
		struct feature *row = &rows[i];

		*row = (struct feature){.name = probes[i].name,
					.needed_by = probes[i].needed_by,
					.required = probes[i].required};
		if (btf_err && probes[i].probe == feature_btf)
			feature_absent(row, btf_err, btf_file,
				       "--btf needs a BTF or ELF file with one");
		else
			row->ok = probes[i].probe(row, &btf) == 0;
	}
	kernel_btf_close(&btf);
	return i;
}

const struct feature *features_find(const struct feature *rows, size_t count, const char *name)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (!strcmp(rows[i].name, name))
			return &rows[i];
	return NULL;
}

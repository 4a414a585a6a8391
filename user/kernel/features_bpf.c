/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/features_private.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "kernel/btf.h"
#include "kernel/probe.h"

/* ---- programs ---- */

/* Two instructions are a program: r0 = 0; exit. */
static int load_empty(enum bpf_prog_type type, enum bpf_attach_type attach, int btf_id)
{
	const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = attach);
	int fd;

	if (btf_id > 0)
		opts.attach_btf_id = (__u32)btf_id;
	fd = bpf_prog_load(type, "jankscope_probe", "Dual BSD/GPL", insns, 2, &opts);
	return fd < 0 ? -errno : fd;
}

/* Load and attach an empty program to a tracepoint, typed (btf_id > 0) or raw. */
static int attach_tracepoint(struct feature *row, const char *name, int btf_id)
{
	int program, link, err;

	program = btf_id > 0 ? load_empty(BPF_PROG_TYPE_TRACING, BPF_TRACE_RAW_TP, btf_id)
			     : load_empty(BPF_PROG_TYPE_RAW_TRACEPOINT, 0, 0);
	if (program < 0)
		return feature_absent(row, program, "load",
				      "needs CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS");
	link = bpf_raw_tracepoint_open(btf_id > 0 ? NULL : name, program);
	err = link < 0 ? -errno : 0;
	close(program);
	if (err)
		return feature_absent(row, err, "attach",
				      err == -ENOENT ? "this kernel has no such tracepoint"
						     : "needs CONFIG_BPF_EVENTS");
	close(link);
	snprintf(row->detail, sizeof(row->detail), "%s loads and attaches", name);
	return 0;
}

int feature_bpf(struct feature *row, const struct kernel_btf *btf)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "jankscope_probe", 4, 8, 1, NULL);

	if (fd < 0)
		return feature_absent(row, -errno, "bpf()",
				      errno == ENOSYS
					      ? "needs CONFIG_BPF_SYSCALL"
					      : "seccomp, SELinux or a locked-down kernel?");
	close(fd);
	return feature_found(row, "maps can be made");
}

#define KERNEL_BTF "/sys/kernel/btf/vmlinux"

/* libbpf tells of a BTF that it may not read as of one that is not there. */
static int btf_error(int err)
{
	return access(KERNEL_BTF, R_OK) && errno != ENOENT ? -errno : err;
}

int feature_btf(struct feature *row, const struct kernel_btf *btf)
{
	const struct embedded_btf *embedded = kernel_btf_embedded();
	struct utsname machine;

	switch (btf->origin) {
	case KERNEL_BTF_KERNEL:
		return feature_found(row, KERNEL_BTF);
	case KERNEL_BTF_FILE:
		snprintf(row->detail, sizeof(row->detail), "%s", btf->path);
		return 0;
	case KERNEL_BTF_EMBEDDED:
		snprintf(row->detail, sizeof(row->detail), "embedded for %s", btf->name);
		return 0;
	case KERNEL_BTF_NONE:
		break;
	}
	if (btf_error(0))
		return feature_absent(row, btf_error(0), KERNEL_BTF, "give --btf FILE");
	uname(&machine);
	snprintf(row->detail, sizeof(row->detail), "the kernel has none, %s for %.64s",
		 embedded->name ? "and none is embedded" : "and this build carries none:",
		 machine.release);
	snprintf(row->remedy, sizeof(row->remedy), "give --btf FILE%s",
		 embedded->name ? "" : ", or build with BTF_DIR");
	return -ENOENT;
}

int feature_tp_btf(struct feature *row, const struct kernel_btf *btf)
{
	int id = libbpf_find_vmlinux_btf_id("sched_switch", BPF_TRACE_RAW_TP);

	if (id < 0)
		return feature_absent(row, btf_error(id), "btf_trace_sched_switch",
				      "raw_tp is used; needs CONFIG_DEBUG_INFO_BTF");
	return attach_tracepoint(row, "sched_switch", id);
}

int feature_raw_tp(struct feature *row, const struct kernel_btf *btf)
{
	return attach_tracepoint(row, "sched_switch", 0);
}

int feature_process_free(struct feature *row, const struct kernel_btf *btf)
{
	return attach_tracepoint(row, "sched_process_free", 0);
}

int feature_sys_enter(struct feature *row, const struct kernel_btf *btf)
{
	return attach_tracepoint(row, "sys_enter", 0);
}

int feature_iter_task(struct feature *row, const struct kernel_btf *btf)
{
	int id = libbpf_find_vmlinux_btf_id("task", BPF_TRACE_ITER), program, link, iter, err = 0;
	char byte;

	if (id < 0)
		return feature_absent(row, btf_error(id), "bpf_iter_task",
				      "the baseline is read from /proc instead");
	program = load_empty(BPF_PROG_TYPE_TRACING, BPF_TRACE_ITER, id);
	if (program < 0)
		return feature_absent(row, program, "load",
				      "the baseline is read from /proc instead");
	link = bpf_link_create(program, 0, BPF_TRACE_ITER, NULL);
	iter = link < 0 ? -1 : bpf_iter_create(link);
	if (iter < 0 || read(iter, &byte, 1) < 0)
		err = -errno;
	if (iter >= 0)
		close(iter);
	if (link >= 0)
		close(link);
	close(program);
	return err ? feature_absent(row, err, "walk", "the baseline is read from /proc instead")
		   : feature_found(row, "walks all tasks");
}

int feature_test_run(struct feature *row, const struct kernel_btf *btf)
{
	__u64 arguments[2] = {0};
	LIBBPF_OPTS(bpf_test_run_opts, run, .ctx_in = arguments, .ctx_size_in = sizeof(arguments));
	int program = load_empty(BPF_PROG_TYPE_RAW_TRACEPOINT, 0, 0), err;

	if (program < 0)
		return feature_absent(row, program, "load", "");
	err = bpf_prog_test_run_opts(program, &run);
	close(program);
	/* 1b4d60ec162f (5.10) */
	return err ? feature_absent(row, err, "test run",
				    "running slices are added from /proc instead")
		   : feature_found(row, "raw_tp programs can be run by us");
}

/* fetch-and-add: older arm64 JITs know plain atomic add only (1902472b4fa9, 5.18). */
int feature_atomics(struct feature *row, const struct kernel_btf *btf)
{
	const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_1, .imm = 1},
		{.code = BPF_ST | BPF_MEM | BPF_DW, .dst_reg = BPF_REG_10, .off = -8},
		{.code = BPF_STX | BPF_ATOMIC | BPF_DW,
		 .dst_reg = BPF_REG_10,
		 .src_reg = BPF_REG_1,
		 .off = -8,
		 .imm = BPF_ADD | BPF_FETCH},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "jankscope_probe", "Dual BSD/GPL",
			       insns, sizeof(insns) / sizeof(insns[0]), NULL);

	if (fd < 0)
		return feature_absent(row, -errno, "load", "plain adds are used");
	close(fd);
	return feature_found(row, "fetch-and-add loads");
}

int feature_helpers(struct feature *row, const struct kernel_btf *btf)
{
	static const struct {
		enum bpf_func_id id;
		const char *name;
	} helpers[] = {
		{BPF_FUNC_probe_read_kernel, "probe_read_kernel"},
		{BPF_FUNC_probe_read_user, "probe_read_user"},
		{BPF_FUNC_ktime_get_boot_ns, "ktime_get_boot_ns"},
		{BPF_FUNC_get_current_task_btf, "get_current_task_btf"},
		{BPF_FUNC_task_pt_regs, "task_pt_regs"},
		{BPF_FUNC_task_storage_get, "task_storage_get"},
		{BPF_FUNC_get_stack, "get_stack"},
	};
	size_t i, length, missing = 0;
	int program = load_empty(BPF_PROG_TYPE_RAW_TRACEPOINT, 0, 0);

	/* Where nothing loads, libbpf cannot tell one refusal from another. */
	if (program < 0)
		return feature_absent(row, program, "load", "");
	close(program);
	length = (size_t)snprintf(row->detail, sizeof(row->detail), "without");
	for (i = 0; i < sizeof(helpers) / sizeof(helpers[0]); i++) {
		if (libbpf_probe_bpf_helper(BPF_PROG_TYPE_RAW_TRACEPOINT, helpers[i].id, NULL) !=
		    1) {
			missing++;
			if (length < sizeof(row->detail))
				length += (size_t)snprintf(row->detail + length,
							   sizeof(row->detail) - length, " %s",
							   helpers[i].name);
		}
	}
	if (!missing)
		return feature_found(row, "all that are used optionally");
	snprintf(row->remedy, sizeof(row->remedy), "the programs that need them stay unloaded");
	return -ENOTSUP;
}

/* ---- maps ---- */

static int absent_map(struct feature *row, int err, const char *what, const char *remedy)
{
	return feature_absent(row, err, what, err == -ENOSYS ? "needs CONFIG_BPF_SYSCALL" : remedy);
}

int feature_ringbuf(struct feature *row, const struct kernel_btf *btf)
{
	int page = (int)sysconf(_SC_PAGESIZE);
	int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "jankscope_probe", 0, 0, (__u32)page, NULL);

	if (fd < 0)
		return absent_map(row, -errno, "map", "needs Linux 5.8");
	close(fd);
	return feature_found(row, "can be made");
}

int feature_mmap_array(struct feature *row, const struct kernel_btf *btf)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "jankscope_probe", 4, 8, 1, &opts), err = 0;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *memory;

	if (fd < 0)
		return absent_map(row, -errno, "map", "needs Linux 5.5");
	memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		err = -errno;
	else
		munmap(memory, page);
	close(fd);
	return err ? feature_absent(row, err, "mmap", "") : feature_found(row, "can be mapped");
}

static int make_map(void)
{
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1};
	/* Not by libbpf, which raises the limit on its own. */
	int fd = (int)syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

int features_raise_memlock(void)
{
	struct rlimit old, none, all = {RLIM_INFINITY, RLIM_INFINITY};
	int err;

	if (getrlimit(RLIMIT_MEMLOCK, &old))
		return -errno;
	err = make_map();
	if (err && err != -EPERM)
		return err;
	none = (struct rlimit){0, old.rlim_max};
	if (setrlimit(RLIMIT_MEMLOCK, &none))
		return -errno;
	err = make_map();
	if (setrlimit(RLIMIT_MEMLOCK, &old))
		return -errno;
	if (err != -EPERM)
		return err;
	return setrlimit(RLIMIT_MEMLOCK, &all) ? -errno : 1;
}

int features_raise_nofile(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return -errno;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &limit) ? -errno : 0;
}

int feature_memlock(struct feature *row, const struct kernel_btf *btf)
{
	int status = features_raise_memlock();

	if (status < 0)
		return absent_map(row, status, "RLIMIT_MEMLOCK", "raise it (ulimit -l unlimited)");
	return feature_found(row, status ? "counted against RLIMIT_MEMLOCK, raised"
					 : "counted by memory cgroup, no limit to raise");
}

/* ---- events ---- */

static int open_event(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	int fd;

	attr->size = sizeof(*attr);
	fd = (int)syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int feature_perf_event(struct feature *row, const struct kernel_btf *btf)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = 1000000,
		.sample_type = PERF_SAMPLE_REGS_USER,
		.sample_regs_user = 1,
		.disabled = 1,
	};
	int fd = open_event(&attr, 0, -1), program, err = 0;

	if (fd < 0)
		return feature_absent(row, fd, "perf_event_open",
				      "needs CONFIG_PERF_EVENTS and rights to use it");
	program = load_empty(BPF_PROG_TYPE_PERF_EVENT, 0, 0);
	if (program < 0 || ioctl(fd, PERF_EVENT_IOC_SET_BPF, program))
		err = program < 0 ? program : -errno;
	if (program >= 0)
		close(program);
	close(fd);
	return err ? feature_absent(row, err, "BPF program on it", "needs CONFIG_BPF_EVENTS")
		   : feature_found(row, "samples registers, takes a BPF program");
}

int feature_uprobe(struct feature *row, const struct kernel_btf *btf)
{
	struct perf_event_attr attr = {.disabled = 1};
	uint64_t offset;
	unsigned type;
	FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	int fd, err;

	if (!file)
		return feature_absent(row, -errno, "uprobe events", "needs CONFIG_UPROBE_EVENTS");
	err = fscanf(file, "%u", &type) == 1 ? 0 : -EINVAL;
	fclose(file);
	if (!err)
		err = probe_own_file_offset(&offset);
	if (err)
		return feature_absent(row, err, "uprobe events", "");
	/* On a function of our own that is never called while the probe stands. */
	attr.type = type;
	attr.config1 = (uintptr_t) "/proc/self/exe";
	attr.config2 = offset;
	fd = open_event(&attr, -1, 0);
	if (fd < 0)
		return feature_absent(row, fd, "uprobe on ourselves", "needs CONFIG_UPROBES");
	close(fd);
	return feature_found(row, "can be set on a function");
}

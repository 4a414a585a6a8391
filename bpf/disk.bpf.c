/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Bytes that tasks read and write, as the kernel itself accounts them (task_struct.ioac), and the
 * calls that wait until storage has what was written. Nothing here runs unless a task ends, such a
 * call is made, or the reader walks the tasks. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi/disk.h"
#include "compat.bpf.h"
#include "loss.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define MS_SYNC 4 /* include/uapi/asm-generic/mman-common.h */

/* 4,000 ends of tasks between two readings. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 19);
} disk_ends SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2048);
	__type(key, struct disk_process);
	__type(value, struct disk_syncs);
} disk_syncs SEC(".maps");

/* Threads that are in such a call now. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct disk_call);
} disk_calls SEC(".maps");

DEFINE_LOSSES(disk_losses, DISK_LOSS_MAX);

/* The ring wakes its reader when it is so full. */
const volatile __u32 ring_wakeup_bytes = 1 << 18;
/* How often a kprobe ran: a kernel that lets them be set may not run them. */
__u32 sync_runs;

/* CONFIG_TASK_IO_ACCOUNTING; rchar and its neighbours are of CONFIG_TASK_XACCT, which that one
 * needs. */
#define HAS_IO_ACCOUNTING                                                     \
	(bpf_core_field_exists(((struct task_struct *)0)->ioac.read_bytes) && \
	 bpf_core_field_exists(((struct task_struct *)0)->ioac.rchar))

/* False: nothing to be told. */
static __always_inline bool read_io(struct task_struct *task, struct disk_sums *sums, bool direct)
{
	if (!HAS_IO_ACCOUNTING)
		return false;
	sums->read_bytes = TASK_FIELD(direct, task, ioac.read_bytes);
	sums->write_bytes = TASK_FIELD(direct, task, ioac.write_bytes);
	sums->cancelled_write_bytes = TASK_FIELD(direct, task, ioac.cancelled_write_bytes);
	sums->rchar_bytes = TASK_FIELD(direct, task, ioac.rchar);
	sums->wchar_bytes = TASK_FIELD(direct, task, ioac.wchar);
	sums->read_calls = TASK_FIELD(direct, task, ioac.syscr);
	sums->write_calls = TASK_FIELD(direct, task, ioac.syscw);
	return sums->read_bytes | sums->write_bytes | sums->cancelled_write_bytes |
	       sums->read_calls | sums->write_calls | sums->rchar_bytes | sums->wchar_bytes;
}

static __always_inline void describe(struct task_struct *task, struct disk_line *line, __u32 kind,
				     bool direct)
{
	line->task = (__u64)task;
	line->start_boot_ns = TASK_FIELD(direct, task, start_boottime);
	line->process_start_boot_ns = task_process_start(task, direct);
	line->tid = TASK_FIELD(direct, task, pid);
	line->tgid = TASK_FIELD(direct, task, tgid);
	line->uid = task_uid(task, direct);
	line->kind = kind;
	bpf_probe_read_kernel(line->comm, DISK_COMM_LEN, &task->comm);
}

SEC("?iter/task")
int disk_iterate(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct disk_line line = {};

	if (!task || !read_io(task, &line.sums, true))
		return 0;
	describe(task, &line, DISK_LINE_ALIVE, true);
	bpf_seq_write(ctx->meta->seq, &line, sizeof(line));
	return 0;
}

static __always_inline int tell_end(struct task_struct *task, __u32 kind)
{
	struct disk_line line = {};
	__u64 flags = BPF_RB_NO_WAKEUP;

	if (!read_io(task, &line.sums, false))
		return 0;
	describe(task, &line, kind, false);
	line.at_boot_ns = bpf_ktime_get_boot_ns();
	if (bpf_ringbuf_query(&disk_ends, BPF_RB_AVAIL_DATA) >= ring_wakeup_bytes)
		flags = BPF_RB_FORCE_WAKEUP;
	if (bpf_ringbuf_output(&disk_ends, &line, sizeof(line), flags))
		loss_add(&disk_losses, DISK_LOSS_RING_FULL, 1);
	return 0;
}

/* The interval in which a task ends has what it did until here; closing its files may still take
 * back what it wrote (cancelled_write_bytes). */
SEC("?raw_tp/sched_process_exit")
int disk_exit(struct bpf_raw_tracepoint_args *ctx)
{
	return tell_end((struct task_struct *)ctx->args[0], DISK_LINE_EXIT);
}

/* RCU frees it milliseconds to seconds later. */
SEC("?raw_tp/sched_process_free")
int disk_free(struct bpf_raw_tracepoint_args *ctx)
{
	return tell_end((struct task_struct *)ctx->args[0], DISK_LINE_FREE);
}

/* ---- fsync and its like ---- */

static __always_inline int sync_begins(__u32 kind)
{
	struct disk_call call = {.since_ns = bpf_ktime_get_ns(), .kind = kind};
	__u32 tid = (__u32)bpf_get_current_pid_tgid();

	sync_runs++;
	if (!bpf_map_update_elem(&disk_calls, &tid, &call, BPF_NOEXIST))
		return 0;
	/* The one before never returned: its kretprobe found no room. */
	if (!bpf_map_update_elem(&disk_calls, &tid, &call, BPF_EXIST))
		loss_add(&disk_losses, DISK_LOSS_SYNCS_MISSED, 1);
	else
		loss_add(&disk_losses, DISK_LOSS_SYNCS_FULL, 1);
	return 0;
}

/* The wrapper of a system call has its registers behind its first argument. */
#define SYSCALL_REGISTERS(ctx) ((struct pt_regs *)PT_REGS_PARM1(ctx))

SEC("?kprobe")
int disk_fsync(struct pt_regs *ctx)
{
	return sync_begins(DISK_FSYNC);
}

SEC("?kprobe")
int disk_fdatasync(struct pt_regs *ctx)
{
	return sync_begins(DISK_FDATASYNC);
}

SEC("?kprobe")
int disk_msync(struct pt_regs *ctx)
{
	return PT_REGS_PARM3_CORE_SYSCALL(SYSCALL_REGISTERS(ctx)) & MS_SYNC
		       ? sync_begins(DISK_MSYNC)
		       : 0;
}

SEC("?kprobe")
int disk_sync_file_range(struct pt_regs *ctx)
{
	return sync_begins(DISK_SYNC_FILE_RANGE);
}

static __always_inline struct disk_syncs *syncs_of(struct task_struct *task, __u32 pid)
{
	struct disk_process process = {.start_boot_ns = task_process_start(task, false),
				       .pid = pid};
	struct disk_syncs none = {}, *found = bpf_map_lookup_elem(&disk_syncs, &process);

	if (found)
		return found;
	none.uid = task_uid(task, false);
	bpf_map_update_elem(&disk_syncs, &process, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&disk_syncs, &process);
}

static __always_inline int sync_ends(bool failed)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	__u64 ids = bpf_get_current_pid_tgid();
	__u32 tid = (__u32)ids, kind;
	struct disk_call *call = bpf_map_lookup_elem(&disk_calls, &tid);
	struct disk_syncs *syncs;
	__u64 ns;

	/* It was called before the hooks were there, or is none that is counted. */
	if (!call)
		return 0;
	ns = bpf_ktime_get_ns() - call->since_ns;
	kind = call->kind & (DISK_SYNC_KINDS - 1);
	bpf_map_delete_elem(&disk_calls, &tid);
	syncs = syncs_of(task, ids >> 32);
	if (!syncs) {
		loss_add(&disk_losses, DISK_LOSS_SYNCS_FULL, 1);
		return 0;
	}
	if (failed)
		__sync_fetch_and_add(&syncs->kind[kind].failed, 1);
	else
		__sync_fetch_and_add(&syncs->kind[kind].count, 1);
	__sync_fetch_and_add(&syncs->kind[kind].time_ns, ns);
	return 0;
}

SEC("?kretprobe")
int disk_sync_returns(struct pt_regs *ctx)
{
	return sync_ends(PT_REGS_RC(ctx) != 0);
}

/* ---- the same without kprobes, on file systems that tell of it themselves ---- */

#ifdef __TARGET_ARCH_arm64
#define CALL_FIELD     syscallno
#define CALL_FSYNC     82
#define CALL_FDATASYNC 83
#define CALL_MSYNC     227
#else
#define CALL_FIELD     orig_ax
#define CALL_FSYNC     74
#define CALL_FDATASYNC 75
#define CALL_MSYNC     26
#endif

/* DISK_SYNC_KINDS: neither of these calls made the file system do it, as a write with O_SYNC. Where
 * the call is not known (the helper is of dd6e10fbd9fb, 5.15) what only writes data is fdatasync.
 */
static __always_inline __u32 kind_of_call(bool only_data)
{
	struct pt_regs *regs;

	if (!bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return only_data ? DISK_FDATASYNC : DISK_FSYNC;
	regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	/* By probe read: a direct one is held against the pt_regs of the machine that loads this,
	 * so that tests/vm/core_fields could not verify the program of another architecture. */
	switch ((__u32)BPF_CORE_READ(regs, CALL_FIELD)) {
	case CALL_FSYNC:
		return DISK_FSYNC;
	case CALL_FDATASYNC:
		return DISK_FDATASYNC;
	case CALL_MSYNC:
		return DISK_MSYNC;
	}
	return DISK_SYNC_KINDS;
}

static __always_inline int file_system_begins(bool only_data)
{
	__u32 kind = kind_of_call(only_data);

	return kind < DISK_SYNC_KINDS ? sync_begins(kind) : 0;
}

SEC("?raw_tp/ext4_sync_file_enter")
int disk_ext4_begins(struct bpf_raw_tracepoint_args *ctx)
{
	return file_system_begins((__u32)ctx->args[1] != 0);
}

SEC("?raw_tp/ext4_sync_file_exit")
int disk_ext4_ends(struct bpf_raw_tracepoint_args *ctx)
{
	return sync_ends((__u32)ctx->args[1] != 0);
}

SEC("?raw_tp/f2fs_sync_file_enter")
int disk_f2fs_begins(struct bpf_raw_tracepoint_args *ctx)
{
	return file_system_begins(false);
}

/* inode, cp_reason, datasync, ret */
SEC("?raw_tp/f2fs_sync_file_exit")
int disk_f2fs_ends(struct bpf_raw_tracepoint_args *ctx)
{
	return sync_ends((__u32)ctx->args[3] != 0);
}

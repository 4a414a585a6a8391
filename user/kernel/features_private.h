/* SPDX-License-Identifier: BSD-2-Clause */
/* The probes behind the table of features.c, one a row: 0 when it is here, a negative errno when
 * not; both say it in the row. */
#pragma once
#include "kernel/btf.h"
#include "kernel/features.h"

int feature_found(struct feature *row, const char *detail);
int feature_absent(struct feature *row, int err, const char *what, const char *remedy);

/* features_bpf.c: programs, maps, events */
int feature_bpf(struct feature *row, const struct kernel_btf *btf);
int feature_btf(struct feature *row, const struct kernel_btf *btf);
int feature_tp_btf(struct feature *row, const struct kernel_btf *btf);
int feature_raw_tp(struct feature *row, const struct kernel_btf *btf);
int feature_process_free(struct feature *row, const struct kernel_btf *btf);
int feature_sys_enter(struct feature *row, const struct kernel_btf *btf);
int feature_iter_task(struct feature *row, const struct kernel_btf *btf);
int feature_test_run(struct feature *row, const struct kernel_btf *btf);
int feature_atomics(struct feature *row, const struct kernel_btf *btf);
int feature_helpers(struct feature *row, const struct kernel_btf *btf);
int feature_ringbuf(struct feature *row, const struct kernel_btf *btf);
int feature_mmap_array(struct feature *row, const struct kernel_btf *btf);
int feature_memlock(struct feature *row, const struct kernel_btf *btf);
int feature_perf_event(struct feature *row, const struct kernel_btf *btf);
int feature_uprobe(struct feature *row, const struct kernel_btf *btf);

/* features_system.c: what needs no BPF */
int feature_tracefs(struct feature *row, const struct kernel_btf *btf);
int feature_netns(struct feature *row, const struct kernel_btf *btf);
int feature_sock_diag(struct feature *row, const struct kernel_btf *btf);
int feature_schedstat(struct feature *row, const struct kernel_btf *btf);
int feature_selinux(struct feature *row, const struct kernel_btf *btf);
int feature_capabilities(struct feature *row, const struct kernel_btf *btf);
int feature_namespaces(struct feature *row, const struct kernel_btf *btf);
int feature_vm_readv_row(struct feature *row, const struct kernel_btf *btf);
int feature_ptrace_row(struct feature *row, const struct kernel_btf *btf);

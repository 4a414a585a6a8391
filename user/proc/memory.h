/* SPDX-License-Identifier: BSD-2-Clause */
/* What /proc tells of memory: of a process in status and smaps, of the machine in meminfo and
 * pressure/memory. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "jankscope/record.h"

/* Of /proc/PID/status; a kernel thread and a zombie have the last one only. The kernel takes these
 * from its counters and takes no lock of the process. */
struct proc_memory {
	struct opt_u64 virtual_bytes, rss_bytes, anon_bytes, file_bytes, shmem_bytes, swap_bytes;
	struct opt_u64 hugetlb_bytes, threads;
};
void proc_parse_memory(const char *text, size_t length, struct proc_memory *memory);

/* Of /proc/PID/smaps_rollup, or of one mapping in smaps. To make it the kernel walks the page
 * tables under the process's mmap_lock. */
struct proc_smaps {
	struct opt_u64 rss_bytes, pss_bytes, pss_anon_bytes, pss_file_bytes, pss_shmem_bytes;
	struct opt_u64 private_clean_bytes, private_dirty_bytes, swap_bytes, swap_pss_bytes;
};
void proc_parse_smaps(const char *text, size_t length, struct proc_smaps *smaps);

/* What a mapping is for, by its name: as dumpsys meminfo groups them
 * (frameworks/base/core/jni/android_os_Debug.cpp, load_maps). */
enum memory_kind {
	MEMORY_JAVA_HEAP = 0,  /* the spaces of ART's heap, and images of it (.art) */
	MEMORY_JAVA_OTHER = 1, /* what else ART keeps: LinearAlloc, its JIT's code, tables */
	MEMORY_NATIVE_HEAP = 2,
	MEMORY_STACK = 3,
	MEMORY_CODE = 4,     /* files that are programs or parts of them */
	MEMORY_GRAPHICS = 5, /* buffers of the GPU and dmabufs */
	MEMORY_OTHER = 6,
	MEMORY_KINDS = 7,
};
enum memory_kind proc_memory_kind(const char *name, size_t length);

/* Sums of a smaps by kind; begins as 0. */
struct proc_smaps_kinds {
	struct {
		uint64_t mappings, pss_bytes, swap_pss_bytes, private_dirty_bytes;
	} kind[MEMORY_KINDS];
	enum memory_kind at; /* of the mapping whose lines come */
	bool begun;
};
/* Take the next line, without its newline. */
void proc_take_smaps_line(struct proc_smaps_kinds *kinds, const char *line, const char *end);

struct proc_meminfo {
	struct opt_u64 total_bytes, available_bytes, swap_total_bytes, swap_free_bytes;
};
void proc_parse_meminfo(const char *text, size_t length, struct proc_meminfo *meminfo);

/* How long some tasks, or all that were not idle, waited for memory, since boot. */
struct proc_pressure {
	struct opt_u64 some_ns, full_ns;
};
void proc_parse_pressure(const char *text, size_t length, struct proc_pressure *pressure);

/* Of /proc/PID/fdinfo/FD: a dmabuf (dma_buf_show_fdinfo), or a file of a GPU's driver
 * (Documentation/gpu/drm-usage-stats.rst). */
struct proc_buffer {
	struct opt_u64 dmabuf_bytes; /* absent: it is no dmabuf */
	struct opt_u64 inode;        /* two descriptors of one buffer have one; since 5.14 */
	bool senseless;              /* of a GPU's region: the others are no sum */
	struct opt_u64 gpu_bytes; /* drm-total-* of all regions; absent: the driver does not tell */
	struct opt_u64 gpu_client; /* drm-client-id: two descriptors of one client have one */
};
void proc_parse_buffer(const char *text, size_t length, struct proc_buffer *buffer);

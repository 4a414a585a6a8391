/* SPDX-License-Identifier: BSD-2-Clause */
/* What the memory source adds to an interval. */
#include "jankscope/field.h"
#include "source/declarations.h"

/* By enum memory_kind. */
static const char *const kind_words[] = {"java_heap", "java_other", "native_heap", "stack",
					 "code",      "graphics",   "other",       NULL};

static const struct field kind_rows[] = {
	FIELD_WORDS(struct record_memory_kind, kind, REQUIRED, kind_words,
		    "what the mappings are for, by their names", MERGED(KEY)),
	FIELD(struct record_memory_kind, mappings, REQUIRED, COUNT, "how many there are",
	      MERGED(LAST)),
	FIELD(struct record_memory_kind, pss_bytes, REQUIRED, BYTES,
	      "their share of resident memory; each mapping's is cut to whole KiB", MERGED(LAST)),
	FIELD(struct record_memory_kind, swap_pss_bytes, REQUIRED, BYTES,
	      "their share of what is swapped out", MERGED(LAST)),
	FIELD(struct record_memory_kind, private_dirty_bytes, REQUIRED, BYTES,
	      "what would be free without the process", MERGED(LAST)),
};
static const struct field_type kind_type =
	FIELD_TYPE("memory_kind", struct record_memory_kind, kind_rows);

static const struct field cost_rows[] = {
	FIELD(struct record_memory_cost, wall_ns, REQUIRED, NS,
	      "length of the reading: the process's mmap_lock was waited for and then held for "
	      "reading, no longer than this",
	      MERGED(SUM)),
	FIELD(struct record_memory_cost, cpu_ns, REQUIRED, NS, "CPU time of the reading",
	      MERGED(SUM)),
};
static const struct field_type cost_type =
	FIELD_TYPE("memory_cost", struct record_memory_cost, cost_rows);

#define PROCESS(member, need_, unit_, meaning_, ...) \
	FIELD(struct record_memory_process, member, need_, unit_, meaning_, __VA_ARGS__)
/* A reading: of several the newest counts, and no mean of them is one. */
#define PROCESS_BYTES(member, meaning_) PROCESS(member, OPTIONAL, BYTES, meaning_, MERGED(LAST))

static const struct field process_rows[] = {
	PROCESS(pid, REQUIRED, ID, "process", MERGED(KEY)),
	PROCESS(uid, REQUIRED, ID, "its uid"),
	PROCESS(start_boot_ns, REQUIRED, NS, "when it began, in whole ticks of 10 ms", MERGED(KEY)),
	PROCESS(process, OPTIONAL, NAME, "its name"),
	PROCESS(package, OPTIONAL, NAME, "package"),
	PROCESS_BYTES(rss_bytes, "resident memory, shared pages in full"),
	PROCESS_BYTES(rss_anon_bytes, "of this: anonymous"),
	PROCESS_BYTES(rss_file_bytes, "of this: of files"),
	PROCESS_BYTES(rss_shmem_bytes, "of this: shared memory and tmpfs"),
	PROCESS_BYTES(swap_bytes, "anonymous memory that is swapped out"),
	PROCESS_BYTES(hugetlb_bytes, "huge pages of hugetlbfs: in no other figure but vss_bytes"),
	PROCESS_BYTES(vss_bytes, "address space that is mapped"),
	PROCESS(threads, OPTIONAL, COUNT, "threads", MERGED(LAST)),
	PROCESS(fds, OPTIONAL, COUNT, "descriptors that are open", MERGED(LAST)),
	PROCESS(t_boot_ns, OPTIONAL, NS,
		"when the values below were read, which is every --smaps (fds too, before "
		"Linux 6.2)",
		MERGED(LAST)),
	PROCESS_BYTES(pss_bytes, "resident memory, a shared page divided by those who map it"),
	PROCESS_BYTES(pss_anon_bytes, "of this: anonymous"),
	PROCESS_BYTES(pss_file_bytes, "of this: of files"),
	PROCESS_BYTES(pss_shmem_bytes, "of this: shared memory and tmpfs"),
	PROCESS_BYTES(private_clean_bytes, "resident memory of this process alone, as in its file"),
	PROCESS_BYTES(private_dirty_bytes, "resident memory of this process alone, written to"),
	PROCESS_BYTES(swap_pss_bytes, "swap, a shared page divided by those who map it"),
	PROCESS_BYTES(dmabuf_bytes, "dmabufs that it has open, each once"),
	PROCESS(dmabufs, OPTIONAL, COUNT, "how many these are", MERGED(LAST)),
	PROCESS_BYTES(gpu_bytes, "memory of the GPU, as its driver counts it"),
	FIELD_STRUCT_IF("smaps_rollup", struct record_memory_process, rollup_cost, has_rollup,
			&cost_type, "what the reading of pss_bytes cost"),
	FIELD_STRUCT_IF("smaps", struct record_memory_process, kinds_cost, has_kinds, &cost_type,
			"what the reading of kinds cost"),
	FIELD_ROWS("kinds", struct record_memory_process, kinds, kind_count, NONZERO, &kind_type,
		   "what the memory is used for, every sixth --smaps", MERGED(LAST)),
	PROCESS(missing, NONZERO, NAME,
		"what should be here and could not be read, with its reason", TEXT_IS(SENTENCE)),
};
static const struct field_type process_type =
	FIELD_TYPE("memory_process", struct record_memory_process, process_rows);

#define SYSTEM(member, unit_, meaning_, ...) \
	FIELD(struct record_memory_system, member, OPTIONAL, unit_, meaning_, __VA_ARGS__)

static const struct field system_rows[] = {
	SYSTEM(total_bytes, BYTES, "memory that the kernel manages", MERGED(LAST)),
	SYSTEM(available_bytes, BYTES, "what a program could get without swapping (MemAvailable)",
	       MERGED(MIN)),
	SYSTEM(swap_total_bytes, BYTES, "size of the swap areas, as zram", MERGED(LAST)),
	SYSTEM(swap_free_bytes, BYTES, "what is free of them", MERGED(MIN)),
	SYSTEM(pressure_some_ns, NS,
	       "time in this interval in which some task waited for memory (PSI)", MERGED(SUM)),
	SYSTEM(pressure_full_ns, NS, "time in which all tasks that had work waited for memory",
	       MERGED(SUM)),
	SYSTEM(dmabuf_bytes, BYTES, "all dmabufs of the machine (/sys/kernel/dmabuf/buffers)",
	       MERGED(LAST)),
	SYSTEM(gpu_bytes, BYTES, "memory of all GPUs (gpu_mem_total)", MERGED(LAST)),
};
static const struct field_type system_type =
	FIELD_TYPE("memory_system", struct record_memory_system, system_rows);

static const struct field memory_rows[] = {
	FIELD_ROWS("processes", struct record_memory, processes, process_count, REQUIRED,
		   &process_type, "the processes of the targets"),
	FIELD_STRUCT("system", struct record_memory, system, &system_type, "the whole machine"),
};
static const struct field_type memory_type =
	FIELD_TYPE("memory", struct record_memory, memory_rows);

const struct field memory_part =
	FIELD_STRUCT_IF("memory", struct record_interval, memory, memory.present, &memory_type,
			"memory of the targets and of the machine");

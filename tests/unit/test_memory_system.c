/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of the machine from made-up files of /sys and a map as Android's: sums are whole, or
 * absent with their reason. */
#include <bpf/bpf.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source/memory/private.h"

static char root[64];
static struct memory_source *memory;
static struct source_context context = {.interval_ns = NSEC_PER_SEC};
static struct record_memory_system told;
static struct missing_list missing;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void begin(void)
{
	strcpy(root, "/tmp/jankscope-dmabufs.XXXXXX");
	cr_assert(mkdtemp(root));
	memory = calloc(1, sizeof(*memory));
	memory->context = &context;
	memory->options.dmabufs = root;
	memory->meminfo = memory->pressure = memory->gpu_map = -ENOENT;
}

static void end(void)
{
	nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	missing_list_free(&missing);
	memory_system_close(memory);
	free(memory->gpus);
	free(memory);
}

TestSuite(memory_system, .init = begin, .fini = end);

static void put(const char *buffer, const void *text, size_t length)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", root, buffer);
	mkdir(path, 0755);
	strcat(path, "/size");
	remove(path);
	if (!text) {
		cr_assert_eq(mkfifo(path, 0644), 0);
		return;
	}
	file = fopen(path, "we");
	cr_assert(file && fwrite(text, 1, length, file) == length);
	fclose(file);
}

static void read_it(void)
{
	missing_list_free(&missing);
	told = (struct record_memory_system){0};
	memory->dmabufs_due_ns = 0;
	cr_assert_eq(memory_system_read(memory, &told, &missing), 0);
}

Test(memory_system, dmabufs)
{
	read_it();
	cr_expect(told.dmabuf_bytes.present && !told.dmabuf_bytes.value);
	put("77", "4096\n", 5);
	put("78", "18446744073709547519\n", 21);
	read_it();
	cr_expect_eq(told.dmabuf_bytes.value, UINT64_MAX);
	cr_expect_null(missing_reason(&missing, "memory.system.dmabuf_bytes"));
	/* Their sum is no number any more. */
	put("79", "1\n", 2);
	read_it();
	cr_expect(!told.dmabuf_bytes.present);
	cr_expect_str_eq(missing_reason(&missing, "memory.system.dmabuf_bytes"),
			 "the kernel's text makes no sense");
}

/* What is left of the sum where one of them tells nothing is no sum. */
Test(memory_system, hostile_dmabufs)
{
	static const char *const texts[] = {
		"",         "\n",        "-1\n",  "18446744073709551616\n",
		"0x10\n",   "12 kB\n",   "12x\n", " 12\n",
		"+12\n",    ") R 1 2\n", "12",    "\xff\xfe",
		"12\n13\n",
	};
	char *megabyte = malloc(1 << 20);

	put("77", "4096\n", 5);
	for (size_t i = 0; i <= sizeof(texts) / sizeof(*texts) + 1; i++) {
		memset(megabyte, '9', 1 << 20);
		if (i < sizeof(texts) / sizeof(*texts))
			put("78", texts[i], strlen(texts[i]));
		else if (i == sizeof(texts) / sizeof(*texts))
			put("78", megabyte, 1 << 20);
		else
			put("78", NULL, 0); /* a FIFO that never answers */
		read_it();
		cr_expect(!told.dmabuf_bytes.present, "%zu: %llu", i,
			  (unsigned long long)told.dmabuf_bytes.value);
		cr_expect_str_eq(missing_reason(&missing, "memory.system.dmabuf_bytes"),
				 "the kernel's text makes no sense", "%zu", i);
	}
	free(megabyte);
}

Test(memory_system, more_dmabufs_than_are_looked_at)
{
	char name[16];

	for (unsigned i = 0; i < 4097; i++) {
		snprintf(name, sizeof(name), "%u", 100 + i);
		put(name, "4096\n", 5);
	}
	read_it();
	cr_expect(!told.dmabuf_bytes.present);
	cr_expect(strstr(missing_reason(&missing, "memory.system.dmabuf_bytes"), "4096"));
}

/* ---- the map of Android's gpu_mem_total program ---- */

#define KEY(gpu, pid) ((uint64_t)(gpu) << 32 | (pid))

static void set(uint64_t key, uint64_t bytes)
{
	cr_assert_eq(bpf_map_update_elem(memory->gpu_map, &key, &bytes, BPF_ANY), 0);
}

static void make_map(uint32_t rows)
{
	memory->gpu_map = bpf_map_create(BPF_MAP_TYPE_HASH, "gpu_mem", 8, 8, rows, NULL);
	if (memory->gpu_map < 0)
		cr_skip("no BPF map can be made here");
}

Test(memory_system, gpus)
{
	make_map(1024);
	read_it();
	cr_expect(!told.gpu_bytes.present, "nothing is no 0");
	cr_expect(missing_reason(&missing, "memory.system.gpu_bytes"));
	set(KEY(0, 0), 5 << 20);
	set(KEY(1, 0), 7 << 20);
	set(KEY(0, 4321), 1 << 20);
	set(KEY(1, 4321), 2 << 20);
	set(KEY(0, 4322), 0);
	read_it();
	cr_expect_eq(told.gpu_bytes.value, 12 << 20);
	cr_expect_eq(memory_gpu_of(memory, 4321).value, 3 << 20, "of two GPUs");
	cr_expect(memory_gpu_of(memory, 4322).present && !memory_gpu_of(memory, 4322).value);
	cr_expect(!memory_gpu_of(memory, 4323).present);
	cr_expect_null(missing_reason(&missing, "memory.system.gpu_bytes"));
}

Test(memory_system, more_gpu_rows_than_are_read)
{
	make_map(8192);
	for (uint32_t pid = 0; pid < 5000; pid++)
		set(KEY(0, pid), 4096);
	read_it();
	cr_expect(!told.gpu_bytes.present && !memory_gpu_of(memory, 77).present);
	cr_expect(strstr(missing_reason(&missing, "memory.system.gpu_bytes"), "4096"));
}

static atomic_bool stops;

static void *churn(void *unused)
{
	uint64_t bytes = 4096;

	for (uint32_t pid = 100; !stops; pid = pid < 400 ? pid + 1 : 100) {
		uint64_t key = KEY(0, pid);

		bpf_map_update_elem(memory->gpu_map, &key, &bytes, BPF_ANY);
		key = KEY(0, pid < 250 ? pid + 150 : pid - 150);
		bpf_map_delete_elem(memory->gpu_map, &key);
	}
	return NULL;
}

/* Processes come and go while the map is read: what one that stays has is told once. */
Test(memory_system, gpus_of_processes_that_come_and_go)
{
	pthread_t thread;
	unsigned wrong = 0;

	make_map(1024);
	for (uint32_t pid = 1; pid < 100; pid++)
		set(KEY(0, pid), pid);
	cr_assert_eq(pthread_create(&thread, NULL, churn, NULL), 0);
	for (unsigned i = 0; i < 300; i++) {
		read_it();
		for (uint32_t pid = 1; pid < 100; pid++)
			wrong += memory_gpu_of(memory, (pid_t)pid).value != pid;
	}
	stops = true;
	pthread_join(thread, NULL);
	cr_expect_eq(wrong, 0, "%u of 29700", wrong);
}

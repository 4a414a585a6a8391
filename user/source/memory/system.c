/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of the whole machine, and what is told of it by process only in one place. */
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "kernel/map_read.h"
#include "proc/memory.h"
#include "proc/read.h"
#include "source/memory/private.h"
#include "util/clock.h"

/* Android's gpuMem.o keeps what the tracepoint gpu_mem_total said last: (GPU << 32 | pid) to bytes,
 * pid 0 is the whole GPU (frameworks/native/services/gpuservice/bpfprogs/gpuMem.c). */
#define GPU_MAP      "/sys/fs/bpf/map_gpuMem_gpu_mem_total_map"
#define MAX_GPU_ROWS 4096

#define DMABUFS     "/sys/kernel/dmabuf/buffers"
#define MAX_DMABUFS 4096
#define DMABUFS_NS  (10 * NSEC_PER_SEC)

/* A file of /proc that is the kernel's: where lxcfs or a mount of somebody stands in its place, the
 * figures are another machine's, and to open it may take for ever. A descriptor or -errno; -EXDEV:
 * it is another file system's. */
static int open_kernels(const char *path)
{
	int place = open(path, O_PATH | O_CLOEXEC), fd;
	struct statfs fs;
	char name[48];

	if (place < 0)
		return -errno;
	if (fstatfs(place, &fs) || fs.f_type != PROC_SUPER_MAGIC) {
		close(place);
		return -EXDEV;
	}
	snprintf(name, sizeof(name), "/proc/self/fd/%d", place);
	fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		fd = -errno;
	close(place);
	return fd;
}

static int open_gpu_map(const char *path)
{
	LIBBPF_OPTS(bpf_obj_get_opts, options, .file_flags = BPF_F_RDONLY);
	struct bpf_map_info info = {0};
	uint32_t size = sizeof(info);
	int fd = bpf_obj_get_opts(path, &options);

	if (fd < 0)
		return fd;
	if (!bpf_obj_get_info_by_fd(fd, &info, &size) && info.type == BPF_MAP_TYPE_HASH &&
	    info.key_size == sizeof(uint64_t) && info.value_size == sizeof(uint64_t))
		return fd;
	close(fd);
	return -EPROTO;
}

void memory_system_open(struct memory_source *memory)
{
	memory->meminfo = open_kernels("/proc/meminfo");
	memory->pressure = open_kernels("/proc/pressure/memory");
	memory->gpu_map = open_gpu_map(memory->options.gpu_map ?: GPU_MAP);
}

void memory_system_close(struct memory_source *memory)
{
	int *const fds[] = {&memory->meminfo, &memory->pressure, &memory->gpu_map};

	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -EBADF;
	}
}

/* Bytes of text, or -errno. */
static ssize_t read_again(struct memory_source *memory, int fd)
{
	ssize_t n;

	if (fd < 0)
		return fd;
	n = pread(fd, memory->text, sizeof(memory->text), 0);
	return n < 0 ? -errno : n;
}

static int tell_missing(struct missing_list *missing, const char *key, ssize_t err)
{
	const char *why = err == -EXDEV     ? "another file system's file stands in its place"
			  : err == -EPROTO  ? "the map is not as Android's"
			  : err == -E2BIG   ? "there are more than 4096: not all are looked at"
			  : err == -EBADMSG ? "the kernel's text makes no sense"
			  : err             ? strerror((int)-err)
					    : "the kernel's text makes no sense";

	return missing_list_set(missing, key, why);
}

/* ---- GPUs ---- */

static int by_pid(const void *a, const void *b)
{
	const struct memory_gpu *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static int take_gpu(void *ctx, const void *key, const void *value)
{
	struct memory_source *memory = ctx;
	struct memory_gpu *gpu = &memory->gpus[memory->gpu_count];

	/* A part of a sum is none. */
	if (memory->gpu_count == MAX_GPU_ROWS)
		return -E2BIG;
	gpu->pid = (uint32_t) * (const uint64_t *)key;
	gpu->bytes = *(const uint64_t *)value;
	memory->gpu_count++;
	return 0;
}

/* Each row that stays is met once, whatever comes and goes meanwhile (map_read()). */
static int read_gpus(struct memory_source *memory)
{
	int err;

	memory->gpu_count = 0;
	if (memory->gpu_map < 0)
		return memory->gpu_map;
	if (!memory->gpus)
		memory->gpus = calloc(MAX_GPU_ROWS, sizeof(*memory->gpus));
	if (!memory->gpus)
		return -ENOMEM;
	err = map_read(memory->gpu_map, sizeof(uint64_t), sizeof(uint64_t), MAX_GPU_ROWS, take_gpu,
		       memory);
	if (err)
		memory->gpu_count = 0;
	else if (memory->gpu_count)
		qsort(memory->gpus, memory->gpu_count, sizeof(*memory->gpus), by_pid);
	return err;
}

struct opt_u64 memory_gpu_of(const struct memory_source *memory, pid_t pid)
{
	struct opt_u64 sum = {0};
	size_t low = 0, high = memory->gpu_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (memory->gpus[middle].pid < (uint32_t)pid)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < memory->gpu_count && memory->gpus[low].pid == (uint32_t)pid; low++)
		sum = SOME_U64(sum.value + memory->gpus[low].bytes);
	return sum;
}

/* ---- dmabufs ---- */

/* Digits and a newline. */
static int read_size(int folder, const char *buffer, uint64_t *size)
{
	char name[300], text[32], *end;
	ssize_t n;

	snprintf(name, sizeof(name), "%s/size", buffer);
	n = proc_read(folder, name, text, sizeof(text));
	if (n < 0)
		return (int)n;
	errno = 0;
	*size = strtoull(text, &end, 10);
	return errno || text[0] < '0' || text[0] > '9' || strcmp(end, "\n") ? -EBADMSG : 0;
}

/* /sys/kernel/dmabuf/buffers/INODE/size, of each buffer. */
static int read_dmabufs(const char *path, struct opt_u64 *bytes)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	uint64_t sum = 0, size = 0;
	size_t count = 0;
	int err = 0;

	if (!folder)
		return -errno;
	while (!err && (entry = readdir(folder))) {
		if (entry->d_name[0] == '.')
			continue;
		err = ++count > MAX_DMABUFS ? -E2BIG
					    : read_size(dirfd(folder), entry->d_name, &size);
		/* A buffer that is gone by now counts no more; a part of a sum is none. */
		if (err == -ENOENT || err == -ENODEV)
			err = 0;
		else if (!err && __builtin_add_overflow(sum, size, &sum))
			err = -EBADMSG;
	}
	closedir(folder);
	if (!err)
		*bytes = SOME_U64(sum);
	return err;
}

static int add_dmabufs(struct memory_source *memory, struct record_memory_system *system,
		       struct missing_list *missing)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	int err;

	if (now_ns + memory->context->interval_ns / 2 < memory->dmabufs_due_ns)
		return 0;
	memory->dmabufs_due_ns = now_ns + DMABUFS_NS;
	err = read_dmabufs(memory->options.dmabufs ?: DMABUFS, &system->dmabuf_bytes);
	return err ? tell_missing(missing, "memory.system.dmabuf_bytes", err) : 0;
}

static void add_pressure(struct memory_source *memory, const struct proc_pressure *now,
			 struct record_memory_system *system)
{
	/* The sums begin anew where PSI is switched off and on. */
	if (memory->pressure_before.taken &&
	    now->some_ns.value >= memory->pressure_before.some_ns &&
	    now->full_ns.value >= memory->pressure_before.full_ns) {
		system->pressure_some_ns =
			SOME_U64(now->some_ns.value - memory->pressure_before.some_ns);
		system->pressure_full_ns =
			SOME_U64(now->full_ns.value - memory->pressure_before.full_ns);
	}
	memory->pressure_before.some_ns = now->some_ns.value;
	memory->pressure_before.full_ns = now->full_ns.value;
	memory->pressure_before.taken = true;
}

int memory_system_read(struct memory_source *memory, struct record_memory_system *system,
		       struct missing_list *missing)
{
	struct proc_pressure pressure = {0};
	struct proc_meminfo meminfo = {0};
	ssize_t n = read_again(memory, memory->meminfo);
	int err = 0;

	if (n > 0)
		proc_parse_meminfo(memory->text, (size_t)n, &meminfo);
	system->total_bytes = meminfo.total_bytes;
	system->available_bytes = meminfo.available_bytes;
	system->swap_total_bytes = meminfo.swap_total_bytes;
	system->swap_free_bytes = meminfo.swap_free_bytes;
	if (!meminfo.available_bytes.present)
		err = tell_missing(missing, "memory.system.available_bytes", n < 0 ? n : 0);
	n = read_again(memory, memory->pressure);
	if (n > 0)
		proc_parse_pressure(memory->text, (size_t)n, &pressure);
	if (pressure.some_ns.present && pressure.full_ns.present)
		add_pressure(memory, &pressure, system);
	else if (!err)
		err = tell_missing(missing, "memory.system.pressure_some_ns", n < 0 ? n : 0);
	n = read_gpus(memory);
	system->gpu_bytes = memory_gpu_of(memory, 0);
	if (!n && !system->gpu_bytes.present)
		n = -ENODATA;
	if (n && !err)
		err = tell_missing(missing, "memory.system.gpu_bytes", n);
	return err ? err : add_dmabufs(memory, system, missing);
}

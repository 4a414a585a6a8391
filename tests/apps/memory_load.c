/* SPDX-License-Identifier: BSD-2-Clause */
/* Does with memory, descriptors and files what it is told, by the byte, and says when it is done.
 * usage: memory_load      commands on stdin, one a line; "ok ..." or "error ..." for each
 *   huge N       map N bytes of hugetlbfs, private, and write to each page
 *   anon N       map N bytes and write to each page     free      give the last mapping back
 *   call TEXT    give the last mapping that name ([anon:TEXT], where the kernel has that)
 *   dmabuf N     N bytes of the dmabuf heap "system"   dup      another descriptor of the last one
 *   pageout      have the last mapping swapped out      touch     write to each page of it again
 *   share N      share N bytes with a child, which writes to each page too: "ok CHILD-PID"
 *   threads N    so many threads more, that sleep       fds N     so many descriptors more
 *   leak N       write to N bytes more each second, in pages, until the end
 *   name TEXT    the name of the main thread
 *   leave        the main thread ends, and another one obeys
 *   write PATH N [sync]   a file of N bytes, written through to the disk
 *   read PATH    the whole file, from the disk
 *   brief write PATH N    the same, by a child that lives no longer than that
 *   thread write PATH N   the same, by a thread
 *   sync PATH N  N fdatasyncs of a file that is written to: "ok NANOSECONDS" */
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA           0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif
#define BLOCK 1048576

static struct {
	char *at;
	size_t bytes;
} mappings[64];
static size_t mapping_count;
static int last_dmabuf = -1;

/* What differs in each page is kept by no compression and merged by nobody. */
static void write_pages(char *at, size_t bytes)
{
	static uint64_t seed = 88172645463325252ull;

	for (size_t i = 0; i < bytes; i += 4096) {
		for (size_t word = 0; word < 4096 / 8 && i + 8 * word < bytes; word++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			memcpy(at + i + 8 * word, &seed, 8);
		}
	}
}

static char *map(size_t bytes, int flags)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	madvise(at, bytes, MADV_NOHUGEPAGE); /* hugetlbfs has huge ones all the same */
	write_pages(at, bytes);
	return at;
}

static int keep(char *at, size_t bytes)
{
	if (!at || mapping_count == sizeof(mappings) / sizeof(*mappings))
		return -ENOMEM;
	mappings[mapping_count].at = at;
	mappings[mapping_count++].bytes = bytes;
	return 0;
}

static long make_dmabuf(size_t bytes)
{
	struct dma_heap_allocation_data made = {.len = bytes, .fd_flags = O_RDWR | O_CLOEXEC};
	int heap = open("/dev/dma_heap/system", O_RDONLY | O_CLOEXEC), err = 0;

	if (heap < 0 || ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &made))
		err = -errno;
	if (heap >= 0)
		close(heap);
	last_dmabuf = err ? -1 : (int)made.fd;
	return err;
}

static long share(size_t bytes)
{
	char *at = map(bytes, MAP_SHARED), byte = 0;
	int ends[2];
	pid_t child;

	if (keep(at, bytes) || pipe(ends))
		return -ENOMEM;
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		write_pages(at, bytes);
		if (write(ends[1], &byte, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	if (child > 0 && read(ends[0], &byte, 1) != 1)
		child = -1;
	close(ends[0]);
	close(ends[1]);
	return child > 0 ? child : -ECHILD;
}

static void *sleep_on(void *ctx)
{
	for (;;)
		pause();
	return NULL;
}

static void *leak(void *ctx)
{
	uint64_t per_s = (uint64_t)(uintptr_t)ctx, pages = 0;
	struct timespec begin, now;
	const size_t room = 64u << 20;
	char *at = NULL;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (;;) {
		struct timespec wait = {0, 2000000};
		double s;

		clock_gettime(CLOCK_MONOTONIC, &now);
		s = (double)(now.tv_sec - begin.tv_sec) +
		    (double)(now.tv_nsec - begin.tv_nsec) / 1e9;
		for (; (double)(pages * 4096) < s * (double)per_s; pages++) {
			size_t in = pages * 4096 % room;

			if (!in) {
				at = mmap(NULL, room, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
				if (at == MAP_FAILED)
					return NULL;
				madvise(at, room, MADV_NOHUGEPAGE);
			}
			at[in] = 1;
		}
		nanosleep(&wait, NULL);
	}
	return NULL;
}

static int start(void *(*work)(void *), void *ctx)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 65536);
	return -pthread_create(&thread, &attributes, work, ctx);
}

static long write_file(const char *path, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	char *block = malloc(BLOCK);
	long err = fd < 0 || !block ? -errno : 0;

	for (size_t done = 0; !err && done < bytes;) {
		size_t n = bytes - done < BLOCK ? bytes - done : BLOCK;

		write_pages(block, n);
		if (write(fd, block, n) != (ssize_t)n)
			err = -EIO;
		done += n;
	}
	if (!err && fsync(fd))
		err = -errno;
	if (fd >= 0)
		close(fd);
	free(block);
	return err;
}

static long read_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *block = malloc(BLOCK);
	ssize_t n = 0;

	if (fd < 0 || !block)
		return -errno;
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	while ((n = read(fd, block, BLOCK)) > 0)
		;
	close(fd);
	free(block);
	return n;
}

static long sync_often(const char *path, long count)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	struct timespec begin, end;
	long ns = 0;

	for (long i = 0; fd >= 0 && i < count; i++) {
		if (pwrite(fd, &i, sizeof(i), i * 4096) != sizeof(i))
			return -EIO;
		clock_gettime(CLOCK_MONOTONIC, &begin);
		if (fdatasync(fd))
			return -errno;
		clock_gettime(CLOCK_MONOTONIC, &end);
		ns += (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec;
	}
	close(fd);
	return fd < 0 ? -ENOENT : ns;
}

struct job {
	char path[1024];
	size_t bytes;
	long result;
};

static void *write_by_thread(void *ctx)
{
	struct job *job = ctx;

	job->result = write_file(job->path, job->bytes);
	return NULL;
}

static long by_child(const struct job *job)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(write_file(job->path, job->bytes) != 0);
	return child > 0 && waitpid(child, &status, 0) == child && !status ? child : -ECHILD;
}

static long by_thread(struct job *job)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, write_by_thread, job) || pthread_join(thread, NULL))
		return -EAGAIN;
	return job->result;
}

static long obey(const char *line)
{
	struct job job = {0};
	size_t n = 0;
	long err = 0;

	if (sscanf(line, "anon %zu", &n) == 1)
		return keep(map(n, MAP_PRIVATE), n);
	if (sscanf(line, "huge %zu", &n) == 1)
		return keep(map(n, MAP_PRIVATE | MAP_HUGETLB), n);
	if (sscanf(line, "dmabuf %zu", &n) == 1)
		return make_dmabuf(n);
	if (!strcmp(line, "dup"))
		return dup(last_dmabuf) < 0 ? -errno : 0;
	if (sscanf(line, "share %zu", &n) == 1)
		return share(n);
	if (sscanf(line, "leak %zu", &n) == 1)
		return start(leak, (void *)(uintptr_t)n);
	if (sscanf(line, "threads %zu", &n) == 1) {
		while (n-- && !err)
			err = start(sleep_on, NULL);
		return err;
	}
	if (sscanf(line, "fds %zu", &n) == 1) {
		while (n--)
			if (open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
				return -errno;
		return 0;
	}
	if (!strncmp(line, "name ", 5))
		return prctl(PR_SET_NAME, line + 5);
	if (sscanf(line, "write %1023s %zu", job.path, &job.bytes) == 2)
		return write_file(job.path, job.bytes);
	if (sscanf(line, "brief write %1023s %zu", job.path, &job.bytes) == 2)
		return by_child(&job);
	if (sscanf(line, "thread write %1023s %zu", job.path, &job.bytes) == 2)
		return by_thread(&job);
	if (sscanf(line, "sync %1023s %zu", job.path, &n) == 2)
		return sync_often(job.path, (long)n);
	if (sscanf(line, "read %1023s", job.path) == 1)
		return read_file(job.path);
	if (!mapping_count)
		return -EINVAL;
	if (!strncmp(line, "call ", 5))
		return prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, mappings[mapping_count - 1].at,
			     mappings[mapping_count - 1].bytes, line + 5)
			       ? -errno
			       : 0;
	if (!strcmp(line, "free")) {
		mapping_count--;
		return munmap(mappings[mapping_count].at, mappings[mapping_count].bytes);
	}
	if (!strcmp(line, "pageout"))
		return madvise(mappings[mapping_count - 1].at, mappings[mapping_count - 1].bytes,
			       MADV_PAGEOUT)
			       ? -errno
			       : 0;
	if (!strcmp(line, "touch")) {
		write_pages(mappings[mapping_count - 1].at, mappings[mapping_count - 1].bytes);
		return 0;
	}
	return -EINVAL;
}

static void *serve(void *ctx)
{
	char line[2048];

	while (fgets(line, sizeof(line), stdin)) {
		long result;

		line[strcspn(line, "\n")] = 0;
		if (!strcmp(line, "leave")) {
			result = start(serve, NULL);
			printf("ok %ld\n", result);
			pthread_exit(NULL);
		}
		result = obey(line);
		if (result < 0)
			printf("error %s\n", strerror((int)-result));
		else
			printf("ok %ld\n", result);
	}
	exit(0);
}

int main(void)
{
	struct rlimit files = {1 << 16, 1 << 16};

	setrlimit(RLIMIT_NOFILE, &files);
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	serve(NULL);
}

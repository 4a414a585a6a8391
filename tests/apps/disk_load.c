/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads and writes known bytes in every way that the kernel accounts differently, and calls fsync
 * and its like; prints what it did, and stays until its stdin ends.
 * usage: disk_load FOLDER */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KIB 1024u
#define MIB (1024u * KIB)

static const char *self, *folder;
static char data[MIB] __attribute__((aligned(4096)));

static void must(int ok, const char *what)
{
	if (ok)
		return;
	dprintf(2, "disk_load: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static unsigned long long now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (unsigned long long)ts.tv_sec * 1000000000u + (unsigned long long)ts.tv_nsec;
}

static int open_new(const char *name, int flags)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | flags, 0600);
	must(fd >= 0, path);
	unlink(path);
	return fd;
}

static void put(int fd, size_t bytes)
{
	must(write(fd, data, bytes) == (ssize_t)bytes, "write");
}

/* How long a call lasted by the caller's clock, with the least that is around it. */
#define TIMED(sum, call)                              \
	do {                                          \
		unsigned long long before = now_ns(); \
		int result = (call);                  \
		(sum) += now_ns() - before;           \
		(void)result;                         \
	} while (0)

static void *thread(void *ctx)
{
	int fd = open_new("thread", 0);

	put(fd, 32 * KIB);
	close(fd);
	return NULL;
}

/* A child that writes and is gone at once, with its file open: what it wrote is never needed. */
static void run_child(void)
{
	pid_t pid = fork();
	int status;

	must(pid >= 0, "fork");
	if (!pid) {
		put(open_new("child", 0), 48 * KIB);
		_exit(0);
	}
	must(waitpid(pid, &status, 0) == pid && !status, "child");
	dprintf(1, "child %d\n", pid);
}

static void sync_calls(unsigned long long fsync_ns)
{
	unsigned long long fdatasync_ns = 0, msync_ns = 0, range_ns = 0;
	int fd = open_new("synced", 0);
	char *map;

	for (int i = 0; i < 3; i++) {
		put(fd, 64 * KIB);
		TIMED(fsync_ns, fsync(fd));
	}
	TIMED(fsync_ns, fsync(-1));
	for (int i = 0; i < 2; i++) {
		put(fd, 16 * KIB);
		TIMED(fdatasync_ns, fdatasync(fd));
	}
	map = mmap(NULL, 128 * KIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(map != MAP_FAILED, "mmap");
	memset(map, 1, 128 * KIB);
	must(!msync(map, 128 * KIB, MS_ASYNC), "msync");
	TIMED(msync_ns, msync(map, 128 * KIB, MS_SYNC));
	munmap(map, 128 * KIB);
	put(fd, 4 * KIB);
	TIMED(range_ns, sync_file_range(fd, 0, 0,
					SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
						SYNC_FILE_RANGE_WAIT_AFTER));
	close(fd);
	dprintf(1,
		"syncs fsync 4 1 %llu\nsyncs fdatasync 2 0 %llu\nsyncs msync 1 0 %llu\n"
		"syncs sync_file_range 1 0 %llu\n",
		fsync_ns, fdatasync_ns, msync_ns, range_ns);
}

static void files(unsigned long long *fsync_ns)
{
	int fd = open_new("direct", O_DIRECT);

	put(fd, 64 * KIB);
	close(fd);
	/* Cut before it is written. */
	fd = open_new("cut", 0);
	put(fd, 256 * KIB);
	must(!ftruncate(fd, 0), "ftruncate");
	close(fd);
	/* From the page cache, and then from storage. */
	fd = open_new("cached", 0);
	put(fd, MIB);
	must(pread(fd, data, MIB, 0) == MIB, "pread");
	TIMED(*fsync_ns, fsync(fd));
	must(!posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), "posix_fadvise");
	must(pread(fd, data, MIB, 0) == MIB, "pread");
	close(fd);
}

static void *exec_again(void *ctx)
{
	char *argv[] = {(char *)self, "--after", (char *)folder, NULL};

	put(open_new("exec", 0), 8 * KIB);
	execv("/proc/self/exe", argv);
	must(0, "execv");
	return NULL;
}

/* The thread that called execve is the main thread now. */
static void after(void)
{
	char byte;

	put(open_new("after", 0), 16 * KIB);
	dprintf(1, "done\n");
	while (read(0, &byte, 1) > 0)
		;
	_exit(0);
}

int main(int argc, char **argv)
{
	unsigned long long fsync_ns = 0;
	pthread_t id;

	self = argv[0];
	if (argc == 3 && !strcmp(argv[1], "--after")) {
		folder = argv[2];
		after();
	}
	must(argc == 2, "usage: disk_load FOLDER");
	folder = argv[1];
	files(&fsync_ns);
	sync_calls(fsync_ns);
	run_child();
	must(!pthread_create(&id, NULL, thread, NULL), "thread");
	pthread_join(id, NULL);
	must(!pthread_create(&id, NULL, exec_again, NULL), "thread");
	pthread_join(id, NULL);
	return 1;
}

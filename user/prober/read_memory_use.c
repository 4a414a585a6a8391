/* SPDX-License-Identifier: BSD-2-Clause */
/* How much memory a process uses, what for, and what it has open. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "prober/pool_wire.h"
#include "proc/memory.h"
#include "proc/read.h"
#include "proc/stat.h"
#include "util/clock.h"

/* A smaps that takes longer is left: a process may have 65,000 mappings, and its next request waits
 * for this one. */
#define KINDS_NS (300 * NSEC_PER_MSEC)
/* Descriptors that are looked at for buffers; all are counted. Of a process with more of either
 * nothing is said of buffers: a part of a sum is none. */
#define MAX_LOOKED_AT 4096
#define MAX_COUNTED   (1u << 20)
#define MAX_BUFFERS   1024

struct costs {
	uint64_t wall_ns, cpu_ns;
};

static struct costs costs_now(void)
{
	return (struct costs){clock_now_ns(CLOCK_MONOTONIC), clock_now_ns(CLOCK_THREAD_CPUTIME_ID)};
}

static void costs_since(struct costs begin, uint64_t *wall_ns, uint64_t *cpu_ns)
{
	struct costs end = costs_now();

	*wall_ns = end.wall_ns - begin.wall_ns;
	*cpu_ns = end.cpu_ns - begin.cpu_ns;
}

/* A process without memory has an empty file, or none that can be read (ESRCH). */
static int why_empty(int dir, ssize_t n)
{
	struct proc_stat stat;

	if (n < 0 && n != -ESRCH)
		return (int)n;
	if (proc_stat(dir, &stat))
		return -ESRCH;
	return proc_stat_is_over(&stat) || proc_stat_is_kernel_thread(&stat) ? -ENODATA : -EBADMSG;
}

static int read_rollup(int dir, struct probe_memory_use *use)
{
	char text[4096];
	struct costs begin = costs_now();
	ssize_t n = proc_read(dir, "smaps_rollup", text, sizeof(text));

	costs_since(begin, &use->rollup_wall_ns, &use->rollup_cpu_ns);
	if (n <= 0)
		return why_empty(dir, n);
	proc_parse_smaps(text, (size_t)n, &use->rollup);
	return use->rollup.pss_bytes.present ? 0 : -EBADMSG;
}

/* buffer has room for PROBE_BYTES. */
static int take_kinds(int fd, char *buffer, struct proc_smaps_kinds *kinds, uint64_t until_ns)
{
	size_t held = 0;
	bool skips = false; /* the rest of a line that is longer than the buffer */
	ssize_t n;

	while ((n = probe_read_once(fd, buffer + held, PROBE_BYTES - held)) > 0) {
		char *line = buffer, *end = buffer + held + n, *newline;

		while ((newline = memchr(line, '\n', (size_t)(end - line)))) {
			if (!skips)
				proc_take_smaps_line(kinds, line, newline);
			skips = false;
			line = newline + 1;
		}
		held = (size_t)(end - line);
		if (held == PROBE_BYTES) {
			held = 0;
			skips = true;
		}
		memmove(buffer, line, held);
		if (clock_now_ns(CLOCK_MONOTONIC) > until_ns)
			return -EFBIG;
	}
	return (int)n;
}

static int read_kinds(int dir, char *buffer, struct probe_memory_use *use)
{
	struct costs begin = costs_now();
	int fd = openat(dir, "smaps", O_RDONLY | O_CLOEXEC | O_NONBLOCK), err;

	if (fd < 0)
		return why_empty(dir, -errno);
	err = take_kinds(fd, buffer, &use->kinds, begin.wall_ns + KINDS_NS);
	close(fd);
	costs_since(begin, &use->kinds_wall_ns, &use->kinds_cpu_ns);
	return err || !use->kinds.begun ? why_empty(dir, err) : 0;
}

/* ---- open files ---- */

struct seen {
	uint64_t ids[MAX_BUFFERS];
	size_t count;
	bool full;
};

/* Whether it was not there before. */
static bool is_new(struct seen *seen, struct opt_u64 id)
{
	for (size_t i = 0; id.present && i < seen->count; i++)
		if (seen->ids[i] == id.value)
			return false;
	if (id.present && seen->count < MAX_BUFFERS)
		seen->ids[seen->count++] = id.value;
	else
		seen->full |= id.present;
	return true;
}

struct looking {
	int fds, dir; /* /proc/PID/fd and /proc/PID */
	struct seen dmabufs, clients;
	size_t left;
	struct probe_memory_use *use;
};

/* Before 5.14 fdinfo does not tell it. */
static void find_inode(const struct looking *looking, const char *name, struct proc_buffer *buffer)
{
	struct stat st;

	if (!buffer->inode.present && !fstatat(looking->fds, name, &st, 0))
		buffer->inode = SOME_U64(st.st_ino);
}

/* The link of a descriptor is its name, and tells without a look at the file what it is. A buffer
 * that does not tell its size has the sum of all absent. */
static void look_at(struct looking *looking, const char *name)
{
	char link[64], path[64], text[4096];
	struct probe_memory_use *use = looking->use;
	ssize_t n = readlinkat(looking->fds, name, link, sizeof(link) - 1);
	struct proc_buffer buffer;
	bool is_dmabuf;

	if (n < 0)
		return;
	link[n] = 0;
	is_dmabuf = !strncmp(link, "/dmabuf:", 8) || !strncmp(link, "anon_inode:dmabuf", 17);
	if (!is_dmabuf && strncmp(link, "/dev/dri/", 9))
		return;
	snprintf(path, sizeof(path), "fdinfo/%.20s", name);
	n = proc_read(looking->dir, path, text, sizeof(text));
	if (n < 0)
		return; /* it was closed a moment ago */
	proc_parse_buffer(text, (size_t)n, &buffer);
	if (buffer.senseless || (is_dmabuf && !buffer.dmabuf_bytes.present))
		use->buffers_err = -EBADMSG;
	if (buffer.dmabuf_bytes.present) {
		find_inode(looking, name, &buffer);
		if (is_new(&looking->dmabufs, buffer.inode)) {
			use->dmabufs++;
			use->dmabuf_bytes += buffer.dmabuf_bytes.value;
		}
	}
	if (buffer.gpu_bytes.present && is_new(&looking->clients, buffer.gpu_client))
		use->gpu_bytes = SOME_U64(use->gpu_bytes.value + buffer.gpu_bytes.value);
}

/* counts: all descriptors, and not only those that are looked at. */
static int read_files(int dir, bool buffers, bool counts, struct probe_memory_use *use)
{
	uint64_t begin_cpu_ns = costs_now().cpu_ns;
	struct looking looking = {.dir = dir, .use = use, .left = buffers ? MAX_LOOKED_AT : 0};
	int fd = openat(dir, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *files = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int err = files ? 0 : -errno;

	looking.fds = fd;
	errno = 0;
	while (files && use->files < MAX_COUNTED && (entry = readdir(files))) {
		if (entry->d_name[0] == '.')
			continue;
		use->files++;
		if (looking.left && looking.left--)
			look_at(&looking, entry->d_name);
		else if (buffers)
			use->buffers_err = -E2BIG;
		errno = 0;
		if (!counts && use->buffers_err)
			break;
	}
	if (files && errno)
		err = -errno;
	if (err || looking.dmabufs.full || looking.clients.full)
		use->buffers_err = err ?: -E2BIG;
	if (files)
		closedir(files);
	else if (fd >= 0)
		close(fd);
	use->files_cpu_ns = costs_now().cpu_ns - begin_cpu_ns;
	return err;
}

int probe_read_memory_use(const struct probe_request *request, struct reply *reply)
{
	struct probe_memory_use use = {0};
	int dir = probe_open_process(request), survivor, err;

	if (dir < 0)
		return dir;
	survivor = proc_open_survivor(dir);
	if (survivor >= 0) {
		close(dir);
		dir = survivor;
	}
	if (request->argument & PROBE_USE_ROLLUP)
		use.rollup_err = read_rollup(dir, &use);
	if (request->argument & PROBE_USE_KINDS)
		use.kinds_err = read_kinds(dir, (char *)reply->data, &use);
	if (request->argument & (PROBE_USE_FILES | PROBE_USE_BUFFERS))
		use.files_err = read_files(dir, (request->argument & PROBE_USE_BUFFERS) != 0,
					   (request->argument & PROBE_USE_FILES) != 0, &use);
	err = probe_still_there(dir);
	close(dir);
	if (err)
		return err;
	memcpy(reply->data, &use, sizeof(use));
	reply->length = sizeof(use);
	return 0;
}

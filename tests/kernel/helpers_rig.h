/* SPDX-License-Identifier: BSD-2-Clause */
/* A recorder with its helper processes in a test, a program that counts on a uprobe, and what the
 * kernel says of both. */
#pragma once
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/loop.h"
#include "descendants.h"
#include "prober/pool.h"
#include "prober/warden.h"
#include "proc/read.h"
#include "proc/stat.h"
#include "tap.h"
#include "util/clock.h"

/* 89ae89f53d20 (6.6) */
#define ATTACH_UPROBE_MULTI 48

/* ---- a program that counts, and where it is put ---- */

struct program {
	int fd, map;
	uint32_t id;
	bool multi;
};

static void __attribute__((noinline, unused)) probed(void)
{
	__asm__ volatile("nop; nop; nop; nop" ::: "memory");
}

static inline uint64_t count_of(const struct program *program)
{
	uint32_t key = 0;
	uint64_t value[2] = {0};

	bpf_map_lookup_elem(program->map, &key, value);
	return value[0];
}

static inline uint64_t cookie_of(const struct program *program)
{
	uint32_t key = 0;
	uint64_t value[2] = {0};

	bpf_map_lookup_elem(program->map, &key, value);
	return value[1];
}

/* 89ae89f53d20 (6.6) */
static inline bool has_uprobe_multi(void)
{
	FILE *file = fopen("/proc/kallsyms", "r");
	char line[512];
	bool found = !file;

	while (!found && fgets(line, sizeof(line), file))
		found = strstr(line, " bpf_uprobe_multi_link_attach") != NULL;
	if (file)
		fclose(file);
	return found;
}

/* value[0]++, value[1] = the cookie */
static inline int load_program(struct program *program, bool multi)
{
	LIBBPF_OPTS(bpf_prog_load_opts, options,
		    .expected_attach_type = multi ? (enum bpf_attach_type)ATTACH_UPROBE_MULTI : 0);
	struct bpf_prog_info info = {0};
	uint32_t size = sizeof(info);

	program->multi = multi;
	program->map = bpf_map_create(BPF_MAP_TYPE_ARRAY, "helpers", 4, 16, 1, NULL);
	if (program->map < 0)
		return -errno;
	{
		struct bpf_insn code[] = {
			{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_get_attach_cookie},
			{.code = BPF_LD | BPF_DW | BPF_IMM,
			 .dst_reg = 1,
			 .src_reg = BPF_PSEUDO_MAP_VALUE,
			 .imm = program->map},
			{0},
			{.code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = 1, .src_reg = 0, .off = 8},
			{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 2, .imm = 1},
			{.code = BPF_STX | BPF_ATOMIC | BPF_DW,
			 .dst_reg = 1,
			 .src_reg = 2,
			 .imm = BPF_ADD},
			{.code = BPF_ALU64 | BPF_MOV | BPF_K},
			{.code = BPF_JMP | BPF_EXIT},
		};

		program->fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "helpers", "GPL", code,
					    sizeof(code) / sizeof(*code), &options);
	}
	if (program->fd < 0 || bpf_obj_get_info_by_fd(program->fd, &info, &size))
		return -errno;
	program->id = info.id;
	return 0;
}

static inline void unload(struct program *program)
{
	close(program->fd);
	close(program->map);
}

/* Where probed() is in the file of this program. */
static inline uint64_t probed_offset(void)
{
	unsigned long start, end, offset, address = (unsigned long)(uintptr_t)probed;
	FILE *maps = fopen("/proc/self/maps", "re");
	uint64_t found = 0;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 &&
		    address >= start && address < end)
			found = address - start + offset;
	if (maps)
		fclose(maps);
	return found;
}

/* Links of this program that the kernel has still. */
static inline int count_links(uint32_t program)
{
	uint32_t id = 0;
	int count = 0;

	while (!bpf_link_get_next_id(id, &id)) {
		struct bpf_link_info info = {0};
		uint32_t size = sizeof(info);
		int fd = bpf_link_get_fd_by_id(id);

		if (fd < 0)
			continue;
		if (!bpf_obj_get_info_by_fd(fd, &info, &size) && info.prog_id == program)
			count++;
		close(fd);
	}
	return count;
}

static inline int wait_for_links(uint32_t program, int want, uint64_t ns)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + ns;
	int count;

	while ((count = count_links(program)) != want && clock_now_ns(CLOCK_MONOTONIC) < until_ns)
		poll(NULL, 0, 1);
	return count;
}

/* ---- what the kernel could not take back ---- */

/* From here on the kernel's log is read; -1: it cannot be. */
static inline int open_log(void)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0)
		lseek(fd, 0, SEEK_END);
	return fd;
}

/* Probes that the kernel left in place for good since the last call, because whoever removed them
 * was being killed ("uprobe: jank-prober:1 failed to unregister, leaking uprobe"), and was one of
 * ours. */
static inline int count_leaks(int log, struct descendants *ours)
{
	char line[8192], *at;
	int count = 0;
	ssize_t n;

	descendants_read(ours);
	while ((n = read(log, line, sizeof(line) - 1)) > 0 || (n < 0 && errno == EPIPE)) {
		line[n > 0 ? n : 0] = 0;
		line[strcspn(line, "\n")] = 0;
		at = strstr(line, " failed to unregister");
		while (at && at > line && at[-1] != ':')
			at--;
		if (!at || !strstr(line, "uprobe: ") ||
		    !descendants_has(ours, (uint32_t)strtoul(at, NULL, 10)))
			continue;
		tap_note("%s", line);
		count++;
	}
	return count;
}

/* ---- a recorder ---- */

struct rig {
	struct loop *loop;
	struct warden *warden;
	struct prober_pool *pool;
};

static inline bool start(struct rig *rig)
{
	rig->loop = NULL;
	rig->pool = NULL;
	rig->warden = warden_start();
	if (!rig->warden)
		return false;
	rig->pool = prober_pool_new(rig->warden);
	rig->loop = loop_new();
	return rig->pool && rig->loop && !warden_join_loop(rig->warden, rig->loop) &&
	       !prober_pool_join_loop(rig->pool, rig->loop);
}

static inline void stop(struct rig *rig)
{
	prober_pool_free(rig->pool);
	warden_stop(rig->warden);
	loop_free(rig->loop);
}

static inline int on_over(void *ctx, uint32_t events)
{
	loop_stop(ctx);
	return 0;
}

static inline void run_for(struct loop *loop, uint64_t ns)
{
	int timer = loop_add_timer(loop, ns, 0, on_over, loop);

	loop_run(loop);
	loop_remove_timer(loop, timer);
}

struct heard {
	struct loop *loop;
	int count, err;
	uint64_t at_ns, delay_ns;
	int fds[16];
	size_t fd_count;
	char data[256];
};

/* How long this thread waited for a CPU. */
static inline uint64_t run_delay_ns(void)
{
	unsigned long long run = 0, wait = 0;
	char text[128] = "";

	if (proc_read(AT_FDCWD, "/proc/thread-self/schedstat", text, sizeof(text)) > 0)
		sscanf(text, "%llu %llu", &run, &wait);
	return wait;
}

static inline void hear(void *ctx, int err, const struct probe_answer *answer)
{
	struct heard *heard = ctx;

	heard->count++;
	heard->err = err;
	heard->at_ns = clock_now_ns(CLOCK_MONOTONIC);
	heard->delay_ns = run_delay_ns();
	for (size_t i = 0; answer && i < answer->fd_count && heard->fd_count < 16; i++) {
		heard->fds[heard->fd_count++] = answer->fds[i];
		answer->fds[i] = -1;
	}
	if (answer && answer->length)
		memcpy(heard->data, answer->data,
		       answer->length < sizeof(heard->data) ? answer->length : sizeof(heard->data));
	if (heard->loop)
		loop_stop(heard->loop);
}

static inline struct heard ask(struct rig *rig, const struct probe_request *request,
			       const void *payload, size_t length, const int *fds, size_t fd_count)
{
	struct heard heard = {.loop = rig->loop};
	int64_t id = probe_ask(rig->pool, request, payload, length, fds, fd_count, 5 * NSEC_PER_SEC,
			       hear, &heard);

	if (id < 0)
		heard.err = (int)id;
	else
		run_for(rig->loop, 10 * NSEC_PER_SEC);
	if (!heard.count && id > 0)
		heard.err = -ETIME;
	return heard;
}

static inline struct heard attach(struct rig *rig, const struct program *program, int exe,
				  pid_t pid)
{
	struct probe_request request = {.operation = PROBE_ATTACH, .pid = pid};
	struct probe_places places = {
		.multi = program->multi,
		.program_count = 1,
		.place_count = 1,
		.places[0] = {.offset = probed_offset(), .cookie = 0x1234567890},
	};
	int fds[] = {exe, program->fd};

	return ask(rig, &request, &places, sizeof(places), fds, 2);
}

static inline size_t pids_of(const struct rig *rig, enum helper_kind kind, pid_t *pids, size_t room)
{
	struct helper list[32];
	size_t n = warden_list(rig->warden, list, 32), count = 0;

	for (size_t i = 0; i < n && count < room; i++)
		if (!kind || list[i].kind == kind)
			pids[count++] = list[i].pid;
	return count;
}

/* All of them have said who they are. */
static inline size_t wait_for_pids(struct rig *rig, enum helper_kind kind, pid_t *pids, size_t want)
{
	for (int i = 0; i < 5000 && pids_of(rig, kind, pids, 32) < want; i++)
		run_for(rig->loop, NSEC_PER_MSEC);
	return pids_of(rig, kind, pids, 32);
}

static inline bool is_alive(pid_t pid)
{
	struct proc_stat stat;
	int dir = proc_open("", pid), err;

	if (dir < 0)
		return false;
	err = proc_stat(dir, &stat);
	close(dir);
	return !err && stat.state != 'Z' && stat.state != 'X';
}

/* The process of this name that has this parent; 0: there is none. */
static inline pid_t find_child(pid_t parent, const char *name)
{
	struct dirent *entry;
	DIR *folder = opendir("/proc");
	pid_t found = 0;

	while (folder && !found && (entry = readdir(folder))) {
		struct proc_stat stat;
		pid_t pid = atoi(entry->d_name);
		int dir = pid > 0 ? proc_open("", pid) : -1;

		if (dir < 0)
			continue;
		if (!proc_stat(dir, &stat) && stat.ppid == parent && !strcmp(stat.comm, name))
			found = pid;
		close(dir);
	}
	if (folder)
		closedir(folder);
	return found;
}

/* A page that nobody ever fills: who touches it waits. */
static inline void *hanging_page(int *uffd)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	range.range.start = (uintptr_t)memory;
	range.range.len = page;
	if (*uffd < 0 || ioctl(*uffd, UFFDIO_API, &api) || ioctl(*uffd, UFFDIO_REGISTER, &range))
		return NULL;
	return memory;
}

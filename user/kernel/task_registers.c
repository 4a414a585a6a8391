/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/task_registers.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The part of union bpf_iter_link_info that f0d74c4da1f0 (6.1) added; newer than the headers of
 * this libbpf. */
union link_info {
	struct {
		uint32_t tid, pid, pid_fd;
	} task;
	uint8_t room[16];
};

static int link_to(int program_fd, pid_t tid)
{
	union link_info info = {.task = {.tid = (uint32_t)tid}};
	LIBBPF_OPTS(bpf_link_create_opts, options);
	int fd;

	if (tid) {
		options.iter_info = (union bpf_iter_link_info *)&info;
		options.iter_info_len = sizeof(info);
	}
	fd = bpf_link_create(program_fd, 0, BPF_TRACE_ITER, &options);
	return fd < 0 ? -errno : fd;
}

int task_registers_open(struct task_registers *reader, int program_fd, int wanted_fd)
{
	int fd;

	*reader = (struct task_registers){program_fd, wanted_fd, -1, false};
	if (program_fd < 0)
		return -ENOTSUP;
	/* An older kernel refuses the information: it knows none for tasks. */
	fd = link_to(program_fd, getpid());
	if (fd >= 0) {
		close(fd);
		reader->by_tid = true;
		return 0;
	}
	return task_registers_walk(reader);
}

int task_registers_walk(struct task_registers *reader)
{
	if (reader->wanted_fd < 0)
		return -ENOTSUP;
	reader->by_tid = false;
	reader->link_fd = link_to(reader->program_fd, 0);
	return reader->link_fd < 0 ? reader->link_fd : 0;
}

void task_registers_close(struct task_registers *reader)
{
	if (reader->link_fd >= 0)
		close(reader->link_fd);
	reader->link_fd = -1;
}

/* All that the iterator says; of a task that is not there it says nothing. */
static int take(int link_fd, struct looper_task *out)
{
	int fd = bpf_iter_create(link_fd), err = 0;
	size_t have = 0;

	if (fd < 0)
		return -errno;
	while (have < sizeof(*out)) {
		ssize_t n = read(fd, (char *)out + have, sizeof(*out) - have);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n <= 0) {
			err = n ? -errno : -ESRCH;
			break;
		}
		have += (size_t)n;
	}
	close(fd);
	return err;
}

int task_registers_read(const struct task_registers *reader, pid_t tid, struct looper_task *out)
{
	uint32_t self, wanted = (uint32_t)tid;
	int fd, err;

	memset(out, 0, sizeof(*out));
	if (tid <= 0)
		return -ESRCH;
	if (reader->by_tid) {
		fd = link_to(reader->program_fd, tid);
		if (fd < 0)
			return fd == -EINVAL ? -ESRCH : fd;
		err = take(fd, out);
		close(fd);
	} else {
		self = (uint32_t)gettid();
		if (bpf_map_update_elem(reader->wanted_fd, &self, &wanted, BPF_ANY))
			return -errno;
		err = take(reader->link_fd, out);
		bpf_map_delete_elem(reader->wanted_fd, &self);
	}
	if (err)
		return err;
	if (out->registers.tid != wanted)
		return -ESRCH;
	return out->whole ? 0 : -EAGAIN;
}

bool task_registers_same(const struct looper_task *before, const struct looper_task *after)
{
	return before->whole && after->whole && before->registers.tid == after->registers.tid &&
	       before->start_boot_ns == after->start_boot_ns &&
	       before->voluntary == after->voluntary && before->involuntary == after->involuntary &&
	       before->cpu_ns == after->cpu_ns;
}

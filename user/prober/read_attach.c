/* SPDX-License-Identifier: BSD-2-Clause */
/* Setting uprobes: that takes the mmap_lock of every process that maps the file, and waits for RCU.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "prober/closer.h"
#include "prober/mm_locks.h"
#include "prober/pool_wire.h"
#include "prober/warden.h"
#include "proc/read.h"
#include "proc/stat.h"
#include "util/channel.h"
#include "util/child.h"

/* 89ae89f53d20 (6.6); newer than the headers of this libbpf */
#define ATTACH_UPROBE_MULTI 48

/* The part of union bpf_attr that BPF_LINK_CREATE reads for uprobe_multi. */
struct uprobe_multi_attr {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t count, multi_flags, pid, padding;
};

static int attach_multi(int program, const char *path, const struct probe_places *places,
			uint32_t of_program, pid_t pid)
{
	uint64_t offsets[PROBE_MAX_PLACES], cookies[PROBE_MAX_PLACES];
	struct uprobe_multi_attr attr = {
		.prog_fd = (uint32_t)program,
		.attach_type = ATTACH_UPROBE_MULTI,
		.path = (uint64_t)(uintptr_t)path,
		.offsets = (uint64_t)(uintptr_t)offsets,
		.cookies = (uint64_t)(uintptr_t)cookies,
		.pid = (uint32_t)pid,
	};
	long fd;

	for (uint32_t i = 0; i < places->place_count; i++) {
		if (places->places[i].program != of_program)
			continue;
		offsets[attr.count] = places->places[i].offset;
		cookies[attr.count++] = places->places[i].cookie;
	}
	fd = syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
	return fd < 0 ? -errno : (int)fd;
}

static int uprobe_type(void)
{
	char text[32];
	ssize_t n = proc_read(-1, "/sys/bus/event_source/devices/uprobe/type", text, sizeof(text));

	return n < 0 ? (int)n : atoi(text);
}

/* A perf event on one place. Before 5.15 (b89fbfbb854c) a perf event takes no link, and so no
 * cookie: then its program must do without one. */
static int attach_one(int program, const char *path, uint64_t offset, uint64_t cookie, pid_t pid,
		      int type)
{
	struct perf_event_attr attr = {.size = sizeof(attr), .type = (uint32_t)type};
	LIBBPF_OPTS(bpf_link_create_opts, options, .perf_event.bpf_cookie = cookie);
	int event, link, err = 0;

	attr.config1 = (uint64_t)(uintptr_t)path;
	attr.config2 = offset;
	event = (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (event < 0)
		return -errno;
	link = bpf_link_create(program, event, BPF_PERF_EVENT, &options);
	if (link < 0 && ioctl(event, PERF_EVENT_IOC_SET_BPF, program))
		err = -errno;
	if (!err && ioctl(event, PERF_EVENT_IOC_ENABLE, 0))
		err = -errno;
	if (err) {
		if (link >= 0)
			close(link);
		close(event);
		return err;
	}
	if (link < 0)
		return event;
	/* The link holds the event. */
	close(event);
	return link;
}

static int check(const struct probe_places *places, size_t fd_count)
{
	uint64_t used = 0;

	/* The last descriptor may be the program of mm_locks_look. */
	if (!places->place_count || places->place_count > PROBE_MAX_PLACES ||
	    places->place_count > CHANNEL_FDS || fd_count < 1 + (size_t)places->program_count ||
	    fd_count > 2 + (size_t)places->program_count)
		return -EINVAL;
	for (uint32_t i = 0; i < places->place_count; i++) {
		if (places->places[i].program >= places->program_count)
			return -EINVAL;
		used |= 1ull << places->places[i].program;
	}
	/* a program without a place is a mistake */
	return used == (1ull << places->program_count) - 1 ? 0 : -EINVAL;
}

/* Whether every process gives its mmap_lock now. Where that cannot be told, on a kernel without
 * the iterator and without /proc/PID/pagemap, nothing speaks against it. */
static int look_first(int program, struct reply *reply)
{
	pid_t holder;

	if (mm_locks_look(program, MM_LOCKS_NS, &holder) != -EDEADLK)
		return 0;
	reply->value = -holder;
	return -EDEADLK;
}

static int attach_all(const struct probe_request *request, const struct probe_places *places,
		      const int *fds, int locks, struct reply *reply)
{
	uint32_t count = places->multi ? places->program_count : places->place_count;
	int type = 0, err = 0;
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
	if (!places->multi)
		type = uprobe_type();
	if (type < 0)
		return type;
	for (uint32_t i = 0; i < count && !err; i++) {
		int fd;

		err = look_first(locks, reply);
		if (err)
			break;
		fd = places->multi ? attach_multi(fds[1 + i], path, places, i, request->pid)
				   : attach_one(fds[1 + places->places[i].program], path,
						places->places[i].offset, places->places[i].cookie,
						request->pid, type);
		if (fd >= 0)
			reply->fds[reply->fd_count++] = fd;
		else
			err = fd;
	}
	return err;
}

/* What was set has been handed on, and others hold it; false: nobody waits for it any more. */
static bool is_handed_on(int socket)
{
	struct pollfd wait = {.fd = socket, .events = POLLIN};
	uint32_t word;
	ssize_t n;

	while ((n = channel_receive(socket, &word, sizeof(word), NULL, NULL)) == -EAGAIN)
		poll(&wait, 1, -1);
	return n > 0;
}

/* The whole life of the process that sets the probes. It cannot be given up while it does: a caller
 * that is being killed has its half-set probes left in place by the kernel ("leaking uprobe":
 * uprobe_unregister_nosync in kernel/events/uprobes.c, when __get_user_pages in mm/gup.c finds
 * fatal_signal_pending()). So it is no thread of the prober, whose death it outlives, and takes
 * back what nobody waits for any more. For the same reason its copies of the probes outlive the
 * prober's, which may be killed while it closes them. */
static void __attribute__((noreturn))
run_attacher(int socket, const struct probe_request *request, const struct probe_places *places,
	     const int *fds, size_t fd_count)
{
	int keep[CHANNEL_FDS + 2], made[CHANNEL_FDS], dir, err;
	int locks = fd_count > 1 + (size_t)places->program_count ? fds[fd_count - 1] : -1;
	struct reply reply = {.fds = made};
	struct probe_answer_header header = {0};
	struct iovec part = {&header, sizeof(header)};

	prctl(PR_SET_NAME, "jank-attach");
	memcpy(keep, fds, fd_count * sizeof(*fds));
	keep[fd_count] = socket;
	child_keep_only(keep, fd_count + 1);
	dir = probe_open_process(request);
	err = dir < 0 ? dir : attach_all(request, places, fds, locks, &reply);
	/* The pid may have become another's: then the probes are on the wrong one. */
	if (!err)
		err = probe_still_there(dir);
	header.err = err;
	header.value = reply.value;
	if (channel_send(socket, &part, 1, made, err ? 0 : reply.fd_count) || err ||
	    !is_handed_on(socket))
		closer_close_here(locks, made, reply.fd_count);
	_exit(0);
}

int probe_attach(const struct probe_request *request, const struct probe_places *places,
		 const int *fds, size_t fd_count, struct reply *reply)
{
	struct probe_answer_header header = {.err = -EIO};
	struct pollfd wait = {.events = POLLIN};
	int ends[2], err = check(places, fd_count);
	ssize_t n;
	pid_t pid;

	if (!err)
		err = channel_pair(ends);
	if (err)
		return err;
	pid = fork();
	if (pid == 0)
		run_attacher(ends[1], request, places, fds, fd_count);
	err = pid < 0 ? -errno : 0;
	close(ends[1]);
	wait.fd = ends[0];
	while (!err) {
		n = channel_receive(ends[0], &header, sizeof(header), reply->fds, &reply->fd_count);
		if (n != -EAGAIN) {
			err = n == sizeof(header) ? header.err : -EIO;
			break;
		}
		poll(&wait, 1, -1);
	}
	/* Not waited for: after a failure it may have to wait before it can take back what it set.
	 */
	if (!err)
		reply->attacher = ends[0];
	else
		close(ends[0]);
	if (err == -EDEADLK) {
		/* Not a failure of this target: the answer names the process. */
		reply->value = header.value;
		return 0;
	}
	reply->value = (int64_t)reply->fd_count;
	return err;
}

void probe_attach_handed_on(struct reply *reply, bool sent)
{
	uint32_t word = 0;
	struct iovec part = {&word, sizeof(word)};

	if (reply->attacher < 0)
		return;
	if (sent)
		channel_send(reply->attacher, &part, 1, NULL, 0);
	close(reply->attacher);
}

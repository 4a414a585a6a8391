/* SPDX-License-Identifier: BSD-2-Clause */
/* Setting uprobes: that takes locks of the target and waits for RCU. */
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "prober/pool_wire.h"
#include "target/procfs.h"
#include "util/channel.h"

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
	ssize_t n =
		procfs_read(-1, "/sys/bus/event_source/devices/uprobe/type", text, sizeof(text));

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

	if (!places->place_count || places->place_count > PROBE_MAX_PLACES ||
	    places->place_count > CHANNEL_FDS || fd_count != 1 + (size_t)places->program_count)
		return -EINVAL;
	for (uint32_t i = 0; i < places->place_count; i++) {
		if (places->places[i].program >= places->program_count)
			return -EINVAL;
		used |= 1ull << places->places[i].program;
	}
	/* a program without a place is a mistake */
	return used == (1ull << places->program_count) - 1 ? 0 : -EINVAL;
}

int probe_attach(const struct probe_request *request, const struct probe_places *places,
		 const int *fds, size_t fd_count, struct reply *reply)
{
	int dir, type = 0, fd, err = check(places, fd_count);
	char path[40];

	if (err)
		return err;
	dir = probe_open_process(request);
	if (dir < 0)
		return dir;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
	if (!places->multi)
		err = type = uprobe_type();
	err = err < 0 ? err : 0;
	for (uint32_t i = 0;
	     !err && i < (places->multi ? places->program_count : places->place_count); i++) {
		fd = places->multi ? attach_multi(fds[1 + i], path, places, i, request->pid)
				   : attach_one(fds[1 + places->places[i].program], path,
						places->places[i].offset, places->places[i].cookie,
						request->pid, type);
		if (fd >= 0)
			reply->fds[reply->fd_count++] = fd;
		else
			err = fd;
	}
	/* The pid may have become another's: then the probes are on the wrong one. */
	if (!err)
		err = probe_still_there(dir);
	close(dir);
	if (err)
		while (reply->fd_count)
			close(reply->fds[--reply->fd_count]);
	reply->value = (int64_t)reply->fd_count;
	return err;
}

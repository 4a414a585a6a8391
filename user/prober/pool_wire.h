/* SPDX-License-Identifier: BSD-2-Clause */
/* What recorder and prober say to each other: this before each request and answer. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "prober/pool.h"

struct probe_call_header {
	uint64_t id;
	struct probe_request request;
	uint32_t payload_length;
	uint32_t reserved;
	/* the payload follows */
};

struct probe_answer_header {
	uint64_t id; /* of the request; never a struct helper_hello, whose length differs */
	int64_t value;
	int32_t err;
	uint32_t length;
	uint32_t fd_count; /* that were sent: fewer come where the receiver's table is full */
	uint32_t reserved;
	/* the data follow */
};

#define PROBE_PAYLOAD_BYTES 4096u

/* ---- the prober's side: read_*.c ---- */

struct reply {
	int64_t value;
	uint32_t length; /* of data */
	uint8_t *data;   /* room for PROBE_BYTES */
	int *fds;        /* room for CHANNEL_FDS; sent, then closed */
	size_t fd_count;
	int attacher; /* of probe_attach_handed_on; -1: none */
};

/* One operation each; 0 or -errno. On failure nothing stays open. */
/* One read, again where a signal came between. Bytes or -errno. */
ssize_t probe_read_once(int fd, void *to, size_t room);
int probe_read_file(const struct probe_request *request, struct reply *reply);
int probe_read_link(const struct probe_request *request, struct reply *reply);
int probe_read_maps(const struct probe_request *request, struct reply *reply);
int probe_read_memory(const struct probe_request *request, struct reply *reply);
int probe_open_mapping(const struct probe_request *request, struct reply *reply);
int probe_open_at(const struct probe_request *request, struct reply *reply);
int probe_open_exe(const struct probe_request *request, struct reply *reply);
int probe_open_jit_names(const struct probe_request *request, struct reply *reply);
int probe_read_jit_list(const struct probe_request *request, struct reply *reply);
int probe_read_standing(const struct probe_request *request, struct reply *reply);
int probe_read_lock_owner(const struct probe_request *request, struct reply *reply);
int probe_count_waiters(const struct probe_request *request, struct reply *reply);
int probe_read_names(const struct probe_named *names, size_t count, struct reply *reply);
int probe_read_memory_use(const struct probe_request *request, struct reply *reply);
int probe_attach(const struct probe_request *request, const struct probe_places *places,
		 const int *fds, size_t fd_count, struct reply *reply);
/* After probe_attach, when reply->fds are closed: the process that set the probes closes its own
 * copies, and, unless the others were sent, only when every process gives its mmap_lock. */
void probe_attach_handed_on(struct reply *reply, bool sent);

/* /proc/PID of the request, which is the process of its start time: a descriptor or -errno. */
int probe_open_process(const struct probe_request *request);
/* The process of this folder is alive still: 0 or -ESRCH. */
int probe_still_there(int dir);

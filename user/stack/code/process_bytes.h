/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of a process as bytes to read, by their addresses. Each read may wait for a prober, so
 * that their number is limited. */
#pragma once
#include "jankscope/stack.h"
#include "stack/code/byte_source.h"

#define PROCESS_READS 1024

struct process_bytes {
	const struct stack_files *files;
	const struct stack_process *process;
	unsigned reads;
};

static inline int process_bytes_read(void *ctx, uint64_t address, void *to, size_t length)
{
	struct process_bytes *bytes = ctx;

	for (size_t done = 0; done < length;) {
		ssize_t n;

		if (bytes->reads++ == PROCESS_READS)
			return -EFBIG;
		n = bytes->files->memory(bytes->files->ctx, bytes->process, address + done,
					 (char *)to + done, length - done);
		if (n <= 0)
			return n ? (int)n : -EFAULT;
		done += (size_t)n;
	}
	return 0;
}

/* bytes must live as long as the source. */
static inline struct byte_source process_bytes_source(struct process_bytes *bytes)
{
	return (struct byte_source){process_bytes_read, bytes, 1ull << 56};
}

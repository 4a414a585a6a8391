/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/byte_file.h"

#include <unistd.h>

static int read_all(void *ctx, uint64_t offset, void *to, size_t length)
{
	const int *fd = ctx;

	for (size_t done = 0; done < length;) {
		ssize_t n = pread(*fd, (char *)to + done, length - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		done += (size_t)n;
	}
	return 0;
}

struct byte_source byte_file_source(const int *fd, uint64_t size)
{
	return (struct byte_source){read_all, (void *)fd, size};
}

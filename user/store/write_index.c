/* SPDX-License-Identifier: BSD-2-Clause */
/* The index, as the writer of a folder keeps it. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/store.h"
#include "store/write_private.h"

void store_index(struct store_writer *writer, const struct segment_facts *facts)
{
	char line[INDEX_MAX_LINE];
	size_t length = index_format(line, facts);

	/* Part of a line on a full disk is none to the reader, but would take the next one along.
	 */
	if (writer->index_fd < 0)
		return;
	if (write(writer->index_fd, line, length) != (ssize_t)length) {
		if (ftruncate(writer->index_fd, (off_t)writer->closed.index_bytes))
			writer->index_fd = -1;
		return;
	}
	writer->closed.index_bytes += length;
}

void store_shorten_index(struct store_writer *writer)
{
	const struct store_list *list = &writer->closed;
	char line[INDEX_MAX_LINE];
	int fd;

	unlinkat(writer->dir_fd, INDEX_NAME ".tmp", 0);
	if (!list->index_refused && list->index_lines < 2 * list->count + 64)
		return;
	fd = openat(writer->dir_fd, INDEX_NAME ".tmp",
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (list->last_removed) {
		struct segment_facts note = {.number = list->last_removed,
					     .removed = STORE_FOR_FREE_SPACE};
		size_t length = index_format(line, &note);

		if (write(fd, line, length) != (ssize_t)length)
			goto fail;
	}
	for (size_t i = 0; i < list->count; i++) {
		size_t length;

		if (!list->items[i].known)
			continue;
		length = index_format(line, &list->items[i].facts);
		if (write(fd, line, length) != (ssize_t)length)
			goto fail;
	}
	if (fdatasync(fd) ||
	    renameat(writer->dir_fd, INDEX_NAME ".tmp", writer->dir_fd, INDEX_NAME))
		goto fail;
	close(fd);
	return;
fail:
	close(fd);
	unlinkat(writer->dir_fd, INDEX_NAME ".tmp", 0);
}

void store_open_index(struct store_writer *writer)
{
	struct stat status;

	writer->index_fd =
		openat(writer->dir_fd, INDEX_NAME,
		       O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
	if (writer->index_fd < 0 || fstat(writer->index_fd, &status) || !S_ISREG(status.st_mode))
		return;
	writer->closed.index_bytes = (uint64_t)status.st_size;
	/* Half a line of a recorder that died ends here. */
	if (writer->closed.index_refused && write(writer->index_fd, "\n", 1) == 1)
		writer->closed.index_bytes++;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sink/writer_shared.h"
#include "util/clock.h"

/* A backlog above this is given back to the system when it is written. */
#define KEEP_BYTES (1u << 20)
/* So much is written at once, though more comes soon. */
#define MANY_BYTES (16u << 10)

struct writer {
	struct writer_shared *shared;
	size_t queue_bytes, shared_bytes, touched;
	size_t held_bytes; /* put since the writer was woken */
	const char *made;  /* what writer_room() gave for the next record */
	int wake_fd, status_fd;
	pid_t pid;
	bool held;
	bool ended; /* the process has; seen by the end of its status pipe */
};

static void free_writer(struct writer *writer)
{
	if (writer->wake_fd >= 0)
		close(writer->wake_fd);
	if (writer->status_fd >= 0)
		close(writer->status_fd);
	if (writer->shared != MAP_FAILED)
		munmap(writer->shared, writer->shared_bytes);
	free(writer);
}

/* One record above the limit fits when nothing is queued, and the last of a run when all is full.
 */
static bool map_ring(struct writer *writer, size_t queue_bytes)
{
	size_t room = 4 * queue_bytes;

	writer->queue_bytes = queue_bytes;
	writer->shared_bytes = WRITER_RING_OFFSET + room;
	writer->shared = mmap(NULL, writer->shared_bytes, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (writer->shared == MAP_FAILED)
		return false;
	writer->shared->room = room;
	return true;
}

/* True: the output is open. */
static bool wait_for_open(struct writer *writer)
{
	char byte;
	ssize_t n;

	do
		n = read(writer->status_fd, &byte, 1);
	while (n < 0 && errno == EINTR);
	return n == 1;
}

struct writer *writer_start(const struct writer_options *options, char *why, size_t why_size)
{
	struct writer *writer = calloc(1, sizeof(*writer));
	int wake[2] = {-1, -1}, status[2] = {-1, -1}, err;

	*why = 0;
	if (!writer)
		return NULL;
	writer->wake_fd = writer->status_fd = -1;
	writer->shared = MAP_FAILED;
	if (!map_ring(writer, options->queue_bytes) || pipe2(wake, O_CLOEXEC))
		goto fail;
	writer->wake_fd = wake[1];
	if (fcntl(wake[1], F_SETFL, O_NONBLOCK) || pipe2(status, O_CLOEXEC))
		goto fail;
	writer->status_fd = status[0];
	writer->pid = fork();
	if (writer->pid < 0)
		goto fail;
	if (!writer->pid)
		writer_process(writer->shared, options, wake[0], status[1]);
	close(wake[0]);
	close(status[1]);
	wake[0] = status[1] = -1;
	if (wait_for_open(writer))
		return writer;
	waitpid(writer->pid, NULL, 0);
	snprintf(why, why_size, "%s", writer->shared->why);
	errno = -writer_error(writer);
fail:
	err = errno;
	if (wake[0] >= 0)
		close(wake[0]);
	if (status[1] >= 0)
		close(status[1]);
	free_writer(writer);
	errno = err;
	return NULL;
}

/* Where the next record goes, with the position of its end in *head; NULL: no room. */
static char *find_room(struct writer *writer, size_t need, bool last, uint64_t *head)
{
	struct writer_shared *shared = writer->shared;
	uint64_t tail = atomic_load_explicit(&shared->tail, memory_order_acquire);
	uint64_t at, skip = 0;

	*head = atomic_load_explicit(&shared->head, memory_order_relaxed);
	if (need > shared->room)
		return NULL;
	if (*head == tail) {
		if (writer->touched > KEEP_BYTES)
			madvise(writer_ring(shared), writer->touched, MADV_REMOVE);
		if (writer->touched > KEEP_BYTES)
			writer->touched = 0;
		atomic_store_explicit(&shared->base, *head, memory_order_relaxed);
	} else if (*head - tail + need > (last ? shared->room : writer->queue_bytes)) {
		return NULL;
	}
	at = (*head - atomic_load_explicit(&shared->base, memory_order_relaxed)) % shared->room;
	if (shared->room - at < need) {
		skip = shared->room - at;
		if (*head - tail + skip + need > shared->room)
			return NULL;
		memcpy(writer_ring(shared) + at, &(uint64_t){WRITER_WRAP}, sizeof(uint64_t));
		at = 0;
	}
	*head += skip + need;
	if (at + need > writer->touched)
		writer->touched = at + need;
	return writer_ring(shared) + at;
}

char *writer_room(struct writer *writer, size_t *size)
{
	struct writer_shared *shared = writer->shared;
	uint64_t head = atomic_load_explicit(&shared->head, memory_order_relaxed);
	char *place;

	if (head != atomic_load_explicit(&shared->tail, memory_order_acquire))
		return NULL;
	place = find_room(writer, sizeof(uint64_t), false, &head);
	if (!place)
		return NULL;
	*size = shared->room - sizeof(uint64_t);
	writer->made = place + sizeof(uint64_t);
	return place + sizeof(uint64_t);
}

/* Where a record is put that may have been made in its place already, as of find_room(). */
static char *place_of(struct writer *writer, const char *data, size_t need, bool last,
		      uint64_t *head)
{
	const char *made = writer->made;

	writer->made = NULL;
	if (made && data == made) {
		/* The queue was empty, and still is. */
		*head = atomic_load_explicit(&writer->shared->head, memory_order_relaxed) + need;
		if (need > writer->touched)
			writer->touched = need;
		return writer_ring(writer->shared);
	}
	/* It outgrew the room, all of which was written. */
	if (made)
		writer->touched = writer->shared->room;
	return find_room(writer, need, last, head);
}

/* A full pipe wakes it as well. */
static int wake(struct writer *writer)
{
	writer->held_bytes = 0;
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&writer->shared->sleeping) && write(writer->wake_fd, "", 1) < 0 &&
	    errno != EAGAIN)
		return writer_error(writer) ? writer_error(writer) : -EIO;
	return 0;
}

void writer_hold(struct writer *writer, bool held)
{
	writer->held = held;
	/* The loop is told of an error by writer_fd(). */
	if (!held && writer->held_bytes && writer->wake_fd >= 0)
		wake(writer);
}

int writer_put(struct writer *writer, const char *data, size_t length, bool last)
{
	const uint64_t size = length;
	size_t need = sizeof(size) + ((length + 7) & ~(size_t)7);
	uint64_t head;
	char *place;
	int err;

	err = writer->held ? atomic_load(&writer->shared->error) : writer_error(writer);
	if (err)
		return err;
	place = place_of(writer, data, need, last, &head);
	if (!place)
		return -EAGAIN;
	memcpy(place, &size, sizeof(size));
	if (data != place + sizeof(size))
		memcpy(place + sizeof(size), data, length);
	atomic_fetch_add(&writer->shared->put, 1);
	atomic_store_explicit(&writer->shared->head, head, memory_order_release);
	writer->held_bytes += need;
	return writer->held && writer->held_bytes < MANY_BYTES ? 0 : wake(writer);
}

void writer_owe_screen(struct writer *writer, bool owed)
{
	atomic_store(&writer->shared->screen, owed);
}

void writer_end(struct writer *writer)
{
	if (writer->wake_fd >= 0)
		close(writer->wake_fd);
	writer->wake_fd = -1;
}

static bool has_ended(const struct writer *writer, int timeout_ms)
{
	struct pollfd status = {writer->status_fd, POLLIN, 0};

	return poll(&status, 1, timeout_ms) > 0;
}

int writer_wait(struct writer *writer, uint64_t deadline_mono_ns)
{
	for (;;) {
		uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
		uint64_t left_ns = deadline_mono_ns > now_ns ? deadline_mono_ns - now_ns : 0;

		if (has_ended(writer, (int)((left_ns + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC))) {
			writer->ended = true;
			return writer_error(writer);
		}
		if (!left_ns)
			return atomic_load(&writer->shared->drained) ? 0 : -ETIMEDOUT;
	}
}

bool writer_has_ended(const struct writer *writer)
{
	return writer->ended;
}

int writer_error(const struct writer *writer)
{
	int err = atomic_load(&writer->shared->error);

	/* Ended without a word, before it was told to: killed. */
	if (!err && !atomic_load(&writer->shared->finished) && has_ended(writer, 0))
		err = atomic_load(&writer->shared->error) ?: -EIO;
	return atomic_load(&writer->shared->finished) ? 0 : err;
}

void writer_free(struct writer *writer, bool kill_it)
{
	if (!writer)
		return;
	writer_end(writer);
	if (kill_it && !writer->ended)
		kill(writer->pid, SIGKILL);
	/* One that was left behind goes to init; it is no zombie of ours for long. */
	waitpid(writer->pid, NULL, writer->ended ? 0 : WNOHANG);
	free_writer(writer);
}

bool writer_notice(struct writer *writer, struct store_notice *notice)
{
	return store_notice_take(&writer->shared->notices, notice);
}

int writer_fd(const struct writer *writer)
{
	return writer->status_fd;
}

pid_t writer_pid(const struct writer *writer)
{
	return writer->pid;
}

uint64_t writer_unwritten(const struct writer *writer)
{
	return atomic_load(&writer->shared->put) - atomic_load(&writer->shared->written);
}

uint64_t writer_bytes(const struct writer *writer)
{
	return atomic_load(&writer->shared->bytes);
}

int writer_torn(const struct writer *writer)
{
	return atomic_load(&writer->shared->torn);
}

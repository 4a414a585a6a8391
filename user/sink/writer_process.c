/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "sink/output_file.h"
#include "sink/writer_shared.h"
#include "store/write.h"
#include "util/child.h"
#include "util/clock.h"

/* The recorder's signals are not for us: after Ctrl-C there is a footer to write. */
static void ignore_signals(void)
{
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		if (number != SIGCHLD && number != SIGTSTP && number != SIGTTIN &&
		    number != SIGCONT && number != SIGSEGV && number != SIGBUS &&
		    number != SIGABRT && number != SIGFPE && number != SIGILL)
			signal(number, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void close_standard_streams(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; fd < 3; fd++)
		if (null >= 0)
			dup2(null, fd);
		else
			close(fd);
	if (null > 2)
		close(null);
}

/* A pipe or terminal may be non-blocking because somebody who shares it made it so. False: it is
 * not, and EAGAIN means something else. */
static bool wait_for_room(int fd)
{
	struct pollfd room = {.fd = fd, .events = POLLOUT};
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && flags & O_NONBLOCK && (poll(&room, 1, -1) >= 0 || errno == EINTR);
}

/* The terminal is gone: to a writer it is what a pipe without a reader is. */
static bool hung_up(int fd)
{
	struct pollfd state = {.fd = fd};

	return poll(&state, 1, 0) > 0 && state.revents & POLLHUP;
}

static int write_all(int fd, const char *data, size_t length)
{
	while (length) {
		ssize_t n = write(fd, data, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN && wait_for_room(fd))
			continue;
		if (n < 0)
			return errno == EIO && hung_up(fd) ? -EPIPE : -errno;
		data += n;
		length -= (size_t)n;
	}
	return 0;
}

/* What the writer writes to: a file, or a folder of segments. */
struct output {
	struct output_file file;
	struct store_writer *store; /* NULL: the file */
	bool unsynced;
	uint64_t unsynced_since_ns;
	int untaken; /* the first error of a sync, negative: what write() took may be lost */
};

/* The kernel tells each descriptor once of what it could not write, in whichever call comes first
 * (lib/errseq.c). Other errors are of a file system without the call, and no loss. */
static void note_untaken(struct output *output, int error)
{
	if (!output->untaken &&
	    (error == EIO || error == ENOSPC || error == EDQUOT || error == EROFS))
		output->untaken = -error;
}

/* The pages of the file are memory of the cgroup that writes it, and the kernel writes them to the
 * disk when they are half a minute old. Here a window of them is begun to be written when it is
 * full, and let go when the next one is full. */
#define WINDOW_BYTES (256u << 10)

static void give_pages_back(struct output *output, uint64_t before, uint64_t now)
{
	const struct output_file *file = &output->file;
	uint64_t end = now / WINDOW_BYTES * WINDOW_BYTES, begin = end - WINDOW_BYTES;

	if (!file->regular || before / WINDOW_BYTES == now / WINDOW_BYTES)
		return;
	if (before < begin)
		begin = before / WINDOW_BYTES * WINDOW_BYTES;
	sync_file_range(file->fd, (off_t)begin, (off_t)(end - begin), SYNC_FILE_RANGE_WRITE);
	if (!begin)
		return;
	if (sync_file_range(file->fd, 0, (off_t)begin,
			    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
				    SYNC_FILE_RANGE_WAIT_AFTER))
		note_untaken(output, errno);
	posix_fadvise(file->fd, 0, (off_t)begin, POSIX_FADV_DONTNEED);
}

/* What a power cut may cost. */
#define SYNC_NS (60 * NSEC_PER_SEC)

static void sync_file(struct output *output)
{
	output->unsynced = false;
	if (fdatasync(output->file.fd))
		note_untaken(output, errno);
}

/* One record, in one write() where the output takes it. What a file held before goes only now that
 * there is something to take its place; a full disk takes part of a line, which is cut off again.
 */
static int write_record(struct writer_shared *shared, struct output *output, const char *data,
			size_t length)
{
	const struct output_file *file = &output->file;
	uint64_t good = atomic_load_explicit(&shared->bytes, memory_order_relaxed);
	int err = 0;

	if (file->regular && !good && ftruncate(file->fd, 0))
		return -errno;
	err = write_all(file->fd, data, length);
	if (!err) {
		atomic_store(&shared->bytes, good + length);
		atomic_fetch_add(&shared->written, 1);
		give_pages_back(output, good, good + length);
		if (file->regular && !output->unsynced)
			output->unsynced_since_ns = clock_now_ns(CLOCK_MONOTONIC);
		output->unsynced = file->regular;
		return 0;
	}
	if (file->regular && ftruncate(file->fd, (off_t)good))
		atomic_store(&shared->torn, -errno);
	return err;
}

/* A quarter of the ring is what the recorder may fill: of what a folder cannot take now, the newest
 * half of that is kept. */
#define KEPT_PART 8

/* 0: it is written, or dropped for newer ones; -EAGAIN: it stays. */
static int store_record(struct writer_shared *shared, struct output *output, const char *data,
			size_t length)
{
	uint64_t waiting = atomic_load_explicit(&shared->head, memory_order_acquire) -
			   atomic_load_explicit(&shared->tail, memory_order_relaxed);
	int err = store_writer_put(output->store, data, length);

	if (!err) {
		atomic_store(&shared->bytes, store_writer_bytes(output->store));
		atomic_fetch_add(&shared->written, 1);
	} else if (waiting > shared->room / KEPT_PART) {
		store_writer_drop(output->store, data, length);
		atomic_fetch_add(&shared->written, 1); /* it is told by a notice */
		return 0;
	}
	return err;
}

/* Write all that is queued; -EAGAIN: what is left cannot be written now. */
static int drain(struct writer_shared *shared, struct output *output)
{
	uint64_t tail = atomic_load_explicit(&shared->tail, memory_order_relaxed);
	int err = 0;

	while (!err && tail != atomic_load_explicit(&shared->head, memory_order_acquire)) {
		uint64_t base = atomic_load_explicit(&shared->base, memory_order_relaxed);
		uint64_t at = (tail - base) % shared->room, length;
		const char *data = writer_ring(shared) + at + sizeof(length);

		memcpy(&length, writer_ring(shared) + at, sizeof(length));
		if (length == WRITER_WRAP) {
			tail += shared->room - at;
		} else {
			err = output->store ? store_record(shared, output, data, length)
					    : write_record(shared, output, data, length);
			if (err == -EAGAIN && output->store)
				break;
			tail += sizeof(length) + ((length + 7) & ~7ull);
		}
		atomic_store_explicit(&shared->tail, tail, memory_order_release);
	}
	if (output->store) {
		int gone = store_writer_tick(output->store);

		if (gone)
			err = gone;
	}
	return err;
}

static bool has_news(const struct writer_shared *shared)
{
	return atomic_load_explicit(&shared->tail, memory_order_relaxed) !=
	       atomic_load_explicit(&shared->head, memory_order_acquire);
}

/* When something is due though nothing comes; -1: never. */
static int timeout_ms(const struct output *output)
{
	uint64_t now_ns, due_ns;

	if (output->store)
		return store_writer_timeout_ms(output->store);
	if (!output->unsynced)
		return -1;
	now_ns = clock_now_ns(CLOCK_MONOTONIC);
	due_ns = output->unsynced_since_ns + SYNC_NS;
	return due_ns > now_ns ? (int)((due_ns - now_ns) / NSEC_PER_MSEC) + 1 : 0;
}

static int write_until_the_end(struct writer_shared *shared, struct output *output, int wake_fd)
{
	struct pollfd wake = {.fd = wake_fd, .events = POLLIN};
	char news[256];
	int err;

	for (;;) {
		ssize_t n;

		atomic_store(&shared->sleeping, false);
		err = drain(shared, output);
		if (err && err != -EAGAIN)
			return err;
		if (!timeout_ms(output) && output->unsynced)
			sync_file(output);
		atomic_store(&shared->sleeping, true);
		atomic_thread_fence(memory_order_seq_cst);
		if (!err && has_news(shared))
			continue;
		if (!poll(&wake, 1, timeout_ms(output)))
			continue;
		n = read(wake_fd, news, sizeof(news));
		if (n < 0 && errno == EINTR)
			continue;
		/* Its last records may have come just before the end. */
		if (n <= 0 && output->store)
			store_writer_retry(output->store);
		if (n <= 0)
			return drain(shared, output);
	}
}

static int open_output(struct writer_shared *shared, const struct writer_options *options,
		       struct output *output)
{
	if (options->store) {
		output->store = store_writer_open(options->path, options->store, &shared->notices,
						  shared->why, sizeof(shared->why));
		return output->store ? 0 : -errno;
	}
	if (options->path)
		return output_file_open(&output->file, options->path, options->overwrite,
					shared->why, sizeof(shared->why));
	output->file.fd = fcntl(options->fd, F_DUPFD_CLOEXEC, 3);
	return output->file.fd < 0 ? -EBADF : 0;
}

static void keep_descriptors(const struct output *output, int wake_fd, int status_fd)
{
	int keep[8] = {wake_fd, status_fd, output->file.fd, output->file.dir_fd};
	size_t count = 4;

	if (output->store)
		count += store_writer_fds(output->store, keep + count);
	child_keep_only(keep, count);
}

static int close_output(struct writer_shared *shared, struct output *output, int err)
{
	if (output->store) {
		int end;

		atomic_store(&shared->drained, !err);
		end = store_writer_end(output->store);
		return err == -EAGAIN ? end : err;
	}
	if (!err && !atomic_load(&shared->bytes))
		output_file_remove(&output->file);
	/* Some file systems tell only now that what they took is not kept. */
	if (close(output->file.fd) && !output->untaken)
		output->untaken = -errno;
	return err ? err : output->untaken;
}

/* The recorder was killed, or ended without a word: nobody else is left to do it. */
static void leave_screen(const struct writer_shared *shared, const struct writer_options *options,
			 int fd)
{
	if (!options->leave_screen || !atomic_load(&shared->screen))
		return;
	if (options->modes)
		tcsetattr(fd, TCSANOW, options->modes);
	write_all(fd, options->leave_screen, strlen(options->leave_screen));
}

void writer_process(struct writer_shared *shared, const struct writer_options *options, int wake_fd,
		    int status_fd)
{
	struct output output = {.file = {.fd = options->fd, .dir_fd = -1}};
	struct sched_param ordinary = {0};
	int err;

	ignore_signals();
	prctl(PR_SET_NAME, "jankscope-write");
	/* Woken, it lets the recorder end its turn first (as in prober/helper.c). */
	sched_setscheduler(0, SCHED_BATCH, &ordinary);
	err = open_output(shared, options, &output);
	if (err) {
		atomic_store(&shared->error, err);
		_exit(1);
	}
	keep_descriptors(&output, wake_fd, status_fd);
	close_standard_streams();
	if (write(status_fd, "", 1) != 1)
		_exit(1);
	err = write_until_the_end(shared, &output, wake_fd);
	leave_screen(shared, options, output.file.fd);
	err = close_output(shared, &output, err);
	if (err)
		atomic_store(&shared->error, err);
	else
		atomic_store(&shared->finished, true);
	_exit(err ? 1 : 0);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/power/reader.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "prober/warden.h"
#include "source/power/sysfs.h"
#include "util/channel.h"
#include "util/clock.h"

#define ANSWER_NS     (2 * NSEC_PER_SEC)
#define LEAVE_NS      (4 * NSEC_PER_SEC) /* the first time; then twice as long each time */
#define MAX_LEAVE_NS  (256 * NSEC_PER_SEC)
#define MAX_UNDER_WAY 2

struct left_device {
	char path[POWER_DEVICE]; /* empty: a free place */
	uint64_t until_ns, leave_ns;
};

struct power_reader {
	struct warden *warden;
	struct helper helper;
	struct power_board *board; /* shared with the process */
	int board_fd;
	bool told; /* the process has the board */
	uint64_t serial, taken, due_ns[MAX_UNDER_WAY];
	struct left_device left[POWER_LEFT];
	uint64_t replaced;
	struct power_reading reading; /* the copy that is handed out */
};

/* ---- the process that reads ---- */

/* True: there is something to read from the socket, or the recorder is gone. */
static bool wait_until(int socket, uint64_t due_ns)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	return now_ns < due_ns && channel_wait(socket, due_ns - now_ns);
}

static struct power_board *map_board(int fd)
{
	void *at =
		mmap(NULL, sizeof(struct power_board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

static void __attribute__((noreturn)) serve(int socket)
{
	struct power_sysfs *sysfs = power_sysfs_new("");
	struct power_board *board = NULL;
	struct power_request request;
	struct pollfd wait = {.fd = socket, .events = POLLIN};
	int fds[CHANNEL_FDS];
	size_t count;

	while (sysfs) {
		ssize_t got = channel_receive(socket, &request, sizeof(request), fds, &count);
		struct power_answer answer = {.serial = request.serial};
		struct iovec part = {&answer, sizeof(answer)};

		if (got == -EAGAIN) {
			poll(&wait, 1, -1);
			continue;
		}
		if (got <= 0)
			break;
		if (count && !board)
			board = map_board(fds[0]);
		while (count)
			close(fds[--count]);
		/* A serial of 0 only ends a wait. */
		if ((size_t)got != sizeof(request) || !request.serial || !board)
			continue;
		wait_until(socket, request.due_mono_ns);
		power_sysfs_read(sysfs, board, &board->readings[request.serial & 1]);
		board->readings[request.serial & 1].serial = request.serial;
		if (channel_send(socket, &part, 1, NULL, 0))
			break;
	}
	_exit(0);
}

void power_reader_main(int socket)
{
	helper_begin(HELPER_POWER, &socket);
	serve(socket);
}

/* ---- the recorder's side ---- */

static int spawn(struct power_reader *reader)
{
	int err;

	reader->told = false;
	memset(reader->board->at, 0, sizeof(reader->board->at));
	err = warden_spawn(reader->warden, HELPER_POWER, &reader->helper);
	return err ? -EPIPE : 0;
}

struct power_reader *power_reader_new(struct warden *warden)
{
	struct power_reader *reader = calloc(1, sizeof(*reader));
	int err;

	if (!reader)
		return NULL;
	reader->warden = warden;
	reader->helper = (struct helper){.kind = HELPER_POWER, .socket = -1, .pidfd = -1};
	reader->board_fd = memfd_create("jank-power", MFD_CLOEXEC);
	if (reader->board_fd >= 0 && !ftruncate(reader->board_fd, sizeof(struct power_board)))
		reader->board = map_board(reader->board_fd);
	err = reader->board ? 0 : errno;
	if (reader->board && spawn(reader))
		err = EPIPE;
	if (!err)
		return reader;
	power_reader_free(reader);
	errno = err;
	return NULL;
}

void power_reader_free(struct power_reader *reader)
{
	if (!reader)
		return;
	if (reader->helper.serial)
		warden_drop(reader->warden, &reader->helper, reader->serial != reader->taken);
	if (reader->board)
		munmap(reader->board, sizeof(struct power_board));
	if (reader->board_fd >= 0)
		close(reader->board_fd);
	free(reader);
}

/* The device that was being read when the process hung. */
static void leave_alone(struct power_reader *reader)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	struct left_device *place = &reader->left[0];
	char path[POWER_DEVICE];

	memcpy(path, reader->board->at, sizeof(path));
	path[sizeof(path) - 1] = 0;
	if (!path[0])
		return;
	for (int i = 0; i < POWER_LEFT; i++) {
		struct left_device *left = &reader->left[i];

		if (!strcmp(left->path, path)) {
			place = left;
			break;
		}
		if (left->until_ns < place->until_ns)
			place = left;
	}
	if (strcmp(place->path, path))
		*place = (struct left_device){.leave_ns = LEAVE_NS / 2};
	memcpy(place->path, path, sizeof(path));
	place->leave_ns *= 2;
	if (place->leave_ns > MAX_LEAVE_NS)
		place->leave_ns = MAX_LEAVE_NS;
	place->until_ns = now_ns + place->leave_ns;
}

/* One that answered again is forgotten once it has been read without a hang for as long. */
static void tell_left(struct power_reader *reader)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	for (int i = 0; i < POWER_LEFT; i++) {
		struct left_device *left = &reader->left[i];
		bool alone = left->path[0] && now_ns < left->until_ns;

		if (left->path[0] && now_ns > left->until_ns + left->leave_ns + ANSWER_NS)
			*left = (struct left_device){0};
		if (alone)
			memcpy(reader->board->left[i], left->path, POWER_DEVICE);
		else
			memset(reader->board->left[i], 0, POWER_DEVICE);
	}
}

static int lose(struct power_reader *reader)
{
	leave_alone(reader);
	warden_drop(reader->warden, &reader->helper, true);
	reader->replaced++;
	reader->taken = reader->serial;
	spawn(reader);
	return -EPIPE;
}

int power_reader_ask(struct power_reader *reader, uint64_t due_mono_ns)
{
	struct power_request request = {reader->serial + 1, due_mono_ns};
	struct iovec part = {&request, sizeof(request)};

	if (reader->serial - reader->taken == MAX_UNDER_WAY)
		return -EBUSY;
	if (reader->helper.socket < 0 && spawn(reader))
		return -EPIPE;
	if (reader->serial == reader->taken)
		tell_left(reader);
	if (channel_send(reader->helper.socket, &part, 1, &reader->board_fd, !reader->told))
		return lose(reader);
	reader->told = true;
	reader->serial++;
	reader->due_ns[reader->serial % MAX_UNDER_WAY] = due_mono_ns;
	return 0;
}

void power_reader_hurry(struct power_reader *reader)
{
	struct power_request request = {0};
	struct iovec part = {&request, sizeof(request)};
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	if (reader->serial == reader->taken || reader->helper.socket < 0 ||
	    reader->due_ns[reader->serial % MAX_UNDER_WAY] <= now_ns)
		return;
	if (!channel_send(reader->helper.socket, &part, 1, NULL, 0))
		reader->due_ns[reader->serial % MAX_UNDER_WAY] = now_ns;
}

/* One message: 0 with the answer, -EAGAIN, -EPIPE. */
static int hear(struct power_reader *reader, struct power_answer *answer)
{
	uint8_t message[sizeof(struct helper_hello) + sizeof(struct power_answer)];
	int fds[CHANNEL_FDS];
	size_t count;
	ssize_t got;

	for (;;) {
		got = channel_receive(reader->helper.socket, message, sizeof(message), fds, &count);
		if (got == -EAGAIN)
			return -EAGAIN;
		if (got <= 0 && got != -EMSGSIZE)
			return -EPIPE;
		if (got > 0 && helper_take_hello(&reader->helper, message, (size_t)got, fds, count))
			continue;
		while (got > 0 && count)
			close(fds[--count]);
		if (got != sizeof(*answer))
			continue;
		memcpy(answer, message, sizeof(*answer));
		return 0;
	}
}

int power_reader_take(struct power_reader *reader, uint64_t timeout_ns,
		      const struct power_reading **reading)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC), until_ns = now_ns + timeout_ns;
	struct power_answer answer;
	int err;

	if (reader->helper.socket < 0)
		return spawn(reader) ? -EPIPE : -EAGAIN;
	do {
		if (now_ns < until_ns && reader->serial != reader->taken)
			channel_wait(reader->helper.socket, until_ns - now_ns);
		err = hear(reader, &answer);
		now_ns = clock_now_ns(CLOCK_MONOTONIC);
	} while (err == -EAGAIN && now_ns < until_ns && reader->serial != reader->taken);
	if (err == -EAGAIN && reader->serial != reader->taken &&
	    now_ns > reader->due_ns[(reader->taken + 1) % MAX_UNDER_WAY] + ANSWER_NS)
		return lose(reader);
	if (err == -EPIPE)
		return lose(reader);
	if (err)
		return err;
	if (reader->serial == reader->taken || answer.serial != reader->taken + 1)
		return -EAGAIN;
	reader->taken++;
	reader->reading = reader->board->readings[answer.serial & 1];
	*reading = &reader->reading;
	return 0;
}

size_t power_reader_left(const struct power_reader *reader, const char *paths[POWER_LEFT])
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	size_t count = 0;

	for (int i = 0; i < POWER_LEFT; i++)
		if (reader->left[i].path[0] && now_ns < reader->left[i].until_ns)
			paths[count++] = reader->left[i].path;
	return count;
}

uint64_t power_reader_replaced(const struct power_reader *reader)
{
	return reader->replaced;
}

uint64_t power_reader_serial(const struct power_reader *reader)
{
	return reader->serial;
}

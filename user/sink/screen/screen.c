/* SPDX-License-Identifier: BSD-2-Clause */
/* The sink of the live screen: it joins the model, the keys, the drawing and the terminal. What it
 * waits for is behind one epoll descriptor, which the session's loop watches. */
#include "sink/screen.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "sink/screen/draw.h"
#include "sink/screen/keys.h"
#include "sink/screen/tty.h"
#include "sink/table_private.h"
#include "sink/writer.h"
#include "util/clock.h"
#include "util/talk.h"

/* Blocks and events that come between two intervals are shown so late at the most; so long it takes
 * until a terminal that did not take a frame is offered another one. */
#define SOON_NS (100 * NSEC_PER_MSEC)
#define BUSY_NS (100 * NSEC_PER_MSEC)
/* How long the recorder waits for its terminal before it stops (Ctrl-Z). */
#define LEAVE_NS (200 * NSEC_PER_MSEC)

enum source_id { ID_KEYS, ID_SIGNALS, ID_ESCAPE, ID_REDRAW, ID_WRITER, ID_STDERR };

struct screen_sink {
	struct sink base;
	struct table_options options;
	struct tty tty;
	struct writer *writer;
	int epoll_fd, escape_fd, redraw_fd;
	bool keys_watched, stderr_watched;
	bool begun; /* the header has come */
	bool shown; /* the terminal shows the screen */
	bool ended; /* the footer has come */
	bool told;  /* the writer's error */
	bool redraw_set;
	bool quitting;
	struct screen_model live, paused;
	struct screen_view view;
	struct key_reader reader;
	/* The summary is printed by a table. */
	struct sink *table;
	FILE *text_file;
	char *text;
	size_t text_size;
};

static void set_timer(int fd, uint64_t after_ns)
{
	struct itimerspec when = {
		.it_value = {(time_t)(after_ns / NSEC_PER_SEC), (long)(after_ns % NSEC_PER_SEC)}};

	timerfd_settime(fd, 0, &when, NULL);
}

static int watch(struct screen_sink *screen, int fd, enum source_id id)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = id};

	return epoll_ctl(screen->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static void watch_keys(struct screen_sink *screen, bool watched)
{
	if (screen->tty.keys < 0 || watched == screen->keys_watched)
		return;
	if (watched && watch(screen, screen->tty.keys, ID_KEYS))
		return;
	if (!watched)
		epoll_ctl(screen->epoll_fd, EPOLL_CTL_DEL, screen->tty.keys, NULL);
	screen->keys_watched = watched;
}

static void draw_soon(struct screen_sink *screen, uint64_t after_ns)
{
	if (!screen->redraw_set)
		set_timer(screen->redraw_fd, after_ns);
	screen->redraw_set = true;
}

/* A frame that goes the way of all: one write() by the writer. False: the terminal has not taken
 * the one before. */
static bool draw(struct screen_sink *screen)
{
	const struct screen_model *model = screen->view.paused ? &screen->paused : &screen->live;
	struct screen_frame frame;
	int width, height;
	size_t size;
	char *bytes;
	bool taken;

	if (!screen->shown)
		return true;
	if (writer_unwritten(screen->writer)) {
		draw_soon(screen, BUSY_NS);
		return false;
	}
	tty_size(&screen->tty, &width, &height);
	if (!frame_begin(&frame, width, height, screen->options.colour, !screen->options.ascii))
		return false;
	screen_draw(&frame, model, &screen->view);
	bytes = frame_bytes(&frame, &size);
	frame_free(&frame);
	taken = bytes && !writer_put(screen->writer, bytes, size, false);
	free(bytes);
	return taken;
}

/* ---- entering and leaving ---- */

static void show(struct screen_sink *screen)
{
	if (!tty_is_ours(&screen->tty))
		return;
	tty_take(&screen->tty);
	watch_keys(screen, true);
	if (screen->tty.err_pipe >= 0 && !screen->stderr_watched)
		screen->stderr_watched = !watch(screen, screen->tty.err_pipe, ID_STDERR);
	if (!screen->shown) {
		writer_owe_screen(screen->writer, true);
		writer_put(screen->writer, TTY_ENTER, strlen(TTY_ENTER), false);
	}
	screen->shown = true;
	/* The bytes that enter the screen are on their way. */
	draw_soon(screen, SOON_NS / 10);
}

static void wait_for_writer(const struct screen_sink *screen)
{
	uint64_t deadline_ns = clock_now_ns(CLOCK_MONOTONIC) + LEAVE_NS;

	while (writer_unwritten(screen->writer) && !writer_error(screen->writer) &&
	       clock_now_ns(CLOCK_MONOTONIC) < deadline_ns)
		usleep(2000);
}

/* The bytes that leave the screen and, at the end, what follows them. */
static void leave(struct screen_sink *screen, const char *text, size_t length, bool last)
{
	size_t before = screen->shown ? strlen(TTY_LEAVE) : 0;
	char *bytes = malloc(before + length + 1);

	if (!bytes)
		return;
	memcpy(bytes, TTY_LEAVE, before);
	if (length)
		memcpy(bytes + before, text, length);
	if (before + length && !writer_put(screen->writer, bytes, before + length, last))
		writer_owe_screen(screen->writer, false);
	free(bytes);
	screen->shown = false;
}

/* Back to what the terminal was, and without keys. */
static void give_back(struct screen_sink *screen)
{
	watch_keys(screen, false);
	tty_give_back(&screen->tty);
	screen->stderr_watched = false; /* its end is closed */
}

static void suspend(struct screen_sink *screen, bool job)
{
	bool was_shown = screen->shown;

	writer_hold(screen->writer, false);
	if (was_shown) {
		leave(screen, NULL, 0, false);
		wait_for_writer(screen);
	}
	give_back(screen);
	tty_stop(job);
	if (was_shown)
		show(screen);
}

/* ---- what comes ---- */

static void pause_or_go_on(struct screen_sink *screen)
{
	screen_model_clear(&screen->paused);
	if (screen->view.paused)
		screen_model_copy(&screen->paused, &screen->live);
}

/* True: the screen is to be drawn. */
static bool take_key(struct screen_sink *screen, int key)
{
	const struct screen_model *model = screen->view.paused ? &screen->paused : &screen->live;

	if (key == KEY_NONE)
		return false;
	switch (view_key(&screen->view, model, key)) {
	case WISH_NOTHING:
		return false;
	case WISH_QUIT:
		/* A second SIGINT would end the run without its summary. */
		if (!screen->quitting)
			kill(getpid(), SIGINT);
		screen->quitting = true;
		return false;
	case WISH_SUSPEND:
		suspend(screen, true);
		return false;
	case WISH_REDRAW:
		writer_put(screen->writer, "\033[2J", 4, false);
		draw_soon(screen, SOON_NS / 10);
		return false;
	case WISH_PAUSE:
		pause_or_go_on(screen);
		return true;
	case WISH_DRAW:
		return true;
	}
	return false;
}

static void read_keys(struct screen_sink *screen, uint32_t events)
{
	unsigned char bytes[256];
	ssize_t n = read(screen->tty.keys, bytes, sizeof(bytes));
	bool changed = false;

	/* A terminal that is gone, or that another job has. */
	if (n <= 0 && (events & (EPOLLHUP | EPOLLERR) || (n < 0 && errno != EAGAIN)))
		watch_keys(screen, false);
	for (ssize_t i = 0; i < n; i++)
		changed |= take_key(screen, keys_take(&screen->reader, bytes[i]));
	if (changed)
		draw(screen);
	set_timer(screen->escape_fd,
		  keys_are_midway(&screen->reader) ? KEYS_ESCAPE_MS * NSEC_PER_MSEC : 0);
}

static void read_signals(struct screen_sink *screen)
{
	struct signalfd_siginfo info;

	while (read(screen->tty.signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGTSTP)
			suspend(screen, false);
		else if (info.ssi_signo == SIGCONT && screen->begun && !screen->ended)
			show(screen);
		else
			draw(screen);
	}
}

static void read_stderr(struct screen_sink *screen)
{
	char line[SCREEN_TEXT];

	while (tty_take_line(&screen->tty, line, sizeof(line)))
		screen_model_say(&screen->live, line, true);
	draw_soon(screen, SOON_NS);
}

static void take_timer(int fd)
{
	uint64_t times;

	if (read(fd, &times, sizeof(times)) < 0)
		return;
}

/* A reader that went away is no error; any other is said once. */
static int tell(struct screen_sink *screen, int err)
{
	if (!err)
		return 0;
	/* The writer is dead, and with it what it owed. */
	if (screen->shown) {
		screen->shown = false;
		give_back(screen);
		if (err != -EPIPE)
			tty_put(&screen->tty, TTY_LEAVE);
	}
	if (err != -EPIPE && !screen->told) {
		screen->told = true;
		talk("error: cannot write the screen: %s\n", strerror(-err));
	}
	return err;
}

static int screen_check(struct sink *sink)
{
	struct screen_sink *screen = (struct screen_sink *)sink;
	struct epoll_event events[8];
	int count = epoll_wait(screen->epoll_fd, events, 8, 0);

	for (int i = 0; i < count; i++) {
		switch (events[i].data.u32) {
		case ID_KEYS:
			if (screen->keys_watched)
				read_keys(screen, events[i].events);
			break;
		case ID_SIGNALS:
			read_signals(screen);
			break;
		case ID_ESCAPE:
			take_timer(screen->escape_fd);
			if (take_key(screen, keys_time_out(&screen->reader)))
				draw(screen);
			break;
		case ID_REDRAW:
			take_timer(screen->redraw_fd);
			screen->redraw_set = false;
			draw(screen);
			break;
		case ID_STDERR:
			if (screen->stderr_watched)
				read_stderr(screen);
			break;
		}
	}
	return tell(screen, writer_error(screen->writer));
}

static int screen_fd(const struct sink *sink)
{
	return ((const struct screen_sink *)sink)->epoll_fd;
}

/* ---- records ---- */

/* The summary, below what the terminal showed before. */
static int print_summary(struct screen_sink *screen, const struct record *record)
{
	int width, height, err;
	size_t before;

	tty_size(&screen->tty, &width, &height);
	((struct table_sink *)screen->table)->options.width =
		width > TABLE_MIN_WIDTH ? (unsigned)width : TABLE_MIN_WIDTH;
	if (fflush(screen->text_file))
		return -ENOMEM;
	before = screen->text_size;
	err = screen->table->ops->write(screen->table, record);
	if (err || fflush(screen->text_file))
		return err ? err : -ENOMEM;
	leave(screen, screen->text + before, screen->text_size - before, true);
	screen->ended = true;
	writer_end(screen->writer);
	return 0;
}

static int screen_write(struct sink *sink, const struct record *record)
{
	struct screen_sink *screen = (struct screen_sink *)sink;
	int err = screen_model_take(&screen->live, record);

	if (!err && record->type == RECORD_HEADER)
		err = screen->table->ops->write(screen->table, record);
	if (!err && record->type == RECORD_FOOTER)
		err = print_summary(screen, record);
	if (err || screen->ended)
		return err;
	if (record->type == RECORD_HEADER)
		screen->begun = true;
	if (record->type == RECORD_INTERVAL || record->type == RECORD_HEADER) {
		/* The job may have come back to the foreground, or lost it. */
		if (!screen->shown)
			show(screen);
		else if (!tty_is_ours(&screen->tty))
			screen->shown = false;
		if (!draw(screen))
			sink->dropped += record->type == RECORD_INTERVAL;
	} else {
		draw_soon(screen, SOON_NS);
	}
	return tell(screen, writer_error(screen->writer));
}

static void screen_hold(struct sink *sink, bool held)
{
	writer_hold(((struct screen_sink *)sink)->writer, held);
}

static int screen_finish(struct sink *sink, uint64_t deadline_mono_ns)
{
	struct screen_sink *screen = (struct screen_sink *)sink;
	int err;

	/* It ended without a footer. */
	if (screen->shown)
		leave(screen, NULL, 0, true);
	writer_end(screen->writer);
	err = writer_wait(screen->writer, deadline_mono_ns);
	give_back(screen);
	if (err == -ETIMEDOUT)
		talk("warn: the summary was not printed: the terminal does not take it\n");
	return err == -ETIMEDOUT ? 0 : tell(screen, err);
}

static void screen_close(struct sink *sink)
{
	struct screen_sink *screen = (struct screen_sink *)sink;
	int *const fds[] = {&screen->epoll_fd, &screen->escape_fd, &screen->redraw_fd};

	/* One that the terminal does not let write (Ctrl-S) leaves the screen when it does. */
	writer_free(screen->writer, false);
	tty_close(&screen->tty);
	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++)
		if (*fds[i] >= 0)
			close(*fds[i]);
	view_clear(&screen->view);
	screen_model_clear(&screen->live);
	screen_model_clear(&screen->paused);
	if (screen->table)
		screen->table->ops->close(screen->table);
	if (screen->text_file)
		fclose(screen->text_file);
	free(screen->text);
	free(screen);
}

static const struct sink_ops screen_ops = {
	.name = "screen",
	.write = screen_write,
	.fd = screen_fd,
	.check = screen_check,
	.hold = screen_hold,
	.finish = screen_finish,
	.close = screen_close,
};

bool screen_can_be_shown(int out_fd)
{
	return tty_can_show(out_fd);
}

static int open_all(struct screen_sink *screen, int in_fd, int out_fd)
{
	struct writer_options writer = {
		.fd = out_fd,
		.queue_bytes = WRITER_TABLE_BYTES,
		.leave_screen = TTY_LEAVE,
		.modes = &screen->tty.modes,
	};
	char why[8];

	/* The modes of stdout are those of the terminal, also where stdin is none. */
	if (tcgetattr(out_fd, &screen->tty.modes))
		writer.modes = NULL;
	/* Before the signals are blocked. */
	screen->writer = writer_start(&writer, why, sizeof(why));
	if (!screen->writer || tty_open(&screen->tty, in_fd, out_fd))
		return -errno;
	screen->base.helper = writer_pid(screen->writer);
	screen->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	screen->escape_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	screen->redraw_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	screen->text_file = open_memstream(&screen->text, &screen->text_size);
	if (screen->epoll_fd < 0 || screen->escape_fd < 0 || screen->redraw_fd < 0 ||
	    !screen->text_file)
		return -errno;
	screen->table = table_sink_new(screen->text_file, &screen->options);
	if (!screen->table || watch(screen, screen->tty.signals, ID_SIGNALS) ||
	    watch(screen, screen->escape_fd, ID_ESCAPE) ||
	    watch(screen, screen->redraw_fd, ID_REDRAW) ||
	    watch(screen, writer_fd(screen->writer), ID_WRITER))
		return -errno;
	return 0;
}

struct sink *screen_sink_open(int in_fd, int out_fd, const struct table_options *options)
{
	struct screen_sink *screen = calloc(1, sizeof(*screen));
	int err;

	if (!screen)
		return NULL;
	screen->base.ops = &screen_ops;
	screen->options = *options;
	screen->epoll_fd = screen->escape_fd = screen->redraw_fd = -1;
	screen->tty =
		(struct tty){.fd = -1, .keys = -1, .signals = -1, .err_pipe = -1, .err_saved = -1};
	err = open_all(screen, in_fd, out_fd);
	if (!err)
		return &screen->base;
	screen_close(&screen->base);
	errno = -err;
	return NULL;
}

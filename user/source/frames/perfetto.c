/* SPDX-License-Identifier: BSD-2-Clause */
/* --frames perfetto: the device's own perfetto writes FrameTimeline packets into our pipe, or into
 * a file that we read behind it where it may not write into a pipe. */
#include "util/child.h"
#include "source/frames/input.h"
#include "source/frames/perfetto_config.h"
#include "trace/perfetto.h"
#include "util/clock.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define READ_BYTES    (256 * 1024)
#define READ_AT_ONCE  (4 << 20)
#define POLL_NS       250000000ULL
#define FLUSH_NS      1000000000ULL
#define BACKOFF_NS    1000000000ULL
#define BACKOFF_MAX   60000000000ULL
#define FIRST_BYTE_NS 5000000000ULL
#define SILENT_NS     30000000000ULL
#define STEADY_NS     30000000000ULL /* lived this long: its death is news, not a habit */
#define END_MS        500
/* perfetto may only write to files there: SELinux */
#define FALLBACK_FOLDER "/data/misc/perfetto-traces"

struct runner {
	struct frames_input input;
	struct loop *loop;
	struct perfetto *decoder;
	pid_t child;
	int out_fd, err_fd; /* its stdout (or the file) and stderr; -1: closed */
	int timer;
	bool watched; /* out_fd is in the loop */
	bool into_file, ended, silent;
	char file[128];
	uint64_t started_ns, heard_ns, backoff_ns, bytes; /* heard_ns: last byte, or start */
	int64_t gap_from_ns; /* the last frame before it died; 0: nothing is missing */
	char last_words[120];
	uint8_t buffer[READ_BYTES];
};

static void __attribute__((noreturn))
run_child(const struct runner *runner, int in, int out, int err, int failed, pid_t parent)
{
	const char *target = runner->into_file ? runner->file : "-";

	/* end with us, however we end; and if we ended before this line, now */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(127);
	if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    dup2(err, STDERR_FILENO) < 0)
		_exit(127);
	child_begin(&failed, 1);
	execlp("perfetto", "perfetto", "-c", "-", "--txt", "-o", target, (char *)NULL);
	/* the pipe closes by itself when the program runs */
	if (write(failed, &errno, sizeof(errno)) < 0)
		_exit(126);
	_exit(127);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void unwatch(struct runner *runner)
{
	if (runner->watched)
		loop_remove_fd(runner->loop, runner->out_fd);
	runner->watched = false;
}

/* The last line of what it said on stderr. */
static void hear(struct runner *runner)
{
	char text[1024];
	ssize_t n;

	while (runner->err_fd >= 0 && (n = read(runner->err_fd, text, sizeof(text) - 1)) > 0) {
		char *line, *rest = text;

		text[n] = 0;
		while ((line = strsep(&rest, "\n"))) {
			if (line[0])
				snprintf(runner->last_words, sizeof(runner->last_words), "%s",
					 line);
		}
	}
}

/* It died and was started again: frames that were on their way, and those since, are lost. */
static void tell_gap(struct runner *runner, bool last)
{
	int64_t first_ns, last_ns;

	if (!runner->gap_from_ns ||
	    (!frame_stream_shown(runner->input.stream, &first_ns, &last_ns) && !last))
		return;
	runner->input.tell_gap(runner->input.ctx, runner->gap_from_ns, first_ns,
			       "frames that were shown between are lost: perfetto ended");
	runner->gap_from_ns = 0;
}

/* Take what is there. 1: more is to come, 0: it closed its end, or a negative errno. */
static int take(struct runner *runner)
{
	size_t taken = 0;

	while (runner->out_fd >= 0 && taken < READ_AT_ONCE) {
		ssize_t n = read(runner->out_fd, runner->buffer, READ_BYTES);
		int err;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 1 : -errno;
		if (n == 0)
			return runner->into_file ? 1 : 0;
		taken += (size_t)n;
		runner->bytes += (uint64_t)n;
		runner->heard_ns = clock_now_ns(CLOCK_MONOTONIC);
		if (runner->silent)
			runner->input.tell(runner->input.ctx, "recovered", "perfetto writes again");
		runner->silent = false;
		err = perfetto_feed(runner->decoder, runner->buffer, (size_t)n);
		if (err && err != -EBADMSG)
			return err;
		tell_gap(runner, false);
	}
	return 1;
}

/* Where it writes into a file, the file appears some time after its start. */
static void open_file(struct runner *runner)
{
	struct stat st;

	if (!runner->into_file || runner->out_fd >= 0 || runner->child <= 0)
		return;
	runner->out_fd = open(runner->file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (runner->out_fd < 0)
		return;
	/* from here on it lives as long as the two processes that have it open */
	unlink(runner->file);
	if (fstat(runner->out_fd, &st) || !S_ISREG(st.st_mode))
		close_fd(&runner->out_fd);
}

/* A name that nobody can take before: the folder is not only root's, and perfetto follows links. */
static int name_file(struct runner *runner)
{
	uint64_t number[2];

	if (getrandom(number, sizeof(number), 0) != (ssize_t)sizeof(number))
		return -EIO;
	snprintf(runner->file, sizeof(runner->file),
		 "%s/jankscope.%d.%016" PRIx64 "%016" PRIx64 ".pftrace", FALLBACK_FOLDER,
		 (int)getpid(), number[0], number[1]);
	return 0;
}

/* What runs left that were killed before they could open their file. */
static void remove_old_files(void)
{
	DIR *folder = opendir(FALLBACK_FOLDER);
	struct dirent *entry;
	int pid;

	while (folder && (entry = readdir(folder))) {
		if (sscanf(entry->d_name, "jankscope.%d.", &pid) == 1 && pid > 0 && kill(pid, 0) &&
		    errno == ESRCH)
			unlinkat(dirfd(folder), entry->d_name, 0);
	}
	if (folder)
		closedir(folder);
}

static int on_output(void *ctx, uint32_t events);

static int write_whole(int fd, const char *text, size_t size)
{
	while (size) {
		ssize_t n = write(fd, text, size);

		if (n < 0)
			return -errno;
		text += n;
		size -= (size_t)n;
	}
	return 0;
}

/* One that has died does not take it; its end is seen at its output. */
static void give_config(const struct runner *runner, int fd)
{
	if (write_whole(fd, perfetto_config, sizeof(perfetto_config) - 1))
		return;
	if (runner->input.options->launches)
		write_whole(fd, perfetto_launches, sizeof(perfetto_launches) - 1);
	if (runner->into_file)
		write_whole(fd, perfetto_limit, sizeof(perfetto_limit) - 1);
}

static int start(struct runner *runner)
{
	int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1}, failed[2] = {-1, -1};
	int rc = 0, reason;
	pid_t parent = getpid();

	perfetto_free(runner->decoder);
	runner->decoder = perfetto_new(frame_stream_events(), runner->input.stream);
	runner->bytes = 0;
	runner->last_words[0] = 0;
	if (!runner->decoder || pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) ||
	    pipe2(err, O_CLOEXEC) || pipe2(failed, O_CLOEXEC)) {
		rc = -errno;
		goto out;
	}
	if (runner->into_file) {
		remove_old_files();
		rc = name_file(runner);
		if (rc)
			goto out;
	}
	runner->child = fork();
	if (runner->child == 0)
		run_child(runner, in[0], out[1], err[1], failed[1], parent);
	if (runner->child < 0) {
		rc = -errno;
		goto out;
	}
	runner->started_ns = runner->heard_ns = clock_now_ns(CLOCK_MONOTONIC);
	runner->silent = false;
	close_fd(&failed[1]);
	if (read(failed[0], &reason, sizeof(reason)) == (ssize_t)sizeof(reason)) {
		waitpid(runner->child, NULL, 0);
		runner->child = -1;
		rc = -reason;
		goto out;
	}
	/* the configuration is shorter than a pipe is deep: this cannot block */
	give_config(runner, in[1]);
	runner->err_fd = err[0];
	err[0] = -1;
	fcntl(runner->err_fd, F_SETFL, O_NONBLOCK);
	if (!runner->into_file) {
		runner->out_fd = out[0];
		out[0] = -1;
		fcntl(runner->out_fd, F_SETFL, O_NONBLOCK);
		rc = loop_add_fd(runner->loop, runner->out_fd, EPOLLIN, on_output, runner);
		runner->watched = rc == 0;
		/* A pipe of 64 KiB is full long before a rest of the loop is over. */
		if (!rc)
			rc = loop_urgent_fd(runner->loop, runner->out_fd);
	}
out:
	for (unsigned i = 0; i < 2; i++) {
		close_fd(&in[i]);
		close_fd(&out[i]);
		close_fd(&err[i]);
		close_fd(&failed[i]);
	}
	return rc;
}

/* It is gone, or shall go: take its last words and its status. */
static int reap(struct runner *runner, bool kill_it)
{
	int status = 0;

	if (runner->child <= 0)
		return 0;
	if (kill_it)
		kill(runner->child, SIGKILL);
	while (waitpid(runner->child, &status, 0) < 0 && errno == EINTR)
		;
	runner->child = -1;
	hear(runner);
	close_fd(&runner->err_fd);
	return status;
}

/* Start it again after a while that grows. */
static void try_later(struct runner *runner)
{
	loop_set_timer(runner->loop, runner->timer, runner->backoff_ns, POLL_NS);
	runner->backoff_ns *= 2;
	if (runner->backoff_ns > BACKOFF_MAX)
		runner->backoff_ns = BACKOFF_MAX;
}

/* It died by itself: say so, and start it again after a while that grows. */
static int died(struct runner *runner)
{
	int64_t first_ns, last_ns;
	char text[200];
	int status, err;

	unwatch(runner);
	if (runner->into_file)
		take(runner); /* what it wrote last */
	/* its end of the pipe is closed, so it is about to exit; do not wait for one that stays */
	status = reap(runner, true);
	close_fd(&runner->out_fd);
	perfetto_finish(runner->decoder);
	if (!runner->bytes && !runner->into_file && !access(FALLBACK_FOLDER, W_OK) &&
	    WIFEXITED(status)) {
		/* it may not write into a pipe here */
		runner->into_file = true;
		err = start(runner);
		if (!err)
			return 0;
	}
	if (runner->ended)
		return 0;
	snprintf(text, sizeof(text), "perfetto ended%s%s; it is started again",
		 runner->last_words[0] ? ": " : "", runner->last_words);
	runner->input.lose(runner->input.ctx, "perfetto_restarts", 1);
	runner->input.tell(runner->input.ctx, "degraded", text);
	if (clock_now_ns(CLOCK_MONOTONIC) - runner->started_ns > STEADY_NS)
		runner->backoff_ns = BACKOFF_NS;
	try_later(runner);
	/* What comes next is another trace: no frame of it follows one of this. */
	if (!frame_stream_shown(runner->input.stream, &first_ns, &last_ns))
		return 0;
	runner->gap_from_ns = last_ns;
	return runner->input.restart(runner->input.ctx);
}

static int on_output(void *ctx, uint32_t events)
{
	struct runner *runner = ctx;
	int rc = take(runner);

	hear(runner);
	if (rc < 0)
		return rc == -ENOMEM ? rc : died(runner);
	return rc ? 0 : died(runner);
}

/* It writes its configuration and a clock snapshot at once and its statistics every second, so one
 * that writes nothing does not work: no frames from it are not no frames. */
static void note_silence(struct runner *runner)
{
	if (runner->silent || clock_now_ns(CLOCK_MONOTONIC) - runner->heard_ns <
				      (runner->bytes ? SILENT_NS : FIRST_BYTE_NS))
		return;
	runner->silent = true;
	runner->input.tell(runner->input.ctx, "degraded", "perfetto runs, but writes nothing");
}

static int on_timer(void *ctx, uint32_t events)
{
	struct runner *runner = ctx;
	int status, rc;

	if (runner->ended)
		return 0;
	if (runner->child <= 0) {
		rc = start(runner);
		if (rc) {
			try_later(runner);
			return rc == -ENOMEM ? rc : 0;
		}
		runner->input.tell(runner->input.ctx, "recovered", "perfetto runs again");
		return 0;
	}
	hear(runner);
	note_silence(runner);
	if (!runner->into_file)
		return 0;
	open_file(runner);
	rc = take(runner);
	if (rc < 0)
		return rc == -ENOMEM ? rc : 0;
	if (waitpid(runner->child, &status, WNOHANG) == runner->child) {
		runner->child = -1;
		return died(runner);
	}
	return 0;
}

static int perfetto_open(struct frames_input *input, struct loop *loop, char *reason, size_t size)
{
	struct runner *runner = (struct runner *)input;
	int err;

	runner->loop = loop;
	runner->timer = loop_add_timer(loop, POLL_NS, POLL_NS, on_timer, runner);
	err = runner->timer < 0 ? runner->timer : start(runner);
	if (err) {
		snprintf(reason, size, "cannot start perfetto: %s", strerror(-err));
		return err;
	}
	input->window_ns = 2 * FLUSH_NS;
	return 0;
}

static int perfetto_poll(struct frames_input *input, bool last)
{
	struct runner *runner = (struct runner *)input;
	uint64_t until = clock_now_ns(CLOCK_MONOTONIC) + END_MS * 1000000ULL;
	bool gone = false;
	int rc;

	open_file(runner);
	rc = take(runner);
	if (!last || rc < 0 || runner->child <= 0) {
		tell_gap(runner, last);
		return rc == -ENOMEM ? rc : 0;
	}
	/* on SIGINT it flushes, writes the rest and ends */
	runner->ended = true;
	kill(runner->child, SIGINT);
	while (rc > 0 && clock_now_ns(CLOCK_MONOTONIC) < until) {
		struct pollfd ready = {.fd = runner->out_fd, .events = POLLIN};
		int status;

		if (runner->into_file) {
			gone = waitpid(runner->child, &status, WNOHANG) == runner->child;
			rc = take(runner);
			if (gone) {
				runner->child = -1;
				break;
			}
			poll(NULL, 0, 20);
		} else {
			poll(&ready, 1, 50);
			rc = take(runner);
		}
	}
	/* what it had still to write is not known */
	if (rc && !gone)
		runner->input.lose(runner->input.ctx, "perfetto_unfinished", 1);
	perfetto_finish(runner->decoder);
	tell_gap(runner, true);
	return rc == -ENOMEM ? rc : 0;
}

static void perfetto_close(struct frames_input *input)
{
	struct runner *runner = (struct runner *)input;

	runner->ended = true;
	unwatch(runner);
	if (runner->timer >= 0)
		loop_remove_timer(runner->loop, runner->timer);
	if (runner->child > 0) {
		kill(runner->child, SIGINT);
		for (unsigned i = 0; i < 20 && runner->child > 0; i++) {
			int status;

			if (waitpid(runner->child, &status, WNOHANG) == runner->child)
				runner->child = -1;
			else
				poll(NULL, 0, 10);
		}
		reap(runner, true);
	}
	close_fd(&runner->out_fd);
	close_fd(&runner->err_fd);
	if (runner->into_file)
		unlink(runner->file);
	perfetto_free(runner->decoder);
	free(runner);
}

static const struct frames_input_ops perfetto_ops = {
	.variant = "perfetto",
	.open = perfetto_open,
	.poll = perfetto_poll,
	.close = perfetto_close,
};

struct frames_input *frames_input_perfetto(void)
{
	struct runner *runner = calloc(1, sizeof(*runner));

	if (!runner)
		return NULL;
	runner->input.ops = &perfetto_ops;
	runner->out_fd = runner->err_fd = runner->timer = -1;
	runner->child = -1;
	runner->backoff_ns = BACKOFF_NS;
	return &runner->input;
}

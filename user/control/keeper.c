/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "control/keeper_lock.h"
#include "control/keeper_log.h"
#include "core/session.h"
#include "util/child.h"
#include "util/clock.h"
#include "util/niceness.h"

#define CREDIT_NS         (30 * NSEC_PER_SEC)
#define FIRST_REST_MS     100
#define MAX_REST_MS       30000
#define ERROR_WORDS       "jankscope: error: "
#define RETRY_SIGNAL_MS   100
#define END_NS            (10 * NSEC_PER_SEC) /* a recorder that was told to end needs one */
#define HANG_INTERVALS    12ull /* of an interval that the watchdog made longer, three */
#define HANG_LOOK_MS      2000
#define LOOK_MS           100
#define NICENESS_OF_HASTE (-20) /* until its sources are open */

/* What the keeper tells who started it: the first recorder has begun, or how it ended. */
struct verdict {
	int32_t code; /* -1: it has begun */
	char line[256];
};

struct keeper {
	struct keeper_seat seat; /* of the next recorder */
	struct keeper_log log;
	keeper_record_fn record;
	void *ctx;
	int lock_fd, signal_fd;
	int verdict_fd;    /* -1: it is told */
	int user_stderr;   /* until then */
	sigset_t old_mask; /* that of a recorder */
	pid_t pid;         /* of the recorder; 0: none */
	int errors_fd, begun_fd;
	unsigned credit, max_credit, in_a_row;
	uint64_t started_ns, hang_ns;
	uint64_t seen_seq, seen_ns; /* what the recorder had emitted, and when that was new */
	uint64_t kill_ns;           /* when it is killed if it has not ended; 0: it is not to end */
	char killed[RUN_TEXT];      /* why; empty: it was not */
	bool stopping;
};

/* ---- a recorder ---- */

static void __attribute__((noreturn)) be_recorder(struct keeper *keeper, int errors)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
	    dup2(errors, STDERR_FILENO) < 0)
		_exit(EXIT_INTERNAL);
	child_keep_only((const int[]){keeper->seat.begun_fd, keeper->seat.dir_fd}, 2);
	sigprocmask(SIG_SETMASK, &keeper->old_mask, NULL);
	prctl(PR_SET_NAME, "jankscope");
	/* Nothing is measured until the kernel has verified the programs, most of a second of CPU
	 * time: who takes the place of a dead recorder does not wait behind others for it. */
	if (keeper->seat.restarted)
		niceness_set(NICENESS_OF_HASTE);
	/* Its helpers, some of which read hostile bytes, have no part of what the keeper has. */
	madvise(keeper->seat.status, sizeof(*keeper->seat.status), MADV_DONTFORK);
	exit(keeper->record(keeper->ctx, &keeper->seat));
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static bool start_recorder(struct keeper *keeper)
{
	int errors[2] = {-1, -1}, begun[2] = {-1, -1};

	keeper->started_ns = keeper->seen_ns = clock_now_ns(CLOCK_MONOTONIC);
	keeper->seen_seq = keeper->seat.status->last_seq;
	keeper->kill_ns = 0;
	keeper->killed[0] = 0;
	/* A recorder does not wait for its keeper: what the pipe does not take is left out. */
	if (pipe2(errors, O_CLOEXEC | O_NONBLOCK) || pipe2(begun, O_CLOEXEC | O_NONBLOCK))
		goto fail;
	keeper->seat.begun_fd = begun[1];
	keeper->pid = fork();
	if (keeper->pid < 0)
		goto fail;
	if (!keeper->pid)
		be_recorder(keeper, errors[1]);
	close(errors[1]);
	close(begun[1]);
	keeper->errors_fd = errors[0];
	keeper->begun_fd = begun[0];
	return true;
fail:
	keeper->pid = 0;
	for (int i = 0; i < 2; i++) {
		close_fd(&errors[i]);
		close_fd(&begun[i]);
	}
	return false;
}

void keeper_begun(const struct keeper_seat *seat, const char *line)
{
	if (write(seat->begun_fd, line, strlen(line)) < 0)
		return;
}

static void tell_verdict(struct keeper *keeper, int code, const char *line)
{
	struct verdict verdict = {.code = code};

	if (keeper->verdict_fd < 0)
		return;
	snprintf(verdict.line, sizeof(verdict.line), "%s", line);
	if (write(keeper->verdict_fd, &verdict, sizeof(verdict)) < 0)
		keeper_log_say(&keeper->log, "who started this recording is gone");
	close_fd(&keeper->verdict_fd);
	close_fd(&keeper->user_stderr);
}

static void take_begun(struct keeper *keeper)
{
	char line[256];
	ssize_t n = read(keeper->begun_fd, line, sizeof(line) - 1);

	if (n > 0) {
		line[n] = 0;
		keeper_log_say(&keeper->log, "%s", line);
		tell_verdict(keeper, -1, line);
	}
	close_fd(&keeper->begun_fd);
}

/* The terminal of who started this may be gone, or stand still. */
static void pass_on(const struct keeper *keeper, const char *text, size_t length)
{
	struct pollfd room = {keeper->user_stderr, POLLOUT, 0};

	if (keeper->user_stderr >= 0 && poll(&room, 1, 0) == 1 && room.revents & POLLOUT &&
	    write(keeper->user_stderr, text, length) < 0)
		return;
}

/* The last error that a recorder told is what `status` gives. */
static void keep_error(struct keeper *keeper, const char *text)
{
	const char *at = NULL, *next = text;

	while ((next = strstr(next, ERROR_WORDS)))
		at = next += strlen(ERROR_WORDS);
	if (at)
		snprintf(keeper->seat.status->error, RUN_TEXT, "%.*s", (int)strcspn(at, "\n"), at);
}

static void take_errors(struct keeper *keeper)
{
	char text[4096];
	ssize_t n;

	/* So much at a time that signals have their turn. */
	for (int i = 0; i < 16; i++) {
		n = read(keeper->errors_fd, text, sizeof(text) - 1);
		if (n <= 0)
			break;
		text[n] = 0;
		pass_on(keeper, text, (size_t)n);
		keep_error(keeper, text);
		keeper_log_write(&keeper->log, text, (size_t)n);
	}
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		close_fd(&keeper->errors_fd);
}

/* True: the recorder has ended, with this status. */
static bool take_signals(struct keeper *keeper, int *status)
{
	struct signalfd_siginfo info;

	while (read(keeper->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		keeper->stopping = true;
		if (!keeper->pid)
			continue;
		kill(keeper->pid, SIGTERM);
		if (!keeper->kill_ns)
			keeper->kill_ns = clock_now_ns(CLOCK_MONOTONIC) + END_NS;
	}
	return keeper->pid && waitpid(keeper->pid, status, WNOHANG) == keeper->pid;
}

static void kill_recorder(struct keeper *keeper, const char *why)
{
	if (keeper->killed[0])
		return;
	snprintf(keeper->killed, RUN_TEXT, "%s", why);
	kill(keeper->pid, SIGKILL);
}

/* Whether the recorder has to be killed. CLOCK_MONOTONIC stands still in a suspend, as the recorder
 * does. One that has not begun may wait for its target. In ms: when to look again. */
static int look_at_recorder(struct keeper *keeper)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC), seq = keeper->seat.status->last_seq;
	uint64_t quiet_ns = keeper->hang_ns + HANG_INTERVALS * keeper->seat.status->interval_ns;
	char why[RUN_TEXT];

	if (keeper->kill_ns && now_ns >= keeper->kill_ns)
		kill_recorder(keeper, "the recorder had not ended 10 s after it was told to, and "
				      "was killed");
	if (seq != keeper->seen_seq || keeper->begun_fd >= 0) {
		keeper->seen_seq = seq;
		keeper->seen_ns = now_ns;
	} else if (keeper->hang_ns && now_ns - keeper->seen_ns >= quiet_ns) {
		snprintf(why, sizeof(why),
			 "the recorder emitted nothing for %.0f s, and was killed",
			 (double)quiet_ns / (double)NSEC_PER_SEC);
		kill_recorder(keeper, why);
	}
	return keeper->kill_ns ? LOOK_MS : HANG_LOOK_MS;
}

static int wait_for_end(struct keeper *keeper)
{
	int status = 0;

	for (;;) {
		struct pollfd wait[] = {{.fd = keeper->signal_fd, .events = POLLIN},
					{.fd = keeper->errors_fd, .events = POLLIN},
					{.fd = keeper->begun_fd, .events = POLLIN}};

		if (poll(wait, 3, look_at_recorder(keeper)) < 0 && errno != EINTR)
			poll(NULL, 0, RETRY_SIGNAL_MS);
		if (wait[2].revents)
			take_begun(keeper);
		if (wait[1].revents)
			take_errors(keeper);
		if (wait[0].revents && take_signals(keeper, &status))
			break;
	}
	if (keeper->begun_fd >= 0)
		take_begun(keeper);
	if (keeper->errors_fd >= 0)
		take_errors(keeper);
	close_fd(&keeper->errors_fd);
	keeper->pid = 0;
	return status;
}

/* ---- restarts ---- */

static void rest(struct keeper *keeper, unsigned ms)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + ms * NSEC_PER_MSEC, now_ns;
	int ignored;

	while (!keeper->stopping && (now_ns = clock_now_ns(CLOCK_MONOTONIC)) < until_ns) {
		struct pollfd wait = {.fd = keeper->signal_fd, .events = POLLIN};

		if (poll(&wait, 1, (int)((until_ns - now_ns) / NSEC_PER_MSEC + 1)) > 0)
			take_signals(keeper, &ignored);
	}
}

/* Another recorder may do better than one that a signal or an error ended; not where the end was
 * asked for, or the command line, the target or the machine is why. */
static bool ends_here(int status)
{
	return WIFEXITED(status) && WEXITSTATUS(status) != EXIT_INTERNAL;
}

static void describe_end(struct keeper *keeper, int status)
{
	char *reason = keeper->seat.reason;

	if (keeper->killed[0])
		snprintf(reason, RUN_TEXT, "%s", keeper->killed);
	else if (WIFSIGNALED(status))
		snprintf(reason, RUN_TEXT, "the recorder was killed by signal %d",
			 WTERMSIG(status));
	else
		snprintf(reason, RUN_TEXT, "the recorder ended with exit code %d",
			 WEXITSTATUS(status));
	/* Its own word for it is there already. */
	if (!ends_here(status) && (WIFSIGNALED(status) || !keeper->seat.status->error[0]))
		snprintf(keeper->seat.status->error, RUN_TEXT, "%s", reason);
}

/* How long to wait before the next one, in ms; -1: too many died. */
static int take_credit(struct keeper *keeper)
{
	uint64_t ran_ns = clock_now_ns(CLOCK_MONOTONIC) - keeper->started_ns;
	uint64_t earned = ran_ns / CREDIT_NS;
	unsigned ms = FIRST_REST_MS;

	keeper->in_a_row = earned ? 0 : keeper->in_a_row + 1;
	keeper->credit = keeper->credit + earned > keeper->max_credit
				 ? keeper->max_credit
				 : keeper->credit + (unsigned)earned;
	if (!keeper->credit)
		return -1;
	keeper->credit--;
	/* One that ran for a while is replaced at once. */
	if (!keeper->in_a_row)
		return 0;
	for (unsigned i = 1; i < keeper->in_a_row && ms < MAX_REST_MS; i++)
		ms *= 2;
	return (int)(ms < MAX_REST_MS ? ms : MAX_REST_MS);
}

static bool folder_is_gone(const struct keeper *keeper)
{
	struct stat st;

	return !fstat(keeper->seat.dir_fd, &st) && !st.st_nlink;
}

static int keep(struct keeper *keeper)
{
	for (;;) {
		int status, ms;

		if (!start_recorder(keeper)) {
			keeper_log_say(&keeper->log, "cannot start a recorder: %s",
				       strerror(errno));
			status = EXIT_INTERNAL << 8; /* as if it had ended so */
		} else {
			status = wait_for_end(keeper);
		}
		describe_end(keeper, status);
		/* In a folder that was removed no recorder can write, and nobody can ask for its
		 * end. */
		if (ends_here(status) || keeper->stopping || keeper->verdict_fd >= 0 ||
		    folder_is_gone(keeper)) {
			keeper_log_say(&keeper->log, "%s", keeper->seat.reason);
			return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_INTERNAL;
		}
		ms = take_credit(keeper);
		if (ms < 0) {
			keeper_log_say(&keeper->log,
				       "%s; %u died shortly after one another: given up",
				       keeper->seat.reason, keeper->max_credit + 1);
			return EXIT_INTERNAL;
		}
		keeper->seat.restarted = true;
		keeper->seat.status->recorder_restarts++;
		keeper_log_say(&keeper->log, "%s; another one begins in %d ms", keeper->seat.reason,
			       ms);
		rest(keeper, (unsigned)ms);
		if (keeper->stopping)
			return EXIT_FINE;
	}
}

static void __attribute__((noreturn)) be_keeper(struct keeper *keeper)
{
	const int keep_fds[] = {keeper->verdict_fd, keeper->lock_fd, keeper->seat.dir_fd};
	int null, code;
	sigset_t signals;

	setsid();
	prctl(PR_SET_NAME, "jankscope-keep");
	/* The adb shell that goes away is nobody's word; a recorder inherits this. */
	signal(SIGHUP, SIG_IGN);
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals, &keeper->old_mask);
	child_keep_only(keep_fds, 3);
	setrlimit(RLIMIT_CORE, &(struct rlimit){0});
	keeper->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	keeper->user_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	keeper_log_open(&keeper->log, keeper->seat.dir_fd);
	keeper->seat.keeper_pid = getpid();
	keeper_lock_tell(keeper->lock_fd, getpid(), -1);
	code = keeper->signal_fd < 0 ? EXIT_INTERNAL : keep(keeper);
	keeper_lock_tell(keeper->lock_fd, getpid(), code);
	tell_verdict(keeper, code, "");
	_exit(code);
}

/* ---- who starts it ---- */

static pid_t started; /* for the handler below */

static void give_up(int number)
{
	kill(started, SIGTERM);
	_exit(EXIT_INTERRUPTED);
}

static int await_verdict(int fd)
{
	const struct sigaction action = {.sa_handler = give_up};
	struct verdict verdict;
	ssize_t n;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	do
		n = read(fd, &verdict, sizeof(verdict));
	while (n < 0 && errno == EINTR);
	if (n != sizeof(verdict)) {
		fprintf(stderr, "jankscope: error: the keeper died\n");
		return EXIT_INTERNAL;
	}
	if (verdict.code >= 0)
		return verdict.code;
	printf("jankscope: %s\n", verdict.line);
	return EXIT_FINE;
}

int keeper_start(int dir_fd, unsigned restarts, uint64_t hang_ns, keeper_record_fn record,
		 void *ctx)
{
	struct keeper keeper = {.seat = {.dir_fd = dir_fd},
				.record = record,
				.ctx = ctx,
				.errors_fd = -1,
				.begun_fd = -1,
				.hang_ns = hang_ns,
				.credit = restarts,
				.max_credit = restarts};
	int ends[2] = {-1, -1}, code;

	keeper.lock_fd = keeper_lock_take(dir_fd);
	if (keeper.lock_fd == -EBUSY) {
		fprintf(stderr,
			"jankscope: error: the folder is recorded to already, by keeper %d\n",
			keeper_find(dir_fd, NULL));
		return EXIT_INTERNAL;
	}
	if (keeper.lock_fd < 0) {
		fprintf(stderr, "jankscope: error: the folder's " KEEPER_NAME ": %s\n",
			strerror(-keeper.lock_fd));
		return EXIT_INTERNAL;
	}
	keeper.seat.status = mmap(NULL, sizeof(*keeper.seat.status), PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (keeper.seat.status == MAP_FAILED || pipe2(ends, O_CLOEXEC)) {
		fprintf(stderr, "jankscope: error: cannot start: %s\n", strerror(errno));
		close(keeper.lock_fd);
		return EXIT_INTERNAL;
	}
	keeper.verdict_fd = ends[1];
	fflush(stdout);
	started = fork();
	if (!started)
		be_keeper(&keeper);
	close(ends[1]);
	close(keeper.lock_fd);
	if (started < 0) {
		fprintf(stderr, "jankscope: error: cannot start: %s\n", strerror(errno));
		code = EXIT_INTERNAL;
	} else {
		code = await_verdict(ends[0]);
	}
	close(ends[0]);
	munmap(keeper.seat.status, sizeof(*keeper.seat.status));
	return code;
}

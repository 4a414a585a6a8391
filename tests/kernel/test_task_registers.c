/* SPDX-License-Identifier: BSD-2-Clause */
/* Registers of threads that sleep since before anybody looked, by the task iterator: those that a
 * tracer reads, without a stop and without EINTR; also in a process that has the descriptors only.
 */
/* Runs beside others (20 s) */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernel/looper_kernel.h"
#include "kernel/task_registers.h"
#include "standing.h"
#include "tap.h"

#ifdef __x86_64__
#define WORDS   21
#define COMPARE 21
#else
#define WORDS   36
#define COMPARE 34 /* struct user_pt_regs */
#endif

/* ---- who sleeps ---- */

enum sleeper { IN_FUTEX, IN_NANOSLEEP, IN_READ, IN_RECV, SLEEPERS };
static const char *const names[] = {"futex", "nanosleep", "read", "recv with a timeout"};

/* Its exit status says whether the call was interrupted. */
static void sleep_in(enum sleeper where, int fd)
{
	struct timespec ts = {3, 0};
	struct timeval limit = {3, 0};
	uint32_t word = 0;
	long got = 0;
	char byte;
	int pair[2];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	switch (where) {
	case IN_FUTEX:
		got = syscall(SYS_futex, &word, FUTEX_WAIT, 0, &ts, NULL, 0);
		break;
	case IN_NANOSLEEP:
		got = nanosleep(&ts, NULL);
		break;
	case IN_READ:
		got = read(fd, &byte, 1);
		break;
	default:
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) ||
		    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)))
			_exit(9);
		got = recv(pair[0], &byte, 1, 0);
	}
	_exit(got < 0 && errno == EINTR);
}

static bool is_asleep(pid_t pid)
{
	struct probe_standing standing;

	for (int i = 0; i < 2000; i++) {
		if (!standing_read(pid, pid, &standing) && standing.state == 'S' &&
		    standing.syscall_nr >= 0)
			return true;
		usleep(1000);
	}
	return false;
}

/* ---- by a tracer ---- */

static bool traced_words(pid_t pid, uint64_t words[WORDS])
{
	uint64_t all[64] = {0};
	struct iovec vector = {all, sizeof(all)};
	int status;
	bool got;

	if (ptrace(PTRACE_SEIZE, pid, 0, 0) || ptrace(PTRACE_INTERRUPT, pid, 0, 0) ||
	    waitpid(pid, &status, __WALL) != pid)
		return false;
	got = !ptrace(PTRACE_GETREGSET, pid, 1 /* NT_PRSTATUS */, &vector);
	ptrace(PTRACE_DETACH, pid, 0, 0);
	memcpy(words, all, WORDS * 8);
	return got;
}

/* What a stop itself changes: the result register, and the number of the call, which the kernel has
 * begun to restart. */
static bool is_changed_by_stop(int word)
{
#ifdef __x86_64__
	return word == 10;
#else
	return word == 0;
#endif
}

static unsigned differ(const struct looper_task *task, const uint64_t words[WORDS])
{
	unsigned count = 0;

	for (int i = 0; i < COMPARE; i++) {
		if (is_changed_by_stop(i) || task->registers.words[i] == words[i])
			continue;
#ifndef __x86_64__
		/* The stop is behind the decision to restart, which goes back to the call. */
		if (i == 32 && task->registers.words[i] == words[i] + 4)
			continue;
#endif
		count++;
		tap_note("word %d: %llx by the iterator, %llx by the tracer", i,
			 (unsigned long long)task->registers.words[i],
			 (unsigned long long)words[i]);
	}
	return count;
}

static void test_sleeper(const struct task_registers *reader, const char *by, enum sleeper where)
{
	struct looper_task before, after;
	uint64_t words[WORDS];
	struct probe_standing standing;
	int fds[2], status = -1, err;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return;
	pid = fork();
	if (!pid)
		sleep_in(where, fds[0]);
	if (!is_asleep(pid)) {
		tap_ok(false, "%s: sleeps", names[where]);
	} else {
		err = task_registers_read(reader, pid, &before);
		standing_read(pid, pid, &standing);
		tap_ok(!err && before.registers.tid == (uint32_t)pid &&
			       before.registers.tgid == (uint32_t)pid && !before.on_cpu &&
			       before.voluntary + before.involuntary == standing.switches,
		       "%s, %s: read while it sleeps: %s", by, names[where], strerror(-err));
		for (int i = 0; i < 100 && !err; i++)
			err = task_registers_read(reader, pid, &after);
		tap_ok(!err && task_registers_same(&before, &after) &&
			       !memcmp(before.registers.words, after.registers.words, WORDS * 8),
		       "%s, %s: 100 times the same", by, names[where]);
	}
	/* The call that is read is let end by itself: 0 EINTR. */
	if (where == IN_READ && write(fds[1], "x", 1) != 1)
		tap_note("the pipe is full");
	waitpid(pid, &status, 0);
	tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s, %s: saw no EINTR", by,
	       names[where]);
	tap_ok(task_registers_read(reader, pid, &after) == -ESRCH, "%s, %s: gone is -ESRCH", by,
	       names[where]);
	/* Another one, for the tracer, whose stop ends some of these calls. */
	pid = fork();
	if (!pid)
		sleep_in(where, fds[0]);
	if (is_asleep(pid) && !task_registers_read(reader, pid, &before) &&
	    traced_words(pid, words))
		tap_ok(!differ(&before, words), "%s, %s: the tracer reads the same", by,
		       names[where]);
	else
		tap_ok(false, "%s, %s: the tracer reads it", by, names[where]);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fds[0]);
	close(fds[1]);
}

static void test_runner(const struct task_registers *reader, const char *by)
{
	pid_t pid = fork();
	struct looper_task task;
	unsigned refused = 0, taken = 0;

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			;
	}
	/* On a busy machine it waits for a CPU most of the time. */
	for (int i = 0; i < 20000 && (i < 200 || !refused); i++) {
		int err = task_registers_read(reader, pid, &task);

		refused += err == -EAGAIN;
		/* Preempted: then they are its registers in user space. */
		taken += !err;
		usleep(500);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	tap_ok(refused, "%s: one that runs: %u refused, %u taken while it waited for a CPU", by,
	       refused, taken);
}

/* ---- in another process ---- */

static int send_fds(int to, const int fds[2])
{
	char byte = 'f', room[CMSG_SPACE(2 * sizeof(int))] = {0};
	struct iovec vector = {&byte, 1};
	struct msghdr message = {.msg_iov = &vector,
				 .msg_iovlen = 1,
				 .msg_control = room,
				 .msg_controllen = sizeof(room)};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(2 * sizeof(int));
	memcpy(CMSG_DATA(head), fds, 2 * sizeof(int));
	return sendmsg(to, &message, 0) == 1 ? 0 : -errno;
}

static int receive_fds(int from, int fds[2])
{
	char byte, room[CMSG_SPACE(2 * sizeof(int))];
	struct iovec vector = {&byte, 1};
	struct msghdr message = {.msg_iov = &vector,
				 .msg_iovlen = 1,
				 .msg_control = room,
				 .msg_controllen = sizeof(room)};

	if (recvmsg(from, &message, 0) != 1 || !CMSG_FIRSTHDR(&message))
		return -EINVAL;
	memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&message)), 2 * sizeof(int));
	return 0;
}

static void test_other_process(const struct looper_fds *fds, pid_t helper, int to)
{
	const int both[2] = {fds->registers, fds->wanted};
	int status = -1;

	tap_ok(!send_fds(to, both), "the descriptors are sent");
	waitpid(helper, &status, 0);
	tap_ok(WIFEXITED(status) && !WEXITSTATUS(status),
	       "a process that has only the descriptors reads its parent's registers");
}

static void be_other_process(int from)
{
	struct task_registers reader;
	struct looper_task task;
	int fds[2];

	if (receive_fds(from, fds) || task_registers_open(&reader, fds[0], fds[1]))
		_exit(1);
	for (int i = 0; i < 2000; i++) {
		if (!task_registers_read(&reader, getppid(), &task))
			_exit(task.registers.tid == (uint32_t)getppid() ? 0 : 2);
		usleep(1000);
	}
	_exit(3);
}

int main(void)
{
	struct sched_kernel_options options = {
		.mode = CPU_MODE_SWITCH, .loopers = true, .max_watched = 1};
	const struct looper_kernel_options by_switch = {.detector = LOOPER_BY_SWITCH};
	struct looper_kernel *kernel = NULL;
	struct task_registers reader, walker;
	struct sched_kernel *sched;
	struct looper_fds fds;
	char reason[160] = "";
	int pair[2];
	pid_t helper;

	if (geteuid()) {
		tap_skip("registers by the iterator", "needs root");
		return 0;
	}
	/* Before the programs are loaded: it inherits nothing of them. */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return 1;
	helper = fork();
	if (!helper) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		be_other_process(pair[1]);
	}
	sched = sched_kernel_open(&options, reason, sizeof(reason));
	if (sched)
		kernel = looper_kernel_open(sched, &by_switch, reason, sizeof(reason));
	if (!tap_ok(kernel, "the programs load%s%s", *reason ? ": " : "", reason))
		return tap_done();
	fds = looper_kernel_fds(kernel);
	if (!tap_ok(!task_registers_open(&reader, fds.registers, fds.wanted), "the reader opens"))
		return tap_done();
	tap_note("%s", reader.by_tid ? "the link names the task" : "walks all tasks");
	/* The way of kernels before 6.1, here too. */
	task_registers_open(&walker, fds.registers, fds.wanted);
	if (walker.by_tid)
		tap_ok(!task_registers_walk(&walker), "the reader that walks all tasks opens");
	test_other_process(&fds, helper, pair[0]);
	for (int i = 0; i < SLEEPERS; i++)
		test_sleeper(&reader, "by tid", (enum sleeper)i);
	if (reader.by_tid)
		for (int i = 0; i < SLEEPERS; i++)
			test_sleeper(&walker, "by a walk", (enum sleeper)i);
	test_runner(&reader, "by tid");
	tap_ok(task_registers_read(&reader, 2, &(struct looper_task){0}) == -ESRCH,
	       "a kernel thread has none");
	task_registers_close(&reader);
	task_registers_close(&walker);
	looper_kernel_close(kernel);
	sched_kernel_close(sched);
	return tap_done();
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Run a program, and what it starts, with a wall clock and a boot clock of their own: as if
 * somebody set the time, or the machine had slept. The machine's clocks are not touched.
 *
 * usage: own_clocks PROGRAM [ARGUMENTS...]
 * Lines on stdin: "wall N", "boot N": from now on that clock is N seconds from the machine's.
 * A seccomp filter has the kernel ask this process for each clock_gettime() of these clocks,
 * gettimeofday() and time() (seccomp_unotify(2)). The vDSO answers these calls without the kernel,
 * so the program is started without one: AT_SYSINFO_EHDR is taken out of its auxiliary vector at
 * its exec. libfaketime, which does the same, cannot enter a static program. What the kernel itself
 * reads and writes (timers, files, BPF programs) goes by the machine's clocks.
 * Lives until no process is left behind the filter; its exit code is the program's. */
#include <elf.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef SYS_time
#define TIME_CALL SYS_time
#else
#define TIME_CALL 0xffffffffu /* arm64 has none */
#endif
#define VECTOR_WORDS 65536
#define LOOK_MS      50

static long long wall_s, boot_s;

static void die(const char *what)
{
	perror(what);
	exit(127);
}

/* ---- the program's side ---- */

static int add_filter(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettimeofday, 7, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TIME_CALL, 6, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CLOCK_REALTIME, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CLOCK_REALTIME_COARSE, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CLOCK_BOOTTIME, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};

	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			    &program);
}

/* One descriptor, with a byte. */
static void hand_over(int socket, int fd)
{
	char byte = 0, room[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec part = {&byte, 1};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = room,
				 .msg_controllen = sizeof(room)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(int));
	if (sendmsg(socket, &message, 0) != 1)
		die("own_clocks: sendmsg");
}

static int take_over(int socket)
{
	char byte, room[CMSG_SPACE(sizeof(int))];
	struct iovec part = {&byte, 1};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = room,
				 .msg_controllen = sizeof(room)};
	struct cmsghdr *header;
	int fd;

	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1 ||
	    !(header = CMSG_FIRSTHDR(&message)) || header->cmsg_len != CMSG_LEN(sizeof(int)))
		die("own_clocks: recvmsg");
	memcpy(&fd, CMSG_DATA(header), sizeof(int));
	return fd;
}

static void begin_program(int socket, char **arguments)
{
	int listener;

	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		die("own_clocks: ptrace");
	listener = add_filter();
	if (listener < 0)
		die("own_clocks: seccomp");
	hand_over(socket, listener);
	close(listener);
	close(socket);
	execv(arguments[0], arguments);
	die(arguments[0]);
}

/* ---- at its exec ---- */

static uint64_t stack_pointer(pid_t pid)
{
	struct user_regs_struct registers;
	struct iovec part = {&registers, sizeof(registers)};

	if (ptrace(PTRACE_GETREGSET, pid, (void *)NT_PRSTATUS, &part))
		die("own_clocks: registers");
#ifdef __aarch64__
	return registers.sp;
#else
	return registers.rsp;
#endif
}

static uint64_t word_at(pid_t pid, uint64_t address)
{
	long word;

	errno = 0;
	word = ptrace(PTRACE_PEEKDATA, pid, (void *)address, NULL);
	if (errno)
		die("own_clocks: peek");
	return (uint64_t)word;
}

/* The stack begins with argc, the arguments, a null, the environment, a null, the vector. */
static void take_vdso_away(pid_t pid)
{
	uint64_t at = stack_pointer(pid), limit = at + VECTOR_WORDS * 8;

	at += 8 * (word_at(pid, at) + 2);
	while (at < limit && word_at(pid, at))
		at += 8;
	for (at += 8; at < limit && word_at(pid, at) != AT_NULL; at += 16)
		if (word_at(pid, at) == AT_SYSINFO_EHDR &&
		    ptrace(PTRACE_POKEDATA, pid, (void *)at, (void *)(long)AT_IGNORE))
			die("own_clocks: poke");
}

/* ---- the clock ---- */

static int put(pid_t pid, uint64_t address, const void *bytes, size_t length)
{
	struct iovec from = {(void *)bytes, length}, to = {(void *)address, length};

	return process_vm_writev(pid, &from, 1, &to, 1, 0) == (ssize_t)length ? 0 : -EFAULT;
}

static void answer(int listener)
{
	struct seccomp_notif request = {0};
	struct seccomp_notif_resp response = {0};
	struct timespec now;
	struct timeval tv;
	int64_t seconds;
	bool boot;
	pid_t pid;

	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request))
		return;
	pid = (pid_t)request.pid;
	response.id = request.id;
	boot = request.data.nr == SYS_clock_gettime && request.data.args[0] == CLOCK_BOOTTIME;
	clock_gettime(boot ? CLOCK_BOOTTIME : CLOCK_REALTIME, &now);
	now.tv_sec += boot ? boot_s : wall_s;
	tv = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
	seconds = now.tv_sec;
	/* The process behind the number is still the one that asked. */
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &request.id))
		return;
	if (request.data.nr == SYS_clock_gettime)
		response.error = put(pid, request.data.args[1], &now, sizeof(now));
	else if (request.data.nr == SYS_gettimeofday)
		response.error = put(pid, request.data.args[0], &tv, sizeof(tv));
	else if (request.data.args[0])
		response.error = put(pid, request.data.args[0], &seconds, sizeof(seconds));
	if (request.data.nr == (int)TIME_CALL)
		response.val = seconds;
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

static int read_offsets(void)
{
	char text[256], *line, *rest = text;
	ssize_t n = read(STDIN_FILENO, text, sizeof(text) - 1);

	if (n <= 0)
		return -1;
	text[n] = 0;
	while ((line = strsep(&rest, "\n"))) {
		sscanf(line, "wall %lld", &wall_s);
		sscanf(line, "boot %lld", &boot_s);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct pollfd wait[2] = {{.events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
	int sockets[2], status = 0;
	bool ended = false;
	pid_t pid;

	if (argc < 2) {
		fprintf(stderr, "usage: own_clocks PROGRAM [ARGUMENTS...]\n");
		return 2;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
		die("own_clocks: socketpair");
	pid = fork();
	if (pid < 0)
		die("own_clocks: fork");
	if (pid == 0)
		begin_program(sockets[1], argv + 1);
	close(sockets[1]);
	wait[0].fd = take_over(sockets[0]);
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		return WIFEXITED(status) ? WEXITSTATUS(status) : 127;
	take_vdso_away(pid);
	ptrace(PTRACE_DETACH, pid, NULL, NULL);
	status = 0;
	/* POLLHUP: nobody is behind the filter any more (since 5.9); a zombie still is. */
	while (!(wait[0].revents & (POLLHUP | POLLERR))) {
		if (poll(wait, 2, ended ? -1 : LOOK_MS) < 0 && errno != EINTR)
			break;
		ended = ended || waitpid(pid, &status, WNOHANG) == pid;
		if (wait[0].revents & POLLIN)
			answer(wait[0].fd);
		if (wait[1].revents && read_offsets())
			wait[1].fd = -1;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

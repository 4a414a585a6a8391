/* SPDX-License-Identifier: BSD-2-Clause */
/* One process in each interruptible system call of signal(7)'s two lists, and how often its call
 * came back early. Nobody sends these processes a signal: whoever makes one return shows in it.
 *
 * usage: idle_syscall MODE [KIND...]     idle_syscall list
 * MODE idle:   in the call from the start on
 *      epoll:  the same, and the process holds an epoll descriptor that its main thread never uses
 *      looper: the main thread waits on an epoll at first, 20 times a second; after "go" on stdin
 * it goes into the call, as a handler that hangs Prints "KIND PID" for each, then "ready"; "go" on
 * stdin is as above; "read" on stdin prints "KIND PID EINTR EARLY CALLS ERRNO" for each, then
 * "end". EOF ends all. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/netlink.h>
#include <mqueue.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#define HOUR 3600

struct row {
	atomic_ulong eintr, early, calls;
	atomic_int error;
	pid_t pid;
	const char *name;
};

static struct row *row;
static atomic_int *go;
static struct timespec hour = {HOUR, 0};
static char buffer[4096];

/* What a call gave. One that fails for another reason is no test of anything: it is told and not
 * tried again. */
static void came_back(long result)
{
	int error = errno;

	if (result == -1 && error == EINTR) {
		atomic_fetch_add(&row->eintr, 1);
	} else {
		atomic_fetch_add(&row->early, 1);
		atomic_store(&row->error, result == -1 ? error : 0);
		if (atomic_load(&row->early) > 20)
			for (;;)
				pause();
	}
}

#define FOR_EVER(call)                                    \
	do {                                              \
		for (;;) {                                \
			atomic_fetch_add(&row->calls, 1); \
			errno = 0;                        \
			came_back((long)(call));          \
		}                                         \
	} while (0)

static void need(int good)
{
	if (good)
		return;
	atomic_store(&row->error, errno ? errno : 1);
	for (;;)
		pause();
}

/* ---- sockets ---- */

/* One end of a pair; with a timeout of an hour where `option` is not 0, full where it is to send.
 */
static int end_of_pair(int type, int option)
{
	struct timeval tv = {HOUR, 0};
	int pair[2];

	need(!socketpair(AF_UNIX, type, 0, pair));
	if (option)
		need(!setsockopt(pair[0], SOL_SOCKET, option, &tv, sizeof(tv)));
	return pair[0];
}

static int full_socket(int option)
{
	int fd = end_of_pair(SOCK_STREAM, option);

	while (send(fd, buffer, sizeof(buffer), MSG_DONTWAIT) > 0)
		;
	return fd;
}

static int listening(int option, struct sockaddr_un *address)
{
	struct timeval tv = {HOUR, 0};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	socklen_t length = sizeof(*address);
	struct sockaddr family = {.sa_family = AF_UNIX};

	need(fd >= 0);
	/* the kernel gives it a name of its own */
	need(!bind(fd, &family, sizeof(family.sa_family)));
	need(!listen(fd, 0));
	if (option)
		need(!setsockopt(fd, SOL_SOCKET, option, &tv, sizeof(tv)));
	if (address)
		need(!getsockname(fd, (struct sockaddr *)address, &length));
	return fd;
}

static void connect_full(int option)
{
	struct sockaddr_un address = {0};
	struct timeval tv = {HOUR, 0};
	int fd;
	socklen_t length;
	int server = listening(0, &address);

	length = sizeof(address);
	need(!getsockname(server, (struct sockaddr *)&address, &length));
	for (int i = 0; i < 64; i++) {
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
		need(fd >= 0);
		if (connect(fd, (struct sockaddr *)&address, length))
			break;
	}
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	need(fd >= 0);
	if (option)
		need(!setsockopt(fd, SOL_SOCKET, option, &tv, sizeof(tv)));
	FOR_EVER(connect(fd, (struct sockaddr *)&address, length));
}

static struct iovec iov = {buffer, sizeof(buffer)};
static struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
static struct mmsghdr messages = {.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}};

#define RECEIVERS(suffix, option)                                \
	static void recv##suffix(void)                           \
	{                                                        \
		int fd = end_of_pair(SOCK_STREAM, option);       \
		FOR_EVER(recv(fd, buffer, sizeof(buffer), 0));   \
	}                                                        \
	static void recvdgram##suffix(void)                      \
	{                                                        \
		int fd = end_of_pair(SOCK_DGRAM, option);        \
		FOR_EVER(recv(fd, buffer, sizeof(buffer), 0));   \
	}                                                        \
	static void recvmsg##suffix(void)                        \
	{                                                        \
		int fd = end_of_pair(SOCK_SEQPACKET, option);    \
		FOR_EVER(recvmsg(fd, &message, 0));              \
	}                                                        \
	static void recvmmsg##suffix(void)                       \
	{                                                        \
		int fd = end_of_pair(SOCK_STREAM, option);       \
		FOR_EVER(recvmmsg(fd, &messages, 1, 0, NULL));   \
	}                                                        \
	static void readsock##suffix(void)                       \
	{                                                        \
		int fd = end_of_pair(SOCK_STREAM, option);       \
		FOR_EVER(read(fd, buffer, sizeof(buffer)));      \
	}                                                        \
	static void accept##suffix(void)                         \
	{                                                        \
		int fd = listening(option, NULL);                \
		FOR_EVER(accept(fd, NULL, NULL));                \
	}                                                        \
	static void accept4##suffix(void)                        \
	{                                                        \
		int fd = listening(option, NULL);                \
		FOR_EVER(accept4(fd, NULL, NULL, SOCK_CLOEXEC)); \
	}
RECEIVERS(_plain, 0)
RECEIVERS(_timeo, SO_RCVTIMEO)

#define SENDERS(suffix, option)                                           \
	static void send##suffix(void)                                    \
	{                                                                 \
		int fd = full_socket(option);                             \
		FOR_EVER(send(fd, buffer, sizeof(buffer), MSG_NOSIGNAL)); \
	}                                                                 \
	static void sendmsg##suffix(void)                                 \
	{                                                                 \
		int fd = full_socket(option);                             \
		FOR_EVER(sendmsg(fd, &message, MSG_NOSIGNAL));            \
	}                                                                 \
	static void sendmmsg##suffix(void)                                \
	{                                                                 \
		int fd = full_socket(option);                             \
		FOR_EVER(sendmmsg(fd, &messages, 1, MSG_NOSIGNAL));       \
	}                                                                 \
	static void writesock##suffix(void)                               \
	{                                                                 \
		int fd = full_socket(option);                             \
		FOR_EVER(write(fd, buffer, sizeof(buffer)));              \
	}                                                                 \
	static void connect##suffix(void)                                 \
	{                                                                 \
		connect_full(option);                                     \
	}
SENDERS(_plain, 0)
SENDERS(_timeo, SO_SNDTIMEO)

static void recvmmsg_timeout(void)
{
	int fd = end_of_pair(SOCK_STREAM, SO_RCVTIMEO);
	struct timespec ts = hour;

	FOR_EVER(recvmmsg(fd, &messages, 1, 0, &ts));
}

static void read_netlink(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);

	need(fd >= 0);
	FOR_EVER(read(fd, buffer, sizeof(buffer)));
}

/* ---- polls ---- */

static void epoll_forever(void)
{
	struct epoll_event event;
	int fd = epoll_create1(EPOLL_CLOEXEC);

	FOR_EVER(epoll_wait(fd, &event, 1, -1));
}

static void epoll_timeout(void)
{
	struct epoll_event event;
	int fd = epoll_create1(EPOLL_CLOEXEC);

	FOR_EVER(epoll_wait(fd, &event, 1, HOUR * 1000));
}

static void epoll_pwait_forever(void)
{
	struct epoll_event event;
	sigset_t set;
	int fd = epoll_create1(EPOLL_CLOEXEC);

	sigemptyset(&set);
	FOR_EVER(epoll_pwait(fd, &event, 1, -1, &set));
}

static void epoll_pwait2_timeout(void)
{
	struct epoll_event event;
	int fd = epoll_create1(EPOLL_CLOEXEC);

	FOR_EVER(syscall(SYS_epoll_pwait2, fd, &event, 1, &hour, NULL, 8));
}

static struct pollfd nothing(void)
{
	int ends[2];

	need(!pipe(ends));
	return (struct pollfd){ends[0], POLLIN, 0};
}

static void poll_forever(void)
{
	struct pollfd fd = nothing();

	FOR_EVER(poll(&fd, 1, -1));
}

static void poll_timeout(void)
{
	struct pollfd fd = nothing();

	FOR_EVER(poll(&fd, 1, HOUR * 1000));
}

static void ppoll_forever(void)
{
	struct pollfd fd = nothing();

	FOR_EVER(ppoll(&fd, 1, NULL, NULL));
}

static void ppoll_timeout(void)
{
	struct pollfd fd = nothing();

	FOR_EVER(ppoll(&fd, 1, &hour, NULL));
}

static void select_forever(void)
{
	FOR_EVER(select(0, NULL, NULL, NULL, NULL));
}

static void select_timeout(void)
{
	for (;;) {
		struct timeval tv = {HOUR, 0};

		atomic_fetch_add(&row->calls, 1);
		errno = 0;
		came_back(select(0, NULL, NULL, NULL, &tv));
	}
}

static void pselect_timeout(void)
{
	sigset_t set;

	sigemptyset(&set);
	FOR_EVER(pselect(0, NULL, NULL, NULL, &hour, &set));
}

/* ---- System V, POSIX queues ---- */

/* The object goes with the parent: IPC_RMID at once would end the wait, so main() does it. */
static int *ipc_ids; /* two an index of a kind: semaphore, queue */

static int semaphore(void)
{
	int id = semget(IPC_PRIVATE, 1, 0600);

	need(id >= 0);
	*ipc_ids = id + 1;
	return id;
}

static void semop_forever(void)
{
	struct sembuf operation = {0, -1, 0};
	int id = semaphore();

	FOR_EVER(semop(id, &operation, 1));
}

static void semtimedop_timeout(void)
{
	struct sembuf operation = {0, -1, 0};
	int id = semaphore();

	FOR_EVER(semtimedop(id, &operation, 1, &hour));
}

static void msgrcv_forever(void)
{
	struct {
		long type;
		char text[8];
	} text;
	int id = msgget(IPC_PRIVATE, 0600);

	need(id >= 0);
	ipc_ids[1] = id + 1;
	FOR_EVER(msgrcv(id, &text, sizeof(text.text), 0, 0));
}

static void msgsnd_full(void)
{
	struct {
		long type;
		char text[2048];
	} text = {.type = 1};
	int id = msgget(IPC_PRIVATE, 0600);

	need(id >= 0);
	ipc_ids[1] = id + 1;
	while (!msgsnd(id, &text, sizeof(text.text), IPC_NOWAIT))
		;
	FOR_EVER(msgsnd(id, &text, sizeof(text.text), 0));
}

static mqd_t queue(int flags)
{
	struct mq_attr attr = {.mq_maxmsg = 1, .mq_msgsize = 64};
	char name[64];
	mqd_t fd;

	snprintf(name, sizeof(name), "/idle_syscall.%d", getpid());
	fd = mq_open(name, flags | O_CREAT | O_EXCL, 0600, &attr);
	need(fd >= 0);
	mq_unlink(name);
	return fd;
}

static struct timespec in_an_hour(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	ts.tv_sec += HOUR;
	return ts;
}

static void mq_receive_forever(void)
{
	mqd_t fd = queue(O_RDWR);

	FOR_EVER(mq_receive(fd, buffer, sizeof(buffer), NULL));
}

static void mq_receive_timeout(void)
{
	struct timespec end = in_an_hour(CLOCK_REALTIME);
	mqd_t fd = queue(O_RDWR);

	FOR_EVER(mq_timedreceive(fd, buffer, sizeof(buffer), NULL, &end));
}

static void mq_send_timeout(void)
{
	struct timespec end = in_an_hour(CLOCK_REALTIME);
	mqd_t fd = queue(O_RDWR);

	need(!mq_send(fd, "x", 1, 0));
	FOR_EVER(mq_timedsend(fd, "x", 1, 0, &end));
}

/* ---- signals, sleeps ---- */

static sigset_t usr1(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return set;
}

static void pause_forever(void)
{
	FOR_EVER(pause());
}

static void sigsuspend_forever(void)
{
	sigset_t set;

	sigemptyset(&set);
	FOR_EVER(sigsuspend(&set));
}

static void sigtimedwait_timeout(void)
{
	sigset_t set = usr1();

	FOR_EVER(sigtimedwait(&set, NULL, &hour));
}

static void sigwaitinfo_forever(void)
{
	sigset_t set = usr1();

	FOR_EVER(sigwaitinfo(&set, NULL));
}

static void nanosleep_hour(void)
{
	FOR_EVER(nanosleep(&hour, NULL));
}

static void clock_nanosleep_hour(void)
{
	FOR_EVER((errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &hour, NULL)) ? -1 : 0);
}

static void clock_nanosleep_abs(void)
{
	struct timespec end = in_an_hour(CLOCK_MONOTONIC);

	FOR_EVER((errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL)) ? -1 : 0);
}

/* ---- futexes ---- */

static uint32_t word;

static void futex_forever(void)
{
	FOR_EVER(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0));
}

static void futex_timeout(void)
{
	FOR_EVER(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &hour, NULL, 0));
}

static void futex_bitset(void)
{
	FOR_EVER(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL,
			 FUTEX_BITSET_MATCH_ANY));
}

static void futex_bitset_abs(void)
{
	struct timespec end = in_an_hour(CLOCK_MONOTONIC);

	FOR_EVER(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, &end, NULL,
			 FUTEX_BITSET_MATCH_ANY));
}

static void futex_pi(void)
{
	uint32_t *shared =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	need(shared != MAP_FAILED);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		syscall(SYS_futex, shared, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
		for (;;)
			pause();
	}
	while (!__atomic_load_n(shared, __ATOMIC_ACQUIRE))
		usleep(1000);
	FOR_EVER(syscall(SYS_futex, shared, FUTEX_LOCK_PI, 0, NULL, NULL, 0));
}

static void futex_waitv(void)
{
	struct {
		uint64_t value, address;
		uint32_t flags, reserved;
	} waiter = {0, (uintptr_t)&word, 2 | FUTEX_PRIVATE_FLAG, 0};
	struct timespec end = in_an_hour(CLOCK_MONOTONIC);

	FOR_EVER(syscall(SYS_futex_waitv, &waiter, 1, 0, &end, CLOCK_MONOTONIC));
}

/* ---- asynchronous input ---- */

static void io_getevents_forever(void)
{
	aio_context_t context = 0;
	struct io_event event;

	need(!syscall(SYS_io_setup, 4, &context));
	FOR_EVER(syscall(SYS_io_getevents, context, 1, 1, &event, NULL));
}

static void io_getevents_timeout(void)
{
	aio_context_t context = 0;
	struct io_event event;

	need(!syscall(SYS_io_setup, 4, &context));
	FOR_EVER(syscall(SYS_io_getevents, context, 1, 1, &event, &hour));
}

static void io_uring_forever(void)
{
	struct io_uring_params params = {0};
	int fd = (int)syscall(SYS_io_uring_setup, 4, &params);

	need(fd >= 0);
	FOR_EVER(syscall(SYS_io_uring_enter, fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0));
}

static void io_uring_timeout(void)
{
	struct io_uring_params params = {0};
	struct __kernel_timespec ts = {HOUR, 0};
	struct io_uring_getevents_arg argument = {.ts = (uintptr_t)&ts};
	int fd = (int)syscall(SYS_io_uring_setup, 4, &params);

	need(fd >= 0);
	FOR_EVER(syscall(SYS_io_uring_enter, fd, 0, 1,
			 IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &argument,
			 sizeof(argument)));
}

/* ---- children, locks ---- */

static pid_t sleeping_child(void)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	need(pid > 0);
	return pid;
}

static void wait4_forever(void)
{
	pid_t pid = sleeping_child();

	FOR_EVER(waitpid(pid, NULL, 0));
}

static void waitid_forever(void)
{
	siginfo_t info;

	sleeping_child();
	FOR_EVER(waitid(P_ALL, 0, &info, WEXITED));
}

/* A file that a child holds locked. */
static int locked_file(void (*lock)(int))
{
	char path[64];
	int fd, ready[2];
	char byte;

	snprintf(path, sizeof(path), "/tmp/idle_syscall.%d.lock", getpid());
	need(!pipe(ready));
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	need(fd >= 0);
	if (!fork()) {
		/* a description of its own: flock and OFD locks belong to it */
		int own = open(path, O_RDWR);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		lock(own);
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	need(read(ready[0], &byte, 1) == 1);
	unlink(path);
	return fd;
}

static void by_flock(int fd)
{
	flock(fd, LOCK_EX);
}

static struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

static void by_fcntl(int fd)
{
	fcntl(fd, F_SETLKW, &whole);
}

static void by_ofd(int fd)
{
	fcntl(fd, F_OFD_SETLKW, &whole);
}

static void flock_forever(void)
{
	int fd = locked_file(by_flock);

	FOR_EVER(flock(fd, LOCK_EX));
}

static void fcntl_forever(void)
{
	int fd = locked_file(by_fcntl);

	FOR_EVER(fcntl(fd, F_SETLKW, &whole));
}

static void ofd_forever(void)
{
	int fd = locked_file(by_ofd);

	FOR_EVER(fcntl(fd, F_OFD_SETLKW, &whole));
}

/* ---- files ---- */

static void read_forever(int fd)
{
	need(fd >= 0);
	FOR_EVER(read(fd, buffer, sizeof(buffer)));
}

static void read_pipe(void)
{
	read_forever(nothing().fd);
}

static void write_pipe(void)
{
	int ends[2];

	need(!pipe2(ends, O_NONBLOCK));
	while (write(ends[1], buffer, sizeof(buffer)) > 0)
		;
	fcntl(ends[1], F_SETFL, 0);
	FOR_EVER(write(ends[1], buffer, sizeof(buffer)));
}

static void splice_pipe(void)
{
	int from = nothing().fd, to[2];

	need(!pipe(to));
	FOR_EVER(splice(from, NULL, to[1], NULL, 1, 0));
}

static void read_tty(void)
{
	int master, slave;

	need(!openpty(&master, &slave, NULL, NULL, NULL));
	read_forever(slave);
}

static void read_inotify(void)
{
	read_forever(inotify_init());
}

static void read_eventfd(void)
{
	read_forever(eventfd(0, 0));
}

static void read_timerfd(void)
{
	read_forever(timerfd_create(CLOCK_MONOTONIC, 0));
}

static void read_signalfd(void)
{
	sigset_t set = usr1();

	read_forever(signalfd(-1, &set, 0));
}

static void open_fifo(int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/idle_syscall.%d.fifo", getpid());
	need(!mkfifo(path, 0600));
	FOR_EVER(open(path, flags));
}

static void open_fifo_read(void)
{
	open_fifo(O_RDONLY);
}

static void open_fifo_write(void)
{
	open_fifo(O_WRONLY);
}

#define KIND(function)              \
	{                           \
#function, function \
	}
static const struct kind {
	const char *name;
	void (*run)(void);
} kinds[] = {
	KIND(recv_plain),
	KIND(recv_timeo),
	KIND(recvdgram_plain),
	KIND(recvdgram_timeo),
	KIND(recvmsg_plain),
	KIND(recvmsg_timeo),
	KIND(recvmmsg_plain),
	KIND(recvmmsg_timeo),
	KIND(recvmmsg_timeout),
	KIND(readsock_plain),
	KIND(readsock_timeo),
	KIND(accept_plain),
	KIND(accept_timeo),
	KIND(accept4_plain),
	KIND(accept4_timeo),
	KIND(send_plain),
	KIND(send_timeo),
	KIND(sendmsg_plain),
	KIND(sendmsg_timeo),
	KIND(sendmmsg_plain),
	KIND(sendmmsg_timeo),
	KIND(writesock_plain),
	KIND(writesock_timeo),
	KIND(connect_plain),
	KIND(connect_timeo),
	KIND(read_netlink),
	KIND(epoll_forever),
	KIND(epoll_timeout),
	KIND(epoll_pwait_forever),
	KIND(epoll_pwait2_timeout),
	KIND(poll_forever),
	KIND(poll_timeout),
	KIND(ppoll_forever),
	KIND(ppoll_timeout),
	KIND(select_forever),
	KIND(select_timeout),
	KIND(pselect_timeout),
	KIND(semop_forever),
	KIND(semtimedop_timeout),
	KIND(msgrcv_forever),
	KIND(msgsnd_full),
	KIND(mq_receive_forever),
	KIND(mq_receive_timeout),
	KIND(mq_send_timeout),
	KIND(pause_forever),
	KIND(sigsuspend_forever),
	KIND(sigtimedwait_timeout),
	KIND(sigwaitinfo_forever),
	KIND(nanosleep_hour),
	KIND(clock_nanosleep_hour),
	KIND(clock_nanosleep_abs),
	KIND(futex_forever),
	KIND(futex_timeout),
	KIND(futex_bitset),
	KIND(futex_bitset_abs),
	KIND(futex_pi),
	KIND(futex_waitv),
	KIND(io_getevents_forever),
	KIND(io_getevents_timeout),
	KIND(io_uring_forever),
	KIND(io_uring_timeout),
	KIND(wait4_forever),
	KIND(waitid_forever),
	KIND(flock_forever),
	KIND(fcntl_forever),
	KIND(ofd_forever),
	KIND(read_pipe),
	KIND(write_pipe),
	KIND(splice_pipe),
	KIND(read_tty),
	KIND(read_inotify),
	KIND(read_eventfd),
	KIND(read_timerfd),
	KIND(read_signalfd),
	KIND(open_fifo_read),
	KIND(open_fifo_write),
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void be(const struct kind *kind, const char *mode)
{
	struct epoll_event event;
	int fd = -1;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, kind->name);
	if (strcmp(mode, "idle"))
		fd = epoll_create1(EPOLL_CLOEXEC);
	if (!strcmp(mode, "looper"))
		while (!atomic_load(go))
			epoll_wait(fd, &event, 1, 50);
	kind->run();
}

static int wanted(int argc, char **argv, const char *name)
{
	for (int i = 2; i < argc; i++)
		if (!strcmp(argv[i], name))
			return 1;
	return argc < 3;
}

static void tell(struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		printf("%s %d %lu %lu %lu %d\n", rows[i].name, rows[i].pid,
		       atomic_load(&rows[i].eintr), atomic_load(&rows[i].early),
		       atomic_load(&rows[i].calls), atomic_load(&rows[i].error));
	printf("end\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	size_t size = sizeof(struct row) * (KINDS + 1), count = 0;
	char line[64], path[64];
	struct row *rows;
	int *ids;
	pid_t pid;

	if (argc < 2)
		return 2;
	if (!strcmp(argv[1], "list")) {
		for (size_t i = 0; i < KINDS; i++)
			printf("%s\n", kinds[i].name);
		return 0;
	}
	rows = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	go = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (rows == MAP_FAILED || go == MAP_FAILED)
		return 1;
	ids = (int *)(go + 64);
	for (size_t i = 0; i < KINDS; i++) {
		if (!wanted(argc, argv, kinds[i].name))
			continue;
		row = &rows[count];
		row->name = kinds[i].name;
		ipc_ids = ids + 2 * count;
		fflush(stdout);
		pid = fork();
		if (!pid) {
			/* the pipes of the parent are not its own */
			int null = open("/dev/null", O_RDWR);

			dup2(null, 0);
			dup2(null, 1);
			be(&kinds[i], argv[1]);
			_exit(1);
		}
		if (pid < 0)
			return 1;
		row->pid = pid;
		printf("%s %d\n", row->name, row->pid);
		count++;
	}
	usleep(300000);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "go\n"))
			atomic_store(go, 1);
		else if (!strcmp(line, "read\n"))
			tell(rows, count);
	}
	for (size_t i = 0; i < count; i++) {
		kill(rows[i].pid, SIGKILL);
		snprintf(path, sizeof(path), "/tmp/idle_syscall.%d.fifo", rows[i].pid);
		unlink(path);
	}
	while (wait(NULL) > 0)
		;
	for (size_t i = 0; i < count; i++) {
		if (ids[2 * i])
			semctl(ids[2 * i] - 1, 0, IPC_RMID);
		if (ids[2 * i + 1])
			msgctl(ids[2 * i + 1] - 1, IPC_RMID, NULL);
	}
	return 0;
}

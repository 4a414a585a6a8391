/* SPDX-License-Identifier: BSD-2-Clause */
/* A loop in an epoll whose handler blocks for 300 ms in a way that is easily told wrong.
 *
 * usage: block_odd MODE GO_FILE [BLOCKS_BEFORE]
 * It ticks each 50 ms. When GO_FILE is there it blocks twice, 400 ms apart, in block_here() or what
 * that calls. Prints "ready PID", and for each block "block BOOT_NS WALL_NS".
 * Calls:   abstime sigtimedwait sigsuspend ppoll pwait2 waitv uring flock setlkw fifo msgrcv semop
 *          uffd (a page that another thread fills)
 * Stacks:  altstack  a signal handler on a stack of its own
 *          context   a ucontext on the heap
 *          deep      96 KiB of frames
 *          remapped  called through code that another thread maps anew all the while
 * Others:  fork      another thread forks meanwhile
 *          traced    a tracer stops it for the second half
 *          exec      it calls execve on itself behind each block, the wait before is its only one
 *          execpoll  it polls, works for 300 ms, polls elsewhere, and calls execve on itself: what
 *                    was before that is no loop
 *          plain     a sleep */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/sem.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "loop_app.h"

#define NOINLINE        __attribute__((noinline, noclone))
#define WALL_MS         300
#define NR_EPOLL_PWAIT2 441
#define NR_FUTEX_WAITV  449
#define STACK_BYTES     65536

static const char *mode;
static volatile int sink;
static struct timespec span = {0, WALL_MS * 1000000};

static bool is(const char *name)
{
	return !strcmp(mode, name);
}

static struct timespec in_a_while(void)
{
	uint64_t ns = now_ns(CLOCK_MONOTONIC) + WALL_MS * 1000000ull;

	return (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
}

static void nothing(int number)
{
	(void)number;
}

/* A signal ends the call. */
static void signal_in_a_while(void)
{
	struct itimerval once = {.it_value = {0, WALL_MS * 1000}};

	setitimer(ITIMER_REAL, &once, NULL);
}

/* ---- calls ---- */

static void block_in_timed_call(void)
{
	struct timespec at = in_a_while();
	struct pollfd pollfd = {.fd = -1};
	struct epoll_event event;
	static int other = -1;
	sigset_t set;

	if (other < 0)
		other = epoll_create1(EPOLL_CLOEXEC);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	if (is("abstime"))
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
	else if (is("sigtimedwait"))
		sigtimedwait(&set, NULL, &span);
	else if (is("ppoll"))
		ppoll(&pollfd, 1, &span, NULL);
	else if (is("pwait2"))
		syscall(NR_EPOLL_PWAIT2, other, &event, 1, &span, NULL, 8);
}

static void block_in_new_call(void)
{
	struct timespec at = in_a_while();
	uint32_t word = 0;
	struct {
		uint64_t value, address;
		uint32_t flags, reserved;
	} wait = {0, (uintptr_t)&word, 2, 0};
	struct io_uring_params params = {0};
	struct {
		uint64_t mask;
		uint32_t bytes, pad;
		uint64_t ts;
	} arguments = {.ts = (uintptr_t)&span};
	int ring;

	if (is("waitv")) {
		syscall(NR_FUTEX_WAITV, &wait, 1, 0, &at, CLOCK_MONOTONIC);
		return;
	}
	ring = (int)syscall(SYS_io_uring_setup, 4, &params);
	syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
		&arguments, sizeof(arguments));
	close(ring);
}

static void block_in_ipc(void)
{
	struct {
		long type;
		char text[8];
	} message;
	struct sembuf take = {0, -1, 0};
	sigset_t none;
	int id;

	if (is("semop")) {
		id = semget(IPC_PRIVATE, 1, 0600);
		semtimedop(id, &take, 1, &span);
		semctl(id, 0, IPC_RMID);
		return;
	}
	signal_in_a_while();
	if (is("msgrcv")) {
		id = msgget(IPC_PRIVATE, 0600);
		msgrcv(id, &message, sizeof(message.text), 0, 0);
		msgctl(id, IPC_RMID, NULL);
	} else {
		sigemptyset(&none);
		sigsuspend(&none);
	}
}

/* Another process has the lock, or the other end, for so long. */
static void block_on_file(void)
{
	struct flock lock = {.l_type = F_WRLCK};
	char path[64], byte = 0;
	int ends[2], fd = -1;
	pid_t pid;

	snprintf(path, sizeof(path), "/tmp/block_odd.%s.%d", mode, getpid());
	if (is("fifo") ? mkfifo(path, 0600) : (fd = open(path, O_RDWR | O_CREAT, 0600)) < 0)
		return;
	if (pipe(ends))
		return;
	pid = fork();
	if (!pid) {
		int own = is("fifo") ? -1 : open(path, O_RDWR);

		if (is("flock") ? flock(own, LOCK_EX) : is("setlkw") && fcntl(own, F_SETLK, &lock))
			_exit(1);
		if (write(ends[1], &byte, 1) == 1)
			sleep_ms(WALL_MS);
		_exit(is("fifo") && open(path, O_WRONLY) < 0);
	}
	if (read(ends[0], &byte, 1) == 1 && is("fifo"))
		fd = open(path, O_RDONLY);
	else if (is("flock") ? flock(fd, LOCK_EX) : fcntl(fd, F_SETLKW, &lock))
		sink++;
	waitpid(pid, NULL, 0);
	unlink(path);
	close(fd);
	close(ends[0]);
	close(ends[1]);
}

static void *fill_page(void *page)
{
	static char bytes[65536];
	struct uffdio_copy copy = {.dst = (uintptr_t)page,
				   .src = (uintptr_t)bytes,
				   .len = (uint64_t)sysconf(_SC_PAGESIZE)};

	sleep_ms(WALL_MS);
	ioctl(sink, UFFDIO_COPY, &copy);
	return NULL;
}

static void block_in_fault(void)
{
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	char *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register range = {.range = {(uintptr_t)page, bytes},
					.mode = UFFDIO_REGISTER_MODE_MISSING};
	struct uffdio_api api = {.api = UFFD_API};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	pthread_t thread;

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range))
		return;
	sink = fd;
	pthread_create(&thread, NULL, fill_page, page);
	sink = fd + *(volatile char *)page;
	pthread_join(thread, NULL);
	close(fd);
	munmap(page, bytes);
}

/* ---- stacks ---- */

static void on_alternate_stack(int number)
{
	(void)number;
	sleep_ms(WALL_MS);
	sink++;
}

static void block_in_handler(void)
{
	struct sigaction action = {.sa_handler = on_alternate_stack, .sa_flags = SA_ONSTACK};
	static char stack[STACK_BYTES];

	sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof(stack)}, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
}

static ucontext_t outside, inside;

static NOINLINE void on_heap_stack(void)
{
	sleep_ms(WALL_MS);
	sink++;
}

static void block_in_context(void)
{
	char *stack = malloc(STACK_BYTES);

	getcontext(&inside);
	inside.uc_stack = (stack_t){.ss_sp = stack, .ss_size = STACK_BYTES};
	inside.uc_link = &outside;
	makecontext(&inside, on_heap_stack, 0);
	swapcontext(&outside, &inside);
	free(stack);
}

static NOINLINE int deep(int left)
{
	volatile char frame[1000];

	frame[0] = (char)left;
	if (left)
		sink += deep(left - 1);
	else
		sleep_ms(WALL_MS);
	return frame[0];
}

/* call *%rdi; ret, with a frame; blr x0 */
static const unsigned char code[] = {
#if defined(__x86_64__)
	0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3,
#elif defined(__aarch64__)
	0xfd, 0x7b, 0xbf, 0xa9, 0xfd, 0x03, 0x00, 0x91, 0x00, 0x00,
	0x3f, 0xd6, 0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6,
#endif
};
static char *region;
static volatile bool inside_region;

static bool map_code(void)
{
	char *at = mmap(region, 4096, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | (region ? MAP_FIXED : 0), -1, 0);

	if (at == MAP_FAILED)
		return false;
	region = at;
	memcpy(region, code, sizeof(code));
	__builtin___clear_cache(region, region + sizeof(code));
	return !mprotect(region, 4096, PROT_READ | PROT_EXEC);
}

static void *map_again(void *unused)
{
	while (inside_region) {
		munmap(region, 4096);
		sleep_ms(1);
		map_code();
		sleep_ms(1);
	}
	return unused;
}

static NOINLINE void inside_code(void)
{
	pthread_t thread;

	inside_region = true;
	pthread_create(&thread, NULL, map_again, NULL);
	sleep_ms(WALL_MS);
	inside_region = false;
	pthread_join(thread, NULL);
}

static void block_behind_code(void)
{
	if (map_code())
		((void (*)(void (*)(void)))region)(inside_code);
}

/* ---- others ---- */

static void *fork_often(void *unused)
{
	for (int i = 0; i < 5; i++) {
		pid_t pid;

		sleep_ms(20);
		pid = fork();
		if (!pid) {
			sleep_ms(20);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	return unused;
}

static void block_beside_forks(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, fork_often, NULL);
	sleep_ms(WALL_MS);
	pthread_join(thread, NULL);
}

/* A child stops it from half of the time on. */
static void block_under_tracer(void)
{
	pid_t pid, self = getpid();
	int status;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	pid = fork();
	if (!pid) {
		sleep_ms(WALL_MS / 2);
		if (ptrace(PTRACE_SEIZE, self, 0, 0) || ptrace(PTRACE_INTERRUPT, self, 0, 0) ||
		    waitpid(self, &status, __WALL) != self)
			_exit(1);
		sleep_ms(WALL_MS / 2);
		_exit(ptrace(PTRACE_DETACH, self, 0, 0) != 0);
	}
	waitpid(pid, NULL, 0);
	sink++;
}

static const struct way {
	const char *mode;
	void (*block)(void);
} ways[] = {
	{"abstime", block_in_timed_call}, {"sigtimedwait", block_in_timed_call},
	{"ppoll", block_in_timed_call},   {"pwait2", block_in_timed_call},
	{"waitv", block_in_new_call},     {"uring", block_in_new_call},
	{"sigsuspend", block_in_ipc},     {"msgrcv", block_in_ipc},
	{"semop", block_in_ipc},          {"flock", block_on_file},
	{"setlkw", block_on_file},        {"fifo", block_on_file},
	{"uffd", block_in_fault},         {"altstack", block_in_handler},
	{"context", block_in_context},    {"remapped", block_behind_code},
	{"fork", block_beside_forks},     {"traced", block_under_tracer},
};

static NOINLINE void block_here(void)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		if (is(ways[i].mode)) {
			ways[i].block();
			sink++;
			return;
		}
	}
	if (is("deep"))
		sink += deep(96);
	else
		sleep_ms(WALL_MS);
	sink++;
}

static void handle(void)
{
	uint64_t boot_ns = now_ns(CLOCK_BOOTTIME), mono_ns = now_ns(CLOCK_MONOTONIC);
	char text[80];

	block_here();
	snprintf(text, sizeof(text), "block %llu %llu\n", (unsigned long long)boot_ns,
		 (unsigned long long)(now_ns(CLOCK_MONOTONIC) - mono_ns));
	say(text);
}

static NOINLINE void poll_deeper(void)
{
	struct pollfd pollfd = {.fd = -1};
	volatile char frame[1000] = "";

	sink += frame[0] + poll(&pollfd, 1, 20);
}

/* It is seen to wait twice, in two places, and is no loop for all that is known. */
static void poll_and_work(void)
{
	struct pollfd pollfd = {.fd = -1};

	sink += poll(&pollfd, 1, 20);
	sleep_ms(WALL_MS);
	poll_deeper();
}

int main(int argc, char **argv)
{
	int blocks = argc > 3 ? atoi(argv[3]) : 0, epoll, timer, ticks = 0;
	struct itimerspec every = {{0, 50000000}, {0, 50000000}};
	struct epoll_event event = {.events = EPOLLIN}, out;
	struct sigaction action = {.sa_handler = nothing};
	char text[32];
	uint64_t n;

	if (argc < 3)
		return 2;
	mode = argv[1];
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigaction(SIGALRM, &action, NULL);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event);
	timerfd_settime(timer, 0, &every, NULL);
	if (!blocks) {
		snprintf(text, sizeof(text), "ready %d\n", getpid());
		say(text);
	}
	while (is("execpoll") && !blocks && access(argv[2], F_OK))
		sleep_ms(20);
	if (is("execpoll") && !blocks) {
		poll_and_work();
		execl("/proc/self/exe", argv[0], mode, argv[2], "1", NULL);
	}
	for (;;) {
		if (epoll_wait(epoll, &out, 1, -1) != 1 || read(timer, &n, sizeof(n)) != sizeof(n))
			continue;
		if (access(argv[2], F_OK) || blocks == 2 || ticks++ % 8)
			continue;
		handle();
		snprintf(text, sizeof(text), "%d", ++blocks);
		if (is("exec"))
			execl("/proc/self/exe", argv[0], mode, argv[2], text, NULL);
	}
}

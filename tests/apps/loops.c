/* SPDX-License-Identifier: BSD-2-Clause */
/* Main threads that wait in loops of every kind, and say what they did. usage: loops MODE [now]
 * Lines on stdout, times CLOCK_MONOTONIC:
 *   place WHAT OFFSET ADDRESS   an instruction for a probe: file offset, address
 *   thread TID                  the thread that loops
 *   wait LOOP ENTERED LEFT      one wait of loop A (the outer one) or B, from outside of the call
 * Unless "now" is given it waits for a byte on stdin, in read(), before it begins; the thread of
 * "helper" does so too. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- waits through stubs of our own, which are known to the instruction ---- */

#define NO_FD (-1)

long stub_epoll(long, long, long, long, long, long);
long stub_poll(long, long, long, long, long, long);
long stub_select(long, long, long, long, long, long);
long raw_epoll(long, long, long, long, long, long);
long raw_uring(long, long, long, long, long, long);
extern const char stub_epoll_behind[], stub_poll_behind[], stub_select_behind[];

#ifdef __x86_64__
#define NR_EPOLL  "281"
#define NR_POLL   "271"
#define NR_SELECT "270"
#define STUB(name, nr)                                                    \
	__asm__(".text\n.globl " #name "\n" #name ": mov $" nr ", %eax\n" \
		"mov %rcx, %r10\n syscall\n"                              \
		".globl " #name "_behind\n" #name "_behind: ret\n")
#else
#define NR_EPOLL  "22"
#define NR_POLL   "73"
#define NR_SELECT "72"
#define STUB(name, nr)                                                  \
	__asm__(".text\n.globl " #name "\n" #name ": mov x8, #" nr "\n" \
		"svc #0\n"                                              \
		".globl " #name "_behind\n" #name "_behind: ret\n")
#endif
STUB(stub_epoll, NR_EPOLL);
STUB(stub_poll, NR_POLL);
STUB(stub_select, NR_SELECT);
STUB(raw_epoll, NR_EPOLL);
STUB(raw_uring, "426");

struct place {
	const char *what;
	uintptr_t address;
};

static int tell_places(struct dl_phdr_info *info, size_t size, void *ctx)
{
	const struct place places[] = {
		{"epoll", (uintptr_t)stub_epoll},   {"leave", (uintptr_t)stub_epoll_behind},
		{"poll", (uintptr_t)stub_poll},     {"leave", (uintptr_t)stub_poll_behind},
		{"select", (uintptr_t)stub_select}, {"leave", (uintptr_t)stub_select_behind},
	};

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		for (int n = 0; n < info->dlpi_phnum; n++) {
			const ElfW(Phdr) *load = &info->dlpi_phdr[n];
			uintptr_t begin = info->dlpi_addr + load->p_vaddr;

			if (load->p_type == PT_LOAD && places[i].address >= begin &&
			    places[i].address - begin < load->p_filesz)
				printf("place %s %" PRIu64 " %" PRIu64 "\n", places[i].what,
				       (uint64_t)(places[i].address - begin + load->p_offset),
				       (uint64_t)places[i].address);
		}
	}
	return 1; /* the program is the first */
}

/* ---- loops ---- */

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static void work_ms(unsigned ms)
{
	for (uint64_t until = now_ns() + ms * 1000000ull; now_ns() < until;)
		;
}

static void sleep_ms(unsigned ms)
{
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000L};

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
		;
}

enum kind { EPOLL, POLL, SELECT, URING, RAW_EPOLL };

struct loop {
	char name;
	enum kind kind;
	int fd;    /* epoll or ring */
	int event; /* never ready */
	struct io_uring_sqe *entries;
	unsigned *tail, *array, *mask, *head_done, *tail_done;
};

/* A ring whose wait ends by a timeout that was queued in it. */
static void open_ring(struct loop *loop)
{
	struct io_uring_params params = {0};
	char *rings;

	loop->fd = (int)syscall(425, 8, &params);
	if (loop->fd < 0) {
		printf("skip io_uring_setup: %s\n", strerror(errno));
		exit(0);
	}
	rings = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, loop->fd, IORING_OFF_SQ_RING);
	loop->entries = mmap(NULL, 8 * sizeof(*loop->entries), PROT_READ | PROT_WRITE, MAP_SHARED,
			     loop->fd, IORING_OFF_SQES);
	if (rings == MAP_FAILED || loop->entries == MAP_FAILED)
		abort();
	loop->tail = (unsigned *)(rings + params.sq_off.tail);
	loop->array = (unsigned *)(rings + params.sq_off.array);
	loop->mask = (unsigned *)(rings + params.sq_off.ring_mask);
	loop->head_done = (unsigned *)(rings + params.cq_off.head);
	loop->tail_done = (unsigned *)(rings + params.cq_off.tail);
}

static struct loop loop_new(char name, enum kind kind)
{
	struct loop loop = {.name = name, .kind = kind, .fd = NO_FD};
	struct epoll_event event = {.events = EPOLLIN};

	loop.event = eventfd(0, EFD_CLOEXEC);
	if (kind == URING) {
		open_ring(&loop);
	} else if (kind == EPOLL || kind == RAW_EPOLL) {
		loop.fd = epoll_create1(0);
		if (epoll_ctl(loop.fd, EPOLL_CTL_ADD, loop.event, &event))
			abort();
	}
	return loop;
}

static void ring_wait(struct loop *loop, unsigned ms)
{
	struct __kernel_timespec ts = {ms / 1000, ms % 1000 * 1000000L};
	unsigned tail = *loop->tail, slot = tail & *loop->mask;
	struct io_uring_sqe *entry = &loop->entries[slot];

	memset(entry, 0, sizeof(*entry));
	entry->opcode = IORING_OP_TIMEOUT;
	entry->addr = (uintptr_t)&ts;
	entry->len = 1;
	loop->array[slot] = slot;
	__atomic_store_n(loop->tail, tail + 1, __ATOMIC_RELEASE);
	raw_uring(loop->fd, 1, 1, IORING_ENTER_GETEVENTS, 0, 0);
	__atomic_store_n(loop->head_done, __atomic_load_n(loop->tail_done, __ATOMIC_ACQUIRE),
			 __ATOMIC_RELEASE);
}

/* Always inlined, so that a loop waits at the depth of the function that it is in. */
static inline __attribute__((always_inline)) void loop_wait(struct loop *loop, unsigned ms)
{
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000L};
	struct pollfd poll_fd = {loop->event, POLLIN, 0};
	struct epoll_event events[4];
	uint64_t entered = now_ns();
	fd_set set;

	switch (loop->kind) {
	case EPOLL:
		stub_epoll(loop->fd, (long)events, 4, (long)ms, 0, 8);
		break;
	case RAW_EPOLL:
		raw_epoll(loop->fd, (long)events, 4, (long)ms, 0, 8);
		break;
	case POLL:
		stub_poll((long)&poll_fd, 1, (long)&ts, 0, 8, 0);
		break;
	case SELECT:
		FD_ZERO(&set);
		FD_SET(loop->event, &set);
		stub_select(loop->event + 1, (long)&set, 0, 0, (long)&ts, 0);
		break;
	case URING:
		ring_wait(loop, ms);
		break;
	}
	printf("wait %c %" PRIu64 " %" PRIu64 "\n", loop->name, entered, now_ns());
}

/* Rounds of short messages, each third one long: half of it work, half of it sleep. */
static __attribute__((noinline)) void run(struct loop *loop, unsigned rounds, unsigned wait_ms)
{
	for (unsigned i = 0; i < rounds; i++) {
		loop_wait(loop, wait_ms);
		if (i % 3 == 2) {
			work_ms(60);
			sleep_ms(60);
		}
	}
	__asm__ volatile("" : : : "memory");
}

/* The same from so much deeper in the stack. */
static __attribute__((noinline)) void deeper(void (*call)(struct loop *, unsigned, unsigned),
					     struct loop *loop, unsigned rounds, unsigned wait_ms)
{
	volatile char room[4096];

	room[0] = room[4095] = 0;
	call(loop, rounds, wait_ms);
	room[1] = room[0];
}

/* ---- modes ---- */

static void *loop_in_thread(void *ctx)
{
	char go;

	printf("thread %ld\n", syscall(SYS_gettid));
	fflush(stdout);
	if (read(0, &go, 1) != 1)
		exit(1);
	deeper(run, ctx, 12, 20);
	return NULL;
}

static void run_mode(const char *mode, char *program)
{
	struct loop a, b;

	if (!strcmp(mode, "poll") || !strcmp(mode, "select") || !strcmp(mode, "uring") ||
	    !strcmp(mode, "epoll") || !strcmp(mode, "raw")) {
		a = loop_new('A', *mode == 'p'   ? POLL
				  : *mode == 's' ? SELECT
				  : *mode == 'u' ? URING
				  : *mode == 'r' ? RAW_EPOLL
						 : EPOLL);
		deeper(run, &a, 12, 20);
	} else if (!strcmp(mode, "nested") || !strcmp(mode, "nested_poll")) {
		a = loop_new('A', mode[6] ? POLL : EPOLL);
		b = loop_new('B', mode[6] ? POLL : EPOLL);
		for (int i = 0; i < 4; i++) {
			run(&a, 2, 20);
			/* One message of the outer loop: 12 waits of 50 ms. */
			deeper(run, &b, 12, 50);
		}
		run(&a, 3, 20);
	} else if (!strcmp(mode, "in_nested")) {
		/* The watch begins in the nested loop, which stays open. */
		a = loop_new('A', EPOLL);
		b = loop_new('B', EPOLL);
		deeper(run, &b, 2, 1000);
		run(&a, 12, 20);
	} else if (!strcmp(mode, "second_same")) {
		a = loop_new('A', EPOLL);
		b = loop_new('B', EPOLL);
		run(&a, 6, 20);
		run(&b, 6, 20);
	} else if (!strcmp(mode, "second_deeper") || !strcmp(mode, "modal")) {
		a = loop_new('A', EPOLL);
		b = loop_new('B', EPOLL);
		run(&a, 6, 20);
		deeper(run, &b, 60, 100);
		if (!strcmp(mode, "modal"))
			run(&a, 6, 20);
	} else if (!strcmp(mode, "closed")) {
		a = loop_new('A', EPOLL);
		b = loop_new('B', EPOLL);
		run(&a, 6, 20);
		close(a.fd);
		deeper(run, &b, 1, 1000);
		deeper(run, &b, 12, 20);
	} else if (!strcmp(mode, "early")) {
		a = loop_new('A', EPOLL);
		b = loop_new('B', POLL);
		/* Once, at a lesser depth than the loop; then 120 ms of start-up. */
		loop_wait(&b, 50);
		work_ms(120);
		deeper(run, &a, 12, 20);
	} else if (!strcmp(mode, "helper")) {
		pthread_t thread;

		a = loop_new('A', EPOLL);
		pthread_create(&thread, NULL, loop_in_thread, &a);
		pthread_join(thread, NULL);
	} else if (!strcmp(mode, "sleeps")) {
		/* No loop: sleeps, some of them in poll and select without descriptors. */
		for (int i = 0; i < 10; i++) {
			struct timespec ts = {0, 20000000};

			sleep_ms(50);
			stub_poll(0, 0, (long)&ts, 0, 8, 0);
			stub_select(0, 0, 0, 0, (long)&ts, 0);
			work_ms(60);
		}
	} else if (!strcmp(mode, "exec")) {
		char *arguments[] = {program, "poll", "now", NULL};

		/* The epoll stays open in the next program, which waits elsewhere. */
		a = loop_new('A', EPOLL);
		b = loop_new('B', EPOLL);
		deeper(run, &b, 6, 20);
		fflush(stdout);
		execv("/proc/self/exe", arguments);
		abort();
	} else {
		fprintf(stderr, "loops: no mode %s\n", mode);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	static char buffer[1 << 16];
	char go;

	if (argc < 2)
		return 2;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Said at the end, so that nothing but the modes' own calls is seen. */
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	dl_iterate_phdr(tell_places, NULL);
	printf("ready %d\n", getpid());
	fflush(stdout);
	if (argc < 3 && read(0, &go, 1) != 1)
		return 1;
	run_mode(argv[1], argv[0]);
	fflush(stdout);
	return 0;
}

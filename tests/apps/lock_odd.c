/* SPDX-License-Identifier: BSD-2-Clause */
/* A looper whose handler waits for locks of kinds that tell their owner in other ways, in a wrong
 * way, or not at all. Each 400 ms it waits for 200 ms or more.
 *
 * usage: lock_odd MODE
 *   recursive, check, robust, adaptive, process: a mutex of this kind that "holder" holds, the
 *           last one shared between processes by its attribute
 *   crowd   a plain one, for which 32 more threads wait
 *   other   a shared one that a thread of another process holds
 *   rwlock  held by a writer; reader: held by two readers
 *   dead    its owner has ended; a thread with other work is there
 *   unmapped: the memory of the mutex is unmapped while it is waited for
 *   waitv   futex_waitv (5.16) for six words with the number of a thread that holds nothing, so
 *           that its first two arguments look like those of FUTEX_LOCK_PI
 *   lies    a futex whose words name a thread that holds nothing, in the layout of no library
 *   condition, semaphore, eventfd, pipe: "waker" ends the wait from signal_it()
 *   bitset, pi2: raw futex calls; bitset: the words of a mutex of glibc; pi2: FUTEX_LOCK_PI2
 *   bionic  raw futex calls on words laid out as a recursive mutex of bionic
 *   two     it waits in turns, 4 to 9 ms each, for a lock of "a" and one of "b", for 100 ms
 *   three   it waits for locks of "first" (60 ms), "second" (200) and "third" (110) in a row
 *   signal3 the same, but "second" signals a condition variable
 *   own     a plain mutex that it holds itself, for ever
 *   late    "holder" holds it, and 1.5 s later waits for one that the main thread holds, for ever
 *   namespace: as crowd, in a pid namespace of its own; namespace_pi: as pi2
 * Prints "ready PID", then "wait BEGIN END WHO TID": CLOCK_BOOTTIME of a wait that is over, and
 * who let it go. */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif
#define NR_FUTEX_WAITV 449
#define WAITV_32_BITS  2
#define HOLD_MS        200
#define CROWD          32

struct waitv {
	uint64_t value, address;
	uint32_t flags, reserved;
};

struct shared {
	pthread_mutex_t lock, second;
	pthread_rwlock_t rwlock;
	pthread_cond_t condition;
	sem_t semaphore, begin, held;
	uint32_t words[8];
	int gone;
};

static struct shared *s;
static pthread_mutex_t *lock;
static const char *mode = "";
static volatile pid_t holder_tid;
static volatile int for_ever; /* asked for by a byte on stdin: own, late */
static int event_fd, pipe_fds[2];

static int is(const char *name)
{
	return !strcmp(mode, name);
}

static uint64_t boot_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static void nap_ms(unsigned ms)
{
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000l};

	while (nanosleep(&ts, &ts))
		;
}

static long futex(uint32_t *word, int operation, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, operation, value, timeout, NULL, FUTEX_BITSET_MATCH_ANY);
}

/* ---- the other side ---- */

static __attribute__((noinline)) void hold_and_sleep(void)
{
	nap_ms(HOLD_MS);
	__asm__ volatile("");
}

static void wake_words(void)
{
	atomic_store((_Atomic uint32_t *)s->words, 0);
	futex(s->words, FUTEX_WAKE_PRIVATE, 1, NULL);
}

/* By hand, as the libraries would: the words say who holds the lock from before it is waited for.
 */
static void hold_words(uint32_t id)
{
	memset(s->words, 0, sizeof(s->words));
	if (is("bitset"))
		memcpy(s->words, (uint32_t[]){2, 0, id, 1, 0}, 20);
	else if (is("bionic"))
		memcpy(s->words, (uint32_t[]){0x4002, id, 0, 0, 0}, 20);
	else if (is("pi2"))
		s->words[0] = id;
	else if (is("waitv"))
		for (unsigned i = 0; i < 8; i++)
			s->words[i] = id;
	else
		memcpy(s->words, (uint32_t[]){7, id, id, id, id}, 20);
}

static __attribute__((noinline)) void signal_it(void)
{
	uint64_t one = 1;

	if (is("condition")) {
		pthread_mutex_lock(lock);
		s->gone = 1;
		pthread_cond_signal(&s->condition);
		pthread_mutex_unlock(lock);
	} else if (is("semaphore")) {
		sem_post(&s->semaphore);
	} else if (is("eventfd")) {
		if (write(event_fd, &one, sizeof(one)) != sizeof(one))
			abort();
	} else if (write(pipe_fds[1], &one, 1) != 1) {
		abort();
	}
	__asm__ volatile("");
}

static int is_by_words(void)
{
	return is("bitset") || is("bionic") || is("pi2") || is("lies") || is("waitv");
}

static int is_of_three(void)
{
	return is("three") || is("signal3");
}

static int has_waker(void)
{
	return is("condition") || is("semaphore") || is("eventfd") || is("pipe");
}

static void *map_at(void *at, int protection)
{
	return mmap(at, 4096, protection, (at ? MAP_FIXED : 0) | MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
}

static void hold_once(void)
{
	while (sem_wait(&s->begin))
		;
	if (has_waker()) {
		sem_post(&s->held);
		nap_ms(HOLD_MS);
		signal_it();
	} else if (is_by_words()) {
		hold_words((uint32_t)holder_tid);
		sem_post(&s->held);
		hold_and_sleep();
		if (is("pi2"))
			futex(s->words, FUTEX_UNLOCK_PI | FUTEX_PRIVATE_FLAG, 0, NULL);
		else
			wake_words();
	} else if (is("rwlock") || is("reader")) {
		if (is("rwlock"))
			pthread_rwlock_wrlock(&s->rwlock);
		else
			pthread_rwlock_rdlock(&s->rwlock);
		sem_post(&s->held);
		hold_and_sleep();
		pthread_rwlock_unlock(&s->rwlock);
	} else {
		pthread_mutex_lock(lock);
		if (is("recursive"))
			pthread_mutex_lock(lock);
		sem_post(&s->held);
		if (is("late") && for_ever) {
			nap_ms(1500);
			pthread_mutex_lock(&s->second);
			pthread_mutex_unlock(&s->second);
		}
		hold_and_sleep();
		if (is("unmapped")) {
			/* Woken where it waits, by the address; what it finds there is new. */
			map_at(lock, PROT_NONE);
			nap_ms(HOLD_MS / 4);
			map_at(lock, PROT_READ | PROT_WRITE);
			futex((uint32_t *)lock, FUTEX_WAKE_PRIVATE, 1, NULL);
			return;
		}
		if (is("recursive"))
			pthread_mutex_unlock(lock);
		pthread_mutex_unlock(lock);
	}
}

static void *run_holder(void *name)
{
	prctl(PR_SET_NAME, name);
	holder_tid = (pid_t)syscall(SYS_gettid);
	for (;;)
		hold_once();
	return NULL;
}

/* Holds it for ever, and ends. */
static void *run_mortal(void *unused)
{
	(void)unused;
	pthread_mutex_lock(lock);
	sem_post(&s->held);
	return NULL;
}

static void *run_one_of_crowd(void *unused)
{
	prctl(PR_SET_NAME, "crowd");
	for (;;) {
		nap_ms(100);
		pthread_mutex_lock(lock);
		pthread_mutex_unlock(lock);
	}
	return unused;
}

/* Three in a row: each holds its lock from the same moment on. */
static struct {
	pthread_mutex_t lock;
	sem_t begin;
	pid_t tid;
} of_three[3];

static __attribute__((noinline)) void hold_first(void)
{
	nap_ms(60);
	__asm__ volatile("# first");
}

static __attribute__((noinline)) void hold_second(void)
{
	nap_ms(60 + 200);
	__asm__ volatile("# second");
}

static __attribute__((noinline)) void hold_third(void)
{
	nap_ms(60 + 200 + 110);
	__asm__ volatile("# third");
}

static void *run_of_three(void *number)
{
	static const char *const names[] = {"first", "second", "third"};
	static void (*const holds[])(void) = {hold_first, hold_second, hold_third};
	uintptr_t i = (uintptr_t)number;
	int signals = i == 1 && is("signal3");

	prctl(PR_SET_NAME, names[i]);
	of_three[i].tid = (pid_t)syscall(SYS_gettid);
	for (;;) {
		while (sem_wait(&of_three[i].begin))
			;
		if (!signals)
			pthread_mutex_lock(&of_three[i].lock);
		sem_post(&s->held);
		holds[i]();
		if (signals) {
			pthread_mutex_lock(&of_three[i].lock);
			s->gone = 1;
			pthread_cond_signal(&s->condition);
		}
		pthread_mutex_unlock(&of_three[i].lock);
	}
	return NULL;
}

static void take_three(void)
{
	for (unsigned i = 0; i < 3; i++) {
		pthread_mutex_lock(&of_three[i].lock);
		while (i == 1 && is("signal3") && !s->gone)
			pthread_cond_wait(&s->condition, &of_three[i].lock);
		pthread_mutex_unlock(&of_three[i].lock);
	}
	s->gone = 0;
}

static pthread_mutex_t of_two[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static void *run_of_two(void *number)
{
	unsigned seed = 1 + (unsigned)(uintptr_t)number;
	pthread_mutex_t *mine = &of_two[(uintptr_t)number];

	prctl(PR_SET_NAME, number ? "b" : "a");
	for (;;) {
		pthread_mutex_lock(mine);
		nap_ms(4 + (unsigned)rand_r(&seed) % 6);
		pthread_mutex_unlock(mine);
		sched_yield();
	}
	return NULL;
}

/* ---- the main thread ---- */

static __attribute__((noinline)) void take_and_drop(void)
{
	char byte[8];
	struct timespec until;

	if (is("condition")) {
		pthread_mutex_lock(lock);
		while (!s->gone)
			pthread_cond_wait(&s->condition, lock);
		s->gone = 0;
		pthread_mutex_unlock(lock);
	} else if (is("semaphore")) {
		while (sem_wait(&s->semaphore))
			;
	} else if (is("eventfd")) {
		if (read(event_fd, byte, 8) != 8)
			abort();
	} else if (is("pipe")) {
		if (read(pipe_fds[0], byte, 1) != 1)
			abort();
	} else if (is("pi2")) {
		futex(s->words, FUTEX_LOCK_PI2 | FUTEX_PRIVATE_FLAG, 0, NULL);
		futex(s->words, FUTEX_UNLOCK_PI | FUTEX_PRIVATE_FLAG, 0, NULL);
	} else if (is("waitv")) {
		struct waitv waits[6];

		while (s->words[0]) {
			for (unsigned i = 0; i < 6; i++)
				waits[i] = (struct waitv){(uint32_t)holder_tid,
							  (uint64_t)(uintptr_t)&s->words[i],
							  WAITV_32_BITS | FUTEX_PRIVATE_FLAG, 0};
			syscall(NR_FUTEX_WAITV, waits, 6, 0, NULL, 0);
		}
	} else if (is_by_words()) {
		uint32_t now;

		while ((now = atomic_load((_Atomic uint32_t *)s->words)))
			futex(s->words, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, now, NULL);
	} else if (is("rwlock") || is("reader")) {
		pthread_rwlock_wrlock(&s->rwlock);
		pthread_rwlock_unlock(&s->rwlock);
	} else if (is_of_three()) {
		take_three();
	} else if (is("dead")) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += HOLD_MS * 1000000l;
		until.tv_sec += until.tv_nsec / 1000000000l;
		until.tv_nsec %= 1000000000l;
		pthread_mutex_timedlock(lock, &until);
	} else {
		pthread_mutex_lock(lock);
		pthread_mutex_unlock(lock);
	}
	__asm__ volatile("");
}

static void tell(uint64_t begin, const char *who, pid_t tid)
{
	printf("wait %llu %llu %s %d\n", (unsigned long long)begin, (unsigned long long)boot_ns(),
	       who, (int)tid);
	fflush(stdout);
}

static void take_turns(void)
{
	uint64_t since = boot_ns(), begin;

	for (unsigned i = 0; (begin = boot_ns()) < since + 100000000ull; i++) {
		pthread_mutex_lock(&of_two[i & 1]);
		pthread_mutex_unlock(&of_two[i & 1]);
		tell(begin, i & 1 ? "b" : "a", 0);
	}
}

static void handle(void)
{
	uint64_t begin;
	int bytes;

	for_ever = !ioctl(0, FIONREAD, &bytes) && bytes;
	if (is("two")) {
		take_turns();
		return;
	}
	if (is("own") && for_ever) {
		printf("last %llu\n", (unsigned long long)boot_ns());
		fflush(stdout);
		pthread_mutex_lock(lock);
		pthread_mutex_lock(lock);
	}
	if (is("late") && for_ever)
		pthread_mutex_lock(&s->second);
	if (is("unmapped")) {
		lock = map_at(NULL, PROT_READ | PROT_WRITE);
		pthread_mutex_init(lock, NULL);
	}
	if (is("dead")) {
		pthread_t thread;

		pthread_mutex_init(lock, NULL);
		pthread_create(&thread, NULL, run_mortal, NULL);
		pthread_join(thread, NULL);
	} else if (is_of_three()) {
		for (unsigned i = 0; i < 3; i++)
			sem_post(&of_three[i].begin);
	} else {
		sem_post(&s->begin);
	}
	for (unsigned i = is_of_three() ? 3 : 1; i; i--)
		while (sem_wait(&s->held))
			;
	begin = boot_ns();
	take_and_drop();
	if (is_of_three())
		tell(begin, "second", of_three[1].tid);
	else
		tell(begin, "holder", holder_tid);
}

static void make_locks(void)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	if (is("recursive"))
		pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	if (is("check"))
		pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	if (is("adaptive"))
		pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	if (is("robust"))
		pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	if (is("process") || is("other"))
		pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(lock, &attr);
	pthread_mutex_init(&s->second, NULL);
	pthread_rwlock_init(&s->rwlock, NULL);
	pthread_cond_init(&s->condition, NULL);
	sem_init(&s->semaphore, 1, 0);
	sem_init(&s->begin, 1, 0);
	sem_init(&s->held, 1, 0);
	event_fd = eventfd(0, EFD_CLOEXEC);
	if (event_fd < 0 || pipe(pipe_fds))
		abort();
}

/* Behind unshare() a child is process 1 of its namespace. */
static void enter_namespace(void)
{
	pid_t child;

	if (unshare(CLONE_NEWPID)) {
		printf("none\n");
		exit(0);
	}
	child = fork();
	if (child) {
		waitpid(child, NULL, 0);
		exit(0);
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void start_others(void)
{
	pthread_t thread;

	if (is("other")) {
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			run_holder("holder");
		}
		return;
	}
	for (uintptr_t i = 0; is_of_three() && i < 3; i++) {
		pthread_mutex_init(&of_three[i].lock, NULL);
		sem_init(&of_three[i].begin, 0, 0);
		pthread_create(&thread, NULL, run_of_three, (void *)i);
	}
	for (uintptr_t i = 0; is("two") && i < 2; i++)
		pthread_create(&thread, NULL, run_of_two, (void *)i);
	for (unsigned i = 0; (is("crowd") || is("namespace")) && i < CROWD; i++)
		pthread_create(&thread, NULL, run_one_of_crowd, NULL);
	pthread_create(&thread, NULL, run_holder, has_waker() ? "waker" : "holder");
	while (!holder_tid)
		nap_ms(1);
}

int main(int argc, char **argv)
{
	struct itimerspec each = {{0, 400000000}, {0, 400000000}};
	struct epoll_event event = {.events = EPOLLIN};
	uint64_t fired;
	int epoll, timer;

	if (argc < 2)
		return 2;
	mode = argv[1];
	if (is("namespace") || is("namespace_pi"))
		enter_namespace();
	if (is("namespace_pi"))
		mode = "pi2";
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s == MAP_FAILED)
		return 1;
	lock = &s->lock;
	make_locks();
	start_others();
	epoll = epoll_create1(EPOLL_CLOEXEC);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (epoll < 0 || timer < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event) ||
	    timerfd_settime(timer, 0, &each, NULL))
		return 1;
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (epoll_wait(epoll, &event, 1, -1) == 1)
		if (read(timer, &fired, sizeof(fired)) == sizeof(fired))
			handle();
	return 1;
}

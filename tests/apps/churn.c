/* SPDX-License-Identifier: BSD-2-Clause */
/* A process that makes what a recorder could keep for ever: threads, processes, code mappings,
 * flows and blocks, each at a rate of its own; and says what it really did.
 *
 * usage: churn [threads=N] [procs=N] [files=N] [memfds=N] [maps=N] [flows=N] [peers=N] ...
 *              [blocks=N] [length_ms=N] [seconds=N] [keep_flows=N] [uid=N] [long] [wait]
 *              [vforks=N] [vforks_max=N] [same_pids=N]
 * A second: threads that live for microseconds; processes that exec a program (of this file) under
 * a name of their own; blocks of length_ms (default 20) in the main thread's epoll loop. files and
 * memfds: how many of these blocks sleep in code that was mapped a moment ago, out of a new copy of
 * this program, or of a new memfd; the rest sleep in libc. maps: how many mappings stand at once,
 * from the start. flows: datagrams, each of a new socket, over a veth pair in network namespaces of
 * this process (root only), of which keep_flows stay open. peers: datagrams that come in, each from
 * another address and port, to a socket of a uid of its own (peers_uid). long: thread and process
 * names of full length, each of them new. vforks: processes that exec nothing and live for 20 ms,
 * so that a slow machine can make hundreds a second too, each with a comm of its own; vforks_max:
 * end with so many of them; same_pids: they get the numbers behind this one again and again (root).
 * uid: who it runs as. wait: begin with the first line on stdin. Prints "ready" and, at its end
 * (EOF on stdin, or after `seconds`), one line of counts; came_in is how many IP packets reached
 * the namespace of that socket. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>

#include "kernel/net_rig.h"
#include "sleep_in_copy.h"

#define STEP_NS       5000000u
#define CODE_BYTES    4096
#define THREAD_STACK  (64u << 10)
#define NEAR          "10.77.9.1"
#define FAR           "10.77.9.2"
#define NEAR_LATE     "10.77.9.100" /* given when the peers begin: nobody knows it before */
#define PEERS_UID     (3000000 + (uid_t)getpid() % 1000000) /* nobody else receives as it */
#define FAR_ADDRESSES 4
#define CROSSING_US   300000 /* until what was sent has come in, on a busy machine, too */

extern char **environ;

enum rate {
	THREADS,
	PROCS,
	VFORKS,
	FILES,
	MEMFDS,
	MAPS,
	FLOWS,
	PEERS,
	BLOCKS,
	LENGTH_MS, /* from here on no rates */
	SECONDS,
	KEEP,
	UID,
	VFORKS_MAX,
	SAME_PIDS,
	RATES
};
static const char *const keys[RATES] = {
	"threads=", "procs=",      "vforks=", "files=",      "memfds=",
	"maps=",    "flows=",      "peers=",  "blocks=",     "length_ms=",
	"seconds=", "keep_flows=", "uid=",    "vforks_max=", "same_pids=",
};
static uint64_t rates[RATES] = {[LENGTH_MS] = 20};
static bool long_names, wait_for_line;
static atomic_ullong done[RATES];
static atomic_bool over;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Call fn `rate` times a second until the end. What the machine cannot do is left out. */
static void at_rate(uint64_t rate, enum rate count, void (*fn)(uint64_t n))
{
	uint64_t start_ns = now_ns(), made = 0;

	while (!atomic_load(&over)) {
		uint64_t passed_ns = now_ns() - start_ns, due = passed_ns * rate / 1000000000u;
		struct timespec rest = {0, STEP_NS};

		for (; made < due && !atomic_load(&over); made++) {
			fn(made);
			atomic_fetch_add(&done[count], 1);
			if (now_ns() - start_ns > passed_ns + 1000000000u)
				made = due - 1;
		}
		nanosleep(&rest, NULL);
	}
}

/* ---- threads ---- */
static void *short_life(void *ctx)
{
	char name[16];

	if (long_names) {
		snprintf(name, sizeof(name), "t%014llx", (unsigned long long)(uintptr_t)ctx);
		pthread_setname_np(pthread_self(), name);
	}
	return NULL;
}

static void one_thread(uint64_t n)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, THREAD_STACK);
	if (!pthread_create(&thread, &attributes, short_life, (void *)(uintptr_t)n))
		pthread_join(thread, NULL);
	pthread_attr_destroy(&attributes);
}

static void *threads(void *ctx)
{
	at_rate((rates[THREADS] + 1) / 2, THREADS, one_thread);
	return NULL;
}

/* ---- processes ---- */
static void one_process(uint64_t n)
{
	char name[256];
	char *arguments[] = {name, (char *)"child", NULL};
	pid_t pid;

	snprintf(name, sizeof(name), long_names ? "p%0250llu" : "p%llu", (unsigned long long)n);
	if (!posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ))
		waitpid(pid, NULL, 0);
}

static void *processes(void *ctx)
{
	at_rate(rates[PROCS], PROCS, one_process);
	return NULL;
}

#define VFORKERS      16
#define VFORK_LIVE_NS 20000000
#define VFORK_STACK   16384
static int last_pid_fd = -1;

/* In the parent's memory: no call that could change it. */
static int short_process(void *ctx)
{
	struct timespec live = {0, VFORK_LIVE_NS};

	syscall(SYS_prctl, PR_SET_NAME, ctx);
	syscall(SYS_nanosleep, &live, NULL);
	syscall(SYS_exit_group, 0);
	return 0;
}

static void one_vfork(uint64_t n)
{
	char stack[VFORK_STACK] __attribute__((aligned(16))), name[16];
	pid_t pid;

	snprintf(name, sizeof(name), "v%014llx", (unsigned long long)atomic_load(&done[VFORKS]));
	/* Each of them makes few in a second, and they are not in step. */
	if (last_pid_fd >= 0 && n % 4 == 0 &&
	    dprintf(last_pid_fd, "%llu", (unsigned long long)rates[SAME_PIDS]) < 0)
		perror("churn: ns_last_pid");
	pid = clone(short_process, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, name);
	if (pid < 0 || waitpid(pid, NULL, 0) < 0)
		atomic_fetch_sub(&done[VFORKS], 1);
	if (rates[VFORKS_MAX] && atomic_load(&done[VFORKS]) + 1 >= rates[VFORKS_MAX])
		atomic_store(&over, true);
}

static void *vforker(void *ctx)
{
	at_rate((rates[VFORKS] + VFORKERS - 1) / VFORKERS, VFORKS, one_vfork);
	return NULL;
}

/* A thread for each that lives at a time: its maker waits. */
static void *vforks(void *ctx)
{
	pthread_t ids[VFORKERS];

	if (rates[SAME_PIDS])
		last_pid_fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
	for (size_t i = 0; i < VFORKERS; i++)
		pthread_create(&ids[i], NULL, vforker, NULL);
	for (size_t i = 0; i < VFORKERS; i++)
		pthread_join(ids[i], NULL);
	return NULL;
}

/* ---- flows ---- */
static int *kept;
static size_t keeps;

static void one_flow(uint64_t n)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, FAR, &to.sin_addr);
	if (fd < 0 || sendto(fd, "flow", 4, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof(to)) < 0)
		atomic_fetch_sub(&done[FLOWS], 1);
	if (keeps && kept[n % keeps] >= 0)
		close(kept[n % keeps]);
	if (keeps)
		kept[n % keeps] = fd;
	else if (fd >= 0)
		close(fd);
}

/* ---- who sends to this process ---- */
static int far_ns;

static void one_peer(uint64_t n)
{
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_port = htons(10000 + n % 50000)},
			   to = {.sin_family = AF_INET, .sin_port = htons(7)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, NEAR_LATE, &to.sin_addr);
	from.sin_addr.s_addr = htonl(0x0a4d0902u + (uint32_t)(n / 50000 % FAR_ADDRESSES));
	if (fd < 0 || bind(fd, (struct sockaddr *)&from, sizeof(from)) ||
	    sendto(fd, "peer", 4, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof(to)) < 0)
		atomic_fetch_sub(&done[PEERS], 1);
	if (fd >= 0)
		close(fd);
}

static void *peers(void *ctx)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(7)};
	int small = 4096, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	/* Nobody reads it: what does not fit is dropped behind the hooks. */
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	if (fd < 0 || fchown(fd, PEERS_UID, (gid_t)-1) || rig_address("churn0", NEAR_LATE, 24) ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) || setns(far_ns, CLONE_NEWNET))
		return NULL;
	at_rate(rates[PEERS], PEERS, one_peer);
	return NULL;
}

/* IP packets that came into this process's namespace, by the kernel's own count. What the sender
 * counts may have been dropped on the way: by the queue of an address that is not resolved yet, or
 * by the backlog of a CPU. */
static unsigned long long packets_in(void)
{
	FILE *file = fopen("/proc/thread-self/net/snmp", "re");
	unsigned long long packets = 0;
	char line[512];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Ip: %*u %*u %llu", &packets) == 1)
			break;
	if (file)
		fclose(file);
	return packets;
}

static int make_link(void)
{
	int here, there, err = 0;
	char address[16];

	there = rig_new_ns();
	here = there < 0 ? -1 : rig_new_ns();
	if (here < 0 || rig_veth("churn0", "churn1", there))
		return -1;
	err = rig_address("churn0", NEAR, 24) | rig_link_up("churn0");
	setns(there, CLONE_NEWNET);
	for (int i = 0; i < FAR_ADDRESSES; i++) {
		snprintf(address, sizeof(address), "10.77.9.%d", 2 + i);
		err |= rig_address("churn1", address, 24);
	}
	err |= rig_link_up("churn1");
	setns(here, CLONE_NEWNET);
	close(here);
	far_ns = there; /* stays open: the namespace lives by it */
	return err;
}

static void *flows(void *ctx)
{
	keeps = rates[KEEP];
	kept = keeps ? malloc(keeps * sizeof(*kept)) : NULL;
	for (size_t i = 0; i < keeps; i++)
		kept[i] = -1;
	at_rate(rates[FLOWS], FLOWS, one_flow);
	return NULL;
}

/* ---- blocks, some in code that was mapped a moment ago ---- */
static void copy_file(int from, int to)
{
	char bytes[16384];
	ssize_t n;

	while ((n = read(from, bytes, sizeof(bytes))) > 0)
		if (write(to, bytes, (size_t)n) != n)
			return;
}

static void call_mapped(int fd, off_t offset, size_t length, size_t at, struct timespec *ts)
{
	void *memory = mmap(NULL, length, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, offset);

	if (memory == MAP_FAILED)
		return;
	((long (*)(const struct timespec *))((char *)memory + at))(ts);
	munmap(memory, length);
}

/* The whole of a new file is mapped, so that its ELF header is found in front of the code. */
static void sleep_in_file(struct timespec *ts)
{
	char path[] = "/tmp/jankscope-churn-XXXXXX";
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to = mkstemp(path);
	struct stat st;
	extern const char __executable_start;
	size_t at = (size_t)((const char *)sleep_in_copy - &__executable_start);

	if (to >= 0)
		unlink(path);
	if (from >= 0 && to >= 0) {
		copy_file(from, to);
		if (!fstat(to, &st) && at + 64 < (size_t)st.st_size) {
			call_mapped(to, 0, (size_t)st.st_size, at, ts);
			atomic_fetch_add(&done[FILES], 1);
		}
	}
	if (from >= 0)
		close(from);
	if (to >= 0)
		close(to);
}

static int new_memfd(uint64_t n)
{
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "jit-%llu", (unsigned long long)n);
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd >= 0 &&
	    (ftruncate(fd, CODE_BYTES) || pwrite(fd, (const void *)sleep_in_copy, 64, 128) != 64)) {
		close(fd);
		return -1;
	}
	return fd;
}

static void sleep_in_memfd(uint64_t n, struct timespec *ts)
{
	int fd = new_memfd(n);

	if (fd < 0)
		return;
	call_mapped(fd, 0, CODE_BYTES, 128, ts);
	close(fd);
	atomic_fetch_add(&done[MEMFDS], 1);
}

static void block(uint64_t n)
{
	struct timespec ts = {(time_t)(rates[LENGTH_MS] / 1000),
			      (long)(rates[LENGTH_MS] % 1000 * 1000000)};
	uint64_t turn = n % (rates[BLOCKS] ? rates[BLOCKS] : 1);

	if (turn < rates[FILES])
		sleep_in_file(&ts);
	else if (turn < rates[FILES] + rates[MEMFDS])
		sleep_in_memfd(n, &ts);
	else
		nanosleep(&ts, NULL);
	atomic_fetch_add(&done[BLOCKS], 1);
}

/* Neighbours with the same file and rights would become one mapping: each has a file of its own. */
static void stand_mappings(void)
{
	int fds[2] = {new_memfd(0), new_memfd(1)};

	for (uint64_t i = 0; i < rates[MAPS]; i++)
		if (mmap(NULL, CODE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, fds[i & 1], 0) !=
		    MAP_FAILED)
			atomic_fetch_add(&done[MAPS], 1);
}

static void loop(void)
{
	uint64_t every_ns = rates[BLOCKS] ? 1000000000u / rates[BLOCKS] : 3600000000000u;
	struct itimerspec every = {{(time_t)(every_ns / 1000000000u),
				    (long)(every_ns % 1000000000u)},
				   {1, 0}},
			  end = {{0, 0}, {(time_t)rates[SECONDS], 0}};
	int epoll = epoll_create1(EPOLL_CLOEXEC),
	    timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC),
	    last = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	struct epoll_event event = {.events = EPOLLIN};
	uint64_t n = 0, ticks;
	char bytes[64];

	timerfd_settime(timer, 0, &every, NULL);
	if (rates[SECONDS])
		timerfd_settime(last, 0, &end, NULL);
	event.data.fd = timer;
	epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event);
	event.data.fd = last;
	epoll_ctl(epoll, EPOLL_CTL_ADD, last, &event);
	event.data.fd = 0;
	epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &event); /* a file or /dev/null cannot be waited for */
	while (!atomic_load(&over)) {
		if (epoll_wait(epoll, &event, 1, 100) != 1)
			continue;
		if (event.data.fd == timer && read(timer, &ticks, sizeof(ticks)) > 0)
			block(n++);
		else if (event.data.fd == last ||
			 (!event.data.fd && read(0, bytes, sizeof(bytes)) <= 0))
			atomic_store(&over, true);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		enum rate rate;
		void *(*run)(void *);
	} workers[] = {{THREADS, threads}, {THREADS, threads}, {PROCS, processes},
		       {VFORKS, vforks},   {FLOWS, flows},     {PEERS, peers}};
	pthread_t ids[sizeof(workers) / sizeof(*workers)];
	struct timespec cpu;
	uint64_t start_ns;
	char line[64];

	if (argc == 2 && !strcmp(argv[1], "child"))
		return 0;
	for (int i = 1; i < argc; i++) {
		int key = 0;

		while (key < RATES && strncmp(argv[i], keys[key], strlen(keys[key])))
			key++;
		if (key < RATES)
			rates[key] = strtoull(argv[i] + strlen(keys[key]), NULL, 10);
		else if (!strcmp(argv[i], "long"))
			long_names = true;
		else if (!strcmp(argv[i], "wait"))
			wait_for_line = true;
		else
			return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	if ((rates[FLOWS] || rates[PEERS]) && make_link()) {
		fprintf(stderr, "churn: no veth here\n");
		return 1;
	}
	if (rates[UID] && (setgid((gid_t)rates[UID]) || setuid((uid_t)rates[UID])))
		return 1;
	stand_mappings();
	if (wait_for_line) {
		printf("ready\n");
		fflush(stdout);
		if (read(0, line, sizeof(line)) <= 0)
			return 1;
	}
	start_ns = now_ns();
	for (size_t i = 0; i < sizeof(workers) / sizeof(*workers); i++)
		if (rates[workers[i].rate])
			pthread_create(&ids[i], NULL, workers[i].run, NULL);
	if (!wait_for_line)
		printf("ready\n");
	fflush(stdout);
	loop();
	for (size_t i = 0; i < sizeof(workers) / sizeof(*workers); i++)
		if (rates[workers[i].rate])
			pthread_join(ids[i], NULL);
	printf("seconds=%.3f", (double)(now_ns() - start_ns) / 1e9);
	for (int i = 0; i < LENGTH_MS; i++)
		printf(" %s%llu", keys[i], (unsigned long long)atomic_load(&done[i]));
	if (rates[PEERS]) {
		usleep(CROSSING_US);
		printf(" came_in=%llu peers_uid=%u", packets_in(), PEERS_UID);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	printf(" cpu_ns=%lld\n", cpu.tv_sec * 1000000000ll + cpu.tv_nsec);
	return 0;
}

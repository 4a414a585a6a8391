/* SPDX-License-Identifier: BSD-2-Clause */
/* A program that makes a known load and writes the truth it made, by its own clocks and counters: a
 * main loop, two workers, short-lived threads, and a UDP and a TCP sender that are processes of
 * uids of their own.
 * usage: demo SECONDS TRUTH.json PEER_ADDRESS [hold] | demo --peer ADDRESS
 *   hold: its threads and it sleep in the end until it is killed, so that the kernel's sums can be
 *   read from outside, after the recording */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <linux/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spin.h"

#define PORT         7777
#define UID_UDP      10124
#define UID_TCP      10125
#define UID_PEER     10126
#define UDP_PAYLOAD  1000
#define UDP_PATIENCE 10 /* s */
#define IPV4_UDP     28 /* headers of a datagram */
#define IPV4_TCP     52 /* headers of a segment with the timestamp option */
#define IPV4_TCP_SYN 60

struct traffic {
	uint32_t uid;
	uint64_t tx_bytes, rx_bytes;
};

struct shared {
	atomic_bool stop;
	atomic_int ended;
	bool hold;
	struct traffic udp, tcp;
};

struct thread_truth {
	pid_t tid;
	const char *name;
	uint64_t cpu_ns;
};

static struct shared *shared;
static atomic_ulong short_threads, short_cpu_ns;

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static void burn_ms(double ms)
{
	uint64_t end_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) + (uint64_t)(ms * 1e6);

	while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns)
		spin_hint();
}

static void begin_thread(struct thread_truth *truth)
{
	truth->tid = (pid_t)syscall(SYS_gettid);
	prctl(PR_SET_NAME, truth->name);
}

static void end_thread(struct thread_truth *truth)
{
	truth->cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
	atomic_fetch_add(&shared->ended, 1);
	while (shared->hold)
		pause();
}

static void *worker(void *ctx)
{
	struct thread_truth *truth = ctx;

	begin_thread(truth);
	while (!atomic_load(&shared->stop)) {
		burn_ms(3);
		usleep(truth->name[strlen(truth->name) - 1] == '1' ? 5000 : 20000);
	}
	end_thread(truth);
	return NULL;
}

static void *short_lived(void *unused)
{
	/* Its exit, some 60 us after its own last look at the clock, is real CPU time too. */
	burn_ms(6);
	atomic_fetch_add(&short_threads, 1);
	atomic_fetch_add(&short_cpu_ns, now_ns(CLOCK_THREAD_CPUTIME_ID));
	return NULL;
}

static void *spawner(void *ctx)
{
	struct thread_truth *truth = ctx;
	pthread_t thread;

	begin_thread(truth);
	while (!atomic_load(&shared->stop)) {
		if (!pthread_create(&thread, NULL, short_lived, NULL))
			pthread_join(thread, NULL);
		burn_ms(0.5);
		usleep(10000);
	}
	end_thread(truth);
	return NULL;
}

static int connect_to(const char *address, int type)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	int fd = socket(AF_INET, type, 0);

	inet_pton(AF_INET, address, &to.sin_addr);
	for (int i = 0; i < 100; i++) {
		if (!connect(fd, (struct sockaddr *)&to, sizeof(to)))
			return fd;
		usleep(20000);
	}
	perror("demo: connect");
	exit(1);
}

/* 1: it came, or the kernel said that nobody is there; 0: not within a second. */
static int take_answer(int fd)
{
	static char answer[65536];
	ssize_t n = recv(fd, answer, sizeof(answer), 0);

	if (n < 0)
		return errno == ECONNREFUSED;
	shared->udp.rx_bytes += (uint64_t)n + IPV4_UDP;
	return 1;
}

/* 200 datagrams a second, each answered. */
static void run_udp(const char *address)
{
	static char payload[UDP_PAYLOAD];
	struct timeval wait = {.tv_sec = 1};
	long unanswered = 0;
	int fd, tries;

	if (setgid(UID_UDP) || setuid(UID_UDP))
		exit(1);
	prctl(PR_SET_NAME, "demo-udp");
	fd = connect_to(address, SOCK_DGRAM);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	while (!atomic_load(&shared->stop)) {
		ssize_t n = send(fd, payload, sizeof(payload), 0);

		/* Refused (the peer is not up yet): the datagram went all the same. */
		if (n > 0 || errno == ECONNREFUSED)
			shared->udp.tx_bytes += sizeof(payload) + IPV4_UDP;
		unanswered += n > 0;
		unanswered -= take_answer(fd);
		usleep(5000);
	}
	/* On a busy machine some are late. */
	for (tries = 0; unanswered > 0 && tries < UDP_PATIENCE; tries++)
		while (unanswered > 0 && take_answer(fd))
			unanswered--;
	shared->udp.uid = UID_UDP;
}

/* A megabyte every 50 ms, half of it echoed. Headers as TCP_INFO counts the segments. */
static void run_tcp(const char *address)
{
	static char block[65536];
	struct tcp_info info = {0};
	socklen_t length = sizeof(info);
	int fd;

	if (setgid(UID_TCP) || setuid(UID_TCP))
		exit(1);
	prctl(PR_SET_NAME, "demo-tcp");
	fd = connect_to(address, SOCK_STREAM);
	while (!atomic_load(&shared->stop)) {
		for (int i = 0; i < 16; i++) {
			for (size_t sent = 0; sent < sizeof(block);) {
				ssize_t n =
					send(fd, block + sent, sizeof(block) - sent, MSG_NOSIGNAL);

				if (n <= 0)
					exit(1);
				sent += (size_t)n;
			}
			for (size_t got = 0; got < sizeof(block) / 2;) {
				ssize_t n = recv(fd, block, sizeof(block) / 2 - got, 0);

				if (n <= 0)
					exit(1);
				got += (size_t)n;
			}
		}
		usleep(50000);
	}
	/* Let the last acknowledgements come, so that both sides' counters are final. */
	usleep(200000);
	getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length);
	/* The SYN is 8 bytes longer in each direction. After this read: FIN and its ACK out,
	 * FIN-ACK in. */
	shared->tcp.tx_bytes = info.tcpi_bytes_sent + (uint64_t)info.tcpi_segs_out * IPV4_TCP +
			       IPV4_TCP_SYN - IPV4_TCP + 2 * IPV4_TCP;
	shared->tcp.rx_bytes = info.tcpi_bytes_received + (uint64_t)info.tcpi_segs_in * IPV4_TCP +
			       IPV4_TCP_SYN - IPV4_TCP + IPV4_TCP;
	shared->tcp.uid = UID_TCP;
	close(fd);
	usleep(200000);
}

/* The other end: echoes datagrams, and the half of what comes by TCP. */
static int run_peer(const char *address)
{
	static char block[65536];
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)}, from;
	int udp = socket(AF_INET, SOCK_DGRAM, 0), tcp = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	pid_t pid;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	inet_pton(AF_INET, address, &at.sin_addr);
	setsockopt(tcp, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (setgid(UID_PEER) || setuid(UID_PEER) || bind(udp, (struct sockaddr *)&at, sizeof(at)) ||
	    bind(tcp, (struct sockaddr *)&at, sizeof(at)) || listen(tcp, 8)) {
		perror("demo: peer");
		return 1;
	}
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			socklen_t length = sizeof(from);
			ssize_t n = recvfrom(udp, block, sizeof(block), 0, (struct sockaddr *)&from,
					     &length);

			if (n > 0)
				sendto(udp, block, (size_t)n, 0, (struct sockaddr *)&from, length);
		}
	}
	for (;;) {
		int fd = accept(tcp, NULL, NULL);
		size_t got = 0;
		ssize_t n;

		while (fd >= 0 && (n = recv(fd, block, sizeof(block), 0)) > 0) {
			got += (size_t)n;
			for (; got >= sizeof(block); got -= sizeof(block))
				for (size_t sent = 0; sent < sizeof(block) / 2;) {
					n = send(fd, block, sizeof(block) / 2 - sent, MSG_NOSIGNAL);
					if (n <= 0)
						break;
					sent += (size_t)n;
				}
		}
		close(fd);
	}
}

static void main_loop(unsigned seconds)
{
	const struct itimerspec tick = {{0, 16666667}, {0, 16666667}};
	uint64_t end_ns = now_ns(CLOCK_MONOTONIC) + seconds * 1000000000ull, ticks;
	int timer = timerfd_create(CLOCK_MONOTONIC, 0);

	timerfd_settime(timer, 0, &tick, NULL);
	while (now_ns(CLOCK_MONOTONIC) < end_ns) {
		if (read(timer, &ticks, sizeof(ticks)) == sizeof(ticks))
			burn_ms(1.5);
	}
	close(timer);
}

static void write_traffic(FILE *out, const struct traffic *traffic, const char *end)
{
	fprintf(out, "{\"uid\":%u,\"tx_bytes\":%llu,\"rx_bytes\":%llu}%s", traffic->uid,
		(unsigned long long)traffic->tx_bytes, (unsigned long long)traffic->rx_bytes, end);
}

int main(int argc, char **argv)
{
	struct thread_truth threads[] = {
		{0, "demo-main", 0},
		{0, "demo-worker1", 0},
		{0, "demo-worker2", 0},
		{0, "demo-spawner", 0},
	};
	pthread_t handles[3];
	pid_t udp, tcp;
	FILE *out;

	if (argc == 3 && !strcmp(argv[1], "--peer"))
		return run_peer(argv[2]);
	if (argc != 4 && argc != 5) {
		fprintf(stderr, "usage: demo SECONDS TRUTH.json PEER_ADDRESS [hold] | "
				"demo --peer ADDRESS\n");
		return 2;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	shared->hold = argc == 5;
	udp = fork();
	if (!udp) {
		run_udp(argv[3]);
		_exit(0);
	}
	tcp = fork();
	if (!tcp) {
		run_tcp(argv[3]);
		_exit(0);
	}
	begin_thread(&threads[0]);
	pthread_create(&handles[0], NULL, worker, &threads[1]);
	pthread_create(&handles[1], NULL, worker, &threads[2]);
	pthread_create(&handles[2], NULL, spawner, &threads[3]);
	main_loop((unsigned)atoi(argv[1]));
	atomic_store(&shared->stop, true);
	for (int i = 0; i < 3 && !shared->hold; i++)
		pthread_join(handles[i], NULL);
	while (atomic_load(&shared->ended) < 3)
		usleep(1000);
	waitpid(udp, NULL, 0);
	waitpid(tcp, NULL, 0);
	out = fopen(argv[2], "w");
	if (!out)
		return 1;
	threads[0].cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
	fprintf(out, "{\"pid\":%d,\"process_cpu_ns\":%llu,\"threads\":[", getpid(),
		(unsigned long long)now_ns(CLOCK_PROCESS_CPUTIME_ID));
	for (int i = 0; i < 4; i++)
		fprintf(out, "{\"tid\":%d,\"name\":\"%s\",\"cpu_ns\":%llu}%s", threads[i].tid,
			threads[i].name, (unsigned long long)threads[i].cpu_ns,
			i < 3 ? "," : "],\n");
	fprintf(out, "\"short\":{\"threads\":%lu,\"cpu_ns\":%lu},\n\"uids\":[",
		(unsigned long)atomic_load(&short_threads),
		(unsigned long)atomic_load(&short_cpu_ns));
	write_traffic(out, &shared->udp, ",");
	write_traffic(out, &shared->tcp, "]}\n");
	if (fclose(out))
		return 1;
	while (shared->hold)
		pause();
	return 0;
}

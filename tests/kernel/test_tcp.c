/* SPDX-License-Identifier: BSD-2-Clause */
/* What the TCP source tells of a uid against what its sockets tell themselves: retransmits are the
 * sum of their tcpi_total_retrans, round trips are those of the wire and of tcpi_rtt, and each
 * connection that came to nothing is counted under the error that connect() gave. */
/* Runs beside others (14 s) */
#include <bpf/libbpf.h>
#include "kernel/tcp_wire.h"
#include "record/histogram.h"
#include "source/tcp/tcp.h"
#include "tap.h"

#define BYTES    60000
#define MEETINGS 2
#define DELAY_US 20000
/* Of this run alone, so that two runs beside each other do not count each other's. */
#define NEAR_UID (1500000 + (uid_t)(getpid() % 100000) * 1024)

struct told {
	atomic_ulong retransmits[2]; /* tcpi_total_retrans of the near and of the far end */
	atomic_uint rtt_us;          /* tcpi_rtt of the near end */
	atomic_uint failed;          /* connect()s that ended as they should */
};

struct test {
	struct wire wire;
	struct source *source;
	struct told *told;
	uint16_t port;
	struct record_uid_tcp sums[2]; /* of the two uids at work, since they were cleared */
	uint64_t rtt_sum_ns;           /* of the near one */
	struct counter_list lost;
};

static uid_t next_uid;

/* ---- the source ---- */
static void add_row(struct test *test, int end, const struct record_uid_tcp *row)
{
	struct record_uid_tcp *sums = &test->sums[end];

	sums->retransmits += row->retransmits;
	sums->connects += row->connects;
	sums->accepts += row->accepts;
	sums->failed.refused += row->failed.refused;
	sums->failed.timed_out += row->failed.timed_out;
	sums->failed.unreachable += row->failed.unreachable;
	sums->failed.other += row->failed.other;
	sums->failed.given_up += row->failed.given_up;
	sums->timeouts += row->timeouts;
	sums->resets_received += row->resets_received;
	sums->rtt_samples += row->rtt_samples;
	if (!end && row->rtt_mean_ns.present)
		test->rtt_sum_ns += row->rtt_samples * row->rtt_mean_ns.value;
	if (row->rtt_samples != (row->rtt_hist ? histogram_count(row->rtt_hist) : 0))
		tap_ok(false, "the histogram has each sample");
}

static int sample(struct test *test)
{
	struct record_interval interval = {0};
	int err = test->source->ops->sample(test->source, &interval);

	for (size_t i = 0; i < interval.tcp.uid_count; i++)
		for (int end = 0; end < 2; end++)
			if (interval.tcp.uids[i].uid == next_uid + (uid_t)end)
				add_row(test, end, &interval.tcp.uids[i]);
	counter_list_merge(&test->lost, &interval.lost);
	counter_list_free(&interval.lost);
	missing_list_free(&interval.missing);
	return err;
}

static void clear(struct test *test)
{
	sample(test);
	next_uid += 2;
	memset(test->sums, 0, sizeof(test->sums));
	test->rtt_sum_ns = 0;
	memset(test->told, 0, sizeof(*test->told));
}

/* ---- the two ends ---- */
typedef int (*end_fn)(struct test *test, int family);

static pid_t at(struct test *test, int end, end_fn fn, int family)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (setns(test->wire.ns[end], CLONE_NEWNET) ||
	    setresuid(next_uid + (uid_t)end, next_uid + (uid_t)end, next_uid + (uid_t)end))
		_exit(99);
	alarm(30);
	_exit(fn(test, family));
}

static int wait_for(struct test *test, pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		usleep(50000);
		sample(test);
	}
	sample(test);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static socklen_t address_of(struct sockaddr_storage *to, int family, const char *text,
			    uint16_t port)
{
	struct sockaddr_in *in = (void *)to;
	struct sockaddr_in6 *in6 = (void *)to;

	memset(to, 0, sizeof(*to));
	to->ss_family = (sa_family_t)family;
	if (family == AF_INET) {
		in->sin_port = htons(port);
		inet_pton(AF_INET, text, &in->sin_addr);
		return sizeof(*in);
	}
	in6->sin6_port = htons(port);
	inet_pton(AF_INET6, text, &in6->sin6_addr);
	return sizeof(*in6);
}

/* A listener at the far end, whose port the near end learns. */
static int listen_far(struct test *test, int family)
{
	struct sockaddr_storage own;
	socklen_t length = address_of(&own, family, family == AF_INET ? WIRE_FAR4 : WIRE_FAR6, 0);
	int fd, one = 1;

	setns(test->wire.ns[1], CLONE_NEWNET);
	if (setresuid(-1, next_uid + 1, 0))
		return -1;
	fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (void *)&own, length) || listen(fd, 64) ||
	    getsockname(fd, (void *)&own, &length)) {
		close(fd);
		fd = -1;
	}
	if (setresuid(-1, 0, 0))
		return -1;
	setns(test->wire.home, CLONE_NEWNET);
	test->port = ntohs(((struct sockaddr_in *)&own)->sin_port);
	return fd;
}

static struct tcp_info info_of(int fd)
{
	struct tcp_info info = {0};
	socklen_t length = sizeof(info);

	getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length);
	return info;
}

static int move(int fd, size_t bytes, bool sends)
{
	static char buffer[16384];

	while (bytes) {
		size_t want = bytes < sizeof(buffer) ? bytes : sizeof(buffer);
		ssize_t done =
			sends ? send(fd, buffer, want, MSG_NOSIGNAL) : recv(fd, buffer, want, 0);

		if (done <= 0)
			return -1;
		bytes -= (size_t)done;
	}
	return 0;
}

static int listener;

static int far_end(struct test *test, int family)
{
	char word;

	for (int i = 0; i < MEETINGS; i++) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0 || move(fd, BYTES, false) || move(fd, BYTES, true) ||
		    recv(fd, &word, 1, 0) != 1 || shutdown(fd, SHUT_WR) || recv(fd, &word, 1, 0))
			return 1;
		atomic_fetch_add(&test->told->retransmits[1], info_of(fd).tcpi_total_retrans);
		close(fd);
	}
	return 0;
}

static int connect_to(const struct test *test, int family, const char *address, uint16_t port,
		      int *fd)
{
	struct sockaddr_storage to;
	socklen_t length = address_of(&to, family, address, port);

	*fd = socket(family, SOCK_STREAM, 0);
	return connect(*fd, (void *)&to, length) ? -errno : 0;
}

static const char *far_of(int family)
{
	return family == AF_INET ? WIRE_FAR4 : WIRE_FAR6;
}

static int near_end(struct test *test, int family)
{
	for (int i = 0; i < MEETINGS; i++) {
		struct tcp_info info;
		char word;
		int fd;

		if (connect_to(test, family, far_of(family), test->port, &fd) ||
		    move(fd, BYTES, true) || move(fd, BYTES, false))
			return 1;
		atomic_store(&test->told->rtt_us, info_of(fd).tcpi_rtt);
		/* Each end asks its socket when that has nothing to send any more. */
		if (send(fd, "", 1, MSG_NOSIGNAL) != 1 || recv(fd, &word, 1, 0) ||
		    shutdown(fd, SHUT_WR))
			return 1;
		for (info = info_of(fd); info.tcpi_state != TCP_CLOSE; info = info_of(fd))
			usleep(1000);
		atomic_fetch_add(&test->told->retransmits[0], info.tcpi_total_retrans);
		close(fd);
	}
	return 0;
}

static void transfers(struct test *test, int family, unsigned drop_each)
{
	const char *ip = family == AF_INET ? "IPv4" : "IPv6";
	pid_t near, far;
	int one, other;

	clear(test);
	atomic_store(&test->wire.shared->delay_us, DELAY_US);
	listener = listen_far(test, family);
	if (!tap_ok(listener >= 0, "%s: a listener at the far end", ip))
		return;
	atomic_store(&test->wire.shared->dropped, 0);
	atomic_store(&test->wire.shared->drop_each, drop_each);
	far = at(test, 1, far_end, family);
	near = at(test, 0, near_end, family);
	one = wait_for(test, near);
	other = wait_for(test, far);
	close(listener);
	sample(test);
	tap_ok(!one && !other, "%s: connections (%d, %d)", ip, one, other);
	tap_ok(test->sums[0].connects == MEETINGS && test->sums[1].accepts == MEETINGS &&
		       !test->sums[0].accepts && !test->sums[1].connects,
	       "%s: as many connects and accepts (%lu, %lu)", ip, test->sums[0].connects,
	       test->sums[1].accepts);
	tap_ok(!drop_each == !atomic_load(&test->wire.shared->dropped),
	       "%s: the wire dropped %lu packets", ip, atomic_load(&test->wire.shared->dropped));
	for (int end = 0; end < 2; end++)
		tap_ok(test->sums[end].retransmits == test->told->retransmits[end] &&
			       (!drop_each || test->told->retransmits[end]),
		       "%s: %s end: retransmits are tcpi_total_retrans (%lu, %lu)", ip,
		       end ? "far" : "near", test->sums[end].retransmits,
		       test->told->retransmits[end]);
	if (drop_each || !test->sums[0].rtt_samples) {
		tap_ok(test->sums[0].rtt_samples, "%s: round trips", ip);
		return;
	}
	/* Both ways, and what the machine adds. */
	test->rtt_sum_ns /= test->sums[0].rtt_samples;
	tap_ok(test->rtt_sum_ns >= 1900ull * DELAY_US,
	       "%s: a round trip takes the wire's two delays at least: %.1f ms in the mean of %lu",
	       ip, (double)test->rtt_sum_ns / 1e6, test->sums[0].rtt_samples);
	if (!tap_is_emulated())
		tap_ok(test->rtt_sum_ns < 4000ull * DELAY_US,
		       "%s: and not twice that; the last tcpi_rtt was %.1f ms", ip,
		       atomic_load(&test->told->rtt_us) / 1e3);
}

/* ---- what comes to nothing ---- */
#define REFUSED 7

static int refused(struct test *test, int family)
{
	int fd;

	for (int i = 0; i < REFUSED; i++) {
		if (connect_to(test, family, far_of(family), test->port, &fd) == -ECONNREFUSED)
			atomic_fetch_add(&test->told->failed, 1);
		close(fd);
	}
	return 0;
}

static int unreachable(struct test *test, int family)
{
	int fd;

	for (int i = 0; i < 3; i++) {
		if (connect_to(test, AF_INET, WIRE_LOST4, 80, &fd) == -EHOSTUNREACH)
			atomic_fetch_add(&test->told->failed, 1);
		close(fd);
	}
	return 0;
}

/* Three at a time; how often a SYN is sent again differs between kernels. */
static int timed_out(struct test *test, int family)
{
	struct sockaddr_storage to;
	socklen_t length = address_of(&to, family, far_of(family), test->port), size;
	struct pollfd wait[3];
	int again = 1, error;

	for (int i = 0; i < 3; i++) {
		wait[i] = (struct pollfd){.fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0),
					  .events = POLLOUT};
		setsockopt(wait[i].fd, IPPROTO_TCP, TCP_SYNCNT, &again, sizeof(again));
		if (connect(wait[i].fd, (void *)&to, length) && errno != EINPROGRESS)
			return 1;
	}
	for (int i = 0; i < 3; i++) {
		size = sizeof(error);
		if (poll(&wait[i], 1, 20000) == 1 &&
		    !getsockopt(wait[i].fd, SOL_SOCKET, SO_ERROR, &error, &size) &&
		    error == ETIMEDOUT)
			atomic_fetch_add(&test->told->failed, 1);
		atomic_fetch_add(&test->told->retransmits[0],
				 info_of(wait[i].fd).tcpi_total_retrans);
		close(wait[i].fd);
	}
	return 0;
}

static int gives_up(struct test *test, int family)
{
	struct sockaddr_storage to;
	socklen_t length = address_of(&to, family, far_of(family), test->port);

	for (int i = 0; i < 4; i++) {
		int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);

		if (connect(fd, (void *)&to, length) && errno == EINPROGRESS)
			atomic_fetch_add(&test->told->failed, 1);
		close(fd);
	}
	return 0;
}

static int resets(struct test *test, int family)
{
	struct linger at_once = {.l_onoff = 1};
	int fd = accept(listener, NULL, NULL);

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(fd);
	return 0;
}

static int is_reset(struct test *test, int family)
{
	char word;
	int fd, err = connect_to(test, family, far_of(family), test->port, &fd);

	/* The reset may be there before connect() has returned. */
	if (err == -ECONNRESET || (!err && recv(fd, &word, 1, 0) < 0 && errno == ECONNRESET))
		atomic_fetch_add(&test->told->failed, 1);
	return 0;
}

static int accepts(struct test *test, int family)
{
	int fd = accept(listener, NULL, NULL);

	usleep(100000);
	atomic_store(&test->wire.shared->cut, true);
	sleep(3); /* the socket ends with this process */
	return fd < 0;
}

static int loses(struct test *test, int family)
{
	int fd, ms = 1000;

	if (connect_to(test, family, far_of(family), test->port, &fd))
		return 1;
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
	while (!atomic_load(&test->wire.shared->cut))
		usleep(1000);
	if (move(fd, 1000, true) || recv(fd, &ms, 1, 0) >= 0)
		return 1;
	if (errno == ETIMEDOUT)
		atomic_fetch_add(&test->told->failed, 1);
	return 0;
}

static uint64_t all_failed(const struct record_uid_tcp *row)
{
	return row->failed.refused + row->failed.timed_out + row->failed.unreachable +
	       row->failed.other + row->failed.given_up;
}

static void failures(struct test *test, int family)
{
	const char *ip = family == AF_INET ? "IPv4" : "IPv6";
	const struct record_uid_tcp *near = &test->sums[0];
	pid_t far;

	atomic_store(&test->wire.shared->delay_us, 0);
	atomic_store(&test->wire.shared->drop_each, 0);
	clear(test);
	listener = listen_far(test, family);
	close(listener);
	wait_for(test, at(test, 0, refused, family));
	tap_ok(near->failed.refused == REFUSED && test->told->failed == REFUSED &&
		       all_failed(near) == REFUSED && !near->connects && !near->resets_received,
	       "%s: %u were refused, and %lu are told", ip, test->told->failed,
	       near->failed.refused);

	if (family == AF_INET) {
		clear(test);
		wait_for(test, at(test, 0, unreachable, family));
		tap_ok(near->failed.unreachable == 3 && test->told->failed == 3 &&
			       all_failed(near) == 3,
		       "%s: %u were unreachable, and %lu are told", ip, test->told->failed,
		       near->failed.unreachable);
	}

	clear(test);
	atomic_store(&test->wire.shared->cut, true);
	wait_for(test, at(test, 0, timed_out, family));
	tap_ok(near->failed.timed_out == 3 && test->told->failed == 3 && all_failed(near) == 3 &&
		       near->retransmits == test->told->retransmits[0] && near->retransmits >= 3,
	       "%s: %u timed out, and %lu are told, with their SYNs (%lu of %lu)", ip,
	       test->told->failed, near->failed.timed_out, near->retransmits,
	       test->told->retransmits[0]);
	clear(test);
	wait_for(test, at(test, 0, gives_up, family));
	tap_ok(near->failed.given_up == 4 && test->told->failed == 4 && all_failed(near) == 4,
	       "%s: %u were given up, and %lu are told", ip, test->told->failed,
	       near->failed.given_up);
	atomic_store(&test->wire.shared->cut, false);

	clear(test);
	listener = listen_far(test, family);
	far = at(test, 1, resets, family);
	wait_for(test, at(test, 0, is_reset, family));
	wait_for(test, far);
	tap_ok(near->resets_received == 1 && test->told->failed == 1 && near->connects == 1 &&
		       !all_failed(near),
	       "%s: %u was reset, and %lu is told", ip, test->told->failed, near->resets_received);
	clear(test);
	far = at(test, 1, accepts, family);
	wait_for(test, at(test, 0, loses, family));
	wait_for(test, far);
	tap_ok(near->timeouts == 1 && test->told->failed == 1 && !all_failed(near),
	       "%s: %u was lost on its way, and %lu is told", ip, test->told->failed,
	       near->timeouts);
	close(listener);
	atomic_store(&test->wire.shared->cut, false);
}

/* ---- a map that is full ---- */
static void crowd(struct test *test)
{
	static const struct source_context context;
	const struct tcp_options options = {.test_uids = 1};

	test->source = tcp_source_new(&options);
	if (!tap_ok(!test->source->ops->open(test->source, &context), "opens with room for one"))
		return;
	counter_list_free(&test->lost);
	for (int i = 0; i < 3; i++) {
		clear(test);
		listener = listen_far(test, AF_INET);
		close(listener);
		wait_for(test, at(test, 0, refused, AF_INET));
	}
	tap_ok(counter_list_get(&test->lost, "tcp_uid_map_full") >= 2 * REFUSED,
	       "what has no room is counted (%lu)",
	       counter_list_get(&test->lost, "tcp_uid_map_full"));
	test->source->ops->close(test->source);
}

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	return 0;
}

int main(void)
{
	static const struct source_context context;
	const struct tcp_options options = {0};
	struct test test = {0};
	const char *why = "";

	if (!getenv("LIBBPF_TALK"))
		libbpf_set_print(quiet);
	if (getuid()) {
		tap_skip("TCP", "needs root");
		return 0;
	}
	next_uid = NEAR_UID;
	if (wire_up(&test.wire, &why)) {
		tap_skip("TCP", why);
		wire_down(&test.wire);
		return 0;
	}
	test.told = mmap(NULL, sizeof(*test.told), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	test.source = tcp_source_new(&options);
	if (tap_ok(!test.source->ops->open(test.source, &context), "opens: %s",
		   test.source->reason)) {
		transfers(&test, AF_INET, 0);
		transfers(&test, AF_INET, 9);
		transfers(&test, AF_INET6, 0);
		transfers(&test, AF_INET6, 9);
		failures(&test, AF_INET);
		failures(&test, AF_INET6);
		tap_ok(!counter_list_get(&test.lost, "tcp_missed_runs") &&
			       !counter_list_get(&test.lost, "tcp_uid_map_full"),
		       "nothing was lost");
	}
	test.source->ops->close(test.source);
	crowd(&test);
	counter_list_free(&test.lost);
	wire_down(&test.wire);
	return tap_done();
}

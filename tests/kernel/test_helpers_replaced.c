/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers that take the place of others: a warden that never says hello is replaced too, and a
 * helper whose socket a recorder without rights made has room for what it sends. Prints TAP. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "core/rights.h"
#include "helpers_rig.h"
#include "util/channel.h"

/* ---- a warden that never says hello ---- */

static int mute = -1; /* the end of the socket that it would speak on */

/* It takes the warden on, and is stopped at once. */
static int make_mute(void *ctx, int socket)
{
	mute = mute < 0 ? dup(socket) : mute;
	return mute < 0 ? -errno : 0;
}

static int on_interval(void *ctx, uint32_t periods)
{
	struct warden_usage usage;

	warden_usage(ctx, &usage);
	return 0;
}

static pid_t warden_of(const struct rig *rig)
{
	pid_t pid = 0;

	pids_of(rig, HELPER_WARDEN, &pid, 1);
	return pid;
}

static void test_mute(void)
{
	struct rig rig = {0};
	char byte;
	int timer;
	pid_t pids[4], first;

	rig.warden = warden_start();
	/* Before the pool, so that it is asked before the pool is. */
	if (rig.warden)
		warden_add_maker(rig.warden, make_mute, NULL);
	rig.pool = rig.warden ? prober_pool_new(rig.warden) : NULL;
	rig.loop = loop_new();
	if (!tap_ok(rig.pool && rig.loop && !warden_join_loop(rig.warden, rig.loop) &&
			    !prober_pool_join_loop(rig.pool, rig.loop) &&
			    wait_for_pids(&rig, HELPER_PROBER, pids, 1) &&
			    wait_for_pids(&rig, HELPER_WARDEN, &first, 1),
		    "mute: a recorder"))
		return;
	kill(first, SIGKILL);
	for (int i = 0; i < 2000 && mute < 0; i++)
		run_for(rig.loop, NSEC_PER_MSEC);
	tap_ok(mute >= 0 && !warden_of(&rig), "mute: the next one never says hello");
	timer = loop_add_timer(rig.loop, NSEC_PER_SEC / 4, NSEC_PER_SEC / 4, on_interval,
			       rig.warden);
	for (int i = 0; i < 100 && !warden_of(&rig); i++)
		run_for(rig.loop, NSEC_PER_SEC / 10);
	tap_ok(warden_of(&rig) > 1 && warden_of(&rig) != first && is_alive(warden_of(&rig)),
	       "mute: after a while it is replaced");
	while (mute >= 0 && recv(mute, &byte, 1, MSG_DONTWAIT) > 0)
		;
	tap_ok(mute >= 0 && !recv(mute, &byte, 1, MSG_DONTWAIT), "mute: it reads its end");
	first = warden_of(&rig);
	run_for(rig.loop, 3 * NSEC_PER_SEC);
	tap_ok(warden_of(&rig) == first, "mute: the new one stays");
	loop_remove_timer(rig.loop, timer);
	stop(&rig);
	close(mute);
}

/* ---- the room in a socket ---- */

static int send_room(pid_t pid)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), bytes = -1;
	int copy = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, 3, 0);
	socklen_t length = sizeof(bytes);

	if (copy >= 0)
		getsockopt(copy, SOL_SOCKET, SO_SNDBUF, &bytes, &length);
	if (copy >= 0)
		close(copy);
	if (pidfd >= 0)
		close(pidfd);
	return bytes;
}

static const enum helper_kind kinds[] = {HELPER_PROBER, HELPER_SAMPLER, HELPER_UNWINDER,
					 HELPER_ASKER, HELPER_RUNNER};

/* As where nobody raised net.core.wmem_max: the room that a socket of this process has stays what
 * the kernel gives by itself. */
static bool keep_room_small(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setsockopt, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SO_SNDBUF, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(*code), code};

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* In a process of its own: its rights are gone for good. Says the pid of each helper. */
static void __attribute__((noreturn)) run_poor(int to)
{
	struct rig rig;
	bool good = start(&rig);

	/* The helpers are the warden's children, which has neither. */
	good = good && keep_room_small() && !rights_drop(RIGHT_MAPS);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && good; i++) {
		struct helper helper;
		_Alignas(8) char message[256];
		int fds[CHANNEL_FDS];
		size_t count;
		ssize_t n;

		good = !warden_spawn(rig.warden, kinds[i], &helper) &&
		       channel_wait(helper.socket, 5 * NSEC_PER_SEC);
		n = good ? channel_receive(helper.socket, message, sizeof(message), fds, &count)
			 : -1;
		good = n > 0 && helper_take_hello(&helper, message, (size_t)n, fds, count) &&
		       write(to, &helper.pid, sizeof(helper.pid)) == sizeof(helper.pid);
	}
	pause();
	_exit(0);
}

static void test_room(void)
{
	int pipes[2], ends[2], want = -1, status;
	socklen_t length = sizeof(want);
	pid_t child, pid;

	if (channel_pair(ends) || pipe2(pipes, O_CLOEXEC)) {
		tap_ok(false, "room: sockets");
		return;
	}
	getsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &want, &length);
	close(ends[0]);
	close(ends[1]);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_poor(pipes[1]);
	}
	close(pipes[1]);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		struct pollfd pollfd = {.fd = pipes[0], .events = POLLIN};
		int room = -1;

		if (poll(&pollfd, 1, 10000) > 0 && read(pipes[0], &pid, sizeof(pid)) == sizeof(pid))
			room = send_room(pid);
		tap_ok(room >= want,
		       "room: a recorder without rights has helper %u send %d bytes, with them %d",
		       kinds[i], room, want);
	}
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	close(pipes[0]);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	test_room();
	test_mute();
	return tap_done();
}

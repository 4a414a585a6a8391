/* SPDX-License-Identifier: BSD-2-Clause */
/* The helper processes with real probes: what is left when any of them is killed, what they hold
 * open, which rights they have, and what a target that hangs costs the others. */
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/rights.h"
#include "helpers_rig.h"
#include "prober/trace_state.h"

/* An emulator needs a second for a kill and all that follows. */
#define KILLS         (tap_is_emulated() ? 20 : 200)
#define ATTACH_ROUNDS 8
/* Where recorder and warden die before there is a new warden, the kernel makes the last closes one
 * after the other, 20 to 50 ms each. */
#define LINKS_GONE_NS (20 * NSEC_PER_SEC)

/* ---- probes ---- */

static void test_attach(bool multi)
{
	const char *name = multi ? "uprobe_multi" : "perf uprobe";
	int exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct program program, other;
	struct heard heard;
	struct rig rig;
	uint64_t before;

	if (multi && !has_uprobe_multi()) {
		tap_skip(name, "the kernel has no bpf_uprobe_multi_link_attach");
		close(exe);
		return;
	}
	if (load_program(&program, multi)) {
		tap_ok(false, "%s: the program loads: %s", name, strerror(errno));
		return;
	}
	if (!tap_ok(start(&rig), "%s: a recorder starts", name))
		return;
	heard = attach(&rig, &program, exe, getpid());
	if (!tap_ok(!heard.err && heard.fd_count == 1, "%s: attached by a prober: %s", name,
		    strerror(-heard.err)))
		goto out;
	before = count_of(&program);
	probed();
	tap_ok(count_of(&program) == before + 1, "%s: it fires", name);
	tap_ok(cookie_of(&program) == 0x1234567890, "%s: with its cookie", name);
	tap_ok(!warden_keep(rig.warden, 1, heard.fds, heard.fd_count), "%s: kept", name);
	run_for(rig.loop, 20 * NSEC_PER_MSEC);
	before = count_of(&program);
	probed();
	tap_ok(count_of(&program) == before + 1, "%s: it fires while it is kept", name);
	warden_release(rig.warden, 1);
	for (int i = 0; i < 5000; i++) {
		before = count_of(&program);
		probed();
		if (count_of(&program) == before)
			break;
		run_for(rig.loop, NSEC_PER_MSEC);
	}
	tap_ok(count_of(&program) == before, "%s: it is gone after the release", name);
	tap_ok(wait_for_links(program.id, 0, NSEC_PER_SEC) == 0, "%s: and so is its link", name);
	/* the wrong type of program: nothing is left of the first place */
	if (!load_program(&other, !multi)) {
		struct program wrong = other;

		wrong.multi = multi;
		if (multi) {
			heard = attach(&rig, &wrong, exe, getpid());
			tap_ok(heard.err < 0 && !heard.fd_count,
			       "%s: a program that does not fit is refused", name);
		}
		unload(&other);
	}
	heard = attach(&rig, &program, exe, INT32_MAX);
	tap_ok(heard.err == -ESRCH, "%s: a process that is gone: %s", name, strerror(-heard.err));
	heard = attach(&rig, &program, open("/dev/null", O_RDONLY | O_CLOEXEC), getpid());
	tap_ok(heard.err < 0 && !heard.fd_count, "%s: a device is no file to probe: %s", name,
	       strerror(-heard.err));
	tap_ok(count_links(program.id) == 0, "%s: no failure leaves a link", name);
out:
	stop(&rig);
	unload(&program);
	close(exe);
}

static void test_many_releases(void)
{
	int exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), made = 0, left;
	struct program program;
	struct rig rig;
	uint64_t begin_ns, told_ns, delay_ns, all_ns, gone_ns;

	gone_ns = has_uprobe_multi() ? NSEC_PER_SEC : 300 * 200 * NSEC_PER_MSEC;
	if (load_program(&program, has_uprobe_multi()) || !start(&rig)) {
		tap_ok(false, "300 links: cannot start");
		return;
	}
	for (; made < 300; made++) {
		struct heard heard = attach(&rig, &program, exe, getpid());

		if (heard.err ||
		    warden_keep(rig.warden, (uint64_t)made + 1, heard.fds, heard.fd_count))
			break;
	}
	tap_ok(made == 300 && count_links(program.id) == 300, "300 links are kept");
	delay_ns = run_delay_ns();
	begin_ns = clock_now_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < made; i++)
		warden_release(rig.warden, (uint64_t)i + 1);
	told_ns = clock_now_ns(CLOCK_MONOTONIC) - begin_ns - (run_delay_ns() - delay_ns);
	/* The kernel closes perf events one after the other, a grace period of RCU each. */
	left = wait_for_links(program.id, 0, gone_ns + 10 * NSEC_PER_SEC);
	all_ns = clock_now_ns(CLOCK_MONOTONIC) - begin_ns;
	tap_ok(told_ns < 50 * NSEC_PER_MSEC, "300 releases hold the recorder up %.1f ms",
	       (double)told_ns / 1e6);
	tap_ok(!left && all_ns < gone_ns, "300 links are gone after %.0f ms, %d left",
	       (double)all_ns / 1e6, left);
	for (int i = 0; i < 300; i++) {
		struct heard heard = attach(&rig, &program, exe, getpid());

		if (!heard.err)
			warden_keep(rig.warden, (uint64_t)i + 1, heard.fds, heard.fd_count);
	}
	begin_ns = clock_now_ns(CLOCK_MONOTONIC);
	stop(&rig);
	all_ns = clock_now_ns(CLOCK_MONOTONIC) - begin_ns;
	tap_ok(all_ns < NSEC_PER_SEC, "a stop with 300 links kept takes %.0f ms",
	       (double)all_ns / 1e6);
	tap_ok(wait_for_links(program.id, 0, gone_ns + 4 * NSEC_PER_SEC) == 0, "and leaves none");
	/* A warden that closes for longer than the stop waits comes to its end later. */
	begin_ns = clock_now_ns(CLOCK_MONOTONIC);
	while (waitpid(-1, NULL, WNOHANG) >= 0 &&
	       clock_now_ns(CLOCK_MONOTONIC) - begin_ns < gone_ns + 4 * NSEC_PER_SEC)
		poll(NULL, 0, 1);
	tap_ok(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "nor a process");
	unload(&program);
	close(exe);
}

/* ---- what a helper holds ---- */

static void test_descriptors(void)
{
	int extra[40], wrong = 0;
	struct rig rig;
	pid_t pids[32];
	size_t count;

	for (int i = 0; i < 40; i++)
		extra[i] = open("/etc/passwd", O_RDONLY);
	if (!tap_ok(start(&rig), "descriptors: a recorder starts"))
		return;
	wait_for_pids(&rig, HELPER_PROBER, pids, 2);
	count = wait_for_pids(&rig, 0, pids, 3);
	/* A helper closes the pidfd that its first message carried after that message came. */
	usleep(200000);
	for (size_t i = 0; i < count; i++) {
		char path[64], target[256], name[600];
		struct dirent *entry;
		DIR *folder;

		snprintf(path, sizeof(path), "/proc/%d/fd", pids[i]);
		folder = opendir(path);
		while (folder && (entry = readdir(folder))) {
			ssize_t n;

			if (entry->d_name[0] == '.')
				continue;
			n = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);
			target[n > 0 ? n : 0] = 0;
			snprintf(name, sizeof(name), "%s %s", entry->d_name, target);
#ifdef __SANITIZE_ADDRESS__
			if (!strcmp(entry->d_name, "2"))
				continue;
#endif
			if (strcmp(target, "/dev/null") && strncmp(name, "3 socket:", 9) &&
			    strcmp(target, "anon_inode:[signalfd]")) {
				tap_note("helper %d has %s", pids[i], name);
				wrong++;
			}
		}
		if (folder)
			closedir(folder);
	}
	tap_ok(count >= 3 && !wrong, "%zu helpers hold nothing of the recorder's", count);
	stop(&rig);
	for (int i = 0; i < 40; i++)
		close(extra[i]);
}

/* ---- rights ---- */

static uint64_t status_number(pid_t pid, const char *key, int base)
{
	char path[40], text[4096], *at;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (proc_read(AT_FDCWD, path, text, sizeof(text)) <= 0 || !(at = strstr(text, key)))
		return UINT64_MAX;
	return strtoull(at + strlen(key), NULL, base);
}

/* Drop, and say what is left: 0 as declared. */
static int child_rights(unsigned needs)
{
	uint64_t keep = 0, own, before;
	static const char *const sets[] = {
		"\nCapInh:", "\nCapPrm:", "\nCapEff:", "\nCapBnd:", "\nCapAmb:"};

	before = status_number(getpid(), "\nCapPrm:", 16);
	if (rights_drop(needs))
		return 1;
	for (int i = 0; i < 64; i++)
		if (rights_keep(needs, i))
			keep |= 1ull << i;
	for (int i = 0; i < 5; i++) {
		own = status_number(getpid(), sets[i], 16);
		if (own & ~keep)
			return 2 + i;
		if ((i == 1 || i == 2) && own != (keep & before))
			return 10 + i;
	}
	if (status_number(getpid(), "\nNoNewPrivs:", 10) != !(needs & RIGHT_EXEC))
		return 20;
	/* for good */
	if (!unshare(CLONE_NEWUTS) && !(keep & 1ull << 21))
		return 21;
	return 0;
}

static void test_rights(void)
{
	static const struct {
		unsigned needs;
		const char *name;
	} rows[] = {
		{RIGHT_MAPS, "cpu"},
		{RIGHT_MAPS | RIGHT_DUMPS, "cpu and net"},
		{RIGHT_FILES, "a trace that is followed"},
		{RIGHT_EXEC, "perfetto"},
		{0, "nothing"},
	};
	struct rig rig;
	pid_t pids[32];
	size_t count;
	bool fine = true;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		pid_t pid = fork();
		int status = -1;

		if (!pid)
			_exit(child_rights(rows[i].needs));
		waitpid(pid, &status, 0);
		tap_ok(WIFEXITED(status) && !WEXITSTATUS(status),
		       "capabilities as declared: %s (%d)", rows[i].name, status >> 8);
	}
	if (!tap_ok(start(&rig), "rights: a recorder starts"))
		return;
	wait_for_pids(&rig, HELPER_PROBER, pids, 2);
	count = wait_for_pids(&rig, 0, pids, 3);
	for (size_t i = 0; i < count; i++)
		fine &= status_number(pids[i], "\nCapEff:", 16) ==
				status_number(getpid(), "\nCapEff:", 16) &&
			getpgid(pids[i]) != getpgid(0) && getsid(pids[i]) != getsid(0);
	tap_ok(fine, "warden and probers have all rights, in a session of their own");
	/* The recorder without any right is served all the same. */
	{
		pid_t pid = fork();
		char path[64], target[64];
		int status = -1;

		if (!pid) {
			/* of a process that has more rights than this one will have */
			struct probe_request request = {
				.operation = PROBE_READ_LINK, .pid = getppid(), .name = "exe"};
			struct rig own;

			if (!start(&own) || rights_drop(0))
				_exit(1);
			if (readlink("/proc/self/exe", target, sizeof(target)) < 0)
				_exit(3);
			snprintf(path, sizeof(path), "/proc/%d/exe", getppid());
			if (readlink(path, target, sizeof(target)) >= 0)
				_exit(4);
			_exit(ask(&own, &request, NULL, 0, NULL, 0).err ? 2 : 0);
		}
		waitpid(pid, &status, 0);
		tap_ok(status == 0, "a recorder without rights is served (%d)", status >> 8);
	}
	stop(&rig);
}

/* ---- a target that hangs ---- */

static int on_tick(void *ctx, uint32_t periods)
{
	uint64_t *worst = ctx;

	if (periods > *worst)
		*worst = periods;
	return 0;
}

/* How many children this thread has. */
static unsigned children_of_us(void)
{
	char text[4096] = "", *at = text;
	unsigned count = 0;
	int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	for (; n > 0 && *at; at++)
		count += *at == ' ';
	return n < 0 ? 1 : count; /* without CONFIG_PROC_CHILDREN nothing can be said */
}

static void test_hang(void)
{
	struct probe_request hang = {.operation = PROBE_MEMORY, .length = 64}, other;
	struct warden_stats stats;
	struct heard late = {0};
	uint64_t asked_ns, delay_ns, late_ns, worst = 0, loop_delay_ns;
	int pipe_fds[2], served = 0, timer, err;
	struct rig rig;
	char byte;
	pid_t target;

	if (pipe(pipe_fds))
		return;
	target = fork();
	if (!target) {
		int uffd;
		void *page = hanging_page(&uffd);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (write(pipe_fds[1], &page, sizeof(page)) != sizeof(page))
			_exit(1);
		pause();
		_exit(0);
	}
	hang.pid = target;
	if (read(pipe_fds[0], &hang.address, sizeof(void *)) != sizeof(void *) || !hang.address) {
		tap_ok(false, "hang: userfaultfd: %s", strerror(errno));
		goto out;
	}
	other = (struct probe_request){.operation = PROBE_READ, .pid = getpid(), .name = "stat"};
	if (!tap_ok(start(&rig), "hang: a recorder starts"))
		goto out;
	ask(&rig, &other, NULL, 0, NULL, 0);
	timer = loop_add_timer(rig.loop, NSEC_PER_MSEC, NSEC_PER_MSEC, on_tick, &worst);
	/* A rest of the loop's is no time away: what is urgent ends it. */
	tap_ok(!loop_urgent_timer(rig.loop, timer), "hang: a timer that is urgent");
	loop_delay_ns = delay_ns = run_delay_ns();
	asked_ns = clock_now_ns(CLOCK_MONOTONIC);
	probe_ask(rig.pool, &hang, NULL, 0, NULL, 0, PROBE_CALL_NS, hear, &late);
	while (clock_now_ns(CLOCK_MONOTONIC) - asked_ns < 500 * NSEC_PER_MSEC)
		served += !ask(&rig, &other, NULL, 0, NULL, 0).err;
	late_ns = late.at_ns - asked_ns - (late.delay_ns - delay_ns);
	tap_ok(late.count == 1 && late.err == -ETIMEDOUT &&
		       late.at_ns - asked_ns >= PROBE_CALL_NS &&
		       late_ns < PROBE_CALL_NS + 20 * NSEC_PER_MSEC,
	       "hang: given up after %.1f ms", (double)late_ns / 1e6);
	tap_ok(served > (tap_is_emulated() ? 20 : 100),
	       "hang: others are served meanwhile: %d in 500 ms", served);
	tap_ok(probe_ask(rig.pool, &hang, NULL, 0, NULL, 0, PROBE_CALL_NS, hear, &late) == -EBUSY,
	       "hang: who holds one up is refused");
	probe_new_turn(rig.pool);
	tap_ok(probe_call(rig.pool, &hang, &byte, 1) == -EBUSY, "hang: and by a call");
	run_for(rig.loop, NSEC_PER_SEC);
	warden_stats(rig.warden, &stats);
	tap_ok(stats.replaced[HELPER_PROBER] == 1, "hang: its prober was replaced once: %d",
	       (int)stats.replaced[HELPER_PROBER]);
	loop_delay_ns = run_delay_ns() - loop_delay_ns;
	tap_ok(worst <= 20 + loop_delay_ns / NSEC_PER_MSEC,
	       "hang: the loop was never away for more than %d ms (%d of it without a CPU)",
	       (int)worst, (int)(loop_delay_ns / NSEC_PER_MSEC));
	loop_remove_timer(rig.loop, timer);
	/* A call that waits itself: 10 ms, and no more in this turn. */
	run_for(rig.loop, 1200 * NSEC_PER_MSEC);
	probe_new_turn(rig.pool);
	delay_ns = run_delay_ns();
	asked_ns = clock_now_ns(CLOCK_MONOTONIC);
	err = (int)probe_call(rig.pool, &hang, &byte, 1);
	late_ns = clock_now_ns(CLOCK_MONOTONIC) - asked_ns - (run_delay_ns() - delay_ns);
	tap_ok(err == -ETIMEDOUT && late_ns < PROBE_CALL_NS + 20 * NSEC_PER_MSEC,
	       "hang: a call gives up after %.1f ms: %s", (double)late_ns / 1e6, strerror(-err));
	tap_ok(probe_call(rig.pool, &other, &byte, 1) == -EBUSY,
	       "hang: a turn waits no longer than one call");
	probe_new_turn(rig.pool);
	tap_ok(probe_call(rig.pool, &other, &byte, 1) == 1, "hang: the next turn may");
	asked_ns = clock_now_ns(CLOCK_MONOTONIC);
	delay_ns = run_delay_ns();
	stop(&rig);
	late_ns = clock_now_ns(CLOCK_MONOTONIC) - asked_ns - (run_delay_ns() - delay_ns);
	tap_ok(late_ns < NSEC_PER_SEC, "hang: the end takes %.0f ms", (double)late_ns / 1e6);
	/* A helper that outlived its warden is this process's to reap, once it has ended. */
	asked_ns = clock_now_ns(CLOCK_MONOTONIC);
	while ((err = (int)children_of_us()) > 1 &&
	       clock_now_ns(CLOCK_MONOTONIC) - asked_ns < 2 * NSEC_PER_SEC) {
		siginfo_t info = {.si_pid = 0};

		if (!waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid)
			waitpid(info.si_pid, NULL, 0);
		else
			usleep(1000);
	}
	tap_ok(err == 1, "hang: no child is left but the target: %d", err);
out:
	kill(target, SIGKILL);
	waitpid(target, NULL, 0);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

/* ---- a process that sets probes and is late ---- */

/* Its prober is replaced after a second; it goes on by itself, and takes back what it set. */
static void test_late_attach(void)
{
	struct probe_request request = {.operation = PROBE_ATTACH, .pid = getpid()};
	int exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), log = open_log(), rounds = 0;
	int met = 0, refused = 0, others = 0, outlived = 0, left = 0;
	struct descendants ours;
	struct program program;
	struct rig rig;
	pid_t pids[32];

	descendants_begin(&ours);
	if (load_program(&program, has_uprobe_multi()) || !start(&rig)) {
		tap_ok(false, "late: cannot start");
		return;
	}
	wait_for_pids(&rig, HELPER_PROBER, pids, 2);
	/* The moment when it can be stopped is short, and a stop may come before or after the call
	 * into the kernel. */
	for (; met < 5 && rounds < 400; rounds++) {
		struct probe_places places = {
			.multi = program.multi,
			.program_count = 1,
			.place_count = 1,
			.places[0] = {.offset = probed_offset()},
		};
		int fds[] = {exe, program.fd};
		struct heard heard = {0};
		struct warden_stats before, after;
		pid_t attacher = 0;
		size_t count;

		warden_stats(rig.warden, &before);
		if (probe_ask(rig.pool, &request, &places, sizeof(places), fds, 2, PROBE_ATTACH_NS,
			      hear, &heard) <= 0)
			break;
		count = pids_of(&rig, HELPER_PROBER, pids, 32);
		for (int i = 0; i < 2000 && !attacher; i++)
			for (size_t p = 0; p < count && !attacher; p++)
				attacher = find_child(pids[p], "jank-attach");
		if (!attacher || kill(attacher, SIGSTOP)) {
			run_for(rig.loop, 50 * NSEC_PER_MSEC);
			attacher = 0;
		}
		for (int i = 0; i < 300 && !heard.count; i++)
			run_for(rig.loop, 10 * NSEC_PER_MSEC);
		if (heard.fd_count)
			warden_close(rig.warden, heard.fds, heard.fd_count);
		if (!attacher)
			continue;
		if (heard.err != -ETIMEDOUT) {
			/* it had answered */
			kill(attacher, SIGCONT);
			continue;
		}
		met++;
		refused += probe_ask(rig.pool, &request, &places, sizeof(places), fds, 2,
				     PROBE_ATTACH_NS, hear, &heard) == -EBUSY;
		run_for(rig.loop, 300 * NSEC_PER_MSEC);
		warden_stats(rig.warden, &after);
		others += after.replaced[HELPER_PROBER] == before.replaced[HELPER_PROBER] + 1;
		outlived += is_alive(attacher);
		kill(attacher, SIGCONT);
		for (int i = 0; i < 500 && is_alive(attacher); i++)
			run_for(rig.loop, 10 * NSEC_PER_MSEC);
		left += is_alive(attacher);
		/* its target is left alone for a while */
		stop(&rig);
		if (!start(&rig))
			break;
		wait_for_pids(&rig, HELPER_PROBER, pids, 2);
	}
	tap_ok(met == 5, "late: %d times of %d the process that sets probes was late", met, rounds);
	tap_ok(refused == met, "late: its target holds up no other prober");
	tap_ok(others == met, "late: its prober was replaced %d times", others);
	tap_ok(outlived == met, "late: and the process itself was not killed");
	tap_ok(!left && wait_for_links(program.id, 0, 2 * NSEC_PER_SEC) == 0,
	       "late: it ends by itself and takes its probes back");
	stop(&rig);
	if (log >= 0)
		tap_ok(!count_leaks(log, &ours), "late: no probe is left in place by the kernel");
	else
		tap_skip("late: no probe is left in place by the kernel", "there is no /dev/kmsg");
	descendants_end(&ours);
	close(log);
	unload(&program);
	close(exe);
}

/* ---- spawning ---- */

static void test_storm(void)
{
	struct helper helpers[200];
	size_t alive = 0;
	struct rig rig;
	pid_t pids[200];
	int made = 0, hellos = 0;

	if (!tap_ok(start(&rig), "storm: a recorder starts"))
		return;
	for (; made < 200; made++)
		if (warden_spawn(rig.warden, HELPER_SAMPLER, &helpers[made]))
			break;
	tap_ok(made == 200, "storm: 200 processes are asked for at once: %d", made);
	for (int i = 0; i < made; i++) {
		struct pollfd pollfd = {.fd = helpers[i].socket, .events = POLLIN};
		struct helper_hello hello = {0};

		/* the warden is told more than its socket holds: the loop sends the rest */
		for (int j = 0; j < 20000 && poll(&pollfd, 1, 0) <= 0; j++)
			run_for(rig.loop, NSEC_PER_MSEC);
		if (recv(helpers[i].socket, &hello, sizeof(hello), MSG_DONTWAIT) == sizeof(hello))
			hellos += hello.kind == HELPER_SAMPLER;
		pids[i] = hello.pid;
	}
	tap_ok(hellos == 200, "storm: all of them come: %d", hellos);
	for (int i = 0; i < made; i++)
		warden_drop(rig.warden, &helpers[i], i % 2);
	for (int tries = 0; tries < 5000; tries++) {
		alive = 0;
		for (int i = 0; i < made; i++)
			alive += pids[i] && is_alive(pids[i]);
		if (!alive)
			break;
		run_for(rig.loop, NSEC_PER_MSEC);
	}
	tap_ok(!alive, "storm: all of them go: %zu left", alive);
	stop(&rig);
}

/* ---- kill -9 ---- */

/* What the test sees of the recorder that it kills. */
struct seen {
	volatile pid_t recorder, warden, probers[2];
	volatile uint64_t rounds, attached, released, served, in_flight, wardens;
	volatile bool set; /* it has changed the setting */
};

struct worker {
	struct rig rig;
	struct seen *seen;
	const struct program *program;
	int exe;
	pid_t target;
	uint64_t key, oldest;
	bool attaching, reading;
};

static void on_attached(void *ctx, int err, const struct probe_answer *answer)
{
	struct worker *worker = ctx;

	worker->attaching = false;
	worker->seen->in_flight--;
	if (err || !answer->fd_count)
		return;
	if (warden_keep(worker->rig.warden, ++worker->key, answer->fds, answer->fd_count))
		return;
	for (size_t i = 0; i < answer->fd_count; i++)
		answer->fds[i] = -1;
	worker->seen->attached++;
}

static void on_read(void *ctx, int err, const struct probe_answer *answer)
{
	struct worker *worker = ctx;

	worker->reading = false;
	worker->seen->in_flight--;
	worker->seen->served += !err;
}

static int on_round(void *ctx, uint32_t events)
{
	struct worker *worker = ctx;
	struct seen *seen = worker->seen;
	struct probe_request attach_request = {.operation = PROBE_ATTACH, .pid = worker->target};
	struct probe_request read_request = {.operation = PROBE_MEMORY,
					     .pid = getpid(),
					     .length = 4096,
					     .address = (uintptr_t)probed & ~4095ull};
	struct probe_places places = {
		.multi = worker->program->multi,
		.program_count = 1,
		.place_count = 1,
		.places[0] = {.offset = probed_offset()},
	};
	int fds[] = {worker->exe, worker->program->fd};
	struct warden_stats stats;
	pid_t pids[32];
	size_t count;

	if (!worker->attaching && seen->rounds % ATTACH_ROUNDS == 0 &&
	    probe_ask(worker->rig.pool, &attach_request, &places, sizeof(places), fds, 2,
		      PROBE_ATTACH_NS, on_attached, worker) > 0) {
		worker->attaching = true;
		seen->in_flight++;
	}
	if (!worker->reading && probe_ask(worker->rig.pool, &read_request, NULL, 0, NULL, 0,
					  PROBE_CALL_NS, on_read, worker) > 0) {
		worker->reading = true;
		seen->in_flight++;
	}
	while (worker->key - worker->oldest > 8) {
		warden_release(worker->rig.warden, ++worker->oldest);
		seen->released++;
	}
	count = pids_of(&worker->rig, HELPER_PROBER, pids, 32);
	seen->probers[0] = count > 0 ? pids[0] : 0;
	seen->probers[1] = count > 1 ? pids[1] : 0;
	seen->warden = pids_of(&worker->rig, HELPER_WARDEN, pids, 32) ? pids[0] : 0;
	warden_stats(worker->rig.warden, &stats);
	seen->wardens = stats.replaced[HELPER_WARDEN];
	seen->rounds++;
	return 0;
}

static void __attribute__((noreturn)) run_recorder(struct seen *seen, const struct program *program,
						   int exe, pid_t target, const char *folder)
{
	struct worker worker = {.seen = seen, .program = program, .exe = exe, .target = target};
	struct trace_state *state;
	char reason[160] = "";
	int root = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC), err = -EBUSY;

	/* The lock is free when the warden of the one before has put the settings back. */
	for (int i = 0; i < 3000 && err == -EBUSY; i++) {
		err = trace_state_open(&state, folder, reason, sizeof(reason));
		if (err)
			poll(NULL, 0, 1);
	}
	if (err || root < 0 || !start(&worker.rig))
		_exit(1);
	trace_state_put_back(state, root);
	if (warden_hold_settings(worker.rig.warden, trace_state_fd(state), root) ||
	    trace_state_add(state, TRACE_TRACING_ON, "0") ||
	    trace_setting_set(root, TRACE_TRACING_ON, "1"))
		_exit(1);
	seen->set = true;
	loop_add_timer(worker.rig.loop, NSEC_PER_MSEC, NSEC_PER_MSEC, on_round, &worker);
	rights_drop(RIGHT_MAPS);
	_exit(loop_run(worker.rig.loop) ? 1 : 0);
}

/* Processes whose comm begins so and whose ancestors are ours; all of them by then are orphans of
 * this test, which is their subreaper. */
static int count_children(void)
{
	char text[4096], path[64];
	int count = 0, status;

	while (waitpid(-1, &status, WNOHANG) > 0)
		;
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	if (proc_read(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return 0;
	for (char *p = text; *p; p++)
		count += *p == ' ';
	return count;
}

/* The folder stands for tracefs, and holds the file of what is to be put back. */
static bool is_restored(const char *folder)
{
	char path[96], text[8] = "";

	snprintf(path, sizeof(path), "%s/tracing_on", folder);
	return proc_read(AT_FDCWD, path, text, sizeof(text)) > 0 && text[0] == '0';
}

static void test_kills(void)
{
	char folder[] = "/tmp/test_helpers.XXXXXX", command[96];
	struct seen *seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int killed[4] = {0}, links_left = 0, children_left = 0, unrestored = 0, restored = 0;
	int in_flight = 0, silent = 0, with_links = 0;
	struct program program;
	pid_t target, recorder = 0, killed_warden = 0;
	int log = open_log(), leaks = 0, strangers = 0;
	struct descendants ours;
	unsigned seed = 7;

	if (load_program(&program, has_uprobe_multi())) {
		tap_ok(false, "kills: the program loads");
		return;
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	descendants_begin(&ours);
	if (!mkdtemp(folder)) {
		tap_ok(false, "kills: a folder: %s", strerror(errno));
		return;
	}
	snprintf(command, sizeof(command), "echo 0 >%s/tracing_on", folder);
	tap_ok(!system(command), "kills: a setting that is put back");
	target = fork();
	if (!target)
		for (;;)
			pause();
	while (killed[1] < KILLS || killed[2] < KILLS || killed[3] < KILLS) {
		int victim = 1 + rand_r(&seed) % 3, wait_ms = rand_r(&seed) % 12;
		uint64_t rounds;
		bool settled;
		pid_t pid;

		if (!recorder) {
			memset(seen, 0, sizeof(*seen));
			recorder = fork();
			if (!recorder)
				run_recorder(seen, &program, exe, target, folder);
		}
		/* mostly when it works again, sometimes at once */
		rounds = seen->rounds;
		for (int i = 0; i < 20000 && (wait_ms > 1 || !rounds) &&
				(seen->rounds < rounds + 3 || !seen->warden || !seen->attached);
		     i++)
			poll(NULL, 0, 1);
		poll(NULL, 0, wait_ms);
		if (seen->rounds == rounds && wait_ms > 1)
			silent++;
		/* A request is in flight for some 50 us of each round. */
		for (int i = 0; i < 200000 && wait_ms > 1 && !seen->in_flight; i++)
			sched_yield();
		in_flight += seen->in_flight > 0;
		pid = victim == 1   ? recorder
		      : victim == 2 ? seen->warden
				    : seen->probers[rand_r(&seed) % 2];
		settled = seen->warden && seen->warden != killed_warden && is_alive(seen->warden) &&
			  seen->rounds > 3;
		if (pid <= 0 || (victim == 1 && killed[1] > KILLS + 100))
			continue;
		with_links += seen->attached > seen->released;
		kill(pid, SIGKILL);
		killed[victim]++;
		if (victim == 2)
			killed_warden = pid;
		if (victim != 1)
			continue;
		waitpid(recorder, NULL, 0);
		descendants_read(&ours);
		strangers += !descendants_has(&ours, (uint32_t)recorder);
		recorder = 0;
		/* Everything ends by itself; the target is a child still. */
		for (int i = 0; i < 5000 && count_children() > 1; i++)
			poll(NULL, 0, 1);
		children_left += count_children() > 1;
		links_left += wait_for_links(program.id, 0, LINKS_GONE_NS);
		/* A warden that died at the same time as the recorder cannot be asked for. */
		for (int i = 0; i < 1000 && settled && !is_restored(folder); i++)
			poll(NULL, 0, 1);
		unrestored += settled && !is_restored(folder);
		restored += seen->set && is_restored(folder);
		if (log >= 0)
			leaks += count_leaks(log, &ours);
		descendants_forget(&ours);
	}
	if (recorder) {
		kill(recorder, SIGKILL);
		waitpid(recorder, NULL, 0);
	}
	tap_note(
		"killed: %d recorders, %d wardens, %d probers; %d with requests in flight, %d with "
		"links",
		killed[1], killed[2], killed[3], in_flight, with_links);
	tap_ok(in_flight > KILLS / 2 && with_links > KILLS, "kills: while requests were in flight");
	tap_ok(!children_left, "kills: %d times a process was left", children_left);
	tap_ok(!links_left, "kills: %d links were left", links_left);
	tap_ok(!silent, "kills: %d times a recorder without a helper stood still", silent);
	tap_ok(!unrestored && restored > KILLS / 2,
	       "kills: settings restored %d times, not %d times", restored, unrestored);
	kill(target, SIGKILL);
	waitpid(target, NULL, 0);
	for (int i = 0; i < 5000 && count_children(); i++)
		poll(NULL, 0, 1);
	tap_ok(!count_children() && !count_links(program.id), "kills: nothing is left at the end");
	if (log >= 0)
		tap_ok(!leaks && !count_leaks(log, &ours) && !strangers,
		       "kills: no probe is left in place by the kernel");
	else
		tap_skip("kills: no probe is left in place by the kernel", "there is no /dev/kmsg");
	descendants_end(&ours);
	close(log);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	if (system(command))
		tap_note("%s stays", folder);
	munmap(seen, sizeof(*seen));
	unload(&program);
	close(exe);
}

int main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : NULL;

	signal(SIGPIPE, SIG_IGN);
	if (!only || !strcmp(only, "attach")) {
		test_attach(true);
		test_attach(false);
	}
	if (!only || !strcmp(only, "releases"))
		test_many_releases();
	if (!only || !strcmp(only, "descriptors"))
		test_descriptors();
	if (!only || !strcmp(only, "rights"))
		test_rights();
	if (!only || !strcmp(only, "hang"))
		test_hang();
	if (!only || !strcmp(only, "late"))
		test_late_attach();
	if (!only || !strcmp(only, "storm"))
		test_storm();
	if (!only || !strcmp(only, "kills"))
		test_kills();
	return tap_done();
}

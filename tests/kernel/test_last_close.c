/* SPDX-License-Identifier: BSD-2-Clause */
/* Who makes the last close of a probe. The kernel cannot remove a probe for a caller that is being
 * killed inside a close ("leaking uprobe"), and lets nobody out of such a close for some 20 to 50
 * ms; so it must be a process that nobody kills: jank-closer or jank-attach. The moments at which
 * another one could be the last are some microseconds long, and are held open here by ptrace. */
/* Runs beside others (4 s) */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "helpers_rig.h"
#include "util/channel.h"

#define LINKS  4
#define ROUNDS (tap_is_emulated() ? 2 : 10)
/* What a close that was the last one would have shown by then. */
#define HELD_MS      300
#define STEP_NS      (5 * NSEC_PER_SEC)
#define FORKER_BYTES (128u << 20)

/* ---- a thread that is led from call to call ---- */

static bool wait_for_stop(pid_t tid, int *status)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + STEP_NS;

	while (clock_now_ns(CLOCK_MONOTONIC) < until_ns) {
		if (waitpid(tid, status, __WALL | WNOHANG) == tid)
			return WIFSTOPPED(*status);
		poll(NULL, 0, 1);
	}
	return false;
}

static bool seize(pid_t tid, long options)
{
	int status;

	return !ptrace(PTRACE_SEIZE, tid, NULL, PTRACE_O_TRACESYSGOOD | options) &&
	       !ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) && wait_for_stop(tid, &status);
}

/* Until the thread, which is stopped, enters (or leaves) a call of this number. */
static bool run_to(pid_t tid, uint64_t number, bool leave)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + STEP_NS;
	uint64_t inside = UINT64_MAX;
	int status, signal = 0;

	while (clock_now_ns(CLOCK_MONOTONIC) < until_ns) {
		struct __ptrace_syscall_info info;

		if (ptrace(PTRACE_SYSCALL, tid, NULL, (void *)(intptr_t)signal) ||
		    !wait_for_stop(tid, &status))
			return false;
		signal = 0;
		if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
			/* a signal of its own, or a stop that is no signal */
			signal = status >> 16 ? 0 : WSTOPSIG(status);
			continue;
		}
		if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, (void *)sizeof(info), &info) <= 0)
			return false;
		if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
			inside = info.entry.nr;
		if (inside == number &&
		    info.op == (leave ? PTRACE_SYSCALL_INFO_EXIT : PTRACE_SYSCALL_INFO_ENTRY))
			return true;
	}
	return false;
}

/* ---- what they hold ---- */

/* Descriptors of links that this process has. */
static int links_of(pid_t pid)
{
	char path[64], text[512];
	struct dirent *entry;
	int count = 0;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo", pid);
	folder = opendir(path);
	while (folder && (entry = readdir(folder))) {
		text[0] = 0;
		if (entry->d_name[0] != '.' &&
		    proc_read(dirfd(folder), entry->d_name, text, sizeof(text)) > 0)
			count += strstr(text, "link_id:") != NULL;
	}
	if (folder)
		closedir(folder);
	return count;
}

/* Whether the kernel left a probe of this thread in place. Closes the log. */
static bool has_leaked(int log, pid_t tid)
{
	char line[8192], name[32];
	bool found = false;
	ssize_t n;

	snprintf(name, sizeof(name), ":%d failed to unregister", tid);
	while ((n = read(log, line, sizeof(line) - 1)) > 0 || (n < 0 && errno == EPIPE)) {
		line[n > 0 ? n : 0] = 0;
		if (!strstr(line, name))
			continue;
		line[strcspn(line, "\n")] = 0;
		tap_note("%s", line);
		found = true;
	}
	close(log);
	return found;
}

/* Some probes, in one message to the warden. */
static bool keep_links(struct rig *rig, const struct program *program, int exe, uint64_t key)
{
	int fds[LINKS], made = 0;

	for (; made < LINKS; made++) {
		struct heard heard = attach(rig, program, exe, getpid());

		if (heard.err || heard.fd_count != 1)
			break;
		fds[made] = heard.fds[0];
	}
	if (made < LINKS || warden_keep(rig->warden, key, fds, LINKS))
		return false;
	run_for(rig->loop, 50 * NSEC_PER_MSEC);
	return true;
}

static pid_t warden_of(struct rig *rig)
{
	pid_t pids[32];

	return wait_for_pids(rig, HELPER_WARDEN, pids, 1) == 1 ? pids[0] : 0;
}

/* ---- a warden that does not come to its closes ---- */

static void test_warden(const struct program *program, int exe)
{
	pid_t warden, closer = 0;
	struct rig rig;
	int held, own;

	if (!tap_ok(start(&rig) && keep_links(&rig, program, exe, 1) && (warden = warden_of(&rig)),
		    "warden: %d probes are kept", LINKS))
		return;
	if (!tap_ok(seize(warden, 0), "warden: it is traced"))
		goto out;
	warden_release(rig.warden, 1);
	/* It has sent them, and goes no further. */
	if (!tap_ok(run_to(warden, SYS_sendmsg, true), "warden: it hands the probes over"))
		goto out;
	for (int i = 0; i < 2000 && !closer; i++) {
		closer = find_child(warden, "jank-closer");
		poll(NULL, 0, 1);
	}
	poll(NULL, 0, HELD_MS);
	own = links_of(warden);
	held = links_of(closer);
	tap_ok(closer && own == LINKS && held == LINKS,
	       "warden: as long as it has its copies (%d), who closes keeps its own (%d)", own,
	       held);
	ptrace(PTRACE_DETACH, warden, NULL, NULL);
	tap_ok(!wait_for_links(program->id, 0, 5 * NSEC_PER_SEC), "warden: then they go");
out:
	ptrace(PTRACE_DETACH, warden, NULL, NULL);
	stop(&rig);
}

/* ---- a process that was just forked, and has copies of all that the warden keeps ---- */

static void test_newborn(const struct program *program, int exe)
{
	pid_t warden, child = 0;
	struct helper helper = {.socket = -1, .pidfd = -1};
	unsigned long message = 0;
	int status, own, inherited;
	struct rig rig;

	if (!tap_ok(start(&rig) && keep_links(&rig, program, exe, 1) && (warden = warden_of(&rig)),
		    "newborn: %d probes are kept", LINKS))
		return;
	if (!tap_ok(seize(warden, PTRACE_O_TRACEFORK), "newborn: the warden is traced"))
		goto out;
	tap_ok(!warden_spawn(rig.warden, HELPER_SAMPLER, &helper), "newborn: one is asked for");
	warden_release(rig.warden, 1);
	ptrace(PTRACE_CONT, warden, NULL, NULL);
	if (wait_for_stop(warden, &status) && status >> 8 == (SIGTRAP | PTRACE_EVENT_FORK << 8) &&
	    !ptrace(PTRACE_GETEVENTMSG, warden, NULL, &message))
		child = (pid_t)message;
	ptrace(PTRACE_DETACH, warden, NULL, NULL);
	tap_ok(child && wait_for_stop(child, &status), "newborn: it is stopped at its birth");
	poll(NULL, 0, HELD_MS);
	own = links_of(warden);
	inherited = links_of(child);
	tap_ok(own == LINKS && inherited == LINKS,
	       "newborn: as long as it has copies (%d), the warden keeps its own (%d)", inherited,
	       own);
	ptrace(PTRACE_DETACH, child, NULL, NULL);
	tap_ok(!wait_for_links(program->id, 0, 5 * NSEC_PER_SEC), "newborn: then they go");
out:
	warden_drop(rig.warden, &helper, false);
	stop(&rig);
}

/* ---- a prober that is killed while it closes, when its recorder has just died ---- */

/* What the recorder tells; it dies of the test. */
struct told {
	volatile pid_t warden, prober;
	volatile bool go, asked;
};

static void __attribute__((noreturn))
run_recorder(struct told *told, const struct program *program, int exe, pid_t target)
{
	struct probe_request request = {.operation = PROBE_ATTACH, .pid = target};
	struct probe_places places = {
		.multi = program->multi,
		.program_count = 1,
		.place_count = 1,
		.places[0] = {.offset = probed_offset()},
	};
	int fds[] = {exe, program->fd};
	struct heard heard = {0};
	struct rig rig;
	pid_t pids[32];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!start(&rig) || wait_for_pids(&rig, HELPER_PROBER, pids, 2) < 2)
		_exit(1);
	told->warden = warden_of(&rig);
	/* The list begins with the newest; the first of the pool is asked. */
	told->prober = pids[0] < pids[1] ? pids[0] : pids[1];
	while (!told->go)
		poll(NULL, 0, 1);
	told->asked = probe_ask(rig.pool, &request, &places, sizeof(places), fds, 2,
				PROBE_ATTACH_NS, hear, &heard) > 0;
	for (;;)
		pause();
}

/* The second thread of a prober, which works. */
static pid_t worker_of(pid_t pid)
{
	char path[64];
	struct dirent *entry;
	pid_t found = 0;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	folder = opendir(path);
	while (folder && (entry = readdir(folder)))
		if (atoi(entry->d_name) > 0 && atoi(entry->d_name) != pid)
			found = atoi(entry->d_name);
	if (folder)
		closedir(folder);
	return found;
}

/* Forks something large again and again: who removes a probe waits for the end of a fork. */
static pid_t start_forker(void)
{
	pid_t pid = fork(), child;
	char *memory;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	memory = mmap(NULL, FORKER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	if (memory == MAP_FAILED)
		_exit(1);
	madvise(memory, FORKER_BYTES, MADV_NOHUGEPAGE);
	memset(memory, 1, FORKER_BYTES);
	for (;;) {
		child = fork();
		if (!child)
			_exit(0);
		if (child > 0)
			waitpid(child, NULL, 0);
	}
}

/* 1: done, and nothing was left in place; 0: a probe was; -1: it could not be done. */
static int kill_while_it_closes(struct told *told, const struct program *program, int exe)
{
	pid_t recorder, worker = 0, attacher = 0;
	int log, result = -1;

	memset(told, 0, sizeof(*told));
	recorder = fork();
	if (!recorder)
		run_recorder(told, program, exe, getppid());
	for (int i = 0; i < 10000 && !told->prober; i++)
		poll(NULL, 0, 1);
	for (int i = 0; i < 1000 && told->prober && !worker; i++) {
		worker = worker_of(told->prober);
		poll(NULL, 0, 1);
	}
	/* The first thread would end the process when the recorder dies, and so would the warden.
	 */
	log = open_log();
	if (!worker || log < 0 || !seize(worker, 0) || !seize(told->prober, 0) ||
	    kill(told->warden, SIGSTOP))
		goto out;
	told->go = true;
	/* It has the probes of jank-attach, and sends them on to a recorder that is dead. */
	if (!run_to(worker, SYS_recvmsg, true))
		goto out;
	for (int i = 0; i < 5000 && !attacher; i++) {
		attacher = find_child(told->prober, "jank-attach");
		if (!attacher && !run_to(worker, SYS_recvmsg, true))
			goto out;
	}
	for (int i = 0; i < 100 && links_of(told->prober) < 1; i++)
		if (!run_to(worker, SYS_recvmsg, true))
			goto out;
	kill(recorder, SIGKILL);
	waitpid(recorder, NULL, 0);
	recorder = 0;
	if (!run_to(worker, SYS_sendmsg, true) || !run_to(worker, SYS_close, false))
		goto out;
	ptrace(PTRACE_CONT, worker, NULL, NULL);
	poll(NULL, 0, 1);
	kill(told->prober, SIGKILL);
	kill(told->warden, SIGCONT);
	if (wait_for_links(program->id, 0, 10 * NSEC_PER_SEC))
		goto out;
	/* A link has no id any more before its places are given back. */
	poll(NULL, 0, HELD_MS);
	result = !has_leaked(log, worker);
	log = -1;
out:
	if (log >= 0)
		close(log);
	if (recorder > 0) {
		kill(recorder, SIGKILL);
		waitpid(recorder, NULL, 0);
	}
	if (told->prober)
		kill(told->prober, SIGKILL);
	if (told->warden)
		kill(told->warden, SIGCONT);
	/* The warden is the last to go, but for the process that forks. */
	if (told->warden)
		waitpid(told->warden, NULL, __WALL);
	return result;
}

static void test_prober(const struct program *program, int exe)
{
	struct told *told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int done = 0, leaked = 0, log = open_log();
	pid_t forker;

	if (log < 0) {
		tap_skip("prober: no probe is left in place by the kernel", "no /dev/kmsg");
		return;
	}
	close(log);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	forker = start_forker();
	for (int i = 0; i < ROUNDS; i++) {
		int result = kill_while_it_closes(told, program, exe);

		done += result >= 0;
		leaked += !result;
	}
	tap_ok(done == ROUNDS, "prober: killed in a close behind a dead recorder %d times of %d",
	       done, ROUNDS);
	tap_ok(!leaked, "prober: no probe is left in place by the kernel (%d are)", leaked);
	kill(forker, SIGKILL);
	while (waitpid(-1, NULL, __WALL) > 0 || errno == EINTR)
		;
	munmap(told, sizeof(*told));
}

int main(int argc, char **argv)
{
	int exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const char *only = argc > 1 ? argv[1] : NULL;
	struct program program;

	signal(SIGPIPE, SIG_IGN);
	if (!has_uprobe_multi()) {
		tap_skip("last close", "the kernel has no bpf_uprobe_multi_link_attach");
		return tap_done();
	}
	if (!tap_ok(!load_program(&program, true), "a program loads"))
		return tap_done();
	if (!only || !strcmp(only, "warden"))
		test_warden(&program, exe);
	if (!only || !strcmp(only, "newborn"))
		test_newborn(&program, exe);
	if (!only || !strcmp(only, "prober"))
		test_prober(&program, exe);
	unload(&program);
	close(exe);
	return tap_done();
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The promises: no target is left stopped or killed by any death of ours, whatever the target is
 * doing; every case that cannot be captured is recognised, quickly, by one reason. */
/* Runs beside others (15 s) */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stack/capturer.h"
#include "spin.h"
#include "tap.h"
#include "util/clock.h"

/* In an emulated guest everything takes 50 times as long: fewer rounds, and no figure is judged. */
static bool emulated;

static unsigned rounds(unsigned count)
{
	return emulated ? count / 20 : count;
}

#define KILLS rounds(200)

/* What targets report: shared, so that it can be read while they run or are stopped. */
struct board {
	_Atomic uint64_t beats;
	_Atomic int ready;
	_Atomic int eintr;
	_Atomic int let_go;
};

static struct board *board;

static void nap_us(unsigned us)
{
	struct timespec ts = {us / 1000000, us % 1000000 * 1000};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
}

/* ---- targets ---- */

static void spin(void)
{
	for (;;) {
		atomic_fetch_add(&board->beats, 1);
		spin_hint();
	}
}

static void beat(void)
{
	for (;;) {
		atomic_fetch_add(&board->beats, 1);
		nap_us(200);
	}
}

static void wait_pipe(void)
{
	int ends[2];
	char byte;

	if (pipe(ends) || read(ends[0], &byte, 1) != 1)
		_exit(1);
}

static void wait_epoll(void)
{
	struct epoll_event event;
	int epfd = epoll_create1(0);

	for (;;) {
		if (epoll_pwait(epfd, &event, 1, -1, NULL) < 0 && errno == EINTR)
			atomic_fetch_add(&board->eintr, 1);
	}
}

/* The parent of a vfork child is in uninterruptible sleep until that ends: until we let it go. */
static void wait_vfork(void)
{
	pid_t child = vfork();

	if (!child) {
		while (!atomic_load(&board->let_go))
			nap_us(1000);
		_exit(0);
	}
	for (;;)
		pause();
}

static pid_t start(void (*body)(void))
{
	pid_t pid;

	atomic_store(&board->ready, 0);
	atomic_store(&board->eintr, 0);
	atomic_store(&board->let_go, 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setpriority(PRIO_PROCESS, 0, 0);
		atomic_store(&board->ready, 1);
		body();
		_exit(0);
	}
	while (!atomic_load(&board->ready))
		nap_us(100);
	nap_us(2000);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, __WALL);
}

static char state_of(pid_t pid)
{
	struct thread_status status;

	return thread_status_read("", pid, pid, &status) ? 'X' : status.state;
}

/* A busy machine takes its time. */
static bool await_state(pid_t pid, char wanted)
{
	char state = state_of(pid);

	for (unsigned i = 0; i < 10000 && state != wanted && state != 'Z' && state != 'X'; i++) {
		nap_us(1000);
		state = state_of(pid);
	}
	return state == wanted;
}

static struct stack_thread thread_of(pid_t pid)
{
	struct thread_status status = {0};

	thread_status_read("", pid, pid, &status);
	return (struct stack_thread){.pid = pid,
				     .tid = pid,
				     .pidfd = -1,
				     .start_boot_ns = status.start_ticks * 10000000};
}

static struct stack_capturer *service_new(void)
{
	return stack_capturer_new(&(struct stack_capture_config){0});
}

/* The machine did not give the target, or the worker, a CPU in time: no answer about the target. */
static bool too_busy(const struct stack_capture *capture)
{
	return capture->failure == STACK_DEADLINE || capture->failure == STACK_WORKER_LOST;
}

static int patient_capture(struct stack_capturer *capturer, const struct stack_thread *thread,
			   enum stack_request request, struct stack_capture *capture)
{
	int err;

	for (unsigned i = 0; i < 20; i++) {
		err = stack_capture(capturer, thread, request, capture);
		if (!too_busy(capture))
			break;
		nap_us(10000);
	}
	return err;
}

/* Stopped or traced now, and still so after a while that outlasts any deadline. */
static bool left_stopped(pid_t pid)
{
	for (unsigned i = 0; i < 100; i++) {
		char state = state_of(pid);

		if (state != 'T' && state != 't' && thread_tracer("", pid, pid) <= 0)
			return false;
		nap_us(2000);
	}
	return true;
}

/* ---- our deaths ---- */

/* A stand-in for the tool: captures one target after the other by ptrace, without end. */
static pid_t start_tool(const pid_t *targets, unsigned count)
{
	pid_t pid;

	atomic_store(&board->ready, 0);
	pid = fork();
	if (!pid) {
		struct stack_capturer *capturer = service_new();
		struct stack_capture *capture = stack_capture_new(65536);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (unsigned i = 0; capturer && capture; i++) {
			struct stack_thread thread = thread_of(targets[i % count]);

			stack_capture(capturer, &thread, STACK_PTRACE, capture);
			atomic_store(&board->ready, stack_capturer_worker(capturer));
		}
		_exit(1);
	}
	while (!atomic_load(&board->ready))
		nap_us(50);
	return pid;
}

static void count_harm(const pid_t *targets, unsigned count, unsigned *stopped, unsigned *dead)
{
	for (unsigned i = 0; i < count; i++) {
		if (waitpid(targets[i], NULL, WNOHANG) != 0)
			++*dead;
		else if (left_stopped(targets[i]))
			++*stopped;
	}
}

static void test_tool_killed(void)
{
	pid_t targets[3] = {start(spin), start(beat), start(wait_pipe)};
	unsigned stopped = 0, dead = 0, workers_left = 0;

	for (unsigned i = 0; i < KILLS; i++) {
		pid_t tool = start_tool(targets, 3), worker = atomic_load(&board->ready);

		nap_us(rand() % 1500);
		kill(tool, SIGKILL);
		waitpid(tool, NULL, 0);
		for (unsigned n = 0; n < 2000 && kill(worker, 0) == 0 && state_of(worker) != 'X';
		     n++)
			nap_us(1000);
		workers_left += kill(worker, 0) == 0 && state_of(worker) != 'X';
		count_harm(targets, 3, &stopped, &dead);
	}
	tap_ok(!stopped && !dead && !workers_left,
	       "%u SIGKILLs of the tool: %u targets stopped, %u dead, %u workers left", KILLS,
	       stopped, dead, workers_left);
	for (unsigned i = 0; i < 3; i++)
		end(targets[i]);
}

static void test_worker_killed(void)
{
	pid_t targets[3] = {start(spin), start(beat), start(wait_pipe)};
	pid_t tool = start_tool(targets, 3);
	unsigned stopped = 0, dead = 0, kills = 0, held = 0;

	while (kills < KILLS) {
		pid_t worker = atomic_load(&board->ready);

		nap_us(rand() % 2000);
		if (worker <= 0 || worker == tool || kill(worker, SIGKILL))
			continue;
		kills++;
		for (unsigned i = 0; i < 3; i++)
			held += state_of(targets[i]) == 't';
		/* the tool has replaced it when the next capture reports another pid */
		for (unsigned n = 0; n < 5000 && atomic_load(&board->ready) == worker; n++)
			nap_us(100);
		if (kills % 20 == 0)
			count_harm(targets, 3, &stopped, &dead);
	}
	dead += waitpid(tool, NULL, WNOHANG) != 0;
	end(tool);
	nap_us(20000);
	count_harm(targets, 3, &stopped, &dead);
	tap_ok(!stopped && !dead,
	       "%u SIGKILLs of the worker: %u stopped, %u dead, the tool went on (%u seen in a "
	       "stop)",
	       kills, stopped, dead, held);
	for (unsigned i = 0; i < 3; i++)
		end(targets[i]);
}

/* Freeze the worker while it holds a stop; nobody is there to help but the kernel's timer. */
static void test_worker_frozen(void)
{
	pid_t target = start(spin);
	uint64_t worst_us = 0;
	unsigned in_time = 0;
	unsigned frozen = 0, tries = 0;
	_Atomic uint32_t *holding;

	/* The tool's exchange is shared with us when it is mapped before the fork. */
	struct stack_capturer *capturer = service_new();
	pid_t worker = stack_capturer_worker(capturer);

	holding = &capturer->worker.exchange->holding;
	for (; frozen < rounds(20) && tries < 4000; tries++) {
		struct stack_thread thread = thread_of(target);
		uint64_t since;

		/* ask on behalf of the capturer, and do not wait for the answer */
		capturer->worker.exchange->pid = target;
		capturer->worker.exchange->tid = target;
		capturer->worker.exchange->start_ticks = thread.start_boot_ns / 10000000;
		capturer->worker.exchange->deadline_ns = 20000000;
		capturer->worker.exchange->stack_room = WORKER_STACK_BYTES;
		if (send(capturer->worker.socket, "x", 1, MSG_NOSIGNAL) != 1)
			break;
		while (!atomic_load(holding) && kill(worker, 0) == 0) {
			struct pollfd answered = {.fd = capturer->worker.socket, .events = POLLIN};

			if (poll(&answered, 1, 0) == 1)
				break;
		}
		kill(worker, SIGSTOP);
		since = clock_now_ns(CLOCK_MONOTONIC);
		nap_us(300);
		if (state_of(target) == 't') {
			frozen++;
			while (state_of(target) == 't' &&
			       clock_now_ns(CLOCK_MONOTONIC) - since < 2000000000ull)
				nap_us(200);
			since = (clock_now_ns(CLOCK_MONOTONIC) - since) / 1000;
			in_time += since <= 50000;
			worst_us = since > worst_us ? since : worst_us;
		}
		kill(worker, SIGKILL);
		ptrace_worker_stop(&capturer->worker);
		ptrace_worker_start(&capturer->worker);
		ptrace_worker_wait(&capturer->worker, 1000);
		worker = stack_capturer_worker(capturer);
		holding = &capturer->worker.exchange->holding;
	}
	/* On a busy machine a late look may be ours: most of them must be in time. */
	tap_ok(frozen && (emulated || in_time * 2 > frozen),
	       "worker frozen in %u stops: the kernel's timer freed the target within 50 ms in %u, "
	       "at most %llu us",
	       frozen, in_time, (unsigned long long)worst_us);
	stack_capturer_free(capturer);

	/* The same from the tool's side: it gets an answer in time and a new worker. */
	capturer = service_new();
	worker = stack_capturer_worker(capturer);
	kill(worker, SIGSTOP);
	struct stack_capture *capture = stack_capture_new(65536);
	struct stack_thread thread = thread_of(target);
	int err = stack_capture(capturer, &thread, STACK_PTRACE, capture);

	tap_ok(err == -ETIMEDOUT && capture->failure == STACK_WORKER_LOST,
	       "frozen worker: given up after %llu us, %s",
	       (unsigned long long)capture->cost_ns / 1000, stack_failure_text(capture->failure));
	err = patient_capture(capturer, &thread, STACK_PTRACE, capture);
	tap_ok(!err && stack_capturer_worker(capturer) != worker,
	       "the next capture has a new worker");
	stack_capture_free(capture);
	stack_capturer_free(capturer);
	tap_ok(!left_stopped(target) && state_of(target) == 'R', "and the target runs");
	end(target);
}

/* ---- targets that are not to be stopped ---- */

static bool refused(struct stack_capturer *capturer, struct stack_capture *capture, pid_t pid,
		    enum stack_failure why, const char *name)
{
	struct stack_thread thread = thread_of(pid);
	int err = patient_capture(capturer, &thread, STACK_PTRACE, capture);

	return tap_ok(err && capture->failure == why, "%s: %s, %llu us", name,
		      stack_failure_text(capture->failure),
		      (unsigned long long)capture->cost_ns / 1000);
}

static void test_traced(struct stack_capturer *capturer, struct stack_capture *capture)
{
	pid_t target = start(spin);

	ptrace(PTRACE_SEIZE, target, NULL, NULL);
	refused(capturer, capture, target, STACK_TRACED, "already traced");
	struct stack_thread thread = thread_of(target);
	int err = patient_capture(capturer, &thread, STACK_AUTO, capture);

	tap_ok(!err && (capture->kind == CAPTURE_PERF ||
			(capture->kind == CAPTURE_KERNEL && capture->failure == STACK_TRACED)),
	       "auto: without a stop, kind %d", capture->kind);
	end(target);
}

static void test_stopped_by_user(struct stack_capturer *capturer, struct stack_capture *capture)
{
	pid_t target = start(spin);
	uint64_t beats;
	unsigned preserved = 0, taken = 0;

	kill(target, SIGSTOP);
	while (state_of(target) != 'T')
		nap_us(100);
	refused(capturer, capture, target, STACK_STOPPED, "stopped by its user");
	beats = atomic_load(&board->beats);
	nap_us(20000);
	tap_ok(state_of(target) == 'T' && beats == atomic_load(&board->beats),
	       "and it still is stopped");
	kill(target, SIGCONT);
	tap_ok(await_state(target, 'R'), "until its user lets it go on");
	/* A SIGSTOP at any moment of a capture is kept. */
	for (unsigned i = 0; i < rounds(100); i++) {
		struct stack_thread thread = thread_of(target);
		pid_t sender = fork();

		if (!sender) {
			nap_us(rand() % 300);
			kill(target, SIGSTOP);
			_exit(0);
		}
		for (unsigned n = 0; n < 4; n++)
			taken += !stack_capture(capturer, &thread, STACK_PTRACE, capture);
		waitpid(sender, NULL, 0);
		/* it has to get a CPU to stop */
		for (unsigned n = 0; n < 2000 && state_of(target) != 'T'; n++)
			nap_us(1000);
		preserved += state_of(target) == 'T';
		kill(target, SIGCONT);
	}
	tap_ok(preserved == rounds(100), "SIGSTOP during %u captures: kept %u of %u times", taken,
	       preserved, rounds(100));
	end(target);
}

static void test_uninterruptible(struct stack_capturer *capturer, struct stack_capture *capture)
{
	pid_t target = start(wait_vfork);
	struct stack_thread thread = thread_of(target);

	tap_ok(await_state(target, 'D'), "a vfork parent is in state D");
	refused(capturer, capture, target, STACK_UNINTERRUPTIBLE, "in D state");
	int err = patient_capture(capturer, &thread, STACK_AUTO, capture);

	tap_ok(!err && capture->kind == CAPTURE_KERNEL && capture->state == 'D',
	       "auto: %s, %zu kernel frames, %s", capture->wchan, capture->kernel_frame_count,
	       stack_failure_text(capture->failure));
	atomic_store(&board->let_go, 1);
	tap_ok(await_state(target, 'S') && thread_tracer("", target, target) == 0,
	       "it went on when its child ended");
	end(target);
}

static void test_in_poll(struct stack_capturer *capturer, struct stack_capture *capture)
{
	pid_t target = start(wait_epoll);
	struct stack_thread thread = thread_of(target);
	struct stack_stats stats;

	await_state(target, 'S');
	refused(capturer, capture, target, STACK_IN_POLL, "in its epoll wait");
	patient_capture(capturer, &thread, STACK_AUTO, capture);
	nap_us(5000);
	stack_capturer_stats(capturer, &stats);
	tap_ok(!atomic_load(&board->eintr) && !stats.eintr_risk && capture->kind == CAPTURE_KERNEL,
	       "it saw no EINTR");
	end(target);
}

static void test_dying(struct stack_capturer *capturer, struct stack_capture *capture)
{
	unsigned gone = 0, taken = 0, other = 0;
	uint64_t worst = 0;

	for (unsigned i = 0; i < rounds(200); i++) {
		pid_t target = start(i & 1 ? spin : beat), killer;
		struct stack_thread thread = thread_of(target);

		killer = fork();
		if (!killer) {
			nap_us(rand() % 250);
			kill(target, SIGKILL);
			_exit(0);
		}
		for (unsigned n = 0; n < 20; n++) {
			int err = stack_capture(capturer, &thread,
						n & 1 ? STACK_AUTO : STACK_PTRACE, capture);

			worst = capture->cost_ns > worst ? capture->cost_ns : worst;
			if (!err) {
				taken++;
				continue;
			}
			if (capture->failure == STACK_GONE) {
				gone++;
				break;
			}
			/* A machine that is too busy for the deadline is no fault. */
			if (capture->failure != STACK_UNINTERRUPTIBLE && !too_busy(capture)) {
				other++;
				tap_note("dying: %s", stack_failure_text(capture->failure));
			}
		}
		waitpid(killer, NULL, 0);
		waitpid(target, NULL, 0);
	}
	tap_ok(gone && !other,
	       "dying during the capture: %u gone, %u captured, %u other reasons, longest call "
	       "%llu us",
	       gone, taken, other, (unsigned long long)worst / 1000);
}

static void test_reused(struct stack_capturer *capturer, struct stack_capture *capture)
{
	pid_t target = start(spin);
	struct stack_thread thread = thread_of(target);

	thread.start_boot_ns -= 5000000000ull;
	for (enum stack_request request = STACK_AUTO; request <= STACK_KERNEL; request++) {
		if (request == STACK_SNAPSHOT)
			continue;
		tap_ok(stack_capture(capturer, &thread, request, capture) == -ESRCH &&
			       capture->failure == STACK_REUSED,
		       "request %d: another start time is another process", request);
	}
	/* a pidfd whose process has ended, and a number that lives */
	pid_t dead = start(spin);
	thread = thread_of(target);
	thread.pidfd = syscall(SYS_pidfd_open, dead, 0);
	end(dead);
	int err = patient_capture(capturer, &thread, STACK_AUTO, capture);

	tap_ok(thread.pidfd >= 0 && err == -ESRCH && capture->failure == STACK_GONE,
	       "a pidfd that ended: %s", stack_failure_text(capture->failure));
	close(thread.pidfd);
	end(target);
}

static void test_kernel_thread(struct stack_capturer *capturer, struct stack_capture *capture)
{
	struct stack_thread thread = {.pid = 2, .tid = 2, .pidfd = -1};
	struct thread_status status;
	struct unwound *trace;

	if (thread_status_read("", 2, 2, &status) || !status.kernel_thread) {
		tap_skip("kernel thread", "pid 2 is not one here");
		return;
	}
	int err = patient_capture(capturer, &thread, STACK_PTRACE, capture);

	tap_ok(err && capture->failure == STACK_KERNEL_THREAD, "kernel thread: %s",
	       stack_failure_text(capture->failure));
	err = patient_capture(capturer, &thread, STACK_AUTO, capture);
	trace = unwound_from_kernel(capture);
	tap_ok(!err && capture->kind == CAPTURE_KERNEL && capture->failure == STACK_KERNEL_THREAD &&
		       trace->end == END_KERNEL_ONLY,
	       "auto: its kernel stack, %zu frames", trace->count);
	free(trace);
}

static void test_not_permitted(void)
{
	pid_t target = start(spin), child = fork();
	int status = -1;

	if (!child) {
		struct stack_capturer *capturer;
		struct stack_capture *capture = stack_capture_new(65536);
		struct stack_thread thread = thread_of(target);
		int err;

		if (setgid(65534) || setuid(65534))
			_exit(9);
		capturer = service_new();
		err = patient_capture(capturer, &thread, STACK_PTRACE, capture);
		_exit(err ? capture->failure : 99);
	}
	waitpid(child, &status, 0);
	tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == STACK_NOT_PERMITTED,
	       "target without permission: %s", stack_failure_text(WEXITSTATUS(status)));
	end(target);
}

/* A 32-bit program, by hand: pause() without end. */
static void test_compat(struct stack_capturer *capturer, struct stack_capture *capture)
{
#if defined(__x86_64__)
	static const uint8_t code[] = {0xb8, 29, 0, 0, 0, 0xcd, 0x80, 0xeb, 0xf7};
	Elf32_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS32,
					 ELFDATA2LSB, EV_CURRENT},
			     .e_type = ET_EXEC,
			     .e_machine = EM_386,
			     .e_version = EV_CURRENT,
			     .e_entry = 0x8048000 + sizeof(Elf32_Ehdr) + sizeof(Elf32_Phdr),
			     .e_phoff = sizeof(Elf32_Ehdr),
			     .e_ehsize = sizeof(Elf32_Ehdr),
			     .e_phentsize = sizeof(Elf32_Phdr),
			     .e_phnum = 1};
	Elf32_Phdr segment = {.p_type = PT_LOAD,
			      .p_vaddr = 0x8048000,
			      .p_filesz = 4096,
			      .p_memsz = 4096,
			      .p_flags = PF_R | PF_X,
			      .p_align = 4096};
	int fd = memfd_create("small", MFD_CLOEXEC), execed[2], err;
	struct unwound *trace;
	struct stack_thread thread;
	pid_t pid;

	if (fd < 0 || write(fd, &header, sizeof(header)) < 0 ||
	    write(fd, &segment, sizeof(segment)) < 0 || write(fd, code, sizeof(code)) < 0 ||
	    ftruncate(fd, 4096) || pipe2(execed, O_CLOEXEC))
		return;
	pid = fork();
	if (!pid) {
		char *argv[] = {"small", NULL}, *envp[] = {NULL};

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fexecve(fd, argv, envp);
		_exit(77);
	}
	close(fd);
	close(execed[1]);
	read(execed[0], &err, sizeof(err)); /* its end: it has closed it by its exec, or is gone */
	close(execed[0]);
	if (!await_state(pid, 'S')) {
		waitpid(pid, NULL, 0);
		tap_skip("32-bit target", "this kernel runs no 32-bit programs");
		return;
	}
	refused(capturer, capture, pid, STACK_COMPAT, "32-bit target");
	thread = thread_of(pid);
	err = patient_capture(capturer, &thread, STACK_AUTO, capture);
	trace = unwound_from_kernel(capture);
	tap_ok(!err && capture->kind == CAPTURE_KERNEL && trace->end == END_COMPAT,
	       "auto: kernel capture, %s", stack_end_text(trace->end));
	free(trace);
	end(pid);
#else
	tap_skip("32-bit target", "made by hand for x86 only");
#endif
}

/* Signals that arrive in a stop are delivered, none twice. */
static _Atomic unsigned *delivered;
static void on_usr1(int number)
{
	atomic_fetch_add(delivered, 1);
}

static void test_signals_kept(struct stack_capturer *capturer, struct stack_capture *capture)
{
	pid_t target, sender;
	unsigned sent = 0;
	_Atomic unsigned *sent_shared;

	delivered = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	sent_shared = delivered + 1;
	signal(SIGUSR1, on_usr1); /* the target's, from its first moment on */
	target = start(spin);
	signal(SIGUSR1, SIG_DFL);
	struct stack_thread thread = thread_of(target);

	sender = fork();
	if (!sender) {
		for (unsigned i = 0; i < rounds(500); i++) {
			kill(target, SIGUSR1);
			atomic_fetch_add(sent_shared, 1);
			/* one at a time: a pending signal of the same number would merge */
			for (unsigned n = 0; n < 100000 && atomic_load(delivered) <= i; n++)
				nap_us(50);
		}
		_exit(0);
	}
	for (unsigned i = 0; waitpid(sender, NULL, WNOHANG) == 0; i++) {
		pid_t killer = -1;

		/* also with the worker killed just then */
		if (i % 8 == 0) {
			pid_t worker = stack_capturer_worker(capturer);

			killer = fork();
			if (!killer) {
				nap_us(rand() % 100);
				kill(worker, SIGKILL);
				_exit(0);
			}
		}
		stack_capture(capturer, &thread, STACK_PTRACE, capture);
		if (killer > 0)
			waitpid(killer, NULL, 0);
	}
	sent = atomic_load(sent_shared);
	tap_ok(sent == rounds(500) && atomic_load(delivered) == sent,
	       "signals during captures: %u sent, %u delivered", sent, atomic_load(delivered));
	munmap(delivered, 4096);
	end(target);
}

int main(void)
{
	struct stack_capturer *capturer;
	struct stack_capture *capture = stack_capture_new(65536);
	struct stack_stats stats;

	signal(SIGPIPE, SIG_IGN);
	srand(getpid());
	emulated = getenv("GUEST") || getenv("EMULATED");
	/* What is measured here is the worker, not who else is busy on the machine. */
	setpriority(PRIO_PROCESS, 0, -20);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	test_tool_killed();
	test_worker_killed();
	test_worker_frozen();
	capturer = service_new();
	if (!tap_ok(capturer && capture, "service starts"))
		return 1;
	test_traced(capturer, capture);
	test_stopped_by_user(capturer, capture);
	test_uninterruptible(capturer, capture);
	test_in_poll(capturer, capture);
	test_dying(capturer, capture);
	test_reused(capturer, capture);
	test_kernel_thread(capturer, capture);
	test_compat(capturer, capture);
	test_signals_kept(capturer, capture);
	stack_capturer_stats(capturer, &stats);
	tap_note("%llu stops, p50 %llu us, p99 %llu us, max %llu us, EINTR risk %llu, workers "
		 "replaced %llu",
		 (unsigned long long)stats.stops, (unsigned long long)stats.stop_p50_ns / 1000,
		 (unsigned long long)stats.stop_p99_ns / 1000,
		 (unsigned long long)stats.stop_max_ns / 1000, (unsigned long long)stats.eintr_risk,
		 (unsigned long long)stats.workers_replaced);
	tap_ok(stats.eintr_risk == 0, "no stop met an epoll wait");
	stack_capture_free(capture);
	stack_capturer_free(capturer);
	test_not_permitted();
	return tap_done();
}

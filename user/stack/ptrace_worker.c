/* SPDX-License-Identifier: BSD-2-Clause */
/* The process that holds stops. Whatever kills it frees the target: the kernel detaches what a dead
 * tracer had seized (and PTRACE_O_EXITKILL is never set, PTRACE_ATTACH never used). What could keep
 * a target stopped is a worker that lives but does not run; so before it seizes, it arms a kernel
 * timer that sends SIGKILL to itself, which also ends a process that is itself stopped. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stack/capture.h"
#include "util/clock.h"

#define SPIN_NS        200000 /* a stop takes 10 to 30 us: no sleep before this */
#define NAP_NS         50000
#define REAP_NAPS      40
#define KILL_MARGIN_NS 8000000 /* after the deadline, for what follows the stop */

/* Between the processes: written by whoever holds the turn, which the socket passes on. */
struct life {
	struct ptrace_exchange *exchange;
	timer_t timer;
	bool has_timer;
	cpu_set_t cpus; /* that this process may use */
	bool moved;     /* off the target's CPU */
};

static void arm(const struct life *life, uint64_t ns)
{
	struct itimerspec when = {.it_value = {ns / 1000000000, ns % 1000000000}};

	if (life->has_timer)
		timer_settime(life->timer, 0, &when, NULL);
}

/* Wait for the thread to stop. 1: stopped, *stop says how; 0: not within the deadline; -1: gone.
 * WNOWAIT leaves the stop to be waited for: if it is that of a signal on its way to the thread, and
 * this process dies before the detach, the kernel still delivers the signal; a stop that was waited
 * for has forgotten it (wait_task_stopped in kernel/exit.c clears exit_code). */
static int wait_stop(pid_t tid, uint64_t since, uint64_t deadline_ns, int *stop)
{
	for (;;) {
		siginfo_t info = {.si_pid = 0};
		int err =
			waitid(P_PID, tid, &info, WSTOPPED | WEXITED | WNOHANG | WNOWAIT | __WALL);
		uint64_t spent = clock_now_ns(CLOCK_MONOTONIC) - since;

		if (!err && info.si_pid == tid) {
			*stop = info.si_status;
			if (info.si_code == CLD_STOPPED || info.si_code == CLD_TRAPPED)
				return 1;
			waitpid(tid, NULL, WNOHANG | __WALL);
			return -1;
		}
		if (err && errno != EINTR)
			return -1;
		if (spent > deadline_ns)
			return 0;
		if (spent > SPIN_NS) {
			struct timespec nap = {.tv_nsec = NAP_NS};

			clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
		}
	}
}

/* What has to be read while the thread is stopped; nothing here allocates, opens or logs. */
static enum stack_failure copy_thread(struct ptrace_exchange *exchange)
{
	struct iovec regs = {exchange->words, sizeof(exchange->words)};
	struct stack_registers registers;
	size_t bytes = 0;
	enum stack_failure failure;

	if (ptrace(PTRACE_GETREGSET, exchange->tid, (void *)NT_PRSTATUS, &regs))
		return errno == ESRCH ? STACK_GONE : STACK_UNSUPPORTED;
	exchange->word_bytes = regs.iov_len;
	exchange->t_boot_ns = clock_now_ns(CLOCK_BOOTTIME);
	/* A 32-bit thread answers with fewer and narrower words. */
	if (regs.iov_len < 21 * 8 ||
	    registers_from_kernel(&registers, STACK_HOST_ARCH, exchange->words, regs.iov_len / 8))
		return STACK_COMPAT;
	exchange->stack_base = registers_sp(&registers);
	failure = capture_read_stack(exchange->pid, exchange->stack_base, exchange->stack,
				     exchange->stack_room, &bytes);
	exchange->stack_bytes = bytes;
	/* A call that does not restart has its result already. A thread that ran when the stop was
	 * asked for may have got into one. */
	if ((int64_t)registers.value[0] == -EINTR)
		exchange->eintr_risk = 1;
	return failure == STACK_NO_MEMORY_READ ? STACK_OK : failure;
}

/* Give the thread back as it was: a signal that it was about to take is delivered, a stop by its
 * user (group-stop, PTRACE_EVENT_STOP with a stop signal) goes on. One that was killed in the stop
 * is still ours to reap: its parent does not see its end before. False: only our own end frees it.
 */
static bool release(pid_t tid, int stop)
{
	int event = stop >> 8, signal = event ? 0 : stop, status;

	if (ptrace(PTRACE_DETACH, tid, NULL, (void *)(long)signal) == 0)
		return true;
	for (unsigned i = 0; i < REAP_NAPS; i++) {
		struct timespec nap = {.tv_nsec = NAP_NS};
		pid_t got = waitpid(tid, &status, WNOHANG | __WALL);

		if (got < 0 || (got == tid && !WIFSTOPPED(status)))
			return true;
		clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
	}
	return false;
}

/* To stop, the thread needs its CPU: wait for it on another one. */
static void keep_off(struct life *life, int cpu)
{
	cpu_set_t set = life->cpus;

	if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getcpu() != cpu || !CPU_ISSET(cpu, &set))
		return;
	CPU_CLR(cpu, &set);
	if (CPU_COUNT(&set))
		life->moved = sched_setaffinity(0, sizeof(set), &set) == 0;
}

/* False: the request was withdrawn, which only the end of this process does. */
static bool capture_one(struct life *life)
{
	struct ptrace_exchange *exchange = life->exchange;
	struct thread_status status;
	pid_t pid = exchange->pid, tid = exchange->tid;
	uint64_t since;
	int stop = 0, got;

	exchange->failure = thread_status_read("", pid, tid, &status);
	if (exchange->failure)
		return true;
	if (exchange->start_ticks && status.start_ticks != exchange->start_ticks)
		exchange->failure = STACK_REUSED;
	else if (status.kernel_thread)
		exchange->failure = STACK_KERNEL_THREAD;
	else if (status.state == 't')
		exchange->failure = STACK_TRACED;
	else if (status.state == 'T')
		exchange->failure = STACK_STOPPED;
	else if (status.state == 'D')
		exchange->failure = STACK_UNINTERRUPTIBLE;
	else if (status.state == 'S' && !thread_sleep_restarts("", pid, tid))
		exchange->failure = STACK_IN_POLL;
	if (exchange->failure)
		return true;

	if (status.state == 'R')
		keep_off(life, status.cpu);
	arm(life, exchange->deadline_ns + KILL_MARGIN_NS);
	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL)) {
		exchange->failure = errno == ESRCH ? STACK_GONE : STACK_NOT_PERMITTED;
		arm(life, 0);
		if (exchange->failure != STACK_GONE && thread_tracer("", pid, tid) > 0)
			exchange->failure = STACK_TRACED;
		return true;
	}
	/* From here the number is held by us: look once more who it is. */
	exchange->failure = thread_status_read("", pid, tid, &status);
	if (!exchange->failure && exchange->start_ticks &&
	    status.start_ticks != exchange->start_ticks)
		exchange->failure = STACK_REUSED;
	if (exchange->failure)
		return false;
	atomic_store(&exchange->holding, 1);
	since = clock_now_ns(CLOCK_MONOTONIC);
	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL)) {
		exchange->failure = STACK_GONE;
		return false;
	}
	got = wait_stop(tid, since, exchange->deadline_ns, &stop);
	if (got <= 0) {
		exchange->failure = got ? STACK_GONE : STACK_DEADLINE;
		atomic_store(&exchange->holding, 0);
		if (got < 0)
			arm(life, 0);
		return got < 0;
	}
	exchange->failure = copy_thread(exchange);
	if (!release(tid, stop)) {
		exchange->failure = STACK_GONE;
		return false;
	}
	exchange->stop_ns = clock_now_ns(CLOCK_MONOTONIC) - since;
	atomic_store(&exchange->holding, 0);
	arm(life, 0);
	return true;
}

/* Nothing of the parent stays open here but the socket: a pipe's reader must see its end when the
 * tool closes it. */
static void close_all_but(int keep)
{
	int null = open("/dev/null", O_RDWR);

	for (int fd = 0; fd < 3 && null >= 0; fd++) {
		if (fd != keep)
			dup2(null, fd);
	}
	if (syscall(SYS_close_range, 3, keep - 1, 0) ||
	    syscall(SYS_close_range, keep + 1, ~0u, 0)) {
		for (int fd = 3; fd < 4096; fd++) {
			if (fd != keep)
				close(fd);
		}
	}
}

void ptrace_worker_main(struct ptrace_exchange *exchange, int socket, pid_t parent)
{
	struct life life = {.exchange = exchange};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
	static const int ignored[] = {SIGINT,  SIGTERM, SIGHUP,  SIGPIPE,
				      SIGTSTP, SIGTTIN, SIGTTOU, SIGQUIT};
	sigset_t none;
	char byte = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	prctl(PR_SET_NAME, "jankscope-stop");
	/* Keys typed for the tool reach its whole group; this process ends with the tool. */
	for (unsigned i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* Move the socket up first when it took the place of a standard stream. */
	if (socket < 3)
		socket = fcntl(socket, F_DUPFD, 3);
	close_all_but(socket);
	/* Who holds a stop runs before all others; without the right to, as it is. Real time,
	 * because niceness only counts within a session where sessions share the CPU by autogroup
	 * (sched(7)); an own autogroup of nice -20 was tried: on 6.18 at load 14 it starved for
	 * seconds. */
	setpriority(PRIO_PROCESS, 0, -20);
	sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1});
	sched_getaffinity(0, sizeof(life.cpus), &life.cpus);
	life.has_timer = timer_create(CLOCK_MONOTONIC, &event, &life.timer) == 0;
	memset(exchange->stack, 0, sizeof(exchange->stack));
	/* The first byte says that requests are welcome. */
	if (send(socket, &byte, 1, MSG_NOSIGNAL) != 1)
		_exit(0);
	while (recv(socket, &byte, 1, 0) == 1) {
		bool clean = capture_one(&life);

		if (life.moved)
			sched_setaffinity(0, sizeof(life.cpus), &life.cpus);
		life.moved = false;

		/* Without release first: the kernel drops the trace as this process ends, and only
		 * then may the tool go on. */
		if (!clean)
			_exit(0);
		if (send(socket, &byte, 1, MSG_NOSIGNAL) != 1)
			break;
	}
	_exit(0);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The tool's side of the ptrace worker: one request at a time, never a wait above 50 ms. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stack/capture.h"
#include "util/clock.h"

/* The worker's own timer ends it 28 ms after a request; this is for what may hold that back. */
#define ANSWER_MS 45
#define REAP_MS   4
#define LEAST_MS  30 /* what a request may take in all */
#define START_NS  1000000000ull

int ptrace_worker_start(struct ptrace_worker *worker)
{
	pid_t parent = getpid();
	int ends[2], err;

	if (!worker->exchange) {
		worker->exchange = mmap(NULL, sizeof(*worker->exchange), PROT_READ | PROT_WRITE,
					MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (worker->exchange == MAP_FAILED) {
			worker->exchange = NULL;
			return -errno;
		}
	}
	worker->pid = -1;
	worker->socket = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	atomic_store(&worker->exchange->holding, 0);
	worker->pid = fork();
	if (worker->pid == 0) {
		close(ends[0]);
		ptrace_worker_main(worker->exchange, ends[1], parent);
	}
	err = -errno;
	close(ends[1]);
	if (worker->pid < 0) {
		close(ends[0]);
		return err;
	}
	worker->socket = ends[0];
	worker->ready = false;
	worker->started_ns = clock_now_ns(CLOCK_MONOTONIC);
	return 0;
}

bool ptrace_worker_wait(struct ptrace_worker *worker, int timeout_ms)
{
	struct pollfd pollfd = {.fd = worker->socket, .events = POLLIN};
	char byte;

	if (!worker->ready && poll(&pollfd, 1, timeout_ms) == 1)
		worker->ready = recv(worker->socket, &byte, 1, MSG_DONTWAIT) == 1;
	return worker->ready;
}

/* Kill and reap. A worker that does not die at once (it never hangs in the kernel longer than a
 * detach takes) is left to be reaped by nobody rather than waited for. */
static void end_worker(struct ptrace_worker *worker)
{
	if (worker->socket >= 0)
		close(worker->socket);
	if (worker->pid > 0) {
		kill(worker->pid, SIGKILL);
		for (unsigned i = 0; i < REAP_MS * 10; i++) {
			struct timespec nap = {.tv_nsec = 100000};

			if (waitpid(worker->pid, NULL, WNOHANG) != 0)
				break;
			clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
		}
	}
	worker->pid = -1;
	worker->socket = -1;
}

void ptrace_worker_stop(struct ptrace_worker *worker)
{
	end_worker(worker);
	if (worker->exchange)
		munmap(worker->exchange, sizeof(*worker->exchange));
	worker->exchange = NULL;
}

static enum stack_failure take_answer(const struct ptrace_exchange *exchange,
				      struct stack_capture *capture)
{
	uint64_t bytes = exchange->stack_bytes;

	if (registers_from_kernel(&capture->registers, STACK_HOST_ARCH, exchange->words,
				  exchange->word_bytes / 8 < LOOPER_REGISTER_WORDS
					  ? exchange->word_bytes / 8
					  : LOOPER_REGISTER_WORDS))
		return STACK_COMPAT;
	if (STACK_HOST_ARCH == STACK_ARM64)
		capture->registers.syscall_nr = -1;
	if (bytes > capture->stack_room)
		bytes = capture->stack_room;
	memcpy(capture->stack, exchange->stack, bytes);
	capture->stack_base = exchange->stack_base;
	capture->stack_bytes = bytes;
	capture->t_boot_ns = exchange->t_boot_ns;
	capture->kind = CAPTURE_PTRACE;
	return STACK_OK;
}

enum stack_failure capture_ptrace(struct ptrace_worker *worker, const struct stack_thread *thread,
				  uint64_t deadline_ns, struct stack_capture *capture,
				  bool *eintr_risk)
{
	struct ptrace_exchange *exchange = worker->exchange;
	struct pollfd pollfd = {.events = POLLIN};
	uint64_t since = clock_now_ns(CLOCK_MONOTONIC);
	int left_ms = ANSWER_MS;
	char byte = 1;
	bool answered = false;

	*eintr_risk = false;
	if (worker->pid < 0 && ptrace_worker_start(worker))
		return STACK_UNSUPPORTED;
	if (!ptrace_worker_wait(worker, left_ms)) {
		/* A replacement that is given no CPU gets its time; one that died does not. */
		bool ended = waitpid(worker->pid, NULL, WNOHANG) != 0;

		if (ended)
			worker->pid = -1;
		if (ended || clock_now_ns(CLOCK_MONOTONIC) - worker->started_ns > START_NS) {
			end_worker(worker);
			worker->replaced++;
			ptrace_worker_start(worker);
		}
		return STACK_WORKER_LOST;
	}
	left_ms -= (clock_now_ns(CLOCK_MONOTONIC) - since) / 1000000;
	if (left_ms < LEAST_MS)
		return STACK_WORKER_LOST;
	exchange->pid = thread->pid;
	exchange->tid = thread->tid;
	exchange->start_ticks = thread->start_boot_ns / 10000000;
	exchange->deadline_ns = deadline_ns;
	exchange->stack_room =
		capture->stack_room < WORKER_STACK_BYTES ? capture->stack_room : WORKER_STACK_BYTES;
	exchange->failure = STACK_WORKER_LOST;
	exchange->eintr_risk = 0;
	exchange->stop_ns = 0;
	exchange->stack_bytes = 0;
	exchange->word_bytes = 0;
	pollfd.fd = worker->socket;
	if (send(worker->socket, &byte, 1, MSG_NOSIGNAL) == 1 && poll(&pollfd, 1, left_ms) == 1)
		answered = recv(worker->socket, &byte, 1, MSG_DONTWAIT) == 1;
	if (!answered) {
		uint32_t failure = exchange->failure;

		end_worker(worker);
		worker->replaced++;
		ptrace_worker_start(worker);
		/* It ended by itself to withdraw a request, and said why. */
		if (failure == STACK_DEADLINE || failure == STACK_REUSED || failure == STACK_GONE)
			return failure;
		return STACK_WORKER_LOST;
	}
	capture->stop_ns = exchange->stop_ns;
	*eintr_risk = exchange->eintr_risk;
	return exchange->failure ? exchange->failure : take_answer(exchange, capture);
}

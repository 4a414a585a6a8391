/* SPDX-License-Identifier: BSD-2-Clause */
/* What the capture backends share, and the one function that each of them is. */
#pragma once
#include <stdatomic.h>

#include "jankscope/stack.h"
#include "stack/registers.h"

/* State, flags and start of a thread, from /proc/PID/task/TID/stat. */
struct thread_status {
	char state;
	bool kernel_thread;
	uint64_t start_ticks; /* of 10 ms, CLOCK_BOOTTIME */
	int cpu;              /* it runs on, or ran on last */
};

/* STACK_OK, or STACK_GONE. Safe between fork and exec. */
enum stack_failure thread_status_read(const char *root, pid_t pid, pid_t tid,
				      struct thread_status *status);
/* Whether the thread still is the one that was meant: STACK_OK, STACK_GONE, STACK_REUSED. */
enum stack_failure thread_identity(const char *root, const struct stack_thread *thread);
/* The process that traces it, 0: none, -1: not known. */
pid_t thread_tracer(const char *root, pid_t pid, pid_t tid);
/* A thread that sleeps in such a system call notices no stop: the kernel restarts the call with
 * what is left of its time (ERESTART_RESTARTBLOCK, ERESTARTSYS, ERESTARTNOHAND without a time;
 * kernel/futex, kernel/time/hrtimer.c, fs/select.c, kernel/exit.c, fs/pipe.c). All others may end
 * with EINTR: epoll, semaphores, sockets with a time-out, reads of some kinds of files (signal(7),
 * "Interruption of system calls by stop signals"). */
bool thread_sleep_restarts(const char *root, pid_t pid, pid_t tid);
/* Whether the process runs 32-bit code (proc_is_32_bit). */
bool thread_is_compat(const char *root, pid_t pid);

/* Copy up to room bytes upwards from address; fewer where the mapping ends. STACK_OK with *bytes
 * > 0, STACK_GONE, STACK_NOT_PERMITTED, STACK_NO_MEMORY_READ. Safe between fork and exec. */
enum stack_failure capture_read_stack(pid_t pid, uint64_t address, void *to, size_t room,
				      size_t *bytes);

/* Backends. Each fills kind, registers, stack and times of capture, and returns why not. They do
 * not check the identity; the service does, before and after. */
enum stack_failure capture_snapshot(const struct stack_stash *stash,
				    const struct stack_thread *thread,
				    struct stack_capture *capture);
struct perf_rings;
enum stack_failure capture_perf(struct perf_rings *rings, const struct stack_thread *thread,
				uint64_t wait_ns, struct stack_capture *capture);
enum stack_failure capture_kernel(const char *root, const struct stack_thread *thread,
				  struct stack_capture *capture);

/* ---- ptrace, in a process of its own (ptrace_worker.c) ---- */

#define WORKER_STACK_BYTES (1u << 20)

/* Shared with the worker. */
struct ptrace_exchange {
	/* request */
	pid_t pid, tid;
	uint64_t start_ticks; /* 0: not checked */
	uint64_t deadline_ns;
	uint64_t stack_room;
	/* answer */
	uint32_t failure;
	uint32_t eintr_risk;
	uint64_t t_boot_ns, stop_ns;
	uint64_t words[LOOPER_REGISTER_WORDS];
	uint32_t word_bytes;
	uint64_t stack_base, stack_bytes;
	/* 1 while a target may be stopped; read by tests that freeze the worker just then */
	_Atomic uint32_t holding;
	uint8_t stack[WORKER_STACK_BYTES];
};

struct ptrace_worker {
	struct ptrace_exchange *exchange;
	pid_t pid; /* -1: none */
	int socket;
	bool ready; /* it said so */
	uint64_t started_ns, replaced;
};

/* Map the exchange and start the process. 0 or -errno. */
int ptrace_worker_start(struct ptrace_worker *worker);
/* Wait until it can take requests. False: not within that time, or it ended. */
bool ptrace_worker_wait(struct ptrace_worker *worker, int timeout_ms);
void ptrace_worker_stop(struct ptrace_worker *worker);
/* The worker's whole life; never returns. */
void ptrace_worker_main(struct ptrace_exchange *exchange, int socket, pid_t parent)
	__attribute__((noreturn));
/* Stop, copy and release the thread. At most 50 ms; a worker that does not answer is killed, by the
 * kernel's own timer or by us, and replaced. *eintr_risk: the stop met an epoll wait. */
enum stack_failure capture_ptrace(struct ptrace_worker *worker, const struct stack_thread *thread,
				  uint64_t deadline_ns, struct stack_capture *capture,
				  bool *eintr_risk);

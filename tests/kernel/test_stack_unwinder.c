/* SPDX-License-Identifier: BSD-2-Clause */
/* The unwinder process: that it names stacks, and that its death, its hang and its lies cost stacks
 * and nothing else. */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "sleep_in_copy.h"
#include "unwinder_rig.h"
#include "stack/unwinder_jobs.h"

static void test_names(void)
{
	pid_t pid = start_target();
	struct stack_capture *capture = capture_of(pid, STACK_PTRACE);
	struct unwound *trace = unwind(capture, 5 * NSEC_PER_SEC);

	if (!tap_ok(is_ours(trace) && trace->complete,
		    "a stack comes back with its names, complete"))
		print_trace(trace);
	free(trace);
	trace = unwind(capture_of(pid, STACK_KERNEL), 5 * NSEC_PER_SEC);
	tap_ok(trace && trace->count && trace->end == END_KERNEL_ONLY &&
		       trace->frames[0].kind == FRAME_KERNEL,
	       "a kernel capture comes back as it is: %s",
	       trace && trace->count ? trace->frames[0].symbol : "none");
	free(trace);
	end_target(pid);
}

static void on_places(void *ctx, int err, const struct wait_places *places)
{
	struct heard *heard = ctx;

	heard->err = err;
	if (!err)
		heard->places = *places;
	heard->count++;
	loop_stop(loop);
}

/* ---- its death and its hang ---- */

static void test_death(void)
{
	pid_t pid = start_target(), process;
	struct unwound *trace;
	uint64_t replaced = counter("unwinder_replaced");
	bool ok = true;

	for (unsigned i = 0; i < 20; i++) {
		process = pid_of_unwinder();
		if (!send_signal(process, SIGKILL)) {
			tap_note("round %u: no process %d", i, process);
			ok = false;
		}
		trace = unwind(capture_of(pid, STACK_PTRACE), 5 * NSEC_PER_SEC);
		if (!is_ours(trace)) {
			ok = false;
			print_trace(trace);
		}
		ok &= pid_of_unwinder() != process;
		free(trace);
	}
	tap_ok(ok && counter("unwinder_replaced") - replaced >= 20 &&
		       !counter("stacks_lost_unwinder_died"),
	       "killed 20 times: each job is done by the next process, %" PRIu64 " replaced",
	       counter("unwinder_replaced") - replaced);
	end_target(pid);
}

static void test_hang(void)
{
	pid_t pid = start_target(), process = pid_of_unwinder();
	uint64_t since_ns, late = counter("stacks_lost_unwinder_late");
	struct unwound *trace;

	send_signal(process, SIGSTOP);
	since_ns = clock_now_ns(CLOCK_MONOTONIC);
	trace = unwind(capture_of(pid, STACK_PTRACE), 5 * NSEC_PER_SEC);
	since_ns = clock_now_ns(CLOCK_MONOTONIC) - since_ns;
	tap_ok(!trace && counter("stacks_lost_unwinder_late") == late + 1 &&
		       since_ns < 2 * NSEC_PER_SEC,
	       "stopped: its job is given up after %" PRIu64 " ms", since_ns / 1000000);
	free(trace);
	trace = unwind(capture_of(pid, STACK_PTRACE), 5 * NSEC_PER_SEC);
	tap_ok(is_ours(trace) && pid_of_unwinder() != process, "another one does the next job");
	free(trace);
	for (unsigned i = 0; i < 100 && send_signal(process, 0); i++)
		nap_ms(10);
	tap_ok(process > 1 && kill(process, 0) && errno == ESRCH,
	       "the one that was stopped is gone");
	end_target(pid);
}

/* ---- no CPU for it ---- */

#define STARVED_MS 1500

/* The last CPU that this process may use, and whether it has another one. */
static int last_cpu(cpu_set_t *others)
{
	int last = -1;

	CPU_ZERO(others);
	if (sched_getaffinity(0, sizeof(*others), others))
		return -1;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, others))
			last = cpu;
	CPU_CLR(last, others);
	return CPU_COUNT(others) ? last : -1;
}

/* A child that leaves the CPU to nobody of a lower real-time priority. */
static pid_t start_hog(int cpu, int priority)
{
	const struct sched_param param = {priority};
	uint64_t until_ns;
	cpu_set_t one;
	int ready[2];
	char byte = 0;
	pid_t pid;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (pipe2(ready, O_CLOEXEC))
		return -1;
	pid = fork();
	if (pid == 0) {
		if (sched_setaffinity(0, sizeof(one), &one) ||
		    sched_setscheduler(0, SCHED_FIFO, &param) || write(ready[1], "", 1) != 1)
			_exit(1);
		until_ns = clock_now_ns(CLOCK_MONOTONIC) + STARVED_MS * NSEC_PER_MSEC;
		while (clock_now_ns(CLOCK_MONOTONIC) < until_ns)
			;
		_exit(0);
	}
	close(ready[1]);
	if (pid > 0 && read(ready[0], &byte, 1) != 1) {
		waitpid(pid, NULL, 0);
		pid = -1;
	}
	close(ready[0]);
	return pid;
}

/* The kernel stops real-time tasks for 50 ms of each second where sched_rt_runtime_us says so, also
 * the unwinder's, which is one here: fair tasks would get that time. */
static void test_starved(void)
{
	const struct sched_param low = {1};
	uint64_t since_ns, late, replaced;
	struct stack_capture *capture;
	pid_t pid, hog, process;
	cpu_set_t all, others, one;
	struct unwound *trace;
	int cpu = last_cpu(&others);

	if (cpu < 0) {
		tap_skip("no CPU for the unwinder", "this process may use one CPU only");
		return;
	}
	pid = start_target();
	/* Warm: it has read its files. */
	free(unwind(capture_of(pid, STACK_PTRACE), 5 * NSEC_PER_SEC));
	capture = capture_of(pid, STACK_PTRACE);
	process = pid_of_unwinder();
	late = counter("stacks_lost_unwinder_late");
	replaced = counter("unwinder_replaced");
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_getaffinity(0, sizeof(all), &all);
	sched_setaffinity(0, sizeof(others), &others);
	sched_setaffinity(process, sizeof(one), &one);
	hog = sched_setscheduler(process, SCHED_FIFO, &low) ? -1 : start_hog(cpu, 2);
	if (hog < 0) {
		tap_skip("no CPU for the unwinder", "no real-time task may be made");
		stack_capture_free(capture);
	} else {
		since_ns = clock_now_ns(CLOCK_MONOTONIC);
		trace = unwind(capture, 5 * NSEC_PER_SEC);
		since_ns = clock_now_ns(CLOCK_MONOTONIC) - since_ns;
		tap_ok(is_ours(trace) && since_ns > NSEC_PER_SEC &&
			       counter("stacks_lost_unwinder_late") == late &&
			       counter("unwinder_replaced") == replaced,
		       "no CPU for the unwinder: the stack comes after %" PRIu64 " ms",
		       (uint64_t)(since_ns / NSEC_PER_MSEC));
		free(trace);
		waitpid(hog, NULL, 0);
	}
	sched_setaffinity(0, sizeof(all), &all);
	/* The next one has no priority and all CPUs. */
	send_signal(process, SIGKILL);
	end_target(pid);
}

static struct stack_capture *copy_of(const struct stack_capture *one)
{
	struct stack_capture *capture = stack_capture_new(64 << 10);

	capture->thread = one->thread;
	capture->kind = one->kind;
	capture->registers = one->registers;
	capture->stack_base = one->stack_base;
	capture->stack_bytes = one->stack_bytes;
	memcpy(capture->stack, one->stack, one->stack_bytes);
	return capture;
}

static void test_queue(void)
{
	pid_t pid = start_target();
	struct heard heard = {.wanted = UINT32_MAX};
	unsigned taken = 0, refused = 0;
	struct stack_capture *one = capture_of(pid, STACK_PTRACE);

	send_signal(pid_of_unwinder(), SIGSTOP);
	for (unsigned i = 0; i < 100; i++) {
		if (unwinder_push(unwinder, copy_of(one), on_unwound, &heard) == -EBUSY)
			refused++;
		else
			taken++;
	}
	tap_ok(taken == 64 && refused == 36 && counter("stacks_not_unwound") == 36,
	       "4 MiB wait, the newest are refused and counted: %u taken", taken);
	heard.wanted = taken;
	run_for(10 * NSEC_PER_SEC);
	tap_ok(heard.count == taken && heard.lost == 1 && is_ours(heard.trace) &&
		       unwinder_idle(unwinder),
	       "all but the one that the hung process had come back");
	free(heard.trace);
	stack_capture_free(one);
	end_target(pid);
}

/* A process that fills the queue costs another one no stack. */
static void test_queue_is_shared(void)
{
	pid_t pid = start_target(), first_ends = ends[1], other = start_target();
	struct heard storm = {.wanted = UINT32_MAX}, innocent = {.wanted = 3};
	struct stack_capture *one = capture_of(pid, STACK_PTRACE);
	struct stack_capture *its = capture_of(other, STACK_PTRACE);
	uint64_t not_unwound = counter("stacks_not_unwound");
	int err = 0;

	send_signal(pid_of_unwinder(), SIGSTOP);
	for (unsigned i = 0; i < 64; i++)
		err |= unwinder_push(unwinder, copy_of(one), on_unwound, &storm);
	for (unsigned i = 0; i < 3; i++)
		err |= unwinder_push(unwinder, copy_of(its), on_unwound, &innocent);
	tap_ok(!err && counter("stacks_not_unwound") == not_unwound + 3,
	       "stacks of another process are taken, and as many of the storm give way");
	run_for(10 * NSEC_PER_SEC);
	tap_ok(innocent.count == 3 && !innocent.lost && is_ours(innocent.trace),
	       "the other process has its %u stacks", innocent.count - innocent.lost);
	storm.wanted = 64;
	run_for(10 * NSEC_PER_SEC);
	tap_ok(storm.count == 64 && storm.lost == 4 && storm.made_room == 3 &&
		       unwinder_idle(unwinder),
	       "the storm has its own, but for those and the one that hung (%u of %u)",
	       storm.count - storm.lost, storm.count);
	free(storm.trace);
	free(innocent.trace);
	stack_capture_free(one);
	stack_capture_free(its);
	end_target(other);
	ends[1] = first_ends;
	end_target(pid);
}

/* Whose jobs take too long pays with its own: those of others pass it, and then it is refused. */
static struct unwound *order[3];
static unsigned order_count;

static void on_ordered(void *ctx, int err, struct unwound *trace)
{
	if (order_count < 3)
		order[order_count++] = ctx;
	free(trace);
	if (order_count == 3)
		loop_stop(loop);
}

static void test_debts(void)
{
	pid_t costly = start_target(), costly_ends = ends[1], other;
	uint64_t refused = counter("stacks_too_costly"),
		 late = counter("stacks_lost_unwinder_late");
	struct stack_capture *capture, *of_costly = capture_of(costly, STACK_PTRACE);
	struct unwound *trace;
	static char names[3];
	bool taken;

	other = start_target();
	send_signal(pid_of_unwinder(), SIGSTOP);
	free(unwind(copy_of(of_costly), 5 * NSEC_PER_SEC));
	order_count = 0;
	unwinder_push(unwinder, copy_of(of_costly), on_ordered, &names[0]);
	unwinder_push(unwinder, copy_of(of_costly), on_ordered, &names[1]);
	unwinder_push(unwinder, capture_of(other, STACK_PTRACE), on_ordered, &names[2]);
	run_for(5 * NSEC_PER_SEC);
	tap_ok(order_count == 3 && (void *)order[0] == &names[2],
	       "a job of another process passes those of one that took long");
	for (unsigned i = 0; i < 2; i++) {
		/* So that there is a process that can be stopped. */
		free(unwind(capture_of(other, STACK_PTRACE), 5 * NSEC_PER_SEC));
		send_signal(pid_of_unwinder(), SIGSTOP);
		free(unwind(copy_of(of_costly), 5 * NSEC_PER_SEC));
	}
	taken = !unwinder_push(unwinder, copy_of(of_costly), on_ordered, &names[0]);
	tap_ok(!taken && counter("stacks_too_costly") == refused + 1 &&
		       counter("stacks_lost_unwinder_late") == late + 3,
	       "after 3 that were late the next one is refused and counted");
	capture = capture_of(other, STACK_PTRACE);
	trace = unwind(capture, 5 * NSEC_PER_SEC);
	tap_ok(is_ours(trace), "and the other process has its stacks");
	free(trace);
	stack_capture_free(of_costly);
	end_target(other);
	ends[1] = costly_ends;
	end_target(costly);
}

static void test_cancel(void)
{
	pid_t pid = start_target();
	struct heard kept = {.wanted = 2}, dropped = {.wanted = UINT32_MAX};

	for (unsigned i = 0; i < 4; i++)
		unwinder_push(unwinder, capture_of(pid, STACK_PTRACE), on_unwound,
			      i % 2 ? &kept : &dropped);
	unwinder_cancel(unwinder, &dropped);
	run_for(5 * NSEC_PER_SEC);
	tap_ok(kept.count == 2 && !dropped.count && is_ours(kept.trace),
	       "jobs that were cancelled are not heard of, the others are");
	free(kept.trace);
	end_target(pid);
}

static void test_dead_target(void)
{
	pid_t pid = start_target();
	struct stack_capture *capture;
	struct unwound *trace;

	unwinder_prime(unwinder, pid, start_boot_ns(pid) / 10000000);
	run_for(NSEC_PER_SEC / 2);
	capture = capture_of(pid, STACK_PTRACE);
	end_target(pid);
	trace = unwind(capture, 5 * NSEC_PER_SEC);
	if (!tap_ok(is_ours(trace), "a process that is gone is named after unwinder_prime"))
		print_trace(trace);
	free(trace);
	/* What the old process knew goes with it; what is kept here does not. */
	pid = start_target();
	unwinder_prime(unwinder, pid, start_boot_ns(pid) / 10000000);
	run_for(NSEC_PER_SEC / 2);
	capture = capture_of(pid, STACK_PTRACE);
	send_signal(pid_of_unwinder(), SIGKILL);
	end_target(pid);
	trace = unwind(capture, 5 * NSEC_PER_SEC);
	tap_ok(trace && trace->count && trace->frames[0].module,
	       "the next unwinder process has its maps too");
	free(trace);
}

static void find_waits(const char *path, struct heard *heard)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	*heard = (struct heard){0};
	if (fd < 0 || unwinder_find_waits(unwinder, fd, 0, on_places, heard))
		return;
	run_for(5 * NSEC_PER_SEC);
	unwinder_cancel(unwinder, heard);
}

/* Where the waits of this program are: in its C library, or in itself when it is static. */
static void path_of_waits(char *path, size_t room)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096], *name;

	snprintf(path, room, "/proc/self/exe");
	while (maps && fgets(line, sizeof(line), maps)) {
		name = strchr(line, '/');
		if (name && strstr(name, "/libc.so")) {
			name[strcspn(name, "\n")] = 0;
			snprintf(path, room, "%s", name);
		}
	}
	if (maps)
		fclose(maps);
}

static void test_waits(void)
{
	unsigned kinds[WAIT_KINDS] = {0};
	struct heard heard;
	char path[4096];
	int text;

	path_of_waits(path, sizeof(path));
	find_waits(path, &heard);
	for (uint32_t i = 0; !heard.err && i < heard.places.enter_count; i++)
		kinds[heard.places.enter[i].kind]++;
	tap_ok(heard.count == 1 && !heard.err && kinds[WAIT_EPOLL] && kinds[WAIT_POLL] &&
		       heard.places.leave_count,
	       "places that wait in this program: %u epoll, %u poll, %u select, %u io_uring",
	       kinds[WAIT_EPOLL], kinds[WAIT_POLL], kinds[WAIT_SELECT], kinds[WAIT_IO_URING]);
	text = memfd_create("no-elf", MFD_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", text);
	if (write(text, "root:x:0:0:root:/root:/bin/sh\n", 30) == 30)
		find_waits(path, &heard);
	close(text);
	tap_ok(heard.count == 1 && heard.err == -ENOEXEC, "a file that is no ELF: %s",
	       strerror(-heard.err));
}

/* ---- its lies: this test speaks in its place, on a copy of its own socket ---- */

#define UNWINDER_SOCKET 3 /* helper_begin */

static int copy_socket(pid_t process)
{
	int pidfd = (int)syscall(SYS_pidfd_open, process, 0), copy;

	copy = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, UNWINDER_SOCKET, 0);
	if (pidfd >= 0)
		close(pidfd);
	return copy;
}

/* The number of the job that the stopped process has not taken yet. */
static uint64_t job_of(int copy)
{
	struct wire_header header = {0};

	for (unsigned i = 0; i < 100; i++) {
		run_for(10000000);
		if (recv(copy, &header, sizeof(header), MSG_PEEK | MSG_DONTWAIT) > 0)
			break;
	}
	return header.job;
}

static void test_lies(void)
{
	pid_t pid = start_target(), process = pid_of_unwinder();
	uint64_t malformed = counter("unwinder_malformed"), died;
	struct wire_trace trace = {.header = {WIRE_TRACE, sizeof(trace), 0}, .frame_count = 500};
	struct heard heard = {.wanted = 1};
	struct unwound *unwound;
	int copy = copy_socket(process);

	if (copy < 0) {
		tap_skip("lies of the unwinder", "no pidfd_getfd here");
		end_target(pid);
		return;
	}
	/* while it has no job at all */
	if (send(copy, "hello", 5, MSG_NOSIGNAL) != 5)
		tap_note("send: %s", strerror(errno));
	close(copy);
	unwound = unwind(capture_of(pid, STACK_PTRACE), 5 * NSEC_PER_SEC);
	tap_ok(is_ours(unwound) && counter("unwinder_malformed") == malformed + 1 &&
		       pid_of_unwinder() != process,
	       "a process that says nonsense is replaced, and counted");
	free(unwound);
	/* as the answer to a job */
	process = pid_of_unwinder();
	copy = copy_socket(process);
	send_signal(process, SIGSTOP);
	died = counter("stacks_lost_unwinder_died");
	unwinder_push(unwinder, capture_of(pid, STACK_PTRACE), on_unwound, &heard);
	trace.header.job = job_of(copy);
	if (send(copy, &trace, sizeof(trace), MSG_NOSIGNAL) != sizeof(trace))
		tap_note("send: %s", strerror(errno));
	close(copy);
	run_for(5 * NSEC_PER_SEC);
	tap_ok(heard.count == 1 && !heard.trace && counter("unwinder_malformed") == malformed + 2 &&
		       counter("stacks_lost_unwinder_died") == died + 1,
	       "a trace that makes no sense is no trace");
	unwound = unwind(capture_of(pid, STACK_PTRACE), 5 * NSEC_PER_SEC);
	tap_ok(is_ours(unwound), "and the next stack comes back");
	free(unwound);
	end_target(pid);
}

/* It says which file it is about to read, and hangs on it. */
static void hang_on(const char *path, struct heard *heard)
{
	struct wire_need need = {.header = {WIRE_NEED, sizeof(need), 0}, .kind = NEED_LEAVE};
	pid_t process = pid_of_unwinder();
	int copy = copy_socket(process), fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	*heard = (struct heard){0};
	if (copy < 0 || fd < 0 || fstat(fd, &st))
		return;
	send_signal(process, SIGSTOP);
	unwinder_find_waits(unwinder, fd, 0, on_places, heard);
	need.header.job = job_of(copy);
	need.file = (struct stack_file_version){st.st_dev, st.st_ino, (uint64_t)st.st_size,
						(uint64_t)st.st_ctim.tv_sec * NSEC_PER_SEC +
							(uint64_t)st.st_ctim.tv_nsec};
	if (send(copy, &need, sizeof(need), MSG_NOSIGNAL) != sizeof(need))
		tap_note("send: %s", strerror(errno));
	close(copy);
	run_for(5 * NSEC_PER_SEC);
}

static bool has_pidfd_getfd(void)
{
	int copy = copy_socket(getpid());

	if (copy >= 0)
		close(copy);
	return copy >= 0 || errno != ENOSYS;
}

static NOINLINE int deep_target_of_a_long_name_as_those_of_templates_are(int depth)
{
	return depth ? deep_target_of_a_long_name_as_those_of_templates_are(depth - 1) + sink
		     : target_inner();
}

static int deep_target(void)
{
	return deep_target_of_a_long_name_as_those_of_templates_are(400) + sink;
}

/* Traces of deep stacks, while the recorder is away for a moment, and its socket has the room that
 * the kernel gives by itself (net.core.wmem_max, where nobody raised it). */
static void test_large_traces(void)
{
	pid_t pid = start_target_of(deep_target), process;
	struct stack_capture *one = capture_of(pid, STACK_PTRACE);
	struct unwound *trace = one ? unwind(copy_of(one), 5 * NSEC_PER_SEC) : NULL;
	struct heard heard = {.wanted = WIRE_WINDOW};
	uint64_t replaced = counter("unwinder_replaced");
	int bytes = 212992, copy;

	process = pid_of_unwinder();
	copy = copy_socket(process);
	if (copy < 0) {
		tap_skip("large traces", "no pidfd_getfd here");
		goto out;
	}
	tap_ok(trace && trace->count > 400 &&
		       !setsockopt(copy, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)),
	       "large traces: of %zu frames", trace ? trace->count : 0);
	close(copy);
	for (unsigned i = 0; one && i < WIRE_WINDOW; i++)
		unwinder_push(unwinder, copy_of(one), on_unwound, &heard);
	loop_turn(loop, NSEC_PER_SEC);
	nap_ms(200);
	run_for(5 * NSEC_PER_SEC);
	tap_ok(heard.count == WIRE_WINDOW && !heard.lost && heard.trace && heard.trace->count > 400,
	       "large traces: all come (%u, %u of them lost)", heard.count, heard.lost);
	tap_ok(counter("unwinder_replaced") == replaced && pid_of_unwinder() == process,
	       "large traces: from one process, %" PRIu64 " replaced",
	       counter("unwinder_replaced") - replaced);
	free(heard.trace);
out:
	free(trace);
	stack_capture_free(one);
	end_target(pid);
}

static void test_refused_file(void)
{
	struct heard heard = {0};

	if (!has_pidfd_getfd()) {
		tap_skip("a file that it hangs on", "no pidfd_getfd here");
		return;
	}
	hang_on("/etc/passwd", &heard);
	tap_ok(heard.count == 1 && heard.err == -ETIMEDOUT,
	       "a file that it hangs on is given up: %s", strerror(-heard.err));
	find_waits("/etc/passwd", &heard);
	tap_ok(heard.count == 1 && heard.err == -EACCES && counter("elf_refused") == 1,
	       "and not read again: %s", strerror(-heard.err));
	find_waits("/etc/group", &heard);
	tap_ok(heard.count == 1 && heard.err == -ENOEXEC, "others are");
}

static const char *copy_path;

/* Sleep in a file that holds a copy of this program. */
static int target_of_copy(void)
{
	extern const char __executable_start;
	size_t at = (size_t)((const char *)sleep_in_copy - &__executable_start);
	struct timespec ts = {60, 0};
	struct stat st;
	int fd = open(copy_path, O_RDONLY | O_CLOEXEC);
	char *memory = fd < 0 || fstat(fd, &st) ? MAP_FAILED
						: mmap(NULL, (size_t)st.st_size,
						       PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	if (memory == MAP_FAILED)
		return 1;
	return (int)((long (*)(const struct timespec *))(memory + at))(&ts);
}

static bool copy_this_program(int to)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char bytes[16384];
	ssize_t n = -1;

	while (from >= 0 && (n = read(from, bytes, sizeof(bytes))) > 0)
		if (write(to, bytes, (size_t)n) != n)
			break;
	if (from >= 0)
		close(from);
	return from >= 0 && n == 0;
}

static ino_t make_file(const char *path, const char *text)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	struct stat st = {0};
	bool good = fd >= 0 && (text ? write(fd, text, strlen(text)) > 0 : copy_this_program(fd));

	if (!good || fstat(fd, &st))
		tap_note("%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return st.st_ino;
}

/* An inode number is used again for the next file: what hung was the one before. */
static void test_reused_inode(void)
{
	uint64_t refused = counter("elf_refused");
	struct heard heard = {0};
	struct unwound *unwound;
	char path[64];
	ino_t broken, good;
	size_t at;
	pid_t pid;

	if (!has_pidfd_getfd()) {
		tap_skip("a good file with the inode of a bad one", "no pidfd_getfd here");
		return;
	}
	snprintf(path, sizeof(path), "/tmp/jankscope-refused-%d", getpid());
	broken = make_file(path, "it hangs");
	hang_on(path, &heard);
	tap_ok(heard.count == 1 && heard.err == -ETIMEDOUT, "a file of its own that it hangs on");
	unlink(path);
	good = make_file(path, NULL);
	tap_note("inode %llu, then %llu", (unsigned long long)broken, (unsigned long long)good);
	if (good != broken) {
		int fd;

		/* Here deleted files keep their numbers: the same file is written anew. */
		hang_on(path, &heard);
		fd = open(path, O_RDWR | O_TRUNC | O_CLOEXEC);
		if (fd < 0 || !copy_this_program(fd))
			tap_note("%s: %s", path, strerror(errno));
		close(fd);
	}
	copy_path = path;
	pid = start_target_of(target_of_copy);
	unwound = unwind(capture_of(pid, STACK_PTRACE), 5 * NSEC_PER_SEC);
	tap_ok(has(unwound, "sleep_in_copy", &at) && counter("elf_refused") == refused,
	       "a good file with the inode of one that it hung on has its names");
	if (!has(unwound, "sleep_in_copy", &at))
		print_trace(unwound);
	free(unwound);
	end_target(pid);
	unlink(path);
}

/* ---- the recorder's own troubles ---- */

static int busy_fd = -1;

/* Something else that takes the recorder longer than the time of a job. */
static int on_busy(void *ctx, uint32_t events)
{
	nap_ms(1200);
	loop_remove_fd(loop, busy_fd);
	return 0;
}

static int keep_busy(void *ctx, uint32_t events)
{
	int *timer = ctx;

	/* It reads the file: only its answer is out. */
	if (!unwinder->current || !unwinder->reading.inode)
		return 0;
	loop_set_timer(loop, *timer, 0, 0);
	return loop_add_fd(loop, busy_fd, EPOLLIN, on_busy, NULL);
}

static void test_answer_is_there(void)
{
	uint64_t replaced = counter("unwinder_replaced");
	char path[4096];
	struct heard heard;
	int timer;

	path_of_waits(path, sizeof(path));
	find_waits(path, &heard);
	busy_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	timer = loop_add_timer(loop, 1, 1, keep_busy, &timer);
	find_waits(path, &heard);
	loop_remove_timer(loop, timer);
	tap_ok(heard.count == 1 && !heard.err && counter("unwinder_replaced") == replaced,
	       "an answer that is there when the time is over is taken: %s, %" PRIu64 " replaced",
	       strerror(-heard.err), counter("unwinder_replaced") - replaced);
	close(busy_fd);
}

/* From here on each sendmsg of this thread fails so. */
static bool refuse_sendmsg(int err)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendmsg, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(*code), code};

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* The last of all: what this process sends is refused for good. */
static void test_no_memory(void)
{
	uint64_t no_memory = counter("stacks_no_memory");
	struct heard heard;

	find_waits("/proc/self/exe", &heard);
	if (!refuse_sendmsg(ENOMEM)) {
		tap_ok(false, "sendmsg is refused");
		return;
	}
	find_waits("/proc/self/exe", &heard);
	tap_ok(heard.count == 1 && heard.err == -ENOMEM && unwinder_idle(unwinder),
	       "a question that finds no memory is answered so: %u answers, %s", heard.count,
	       strerror(-heard.err));
	tap_ok(counter("stacks_no_memory") == no_memory, "and is no stack that was lost");
}

int main(void)
{
	if (!rig_start())
		return 1;
	test_names();
	test_waits();
	test_debts();
	test_cancel();
	test_dead_target();
	test_death();
	test_hang();
	test_starved();
	test_lies();
	test_large_traces();
	test_refused_file();
	test_reused_inode();
	test_queue();
	test_queue_is_shared();
	test_answer_is_there();
	test_no_memory();
	rig_stop();
	return tap_done();
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The unwinder process: that it names stacks, and that its death, its hang and its lies cost stacks
 * and nothing else. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "unwinder_rig.h"
#include "stack/unwinder_wire.h"

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

static void test_queue(void)
{
	pid_t pid = start_target();
	struct heard heard = {.wanted = UINT32_MAX};
	unsigned taken = 0, refused = 0;
	struct stack_capture *one = capture_of(pid, STACK_PTRACE);

	send_signal(pid_of_unwinder(), SIGSTOP);
	for (unsigned i = 0; i < 100; i++) {
		struct stack_capture *capture = stack_capture_new(64 << 10);

		capture->thread = one->thread;
		capture->kind = one->kind;
		capture->registers = one->registers;
		capture->stack_base = one->stack_base;
		capture->stack_bytes = one->stack_bytes;
		memcpy(capture->stack, one->stack, one->stack_bytes);
		if (unwinder_push(unwinder, capture, on_unwound, &heard) == -EBUSY)
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
static void test_refused_file(void)
{
	struct wire_need need = {.header = {WIRE_NEED, sizeof(need), 0}, .kind = NEED_LEAVE};
	pid_t process = pid_of_unwinder();
	struct heard heard = {0};
	int copy = copy_socket(process), fd;
	struct stat st;

	if (copy < 0) {
		tap_skip("a file that it hangs on", "no pidfd_getfd here");
		return;
	}
	send_signal(process, SIGSTOP);
	fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	if (fstat(fd, &st))
		return;
	unwinder_find_waits(unwinder, fd, 0, on_places, &heard);
	need.header.job = job_of(copy);
	need.dev = st.st_dev;
	need.inode = st.st_ino;
	if (send(copy, &need, sizeof(need), MSG_NOSIGNAL) != sizeof(need))
		tap_note("send: %s", strerror(errno));
	close(copy);
	run_for(5 * NSEC_PER_SEC);
	tap_ok(heard.count == 1 && heard.err == -ETIMEDOUT,
	       "a file that it hangs on is given up: %s", strerror(-heard.err));
	find_waits("/etc/passwd", &heard);
	tap_ok(heard.count == 1 && heard.err == -EACCES && counter("elf_refused") == 1,
	       "and not read again: %s", strerror(-heard.err));
	find_waits("/etc/group", &heard);
	tap_ok(heard.count == 1 && heard.err == -ENOEXEC, "others are");
}

int main(void)
{
	if (!rig_start())
		return 1;
	test_names();
	test_waits();
	test_cancel();
	test_dead_target();
	test_death();
	test_hang();
	test_lies();
	test_refused_file();
	test_queue();
	rig_stop();
	return tap_done();
}

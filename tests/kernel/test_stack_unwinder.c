/* SPDX-License-Identifier: BSD-2-Clause */
/* The unwinder process: that it names stacks, that it has no right, and that its death, its hang
 * and its lies cost stacks and nothing else. Real processes, the real warden and the real probers.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/loop.h"
#include "prober/pool.h"
#include "prober/warden.h"
#include "stack/sandbox.h"
#include "stack/unwinder.h"
#include "stack/unwinder_wire.h"
#include "util/clock.h"
#include "tap.h"

#define NOINLINE __attribute__((noinline, noclone))
#define JOBS     8

static struct loop *loop;
static struct warden *warden;
static struct prober_pool *pool;
static struct unwinder *unwinder;
static struct stack_capturer *capturer;

struct heard {
	unsigned count, wanted, lost;
	struct unwound *trace; /* the last */
	int err;
	struct wait_places places;
};

static void nap_ms(unsigned ms)
{
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
}

/* ---- the target ---- */

static volatile int sink;
static int ends[2];

static NOINLINE int target_inner(void)
{
	char byte;

	return (int)read(ends[0], &byte, 1) + sink;
}

static NOINLINE int target_middle(void)
{
	return target_inner() + sink;
}

static NOINLINE int target_outer(void)
{
	return target_middle() + sink;
}

static pid_t start_target(void)
{
	pid_t pid;

	if (pipe(ends))
		return -1;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[1]);
		ends[1] = -1;
		_exit(target_outer() & 1);
	}
	close(ends[0]);
	nap_ms(50);
	return pid;
}

static void end_target(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(ends[1]);
}

static uint64_t start_boot_ns(pid_t pid)
{
	char path[64], text[1024], *p;
	unsigned long long ticks = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "r");
	text[file ? fread(text, 1, sizeof(text) - 1, file) : 0] = 0;
	if (file)
		fclose(file);
	p = strrchr(text, ')');
	if (p)
		sscanf(p + 2,
		       "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
		       "%*d %*d %llu",
		       &ticks);
	return ticks * 10000000;
}

static struct stack_capture *capture_of(pid_t pid, enum stack_request request)
{
	struct stack_capture *capture = stack_capture_new(64 << 10);
	struct stack_thread thread = {
		.pid = pid, .tid = pid, .pidfd = -1, .start_boot_ns = start_boot_ns(pid)};

	for (unsigned i = 0; i < 200; i++) {
		if (!stack_capture(capturer, &thread, request, capture))
			return capture;
		nap_ms(5);
	}
	tap_note("no capture: %s", stack_failure_text(capture->failure));
	stack_capture_free(capture);
	return NULL;
}

/* ---- targets whose stacks have no tables ---- */

/* Functions of no frame pointer and no tables, as musl has them: the caller's own frame pointer
 * stays in its register. Both end in read(). */
#if defined(__x86_64__)
__asm__(".text\n"
	".type bare_outer,@function\nbare_outer:\n"
	"sub $40, %rsp\ncall bare_inner\nadd $40, %rsp\nret\n"
	".size bare_outer, .-bare_outer\n"
	".type bare_inner,@function\nbare_inner:\n"
	"sub $24, %rsp\nxor %eax, %eax\nsyscall\nadd $24, %rsp\nret\n"
	".size bare_inner, .-bare_inner\n");
long bare_outer(int fd, void *to, size_t room);

static NOINLINE int calls_bare(void)
{
	volatile char room[64];
	char byte;

	room[0] = (char)bare_outer(ends[0], &byte, 1);
	return room[0] + sink;
}

static NOINLINE int calls_calls_bare(void)
{
	return calls_bare() + sink;
}
#endif

/* Code in an executable memfd that spins with a frame pointer that leads to a made-up frame record.
 */
static uint64_t decoy_record[2];

static NOINLINE int decoy_outer(void)
{
	sink++;
	return target_outer() + sink;
}

static uint8_t *jit_code;

static void make_jit_code(void)
{
	int fd = memfd_create("jit-cache", 0);
	uint64_t record = (uintptr_t)decoy_record;

	jit_code = MAP_FAILED;
	if (fd < 0 || ftruncate(fd, 4096))
		return;
	jit_code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED, fd, 0);
	close(fd);
	if (jit_code == MAP_FAILED)
		return;
	decoy_record[0] = record + 16;
	decoy_record[1] = (uintptr_t)decoy_outer + 16;
#if defined(__x86_64__)
	static const uint8_t code[] = {0x48, 0xbd, 0, 0, 0, 0, 0, 0, 0, 0, 0xeb, 0xfe};

	memcpy(jit_code, code, sizeof(code));
	memcpy(jit_code + 2, &record, sizeof(record)); /* mov $record, %rbp; jmp . */
#else
	static const uint32_t code[] = {0x5800005d, 0x14000000}; /* ldr x29, .+8; b . */

	memcpy(jit_code, code, sizeof(code));
	memcpy(jit_code + 8, &record, sizeof(record));
	__builtin___clear_cache((char *)jit_code, (char *)jit_code + 16);
#endif
}

static NOINLINE int calls_jit(void)
{
	((void (*)(void))jit_code)();
	return sink;
}

/* Its vdso says other names: a private copy of the page is written through /proc/self/mem. */
static NOINLINE int spin_in_vdso(void)
{
	struct timespec ts;

	while (sink < INT_MAX)
		for (int i = 0; i < 1000; i++)
			sink = clock_gettime(CLOCK_MONOTONIC, &ts);
	return sink;
}

static int with_other_vdso(void)
{
	uint64_t vdso = getauxval(AT_SYSINFO_EHDR);
	int fd = open("/proc/self/mem", O_RDWR);
	static char bytes[16384];
	ssize_t n = vdso && fd >= 0 ? pread(fd, bytes, 4096, (off_t)vdso) : -1;

	if (n == 4096 && pread(fd, bytes + 4096, 4096, (off_t)vdso + 4096) == 4096)
		n = 8192;
	for (ssize_t i = 0; i + 14 < n; i++)
		if (!memcmp(bytes + i, "clock_gettime", 13) &&
		    pwrite(fd, "hacked_gettime" + 0, 13, (off_t)(vdso + (uint64_t)i)) != 13)
			_exit(1);
	return spin_in_vdso();
}

static pid_t start_function(int (*function)(void))
{
	pid_t pid;

	if (pipe(ends))
		return -1;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[1]);
		_exit(function() & 1);
	}
	close(ends[0]);
	nap_ms(50);
	return pid;
}

/* ---- the rig ---- */

static int on_over(void *ctx, uint32_t events)
{
	loop_stop(ctx);
	return 0;
}

static void run_for(uint64_t ns)
{
	int timer = loop_add_timer(loop, ns, 0, on_over, loop);

	loop_run(loop);
	loop_remove_timer(loop, timer);
}

static void on_unwound(void *ctx, struct unwound *trace)
{
	struct heard *heard = ctx;

	free(heard->trace);
	heard->trace = trace;
	heard->lost += !trace;
	if (++heard->count == heard->wanted)
		loop_stop(loop);
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

/* The list may still hold one that was killed a moment ago. */
static bool is_alive(pid_t pid)
{
	char path[64], state = 'Z';
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "r");
	if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 'Z';
	if (file)
		fclose(file);
	return state != 'Z' && state != 'X';
}

static pid_t pid_of_unwinder(void)
{
	struct helper list[32];
	size_t count = warden_list(warden, list, 32);

	for (size_t i = 0; i < count; i++)
		if (list[i].kind == HELPER_UNWINDER && list[i].pid > 1 && is_alive(list[i].pid))
			return list[i].pid;
	return 0;
}

/* A number that is no process's would mean many of them. */
static bool send_signal(pid_t pid, int number)
{
	return pid > 1 && !kill(pid, number);
}

static uint64_t counter(const char *name)
{
	struct counter_list lost = {0};
	uint64_t value;

	unwinder_counters(unwinder, &lost);
	value = counter_list_get(&lost, name);
	counter_list_free(&lost);
	return value;
}

static bool is_ours(const struct unwound *trace)
{
	static const char *const names[] = {"target_inner", "target_middle", "target_outer",
					    "start_target"};
	size_t at = 0;

	for (size_t i = 0; trace && i < trace->count && at < 4; i++)
		if (trace->frames[i].symbol && !strcmp(trace->frames[i].symbol, names[at]))
			at++;
	return at == 4;
}

static void print_trace(const struct unwound *trace)
{
	if (!trace) {
		tap_note("no trace");
		return;
	}
	tap_note("%s", stack_end_text(trace->end));
	for (size_t i = 0; i < trace->count; i++)
		tap_note("#%zu %s %s+%#" PRIx64 " method %d", i, trace->frames[i].symbol ?: "?",
			 trace->frames[i].module ?: "?", trace->frames[i].offset,
			 trace->frames[i].method);
}

/* Push it and wait for the trace. */
static struct unwound *unwind(struct stack_capture *capture, uint64_t wait_ns)
{
	struct heard heard = {.wanted = 1};

	if (!capture || unwinder_push(unwinder, capture, on_unwound, &heard))
		return NULL;
	run_for(wait_ns);
	unwinder_cancel(unwinder, &heard);
	return heard.trace;
}

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

static bool has(const struct unwound *trace, const char *symbol, size_t *at)
{
	for (size_t i = 0; trace && i < trace->count; i++)
		if (trace->frames[i].symbol && strstr(trace->frames[i].symbol, symbol)) {
			*at = i;
			return true;
		}
	return false;
}

#if defined(__x86_64__)
static void test_bare(void)
{
	static const char *const names[] = {"bare_inner", "bare_outer", "calls_bare",
					    "calls_calls_bare"};
	pid_t pid = start_function(calls_calls_bare);
	struct unwound *trace = unwind(capture_of(pid, STACK_PTRACE), 5 * NSEC_PER_SEC);
	bool ok = trace && trace->count > 4;

	for (size_t i = 0; ok && i < 4; i++)
		ok = trace->frames[i].symbol && !strcmp(trace->frames[i].symbol, names[i]);
	ok = ok && trace->frames[1].method == METHOD_SCAN &&
	     trace->frames[2].method == METHOD_SCAN && trace->frames[3].method == METHOD_CFI &&
	     !trace->complete;
	if (!tap_ok(ok, "code without tables and frame pointer: no caller is left out, and who was "
			"found by a guess says so"))
		print_trace(trace);
	free(trace);
	end_target(pid);
}
#endif

static void test_jit(void)
{
	char path[64];
	struct unwound *trace;
	FILE *file;
	pid_t pid;
	size_t at;

	make_jit_code();
	pid = start_function(calls_jit);
	trace = unwind(capture_of(pid, STACK_PTRACE), 5 * NSEC_PER_SEC);
	if (!tap_ok(trace && trace->count == 1 && trace->end == END_JIT && !trace->complete &&
			    trace->frames[0].kind == FRAME_JIT && !trace->frames[0].symbol &&
			    !has(trace, "decoy", &at),
		    "a stack ends at code that no file holds, and says so: %s",
		    trace ? stack_end_text(trace->end) : "no trace"))
		print_trace(trace);
	free(trace);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", pid);
	file = fopen(path, "wx");
	if (file) {
		fprintf(file,
			"nonsense\n%" PRIxPTR " 40 first\n%" PRIxPTR
			" 40 LazyCompile:~render /app.js:10\n",
			(uintptr_t)jit_code, (uintptr_t)jit_code);
		fclose(file);
	}
	nap_ms(1100); /* it is looked for once a second */
	trace = unwind(capture_of(pid, STACK_PTRACE), 5 * NSEC_PER_SEC);
	if (!tap_ok(trace && trace->count == 1 && trace->frames[0].symbol &&
			    !strcmp(trace->frames[0].symbol, "LazyCompile:~render /app.js:10"),
		    "code of a JIT compiler has the name of /tmp/perf-PID.map"))
		print_trace(trace);
	free(trace);
	end_target(pid);
	unlink(path);
	/* Another one put it there. */
	pid = start_function(calls_jit);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", pid);
	file = fopen(path, "wx");
	if (file) {
		fprintf(file, "%" PRIxPTR " 40 planted\n", (uintptr_t)jit_code);
		fclose(file);
		if (chown(path, 12345, 12345))
			tap_note("chown: %s", strerror(errno));
	}
	trace = unwind(capture_of(pid, STACK_PTRACE), 5 * NSEC_PER_SEC);
	tap_ok(trace && trace->count == 1 && !trace->frames[0].symbol,
	       "a file that another user put there names nothing");
	free(trace);
	unlink(path);
	if (symlink("/etc/passwd", path))
		tap_note("symlink: %s", strerror(errno));
	nap_ms(1100);
	trace = unwind(capture_of(pid, STACK_PTRACE), 5 * NSEC_PER_SEC);
	tap_ok(trace && trace->count == 1 && !trace->frames[0].symbol, "nor does a link");
	free(trace);
	unlink(path);
	end_target(pid);
}

/* Until a sample of the spinning thread lies in the vdso. */
static struct unwound *unwind_in_vdso(pid_t pid)
{
	for (unsigned i = 0; i < 50; i++) {
		struct unwound *trace = unwind(capture_of(pid, STACK_PTRACE), 5 * NSEC_PER_SEC);

		if (trace && trace->count && trace->frames[0].kind == FRAME_VDSO &&
		    trace->frames[0].symbol)
			return trace;
		free(trace);
	}
	return NULL;
}

static void test_other_vdso(void)
{
	pid_t other = start_function(with_other_vdso), pid;
	struct unwound *trace = unwind_in_vdso(other);
	size_t at;

	if (!trace) {
		tap_skip("a vdso of its own", "no sample in a vdso here");
		end_target(other);
		return;
	}
	tap_ok(has(trace, "hacked", &at), "a process with another vdso: %s",
	       trace->frames[0].symbol);
	free(trace);
	end_target(other);
	pid = start_function(spin_in_vdso);
	trace = unwind_in_vdso(pid);
	tap_ok(trace && !has(trace, "hacked", &at) && has(trace, "clock_gettime", &at),
	       "does not name the frames of others: %s", trace ? trace->frames[0].symbol : "none");
	free(trace);
	end_target(pid);
}

/* ---- what it may do ---- */

static bool status_says(const char *text, const char *key, const char *value)
{
	const char *line = strstr(text, key);
	char word[64] = "";

	if (line)
		sscanf(line + strlen(key), "%63s", word);
	if (strcmp(word, value))
		tap_note("%s %s, not %s", key, word, value);
	return !strcmp(word, value);
}

static void read_file(pid_t pid, const char *name, char *text, size_t room)
{
	char path[64];
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	file = fopen(path, "r");
	n = file ? fread(text, 1, room - 1, file) : 0;
	text[n] = 0;
	if (file)
		fclose(file);
}

static void __attribute__((unused)) test_rights(void)
{
	static const char *const status[][2] = {{"CapInh:", "0000000000000000"},
						{"CapPrm:", "0000000000000000"},
						{"CapEff:", "0000000000000000"},
						{"CapBnd:", "0000000000000000"},
						{"CapAmb:", "0000000000000000"},
						{"NoNewPrivs:", "1"},
						{"Seccomp:", "2"},
						{"Uid:", "65534"},
						{"Gid:", "65534"}};
	static const char *const limits[][2] = {
		{"Max address space", "268435456"}, {"Max file size", "0"},
		{"Max core file size", "0"},        {"Max processes", "0"},
		{"Max open files", "384"},          {"Max cpu time", "600"}};
	char text[8192], *groups;
	pid_t pid = pid_of_unwinder();
	bool ok = pid > 0;

	read_file(pid, "status", text, sizeof(text));
	for (size_t i = 0; i < sizeof(status) / sizeof(*status); i++)
		ok &= status_says(text, status[i][0], status[i][1]);
	groups = strstr(text, "Groups:");
	ok &= groups && strspn(groups + 7, " \t") + groups + 7 == strchr(groups, '\n');
	tap_ok(ok, "the unwinder has another uid, no group, no capability, a list of system calls");
	read_file(pid, "limits", text, sizeof(text));
	ok = true;
	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++)
		ok &= status_says(text, limits[i][0], limits[i][1]);
	tap_ok(ok, "the unwinder has limits");
}

static int call_allowed(void)
{
	return (int)getpid() > 0 ? 0 : 1;
}

/* Each runs in a child behind sandbox_enter. */
static int call_open(void)
{
	return open("/proc/self/status", O_RDONLY);
}

static int call_socket(void)
{
	return socket(AF_INET, SOCK_STREAM, 0);
}

static int call_exec(void)
{
	return execl("/bin/true", "true", NULL);
}

static int call_fork(void)
{
	return fork();
}

static int call_thread(void)
{
	return (int)syscall(SYS_clone, CLONE_VM | CLONE_THREAD | CLONE_SIGHAND, 0, 0, 0, 0);
}

static int call_ptrace(void)
{
	return (int)ptrace(PTRACE_SEIZE, getppid(), 0, 0);
}

static int call_read_memory(void)
{
	char byte;
	struct iovec part = {&byte, 1};

	return (int)process_vm_readv(1, &part, 1, &part, 1, 0);
}

static int call_write(void)
{
	return (int)write(2, "", 0);
}

static int call_kill(void)
{
	return kill(getppid(), 0);
}

static int call_map_code(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
	       MAP_FAILED;
}

static int call_map_file(void)
{
	return mmap(NULL, 4096, PROT_READ, MAP_SHARED, 0, 0) == MAP_FAILED;
}

static char some_page[8192];

static int call_make_code(void)
{
	return mprotect((void *)(((uintptr_t)some_page + 4095) & ~4095ull), 4096,
			PROT_READ | PROT_EXEC);
}

static int call_setuid(void)
{
	return setuid(0);
}

static int call_bpf(void)
{
	return (int)syscall(SYS_bpf, 0, NULL, 0);
}

static int call_perf(void)
{
	return (int)syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0);
}

static int call_prctl(void)
{
	return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static int call_limit(void)
{
	struct rlimit limit = {1, 1};

	return setrlimit(RLIMIT_NOFILE, &limit);
}

static int call_unlink(void)
{
	return unlink("/nonexistent");
}

static int call_connect(void)
{
	return connect(0, NULL, 0);
}

static int call_stat_name(void)
{
	struct stat st;

	return (int)syscall(SYS_newfstatat, AT_FDCWD, "/etc/passwd", &st, 0);
}

static void __attribute__((unused)) test_sandbox(void)
{
	static const struct {
		const char *name;
		int (*call)(void);
	} forbidden[] = {{"open", call_open},
			 {"socket", call_socket},
			 {"connect", call_connect},
			 {"execve", call_exec},
			 {"fork", call_fork},
			 {"clone", call_thread},
			 {"ptrace", call_ptrace},
			 {"process_vm_readv", call_read_memory},
			 {"write", call_write},
			 {"kill", call_kill},
			 {"mmap of code", call_map_code},
			 {"shared mmap", call_map_file},
			 {"mprotect to code", call_make_code},
			 {"setuid", call_setuid},
			 {"bpf", call_bpf},
			 {"perf_event_open", call_perf},
			 {"prctl", call_prctl},
			 {"prlimit", call_limit},
			 {"unlink", call_unlink},
			 {"stat of a name", call_stat_name}};
	const size_t count = sizeof(forbidden) / sizeof(*forbidden);
	unsigned killed = 0;

	for (size_t i = 0; i <= count; i++) {
		pid_t pid = fork();
		int status = -1;

		if (!pid) {
			if (sandbox_enter())
				_exit(99);
			_exit(i < count ? forbidden[i].call() : call_allowed());
		}
		waitpid(pid, &status, 0);
		if (i == count)
			tap_ok(WIFEXITED(status) && !WEXITSTATUS(status),
			       "a call that is allowed goes on behind the sandbox");
		else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
			killed++;
		else
			tap_note("%s: status %#x", forbidden[i].name, status);
	}
	tap_ok(killed == count, "%u of %zu calls that are not allowed end by SIGSYS", killed,
	       count);
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

	path_of_waits(path, sizeof(path));
	find_waits(path, &heard);
	for (uint32_t i = 0; !heard.err && i < heard.places.enter_count; i++)
		kinds[heard.places.enter[i].kind]++;
	tap_ok(heard.count == 1 && !heard.err && kinds[WAIT_EPOLL] && kinds[WAIT_POLL] &&
		       heard.places.leave_count,
	       "places that wait in this program: %u epoll, %u poll, %u select, %u io_uring",
	       kinds[WAIT_EPOLL], kinds[WAIT_POLL], kinds[WAIT_SELECT], kinds[WAIT_IO_URING]);
	find_waits("/etc/passwd", &heard);
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
	struct unwound *trace;

	warden = warden_start();
	pool = warden ? prober_pool_new(warden) : NULL;
	loop = loop_new();
	if (!tap_ok(pool && loop && !warden_join_loop(warden, loop) &&
			    !prober_pool_join_loop(pool, loop),
		    "warden and probers start"))
		return 1;
	capturer = stack_capturer_new(&(struct stack_capture_config){0});
	unwinder = unwinder_new(warden, pool, loop);
	if (!tap_ok(capturer && unwinder, "unwinder starts"))
		return 1;
	test_names();
#ifdef __SANITIZE_ADDRESS__
	tap_skip("rights of the unwinder", "the sanitizers need what is taken away");
#else
	test_rights();
	test_sandbox();
#endif
	test_waits();
	test_cancel();
	test_dead_target();
#if defined(__x86_64__)
	test_bare();
#endif
	test_jit();
	test_other_vdso();
	test_death();
	test_hang();
	test_lies();
	test_refused_file();
	test_queue();
	/* at the end, with a job at work */
	trace = unwind(capture_of(getpid(), STACK_KERNEL), NSEC_PER_SEC);
	free(trace);
	unwinder_free(unwinder);
	stack_capturer_free(capturer);
	prober_pool_free(pool);
	warden_stop(warden);
	loop_free(loop);
	tap_ok(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "no process is left");
	return tap_done();
}

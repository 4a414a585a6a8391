/* SPDX-License-Identifier: BSD-2-Clause */
/* The unwinder process has no right: seen from outside, and by trying. */
#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "stack/sandbox.h"
#include "unwinder_rig.h"

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

static void test_rights(void)
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

static void test_sandbox(void)
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

int main(void)
{
#ifdef __SANITIZE_ADDRESS__
	tap_skip("rights of the unwinder", "the sanitizers need what is taken away");
	(void)test_rights;
	(void)test_sandbox;
	return tap_done();
#else
	pid_t pid;

	if (!rig_start())
		return 1;
	/* The first job makes the process. */
	pid = start_target();
	free(unwind(capture_of(pid, STACK_PTRACE), 5 * NSEC_PER_SEC));
	end_target(pid);
	test_rights();
	test_sandbox();
	rig_stop();
	return tap_done();
#endif
}

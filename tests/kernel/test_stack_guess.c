/* SPDX-License-Identifier: BSD-2-Clause */
/* Stacks that no table tells how to unwind, code of JIT compilers, and a vdso of the target's own:
 * what is a guess says so, and no target names the frames of another. */
/* Runs beside others (2 s) */
#include <limits.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "unwinder_rig.h"

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

#if defined(__x86_64__)
static void test_bare(void)
{
	static const char *const names[] = {"bare_inner", "bare_outer", "calls_bare",
					    "calls_calls_bare"};
	pid_t pid = start_target_of(calls_calls_bare);
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
	pid = start_target_of(calls_jit);
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
	pid = start_target_of(calls_jit);
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
	pid_t other = start_target_of(with_other_vdso), pid;
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
	pid = start_target_of(spin_in_vdso);
	trace = unwind_in_vdso(pid);
	tap_ok(trace && !has(trace, "hacked", &at) && has(trace, "clock_gettime", &at),
	       "does not name the frames of others: %s", trace ? trace->frames[0].symbol : "none");
	free(trace);
	end_target(pid);
}

int main(void)
{
	if (!rig_start())
		return 1;
#if defined(__x86_64__)
	test_bare();
#endif
	test_jit();
	test_other_vdso();
	rig_stop();
	return tap_done();
}

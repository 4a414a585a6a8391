/* SPDX-License-Identifier: BSD-2-Clause */
/* Code of oat files that really runs, instruction by instruction: its frames by what ART's compiler
 * keeps of them are those by unwind tables. The two files have the same code; one is stripped of
 * its MiniDebugInfo. Registers and stack are taken by ptrace at each instruction, everything else
 * from outside, as the tool does. */
/* Runs beside others (3 s) */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jit_symfile.h"
#include "stack/files_direct.h"
#include "stack/registers.h"
#include "tap.h"
#include "unit/made_oat.h"

#define ELF_BYTES 65536
#define MAX_STEPS 4096
#define MAX_LOOKS 128
#define NAMED     2 /* files: with MiniDebugInfo, and stripped */

#ifdef __x86_64__
#define CODE    made_oat_x86_64
#define MACHINE EM_X86_64
#else
#define CODE    made_oat_arm64
#define MACHINE EM_AARCH64
#endif

typedef void (*step_fn)(void *next);
struct child_memory {
	uint64_t code[NAMED]; /* addresses of oat data */
	step_fn next[NAMED][4];
};

static char folder[] = "/tmp/oat_live_XXXXXX";
static struct child_memory *shared;
static volatile unsigned long sink;

/* ---- the files ---- */

static void path_of(char path[128], const char *name, const char *file)
{
	snprintf(path, 128, "%s/%s%s", folder, name, file);
}

static bool write_file(const char *name, const char *file, const void *bytes, size_t size)
{
	char path[128];
	int fd;

	path_of(path, name, file);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		return false;
	return !close(fd);
}

/* Symbols and tables as ART writes them: shared code has no method's name. */
static size_t make_mini(uint8_t *to)
{
	const struct jit_method methods[] = {{made_oat_begin() + MADE_OAT_SHARED, CODE.size,
					      "[DEDUPED]", CODE.cfa, CODE.cfa_size},
					     {made_oat_begin() + MADE_OAT_OWN, CODE.size,
					      "app.Db$Inner.sleep", CODE.cfa, CODE.cfa_size}};
	uint8_t plain[SYMFILE_ROOM];
	size_t size = jit_symfile(plain, methods, 2, 0), used = 0;

	if (lzma_easy_buffer_encode(1, LZMA_CHECK_CRC32, NULL, plain, size, to, &used,
				    SYMFILE_ROOM) != LZMA_OK)
		return 0;
	return used;
}

static bool make_files(void)
{
	static struct made_bytes dex;
	static struct made_elf elf;
	struct made_dex_facts facts;
	uint8_t oat[0x400], mini[SYMFILE_ROOM];
	size_t size = make_mini(mini);
	uint64_t begin;

	made_dex(&dex, MADE_035, 0, &facts);
	made_oat(oat, "239", dex.bytes + 12, &CODE);
	for (unsigned i = 0; i < NAMED; i++) {
		char name[8] = {(char)('0' + i), 0};
		char path[128];

		path_of(path, name, "");
		if (mkdir(path, 0755))
			return false;
		made_oat_elf(&elf, oat, sizeof(oat), MACHINE, i ? NULL : mini, size, &begin);
		if (!size || begin != made_oat_begin() ||
		    !write_file(name, "/base.odex", elf.bytes, ELF_BYTES))
			return false;
	}
	return write_file("", "base.apk", dex.bytes, dex.size);
}

static void remove_files(void)
{
	static const char *const names[][2] = {{"0", "/base.odex"}, {"1", "/base.odex"},
					       {"", "base.apk"},    {"0", ""},
					       {"1", ""},           {"", ""}};
	char path[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		path_of(path, names[i][0], names[i][1]);
		remove(path);
	}
}

/* ---- the process ---- */

static uint64_t map_file(const char *name, const char *file, size_t size, int rights)
{
	char path[128];
	void *at;
	int fd;

	path_of(path, name, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	at = mmap(NULL, size, rights, MAP_PRIVATE, fd, 0);
	close(fd);
	return at == MAP_FAILED ? 0 : (uintptr_t)at;
}

static void __attribute__((noinline, noclone)) c_innermost(void *next)
{
	for (unsigned i = 0; i < 3; i++)
		sink += i;
}

static void __attribute__((noinline, noclone)) c_outermost(unsigned file)
{
	shared->next[file][0](&shared->next[file][1]);
	sink++;
}

static void __attribute__((noreturn)) run_child(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!map_file("", "base.apk", 4096, PROT_READ))
		_exit(2);
	for (unsigned i = 0; i < NAMED; i++) {
		char name[8] = {(char)('0' + i), 0};
		uint64_t at = map_file(name, "/base.odex", ELF_BYTES, PROT_READ | PROT_EXEC);

		if (!at)
			_exit(2);
		shared->code[i] = at + (made_oat_begin() - ELF_TEXT);
		shared->next[i][0] = (step_fn)(uintptr_t)(shared->code[i] + MADE_OAT_OWN);
		shared->next[i][1] = (step_fn)(uintptr_t)(shared->code[i] + MADE_OAT_SHARED);
		shared->next[i][2] = c_innermost;
	}
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		_exit(3);
	for (unsigned i = 0; i < NAMED; i++) {
		raise(SIGSTOP);
		c_outermost(i);
	}
	_exit(0);
}

/* ---- a look at each instruction ---- */

struct look {
	uint64_t offset; /* of oat data */
	size_t count;
	struct {
		uint64_t at; /* return address, relative to the file's */
		char name[160];
		enum stack_method method;
		bool inlined;
		uint32_t line, dex_place;
	} frames[16];
	bool complete;
};

static bool capture_of(pid_t pid, struct stack_capture *capture)
{
	uint64_t words[40];
	struct iovec registers = {words, sizeof(words)}, here, there;
	ssize_t n;

	if (ptrace(PTRACE_GETREGSET, pid, (void *)NT_PRSTATUS, &registers) ||
	    registers_from_kernel(&capture->registers, STACK_HOST_ARCH, words,
				  registers.iov_len / sizeof(*words)))
		return false;
	capture->thread = (struct stack_thread){.pid = pid, .tid = pid, .pidfd = -1};
	capture->stack_base = registers_sp(&capture->registers);
	here = (struct iovec){capture->stack, capture->stack_room};
	there = (struct iovec){(void *)capture->stack_base, capture->stack_room};
	n = process_vm_readv(pid, &here, 1, &there, 1, 0);
	capture->stack_bytes = n < 0 ? 0 : (size_t)n;
	return n > 0;
}

static bool take(pid_t pid, struct stack_unwinder *unwinder, struct stack_capture *capture,
		 struct stack_trace *trace, uint64_t oat, struct look *look)
{
	struct unwound *unwound;

	if (!capture_of(pid, capture) || stack_unwind(unwinder, capture, trace) ||
	    !(unwound = stack_unwound(unwinder, trace)))
		return false;
	*look = (struct look){.offset = unwound->frames[0].pc - oat, .complete = unwound->complete};
	for (size_t i = 0; i < unwound->count && look->count < 16; i++) {
		const struct unwound_frame *from = &unwound->frames[i];
		typeof(&look->frames[0]) to = &look->frames[look->count++];

		/* The rounds are called from two places. */
		to->at = from->pc - oat < ELF_BYTES ? from->pc - oat : 0;
		to->method = from->method;
		to->inlined = from->inlined;
		to->line = from->line;
		to->dex_place = from->dex_place;
		snprintf(to->name, sizeof(to->name), "%s", from->symbol ?: "?");
	}
	free(unwound);
	return true;
}

/* Step through one call of c_outermost: what was seen at each instruction of the file, and at the
 * first one of what it calls, whose callers are both methods. */
static size_t step_through(pid_t pid, unsigned file, struct look *looks, size_t room)
{
	struct stack_files files = files_direct("");
	struct stack_unwinder *unwinder =
		stack_unwinder_new(&(struct stack_unwind_config){.files = &files});
	struct stack_capture *capture = stack_capture_new(256 << 10);
	struct stack_trace trace;
	size_t count = 0;
	int status;

	if (!unwinder || !capture || stack_trace_init(&trace))
		return 0;
	for (unsigned step = 0; step < MAX_STEPS && count < room; step++) {
		uint64_t pc;

		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) || waitpid(pid, &status, 0) != pid ||
		    !WIFSTOPPED(status) || (WSTOPSIG(status) != SIGTRAP && count) ||
		    !capture_of(pid, capture))
			break;
		pc = registers_pc(&capture->registers);
		if (pc - shared->code[file] < sizeof(struct made_elf) ||
		    pc == (uintptr_t)c_innermost)
			count += take(pid, unwinder, capture, &trace, shared->code[file],
				      &looks[count]);
	}
	stack_trace_free(&trace);
	stack_capture_free(capture);
	stack_unwinder_free(unwinder);
	return count;
}

/* ---- what must be seen ---- */

static void print_look(const struct look *look)
{
	for (size_t i = 0; i < look->count; i++)
		tap_note("%#lx: #%zu %#lx %s method %d%s line %u dex %u",
			 (unsigned long)look->offset, i, (unsigned long)look->frames[i].at,
			 look->frames[i].name, look->frames[i].method,
			 look->frames[i].inlined ? " inlined" : "", look->frames[i].line,
			 look->frames[i].dex_place);
}

/* Both tell the same of each frame but how they came to it. */
static bool is_same(const struct look *tables, const struct look *stripped)
{
	bool same = tables->count == stripped->count && tables->complete && stripped->complete;

	for (size_t i = 0; same && i < tables->count; i++) {
		const typeof(tables->frames[0]) *a = &tables->frames[i], *b = &stripped->frames[i];

		same = a->at == b->at && !strcmp(a->name, b->name) && a->inlined == b->inlined &&
		       a->line == b->line && a->dex_place == b->dex_place &&
		       a->method != METHOD_QUICK && !stack_method_is_guess(a->method) &&
		       !stack_method_is_guess(b->method);
	}
	return same;
}

/* What they tell is right: the methods in turn, and who called them. */
static bool is_right(const struct look *look)
{
	static const struct {
		const char *name;
		uint32_t line, dex_place;
		bool inlined;
	} callers[] = {{"app.Db$Inner.last", 10, MADE_OAT_INNER + 1, true},
		       {"app.Db$Inner.open", 12, MADE_OAT_OUTER + 1, true},
		       {"app.Db$Inner.sleep", 300, MADE_OAT_DEX_PC + 1, false}};
	bool own = look->offset - MADE_OAT_OWN < CODE.size;
	bool shared_code = look->offset - MADE_OAT_SHARED < CODE.size;
	size_t at = own || shared_code ? 1 : 2;
	const char *inner = look->frames[at - 1].name;

	if (look->count < at + 1 || look->frames[0].line || look->frames[0].dex_place)
		return false;
	if (own)
		return !strcmp(inner, "app.Db$Inner.sleep") &&
		       !strcmp(look->frames[at].name, "c_outermost");
	if ((at == 2 && strcmp(look->frames[0].name, "c_innermost")) ||
	    strcmp(inner, "app.Db$Inner.open or app.Db$Inner.last (shared code)") ||
	    look->count < at + 4)
		return false;
	for (size_t i = 0; i < 3; i++)
		if (strcmp(look->frames[at + i].name, callers[i].name) ||
		    look->frames[at + i].line != callers[i].line ||
		    look->frames[at + i].dex_place != callers[i].dex_place ||
		    look->frames[at + i].inlined != callers[i].inlined)
			return false;
	return !strcmp(look->frames[at + 3].name, "c_outermost");
}

/* Of a stripped file, each frame that its code leads to is found by what the compiler keeps: those
 * of the inlined methods and of theirs, and the one behind it. */
static bool is_by_quick(const struct look *look)
{
	size_t quick = 0;

	for (size_t i = 0; i < look->count; i++)
		quick += look->frames[i].method == METHOD_QUICK;
	return quick == (look->offset - MADE_OAT_OWN < CODE.size ? 1 : 4);
}

int main(int argc, char **argv)
{
	static struct look looks[NAMED][MAX_LOOKS];
	size_t counts[NAMED] = {0}, same = 0, right[NAMED] = {0}, quick = 0;
	pid_t pid;
	int status;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED || !mkdtemp(folder) || !make_files()) {
		tap_ok(false, "files are made: %s", strerror(errno));
		return tap_done();
	}
	pid = fork();
	if (!pid)
		run_child();
	/* It stops before each file; the end of one round is the beginning of the next. */
	if (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status))
		for (unsigned i = 0; i < NAMED; i++)
			counts[i] = step_through(pid, i, looks[i], MAX_LOOKS);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	remove_files();
	for (size_t i = 0; i < counts[0] && i < counts[1]; i++) {
		bool ok = is_same(&looks[0][i], &looks[1][i]);

		same += ok;
		quick += is_by_quick(&looks[1][i]);
		for (unsigned file = 0; file < NAMED; file++) {
			right[file] += is_right(&looks[file][i]);
			if (!ok || !is_right(&looks[file][i]))
				print_look(&looks[file][i]);
		}
	}
	tap_ok(counts[0] >= 20 && counts[0] == counts[1],
	       "oat live: both files ran, %zu and %zu looks", counts[0], counts[1]);
	tap_ok(same == counts[0], "oat live: without tables each look is as with them (%zu)", same);
	tap_ok(right[0] == counts[0] && right[1] == counts[1],
	       "oat live: methods, inlined ones, lines and places are the right ones (%zu, %zu)",
	       right[0], right[1]);
	tap_ok(quick == counts[1], "oat live: frames of the stripped file are no guess (%zu)",
	       quick);
	return tap_done();
}

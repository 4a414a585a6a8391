/* SPDX-License-Identifier: BSD-2-Clause */
/* A main thread in Debian's real libart (11), without a booted runtime: libart's own loader
 * opens DEX files and enters them into its own list, the assembler of its own interpreter makes the
 * frames of interpreted methods, and compiled methods (art_jit.h) stand in its list for JIT code.
 * On arm64 without nterp, which this version has for x86_64 alone.
 * usage: art_rig LIBART
 * Says "ready JIT_DESCRIPTOR DEX_DESCRIPTOR", with their addresses.
 * Between two waits in epoll it obeys a line of stdin; answers are lines on stdout:
 *	open PATH              libart opens the DEX files of a .dex or .apk: "dex N BEGIN BYTES LOCATION"
 *	memory PATH            the same for a .dex that is copied to anonymous memory: "dex ..."
 *	enter N, remove N      the DEX file N into or out of __dex_debug_descriptor: "ok"
 *	pc NAME N OFFSET       gives the instruction at a file offset of DEX file N a name: "pc ADDRESS"
 *	loop NAME N OFFSET     the same for the first instruction of a method that loops for ever without
 *	                       a call: mterp runs it until its thread has a checkpoint to run
 *	nterp NAME N OFFSET INDEX  the same for a method that nterp runs, which returns by itself; INDEX
 *	                       is that of any method of type ()V
 *	nterp12 NAME N OFFSET  arm64: an instruction as pc's, in a frame as nterp of Android 12 and later
 *	                       makes it (art_nterp12.h)
 *	method NAME N OFFSET INDEX  the same, but no step: one to be inlined
 *	jit NAME SYMBOL HOW    a compiled method: "jit BEGIN END". Its entry is plain or packed; zygote:
 *	                       packed, behind the two empty ones that stand where the zygote's begin;
 *	                       none
 *	jit NAME SYMBOL HOW STEP DEX_PC OUTER_DEX_PC [OWN]  the same; at its call stands the method
 *	                       STEP inlined, as its CodeInfo of Android 11 says; its frame has the
 *	                       method OWN as its own
 *	inlined NAME OUTER_DEX_PC  what libart's own reader finds inlined there: "inlined METHOD"
 *	map PATH               a file becomes an executable mapping: "ok"
 *	spoil HOW              a list that a broken or hostile app has: an entry whose file is far too
 *	                       large (huge), is not mapped (gone), has no end (half), a tail that leads
 *	                       to the head (cycle): "ok"
 *	list jit|dex           the entries as another process reads them: "entry SYMFILE BYTES"..., "ok"
 *	churn US PATH, calm    another thread enters and removes this DEX file and methods, US between
 *	                       two (0: without pause), and packs the live methods anew; "ok", "churned N"
 *	run KIND MS NAME...    methods that call each other, the last one sleeps (sleep), waits for bytes
 *	                       that do not come (recv, which a stop ends with EINTR), computes (spin),
 *	                       stays in its loop (bytecode), waits for a mutex of libart (lock) that a
 *	                       thread "holder" has, which sleeps in the same methods but the first, or
 *	                       waits as Object.wait does (wait) until a thread "notifier" notifies it,
 *	                       from the same methods but the first:
 *	                       "run KIND START_BOOT_NS WALL_NS CPU_NS EINTR"
 *	quit */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "art_lib.h"
#include "art_nterp12.h"

#define NOINLINE __attribute__((noinline, noclone))

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- compiled methods ---- */

struct Compiled {
	jit::Bytes elf[2]; /* plain and packed, and where they are when they are entered */
	uint8_t *at[2];
	const jit::Entry *entry;
	bool packed, zygote; /* the app does not touch what is the zygote's */
};
static std::vector<Compiled> compiled;

/* inlined may be NULL: then nothing is kept of the method. */
static uint64_t compile(const std::string &symbol, const std::string &how,
			const jit::Inlined *inlined)
{
	int which = (int)compiled.size();
	bool own = inlined && inlined->own;
	jit::Shape shape = own ? jit::shape_with_method() : jit::shape(which);
	uint8_t *code = jit::cache.take_code(16 + shape.code.size()) + 16;
	jit::Method method = {symbol, (uint64_t)code, shape.code.size(), shape.cfi};
	Compiled c = {{jit::plain_elf({method}), jit::packed_elf({method})}, {}, NULL,
		      how == "packed" || how == "zygote", how == "zygote"};

	memcpy(jit::cache.code_rw + (code - jit::cache.code), shape.code.data(), shape.code.size());
	if (inlined) {
		jit::Bytes info = jit::code_info(own ? jit::behind_call(0) + 4 : jit::behind_call(which),
						 *inlined);
		uint8_t *at = jit::cache.take_data(info.size());
		/* OatQuickMethodHeader of Android 11 */
		uint32_t header[2] = {(uint32_t)(code - at), (uint32_t)shape.code.size()};

		jit::store(info, at);
		memcpy(jit::cache.code_rw + (code - jit::cache.code) - sizeof(header), header,
		       sizeof(header));
	}
	__builtin___clear_cache((char *)code, (char *)code + shape.code.size());
	for (int i = 0; i < 2; i++)
		c.at[i] = jit::cache.take_data(c.elf[i].size());
	if (how != "none")
		c.entry = jit::add_entry(jit::store(c.elf[c.packed], c.at[c.packed]),
					 c.elf[c.packed].size(), c.zygote ? jit::boundary() : NULL);
	printf("jit %llx %llx\n", (unsigned long long)code,
	       (unsigned long long)code + shape.code.size());
	compiled.push_back(c);
	return (uint64_t)code;
}

/* ---- a thread that changes the lists ---- */

static std::atomic<bool> churning;
static pthread_t churner;
static const DexFile *churn_file;
static uint64_t churned;

/* An entry that comes and goes: at the same place one ELF file after the other, of other sizes. */
struct Changing {
	jit::Bytes elf[2];
	uint8_t *at;
	const jit::Entry *entry;
};

static const jit::Entry *enter(Changing *c, int which)
{
	return jit::add_entry(jit::store(c->elf[which], c->at), c->elf[which].size());
}

static std::vector<Changing> changing_methods(void)
{
	std::vector<Changing> all;

	for (size_t slot = 0; slot < 48; slot++) {
		Changing c = {};

		for (int i = 0; i < 2; i++) {
			jit::Method m = {"com.example.Gone" + std::string(i * 40 + slot, 'x'),
					 (uint64_t)jit::cache.code + jit::Cache::HALF - 4096 + slot * 64,
					 16 + slot, jit::shape((int)slot + i).cfi};

			c.elf[i] = slot % 5 ? jit::plain_elf({m}) : jit::packed_elf({m});
		}
		c.at = jit::cache.take_data(c.elf[0].size() + c.elf[1].size());
		all.push_back(c);
	}
	return all;
}

static void *churn(void *ctx)
{
	static std::vector<Changing> changing = changing_methods();
	useconds_t pause = (useconds_t)(uintptr_t)ctx;
	unsigned seed = 1;

	for (uint64_t n = 0; churning; n++, churned++) {
		Changing &c = changing[(size_t)rand_r(&seed) % changing.size()];

		if (c.entry) {
			jit::remove_entry(c.entry);
			c.entry = NULL;
		} else {
			c.entry = enter(&c, n % 2);
		}
		/* One of the live methods is packed anew: its new entry comes before its old one goes. */
		Compiled &live = compiled.at(n / 3 % compiled.size());

		if (n % 3 == 0 && live.entry && !live.zygote) {
			const jit::Entry *old = live.entry;

			live.packed = !live.packed;
			jit::store(live.elf[live.packed], live.at[live.packed]);
			live.entry = jit::add_entry(live.at[live.packed],
						    live.elf[live.packed].size());
			jit::remove_entry(old);
			memset(jit::cache.writable(live.at[!live.packed]), 0xa5,
			       live.elf[!live.packed].size());
		}
		if (n % 2)
			remove_dex(NULL, churn_file);
		else
			add_dex(NULL, churn_file);
		if (pause)
			usleep(pause);
	}
	for (Changing &c : changing) {
		if (c.entry)
			jit::remove_entry(c.entry);
		c.entry = NULL;
	}
	remove_dex(NULL, churn_file);
	return NULL;
}

/* ---- methods that call each other ---- */

struct Step {
	enum { SWITCH, MTERP, NTERP, NTERP12, COMPILED } kind;
	uint64_t at;  /* a DEX instruction, a Method, or code */
	uint64_t own; /* of code: its ArtMethod */
};
static std::map<std::string, Step> steps;

struct Chain {
	std::vector<Step> steps;
	size_t next;
	std::string kind;
	uint64_t ms;
	unsigned eintr;
};

static volatile uint64_t sink;
static int quiet[2];

extern "C" NOINLINE void nap(Chain *c)
{
	struct timespec ts = {(time_t)(c->ms / 1000), (long)(c->ms % 1000 * 1000000)};

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
		c->eintr++;
	sink++;
}

extern "C" NOINLINE void receive(Chain *c)
{
	struct timeval tv = {(time_t)(c->ms / 1000), (suseconds_t)(c->ms % 1000 * 1000)};
	char byte;

	setsockopt(quiet[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	if (recv(quiet[0], &byte, 1, 0) < 0 && errno == EINTR)
		c->eintr++;
	sink++;
}

extern "C" NOINLINE void compute(Chain *c)
{
	uint64_t end = now_ns(CLOCK_MONOTONIC) + c->ms * 1000000u;

	while (now_ns(CLOCK_MONOTONIC) < end)
		for (int i = 0; i < 2000; i++)
			sink += 3;
	sink++;
}

extern "C" void interpret(void *state);

/* ---- a mutex of libart that another thread has, as a monitor's owner has the monitor's ---- */

static std::atomic<bool> held;

static void *hold(void *ctx)
{
	Chain c = *(Chain *)ctx;

	pthread_setname_np(pthread_self(), "holder");
	c.kind = "sleep";
	c.next = 1;
	mutex_lock(*suspend_count_lock, NULL);
	held = true;
	interpret(&c);
	mutex_unlock(*suspend_count_lock, NULL);
	return NULL;
}

extern "C" NOINLINE void wait_for_lock(Chain *c)
{
	pthread_t holder;

	held = false;
	if (pthread_create(&holder, NULL, hold, c))
		die("no thread");
	while (!held)
		usleep(1000);
	mutex_lock(*suspend_count_lock, NULL);
	mutex_unlock(*suspend_count_lock, NULL);
	pthread_join(holder, NULL);
	sink++;
}

/* ---- a wait without an owner, as Monitor::Wait and Monitor::Notify do it: a condition variable of
 * libart, whose signal moves the waiter to the mutex, and whose unlock wakes it ---- */

static std::atomic<bool> waits, notified;

extern "C" NOINLINE void notify(Chain *c)
{
	nap(c);
	mutex_lock(*suspend_count_lock, NULL);
	notified = true;
	condition_signal(wait_condition, NULL);
	mutex_unlock(*suspend_count_lock, NULL);
	sink++;
}

static void *notifier(void *ctx)
{
	Chain c = *(Chain *)ctx;

	pthread_setname_np(pthread_self(), "notifier");
	c.kind = "notify";
	c.next = 1;
	while (!waits)
		usleep(1000);
	interpret(&c);
	return NULL;
}

extern "C" NOINLINE void wait_for_notify(Chain *c)
{
	pthread_t thread;

	waits = notified = false;
	if (pthread_create(&thread, NULL, notifier, c))
		die("no thread");
	mutex_lock(*suspend_count_lock, NULL);
	waits = true;
	while (!notified)
		condition_wait(wait_condition, NULL);
	mutex_unlock(*suspend_count_lock, NULL);
	pthread_join(thread, NULL);
	sink++;
}

struct NextMethod : Checkpoint {
	Chain *chain;
	NOINLINE void Run(void *) override
	{
		interpret(chain);
		sink++;
	}
};
struct Nothing : Checkpoint {
	void Run(void *) override {}
};

static void request(Checkpoint *checkpoint)
{
	mutex_lock(*suspend_count_lock, NULL);
	if (!request_checkpoint(art_thread, checkpoint))
		die("no checkpoint");
	mutex_unlock(*suspend_count_lock, NULL);
}

static void *end_loop(void *ctx)
{
	static Nothing nothing;

	usleep((useconds_t)(((Chain *)ctx)->ms * 1000));
	request(&nothing);
	return NULL;
}

/* mterp leaves the method behind its checkpoint, because this thread may not use mterp. */
extern "C" NOINLINE void run_loop(Chain *c, const uint16_t *instructions)
{
	ShadowFrame frame = {};
	uint64_t method[16] = {}, result = 0;
	NextMethod checkpoint;
	pthread_t thread;
	bool innermost = c->next == c->steps.size() && c->kind == "bytecode";

	frame.method = method;
	frame.registers = 4;
	checkpoint.chain = c;
	if (!innermost)
		request(&checkpoint);
	else if (pthread_create(&thread, NULL, end_loop, c))
		die("no thread");
	execute_mterp(art_thread, instructions, &frame, &result);
	if (innermost)
		pthread_join(thread, NULL);
	sink++;
}

/* A method begins with a checkpoint, if there is one, and goes on behind it. */
extern "C" NOINLINE void run_nterp(Chain *c, Method *method)
{
	NextMethod checkpoint;

	checkpoint.chain = c;
	if (c->next < c->steps.size() || c->kind != "bytecode")
		request(&checkpoint);
	method->hotness = 0;
	execute_nterp(method);
	sink++;
}

static Method *new_method(const DexFile *file, uint32_t instructions, uint32_t index)
{
	/* Below 4 GiB, where references reach. */
	static uintptr_t hint = 0x60000000;
	Method *m = (Method *)mmap((void *)(hint += 0x10000), sizeof(*m), PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (m == MAP_FAILED)
		die("no memory");
	m->class_at = (uint32_t)(uintptr_t)m->class_pad;
	m->cache_at = (uint32_t)(uintptr_t)m->cache_pad;
	m->flags = 9; /* public static */
	m->code_item = instructions - 16;
	m->index = index;
	m->file = file;
	return m;
}

/* What the assembler and the compiled methods call: the next method, or what the last one does. */
extern "C" NOINLINE void interpret(void *state)
{
	Chain *c = (Chain *)state;

	if (c->next < c->steps.size()) {
		const Step &step = c->steps[c->next++];

		if (step.kind == Step::COMPILED)
			((void (*)(void *, void (*)(void *), uint64_t))step.at)(c, interpret, step.own);
		else if (step.kind == Step::NTERP)
			run_nterp(c, (Method *)step.at);
#ifdef __aarch64__
		else if (step.kind == Step::NTERP12)
			nterp_of_12(c, interpret, (const uint8_t *)step.at);
#endif
		else if (step.kind == Step::MTERP)
			run_loop(c, (const uint16_t *)step.at);
		else
			execute(c, interpret, (const uint8_t *)step.at);
	} else if (c->kind == "sleep") {
		nap(c);
	} else if (c->kind == "recv") {
		receive(c);
	} else if (c->kind == "lock") {
		wait_for_lock(c);
	} else if (c->kind == "wait") {
		wait_for_notify(c);
	} else if (c->kind == "notify") {
		notify(c);
	} else {
		compute(c);
	}
	sink++;
}

/* ---- what was inlined, as libart reads it ---- */

static void tell_inlined(uint64_t code, const std::string &dex_pc)
{
	alignas(64) static uint8_t info[4096];
	StackMap map;
	InlineInfos infos;

	code_info(info, (const uint8_t *)code - 8);
	map = map_for_dex_pc(info, (uint32_t)strtoul(dex_pc.c_str(), NULL, 10));
	infos = inline_infos_of(info, map);
	printf("inlined %s\n", pretty_method(resolved_method(NULL, info, infos), false).c_str());
}

static void map_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) ||
	    mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		die(path);
	close(fd);
}

/* ---- commands ---- */

static std::vector<std::string> words_of(const char *line)
{
	std::vector<std::string> words;
	char *copy = strdup(line), *save = NULL;

	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		words.push_back(w);
	free(copy);
	return words;
}

static NOINLINE void run(const std::vector<std::string> &words)
{
	Chain c = {{}, 0, words.at(1), strtoull(words.at(2).c_str(), NULL, 10), 0};

	for (size_t i = 3; i < words.size(); i++)
		c.steps.push_back(steps.at(words[i]));
	uint64_t boot = now_ns(CLOCK_BOOTTIME), wall = now_ns(CLOCK_MONOTONIC);
	uint64_t cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);

	interpret(&c);
	printf("run %s %llu %llu %llu %u\n", c.kind.c_str(), (unsigned long long)boot,
	       (unsigned long long)(now_ns(CLOCK_MONOTONIC) - wall),
	       (unsigned long long)(now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu), c.eintr);
}

static void tell_list(const jit::Descriptor *list)
{
	for (const jit::Entry *e = list->head; e; e = e->next)
		printf("entry %llx %llu\n", (unsigned long long)e->symfile,
		       (unsigned long long)e->symfile_bytes);
	puts("ok");
}

static bool obey(const char *line)
{
	std::vector<std::string> words = words_of(line);

	if (words.empty() || words[0] == "quit")
		return false;
	if (words[0] == "open") {
		open_files(words.at(1).c_str());
		puts("ok");
	} else if (words[0] == "memory") {
		files.push_back(open_copy(words.at(1).c_str()));
		tell_file(files.size() - 1, "memory");
		puts("ok");
	} else if (words[0] == "enter") {
		add_dex(NULL, files.at(strtoul(words.at(1).c_str(), NULL, 10)));
		puts("ok");
	} else if (words[0] == "remove") {
		remove_dex(NULL, files.at(strtoul(words.at(1).c_str(), NULL, 10)));
		puts("ok");
	} else if (words[0] == "pc" || words[0] == "loop" || words[0] == "nterp12") {
		const DexFile *file = files.at(strtoul(words.at(2).c_str(), NULL, 10));
		uint64_t at = (uint64_t)file->begin + strtoul(words.at(3).c_str(), NULL, 0);

		steps[words.at(1)] = {words[0] == "pc"	   ? Step::SWITCH
				      : words[0] == "loop" ? Step::MTERP
							   : Step::NTERP12,
				      at, 0};
		printf("pc %llx\n", (unsigned long long)at);
	} else if (words[0] == "method" || (words[0] == "nterp" && HAS_NTERP)) {
		Method *m = new_method(files.at(strtoul(words.at(2).c_str(), NULL, 10)),
				       (uint32_t)strtoul(words.at(3).c_str(), NULL, 0),
				       (uint32_t)strtoul(words.at(4).c_str(), NULL, 0));

		steps[words.at(1)] = {Step::NTERP, (uint64_t)m, 0};
		printf("pc %llx\n", (unsigned long long)(((const DexFile *)m->file)->begin + m->code_item + 16));
	} else if (words[0] == "jit") {
		jit::Inlined inlined = {};

		if (words.size() > 6)
			inlined = {steps.at(words[4]).at, (uint32_t)strtoul(words[5].c_str(), NULL, 10),
				   (uint32_t)strtoul(words[6].c_str(), NULL, 10),
				   words.size() > 7 ? steps.at(words[7]).at : 0};
		steps[words.at(1)] = {Step::COMPILED,
				      compile(words.at(2), words.at(3), inlined.method ? &inlined : NULL),
				      inlined.own};
	} else if (words[0] == "inlined") {
		tell_inlined(steps.at(words.at(1)).at, words.at(2));
	} else if (words[0] == "map") {
		map_file(words.at(1).c_str());
		puts("ok");
	} else if (words[0] == "list") {
		tell_list(words.at(1) == "jit" ? jit::list : dex_list);
	} else if (words[0] == "churn") {
		if (!churn_file)
			churn_file = open_copy(words.at(2).c_str());
		churning = true;
		churned = 0;
		if (pthread_create(&churner, NULL, churn,
				   (void *)strtoul(words.at(1).c_str(), NULL, 10)))
			die("no thread");
		puts("ok");
	} else if (words[0] == "spoil") {
		jit::spoil(words.at(1));
		puts("ok");
	} else if (words[0] == "calm") {
		churning = false;
		pthread_join(churner, NULL);
		printf("churned %llu\n", (unsigned long long)churned);
	} else if (words[0] == "run") {
		run(words);
	} else {
		die(line);
	}
	fflush(stdout);
	return true;
}

int main(int argc, char **argv)
{
	int epfd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = {EPOLLIN, {}};
	char text[4096];
	size_t used = 0;

	if (argc < 2)
		die("usage: art_rig LIBART");
	load_libart(argv[1]);
	jit::cache = jit::new_cache();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, quiet) ||
	    epoll_ctl(epfd, EPOLL_CTL_ADD, 0, &event))
		die("epoll");
	printf("ready %llx %llx\n", (unsigned long long)jit::list, (unsigned long long)dex_list);
	fflush(stdout);
	for (;;) {
		if (epoll_wait(epfd, &event, 1, -1) < 1)
			continue;
		ssize_t n = read(0, text + used, sizeof(text) - used - 1);

		if (n <= 0)
			return 0;
		used += (size_t)n;
		text[used] = 0;
		for (char *end; (end = strchr(text, '\n'));) {
			*end = 0;
			if (!obey(text))
				return 0;
			used -= (size_t)(end + 1 - text);
			memmove(text, end + 1, used + 1);
		}
	}
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* A program with a JIT compiler of its own, which speaks gdb's JIT interface in one of its layouts.
 * Its main thread goes through three generated methods and sleeps in a C function below them; other
 * threads see to the list.
 * usage: jit_app plain|android1|android2 [packed] [churn] [slow] [garbage] [ring] [half] [many N]
 *   packed: the methods' ELF is packed; churn: a thread enters and removes methods without pause,
 *   slow: with one of 2 ms; garbage: one more method's ELF makes no sense; ring: the list's last
 *   entry leads to its first;
 *   half: the innermost method is in no list; many: N more methods are listed; again: at a line on
 *   stdin it runs itself anew, as if it had been started plain
 * Prints "ready", then sleeps; a line on stdin enters one method more, and is answered. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "jit_symfile.h"

#define NOINLINE   __attribute__((noinline, noclone))
#define CODE_BYTES (64 << 10)
#define POOL       64 /* entries and symfiles that are used again */

extern struct jit_descriptor __jit_debug_descriptor;
void __jit_debug_register_code(void);
NOINLINE long c_innermost(void);
NOINLINE long c_outermost(void);

__attribute__((used, visibility("default"))) struct jit_descriptor __jit_debug_descriptor = {
	.version = 1};

NOINLINE void __attribute__((used, visibility("default"))) __jit_debug_register_code(void)
{
	__asm__ volatile("");
}

static bool packed, slow, again;
static int layout; /* 0: plain */
static uint8_t *code;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the list, changed as ART does it (runtime/jit/debugger_interface.cc) ---- */

static void begin_change(void)
{
	if (layout)
		__atomic_fetch_add(&__jit_debug_descriptor.seqlock, 1, __ATOMIC_SEQ_CST);
}

static void end_change(void)
{
	if (layout)
		__atomic_fetch_add(&__jit_debug_descriptor.seqlock, 1, __ATOMIC_SEQ_CST);
	__jit_debug_register_code();
	__jit_debug_descriptor.action = 0;
}

static uint64_t new_timestamp(void)
{
	struct timespec ts;
	uint64_t now;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	now = (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
	if (now <= __jit_debug_descriptor.timestamp)
		now = __jit_debug_descriptor.timestamp + 1;
	return now;
}

#define SET(field, value) __atomic_store_n(&(field), value, __ATOMIC_SEQ_CST)

static void enter(struct jit_code_entry *entry, const uint8_t *symfile, size_t size)
{
	struct jit_descriptor *d = &__jit_debug_descriptor;
	uint64_t timestamp = layout ? new_timestamp() : 0;

	SET(entry->symfile, symfile);
	SET(entry->size, size);
	SET(entry->previous, NULL);
	SET(entry->next, d->first);
	if (layout)
		SET(entry->timestamp, timestamp);
	if (layout == 2)
		SET(entry->seqlock, (entry->seqlock | 1) + 1);
	begin_change();
	if (d->first)
		SET(d->first->previous, entry);
	SET(d->first, entry);
	SET(d->relevant, entry);
	d->action = 1;
	if (layout)
		d->timestamp = timestamp;
	end_change();
}

static void leave(struct jit_code_entry *entry)
{
	struct jit_descriptor *d = &__jit_debug_descriptor;

	begin_change();
	if (layout == 2)
		SET(entry->seqlock, entry->seqlock + 1);
	if (layout)
		d->timestamp = new_timestamp();
	if (entry->next)
		SET(entry->next->previous, entry->previous);
	if (entry->previous)
		SET(entry->previous->next, entry->next);
	else
		SET(d->first, entry->next);
	SET(d->relevant, entry);
	d->action = 2;
	end_change();
}

/* ---- methods ---- */

static size_t method_file(uint8_t *to, uint64_t address, const char *name, bool pack)
{
	struct jit_method method = {address, JIT_CODE_BYTES, name, jit_cfa, sizeof(jit_cfa)};

	return jit_symfile(to, &method, 1, pack);
}

static void list_method(uint64_t address, const char *name)
{
	struct jit_code_entry *entry = calloc(1, sizeof(*entry));
	uint8_t file[SYMFILE_ROOM], *bytes;
	size_t size = method_file(file, address, name, packed);

	bytes = malloc(size);
	if (!entry || !bytes)
		exit(1);
	memcpy(bytes, file, size);
	pthread_mutex_lock(&list_lock);
	enter(entry, bytes, size);
	pthread_mutex_unlock(&list_lock);
}

/* Each name says where its method is, so that a reader can tell whether it is the right one. */
static void __attribute__((noreturn)) churn_for_ever(void)
{
	static struct jit_code_entry entries[POOL];
	static uint8_t files[POOL][SYMFILE_ROOM];
	static bool listed[POOL];
	uint64_t made = 0;
	unsigned seed = 1;

	for (;;) {
		unsigned at = (unsigned)rand_r(&seed) % POOL;
		char name[64];

		if (listed[at]) {
			pthread_mutex_lock(&list_lock);
			leave(&entries[at]);
			pthread_mutex_unlock(&list_lock);
		} else {
			uint64_t address = 0x100000000ull + made++ % 100000 * 64;
			size_t size;

			snprintf(name, sizeof(name), "void churn.at%llx.x%u()",
				 (unsigned long long)address, at % 7 * 1111111);
			size = method_file(files[at], address, name, false);
			pthread_mutex_lock(&list_lock);
			enter(&entries[at], files[at], size);
			pthread_mutex_unlock(&list_lock);
		}
		listed[at] = !listed[at];
		if (slow)
			usleep(2000);
	}
}

static void *churn(void *ctx)
{
	churn_for_ever();
}

/* ---- the stack ---- */

static volatile long sink;

NOINLINE long c_innermost(void)
{
	struct timespec ts = {3600, 0};

	if (write(1, "ready\n", 6) != 6)
		exit(1);
	for (;;)
		sink += nanosleep(&ts, NULL);
	return sink;
}

NOINLINE long c_outermost(void)
{
	return ((long (*)(void))(uintptr_t)code)() + sink;
}

/* What stdin asks for: methods that nothing calls. */
static void *serve(void *ctx)
{
	char line[16], name[64];
	unsigned number = 0;

	while (fgets(line, sizeof(line), stdin)) {
		if (again)
			execl("/proc/self/exe", "jit_app", "plain", NULL);
		snprintf(name, sizeof(name), "void com.example.Late.m%u()", number);
		list_method(0x200000000ull + number++ * 64, name);
		if (write(1, "done\n", 5) != 5)
			break;
	}
	return NULL;
}

static uint8_t *map_code(void)
{
	int fd = memfd_create("jit-cache", 0);
	uint8_t *writable, *to;

	if (fd < 0 || ftruncate(fd, CODE_BYTES))
		exit(1);
	writable = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	to = mmap(NULL, CODE_BYTES, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	if (writable == MAP_FAILED || to == MAP_FAILED)
		exit(1);
	close(fd);
	jit_write_code(writable, (uintptr_t)to + 256);
	jit_write_code(writable + 256, (uintptr_t)to + 512);
	jit_write_code(writable + 512, (uintptr_t)c_innermost);
	__builtin___clear_cache((char *)to, (char *)to + CODE_BYTES);
	return to;
}

int main(int argc, char **argv)
{
	struct jit_descriptor *d = &__jit_debug_descriptor;
	bool churns = false, half = false, garbage = false, ring = false;
	unsigned long many = 0;
	pthread_t thread;

	if (argc < 2)
		return 2;
	layout = !strcmp(argv[1], "android2") ? 2 : !strcmp(argv[1], "android1") ? 1 : 0;
	for (int i = 2; i < argc; i++) {
		slow |= !strcmp(argv[i], "slow");
		packed |= !strcmp(argv[i], "packed");
		churns |= !strcmp(argv[i], "churn");
		garbage |= !strcmp(argv[i], "garbage");
		ring |= !strcmp(argv[i], "ring");
		half |= !strcmp(argv[i], "half");
		again |= !strcmp(argv[i], "again");
		if (!strcmp(argv[i], "many") && i + 1 < argc)
			many = strtoul(argv[i + 1], NULL, 10);
	}
	if (layout) {
		memcpy(d->magic, layout == 2 ? "Android2" : "Android1", 8);
		d->descriptor_bytes = sizeof(*d);
		d->entry_bytes = layout == 2 ? 48 : 40;
	}
	code = map_code();
	for (unsigned long i = 0; i < many; i++) {
		char name[64];

		snprintf(name, sizeof(name), "void com.example.Many.m%lu()", i);
		list_method(0x300000000ull + i * 64, name);
	}
	list_method((uintptr_t)code, "void com.example.Hot.outer()");
	list_method((uintptr_t)code + 256, "int com.example.Hot.middle(java.lang.String)");
	if (!half)
		list_method((uintptr_t)code + 512, "com.example.Hot.inner");
	if (garbage) {
		static struct jit_code_entry entry;
		static uint8_t nothing[4096] = "nothing";

		enter(&entry, nothing, sizeof(nothing));
	}
	if (ring) {
		struct jit_code_entry *last = d->first;

		while (last->next)
			last = last->next;
		last->next = d->first;
	}
	if (churns && pthread_create(&thread, NULL, churn, NULL))
		return 1;
	if (pthread_create(&thread, NULL, serve, NULL))
		return 1;
	return (int)c_outermost();
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Debian's libart (11), opened at run time: its loader of DEX files, its lists for debuggers, and
 * the assembler of its interpreter. No runtime is booted. */
#pragma once
#ifdef __x86_64__
#include <asm/prctl.h>
#endif
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "art_jit.h"

/* This version has nterp for x86_64 alone: what is ExecuteNterpImpl on arm64 ends the process. */
#ifdef __x86_64__
#define HAS_NTERP 1
#else
#define HAS_NTERP 0
#endif

static void die(const char *what)
{
	fprintf(stderr, "art_rig: %s\n", what);
	exit(1);
}

/* Of art::DexFile (libdexfile/dex/dex_file.h, Android 11) what is used here. */
struct DexFile {
	void *vtable;
	const uint8_t *begin;
	size_t bytes;
};

/* Passed and returned as std::unique_ptr of a class that is not known here. */
struct Owned {
	void *p;
	~Owned()
	{
	}
};

typedef Owned open_memory_fn(const void *loader, const uint8_t *base, size_t size,
			     const std::string &location, uint32_t checksum, const void *oat,
			     bool verify, bool verify_checksum, std::string *error,
			     Owned *container);
typedef bool open_path_fn(const void *loader, const char *path, const std::string &location,
			  bool verify, bool verify_checksum, std::string *error,
			  std::vector<const DexFile *> *files);
typedef void native_debug_fn(void *thread, const DexFile *file);
typedef void execute_fn(void *state, void (*interpret)(void *state), const uint8_t *dex_pc);

/* An art::Closure: its destructors, then this. */
struct Checkpoint {
	virtual ~Checkpoint()
	{
	}
	virtual void Run(void *thread) = 0;
};
/* An art::ShadowFrame of this version, with room for registers and references. */
struct ShadowFrame {
	void *link, *method, *result;
	const void *dex_pc_ptr, *instructions, *lock_count;
	uint32_t registers, dex_pc;
	int16_t cached_hotness, hotness;
	uint32_t flags, room[2][4];
};
/* Of an art::ArtMethod, its art::mirror::Class and that one's DexCache what nterp reads; they are
 * below 4 GiB. */
struct Method {
	uint32_t class_at, flags, code_item, index, hotness, pad[11];
	uint32_t class_pad[4], cache_at, class_rest[27];
	uint32_t cache_pad[4];
	const void *file;
};
typedef void execute_nterp_fn(Method *method);
typedef bool execute_mterp_fn(void *thread, const uint16_t *instructions, ShadowFrame *frame,
			      uint64_t *result);

/* Of libart's reader of what its compiler keeps (runtime/stack_map.h): a row of a table, and rows
 * from one to another. */
struct StackMap {
	const void *table;
	uint32_t row;
};
struct InlineInfos {
	StackMap begin, end;
};
static void (*code_info)(void *info, const void *header);
static StackMap (*map_for_dex_pc)(const void *info, uint32_t dex_pc);
static InlineInfos (*inline_infos_of)(const void *info, StackMap map);
static void *(*resolved_method)(void *outer, const void *info, const InlineInfos &infos);
static std::string (*pretty_method)(void *method, bool with_signature);

static open_memory_fn *open_memory;
static open_path_fn *open_path;
static native_debug_fn *add_dex, *remove_dex;
static execute_fn *execute;
static execute_mterp_fn *execute_mterp;
static execute_nterp_fn *execute_nterp;
static bool (*request_checkpoint)(void *thread, Checkpoint *);
static void (*mutex_lock)(void *mutex, void *thread), (*mutex_unlock)(void *mutex, void *thread);
static void **suspend_count_lock;
static void (*condition_wait)(void *condition, void *thread), (*condition_signal)(void *, void *);
static uint64_t wait_condition[16]; /* an art::ConditionVariable: a name, its guard, two numbers */
static void *art_thread;
static jit::Descriptor *dex_list;
static const void *loader[1]; /* an art::ArtDexFileLoader is its table of functions */

/* Where mterp's code for instructions begins, as a real function of libart says it. */
static uintptr_t mterp_code;

/* ExecuteMterpImpl is the function that this code is of, ExecuteNterpImpl the first of the same
 * mark that begins with a probe of the stack. ExecuteSwitchImplAsm has no symbol: it is the
 * function whose table gives register 0 (rax, x0) the value of rbx or x19, marked "DEX1"
 * (runtime/interpreter/cfi_asm_support.h). */
#ifdef __x86_64__
#define DEX_REGISTER 3 /* rbx */
#else
#define DEX_REGISTER 19
#endif
static int find_execute(struct dl_phdr_info *info, size_t, void *)
{
	static const uint8_t mark[] = {0x16, 0,   9,    0x0c, 'D',          'E',
				       'X',  '1', 0x13, 0x92, DEX_REGISTER, 0};
	static const uint8_t nterp[] = {0x16, 5, 9, 0x0c, 'D', 'E', 'X', '1', 0x13, 0x92, 12, 0};
	static const uint8_t probe[] = {0x48, 0x85, 0x84, 0x24, 0, 0xe0, 0xff, 0xff};

	if (!strstr(info->dlpi_name, "libart.so"))
		return 0;
	for (int n = 0; n < info->dlpi_phnum; n++) {
		if (info->dlpi_phdr[n].p_type != PT_GNU_EH_FRAME)
			continue;
		/* version, pointer to .eh_frame (pcrel sdata4), count (udata4), table */
		const uint8_t *head = (uint8_t *)info->dlpi_addr + info->dlpi_phdr[n].p_vaddr;
		const uint8_t *fde = head + 4 + *(const int32_t *)(head + 4);

		for (uint32_t bytes; (bytes = *(const uint32_t *)fde); fde += bytes + 4) {
			const uint8_t *body = fde + 8;

			if (!*(const uint32_t *)(fde + 4) || bytes < sizeof(mark))
				continue; /* a CIE */
			uintptr_t begin = (uintptr_t)(body + *(const int32_t *)body);

			if (memmem(body, bytes - 4, mark, sizeof(mark)))
				execute = (execute_fn *)begin;
			if (mterp_code - begin < *(const uint32_t *)(body + 4))
				execute_mterp = (execute_mterp_fn *)begin;
			else if (HAS_NTERP && !execute_nterp &&
				 memmem(body, bytes - 4, nterp, sizeof(nterp)) &&
				 !memcmp((void *)begin, probe, sizeof(probe)))
				execute_nterp = (execute_nterp_fn *)begin;
		}
	}
	return 0;
}

#define FIND(to, name)                                      \
	do {                                                \
		*(void **)(void *)&(to) = dlsym(lib, name); \
		if (!(to))                                  \
			die("libart has no " name);         \
	} while (0)

/* A real art::Thread, and zeros for an art::Runtime: enough for mterp, which asks whether there is
 * a JIT compiler, and for a checkpoint, which is how another thread has code run on this one. */
static void make_thread(void *lib)
{
	void (*construct)(void *thread, bool daemon), (*init_mterp)(void *thread);
	static uint64_t runtime[4096], thread[4096], class_linker[64];
	const uint16_t RUNNABLE = 67;
	void **instance;

	FIND(construct, "_ZN3art6ThreadC1Eb");
	FIND(init_mterp, "_ZN3art11interpreter12InitMterpTlsEPNS_6ThreadE");
	FIND(instance, "_ZN3art7Runtime9instance_E");
	FIND(request_checkpoint, "_ZN3art6Thread17RequestCheckpointEPNS_7ClosureE");
	FIND(mutex_lock, "_ZN3art5Mutex13ExclusiveLockEPNS_6ThreadE");
	FIND(mutex_unlock, "_ZN3art5Mutex15ExclusiveUnlockEPNS_6ThreadE");
	FIND(suspend_count_lock, "_ZN3art5Locks26thread_suspend_count_lock_E");
	init_mterp(thread);
	for (size_t i = 0; i < sizeof(thread) / sizeof(*thread); i++)
		if (thread[i])
			mterp_code = thread[i];
	memset(thread, 0, sizeof(thread));
	runtime[0x1f0 / 8] = (uint64_t)class_linker; /* PrettyMethod looks into it */
	*instance = runtime;
	construct(thread, false);
	init_mterp(thread);
	((uint16_t *)thread)[1] = RUNNABLE;
#ifdef __x86_64__
	thread[0xe8 / 8] = (uint64_t)thread; /* nterp finds it at its register gs */
	if (syscall(SYS_arch_prctl, ARCH_SET_GS, thread))
		die("gs");
#endif
	art_thread = thread;
}

/* With the mutex that a checkpoint takes as its guard: it is free whenever somebody waits. */
static void make_condition(void *lib)
{
	void (*construct)(void *condition, const char *name, void *guard);

	FIND(construct, "_ZN3art17ConditionVariableC1EPKcRNS_5MutexE");
	FIND(condition_wait, "_ZN3art17ConditionVariable4WaitEPNS_6ThreadE");
	FIND(condition_signal, "_ZN3art17ConditionVariable6SignalEPNS_6ThreadE");
	construct(wait_condition, "wait", *suspend_count_lock);
}

static void load_libart(const char *path)
{
	/* Debian's libart says not which libraries it needs. */
	static const char *const needed[] = {"libbacktrace.so.0",
					     "libziparchive.so.0",
					     "libsigchain.so.0",
					     "libnativebridge.so.0",
					     "libnativeloader.so.0",
					     "liblz4.so.1",
					     "libz.so.1",
					     NULL};
	std::string folder(path, (size_t)(strrchr(path, '/') - path + 1));
	void (*init_locks)(void), (*init_maps)(void);
	void *lib;

	for (int i = 0; needed[i]; i++)
		if (!dlopen((folder + needed[i]).c_str(), RTLD_NOW | RTLD_GLOBAL) &&
		    !dlopen(needed[i], RTLD_NOW | RTLD_GLOBAL))
			die(dlerror());
	lib = dlopen(path, RTLD_LAZY);
	if (!lib)
		die(dlerror());
#define STRING "RKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
	FIND(init_locks, "_ZN3art5Locks4InitEv");
	FIND(init_maps, "_ZN3art6MemMap4InitEv");
	FIND(open_memory, "_ZNK3art16ArtDexFileLoader4OpenEPKhm" STRING
			  "jPKNS_10OatDexFileEbbPS8_St10unique_ptrINS_"
			  "16DexFileContainerESt14default_deleteISG_EE");
	FIND(open_path,
	     "_ZNK3art16ArtDexFileLoader4OpenEPKc" STRING
	     "bbPS8_PSt6vectorISt10unique_ptrIKNS_7DexFileESt14default_deleteISF_EESaISI_EE");
	FIND(add_dex, "_ZN3art24AddNativeDebugInfoForDexEPNS_6ThreadEPKNS_7DexFileE");
	FIND(remove_dex, "_ZN3art27RemoveNativeDebugInfoForDexEPNS_6ThreadEPKNS_7DexFileE");
	FIND(jit::list, "__jit_debug_descriptor");
	FIND(dex_list, "__dex_debug_descriptor");
	FIND(jit::changed, "__jit_debug_register_code");
	FIND(loader[0], "_ZTVN3art16ArtDexFileLoaderE");
	FIND(code_info, "_ZN3art8CodeInfoC1EPKNS_20OatQuickMethodHeaderE");
	FIND(map_for_dex_pc, "_ZNK3art8CodeInfo19GetStackMapForDexPcEj");
	FIND(inline_infos_of, "_ZNK3art8CodeInfo16GetInlineInfosOfENS_8StackMapE");
	FIND(resolved_method, "_ZN3art17GetResolvedMethodEPNS_9ArtMethodERKNS_8CodeInfoERKNS_"
			      "13BitTableRangeINS_10InlineInfoEEE");
	FIND(pretty_method, "_ZN3art9ArtMethod12PrettyMethodB5cxx11Eb");
	loader[0] = (void *const *)loader[0] + 2;
	if (memcmp(jit::list->magic, "Android2", 8) || jit::list->entry_bytes != sizeof(jit::Entry))
		die("libart's lists are of another version");
	init_locks();
	init_maps();
	make_thread(lib);
	make_condition(lib);
	dl_iterate_phdr(find_execute, NULL);
	if (!execute || !execute_mterp || (HAS_NTERP && !execute_nterp))
		die("no interpreters in libart's .eh_frame");
}

/* ---- DEX files ---- */

static std::vector<const DexFile *> files;

static void tell_file(size_t n, const char *location)
{
	printf("dex %zu %llx %zu %s\n", n, (unsigned long long)files[n]->begin, files[n]->bytes,
	       location);
}

static void open_files(const char *path)
{
	std::vector<const DexFile *> opened;
	std::string error;

	if (!open_path(loader, path, path, true, true, &error, &opened))
		die(error.c_str());
	for (const DexFile *file : opened) {
		files.push_back(file);
		tell_file(files.size() - 1, path);
	}
}

static const DexFile *open_copy(const char *path)
{
	std::string error;
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	Owned container = {};

	if (fd < 0 || fstat(fd, &st))
		die(path);
	size_t bytes = (size_t)st.st_size;
	uint8_t *copy = (uint8_t *)mmap(NULL, bytes, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED || read(fd, copy, bytes) != (ssize_t)bytes)
		die(path);
	close(fd);
	mprotect(copy, bytes, PROT_READ);
	Owned file = open_memory(loader, copy, bytes, path, *(const uint32_t *)(copy + 8), NULL,
				 true, true, &error, &container);
	if (!file.p)
		die(error.c_str());
	return (const DexFile *)file.p;
}

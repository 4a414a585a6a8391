/* SPDX-License-Identifier: BSD-2-Clause */
/* The list in which ART tells debuggers of its compiled methods, and the memory of both: a dual map
 * of memfd:jit-cache below 4 GiB. What changes the list does it in ART's steps
 * (runtime/jit/debugger_interface.cc, "Android2"); the descriptor is libart's own. */
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <initializer_list>
#include <string>

#include "art_elf.h"

namespace jit
{

/* ---- the lists ---- */

struct Entry {
	const Entry *next, *prev;
	const uint8_t *symfile;
	uint64_t symfile_bytes, timestamp;
	uint32_t seqlock; /* even: valid */
};

struct Descriptor {
	uint32_t version, action;
	const Entry *relevant, *head;
	char magic[8];
	uint32_t flags, descriptor_bytes, entry_bytes, seqlock;
	uint64_t timestamp;
};
static_assert(sizeof(Descriptor) == 56 && sizeof(Entry) == 48, "Android2, 64 bits");

/* ---- the map ---- */

/* Data is read at data and written at data_rw, code runs at code and is written at code_rw. */
struct Cache {
	static const size_t HALF = 256 << 10;
	uint8_t *data, *data_rw, *code, *code_rw;
	size_t data_used, code_used;

	template <class T> T *writable(const T *p) const
	{
		return (T *)(data_rw + ((const uint8_t *)p - data));
	}
	/* Room that is never given back: for what lives as long as the process. */
	uint8_t *take_data(size_t bytes)
	{
		uint8_t *at = data + data_used;

		data_used += (bytes + 15) & ~(size_t)15;
		if (data_used > HALF)
			abort();
		return at;
	}
	uint8_t *take_code(size_t bytes)
	{
		uint8_t *at = code + code_used;

		code_used += (bytes + 15) & ~(size_t)15;
		if (code_used > HALF)
			abort();
		return at;
	}
};

static inline Cache new_cache(void)
{
	int fd = memfd_create("jit-cache", MFD_CLOEXEC);
	Cache c = {};
	uint8_t *rw, *low = (uint8_t *)MAP_FAILED;

	if (fd < 0 || ftruncate(fd, 2 * Cache::HALF))
		abort();
	for (uintptr_t at = 0x42000000; low == MAP_FAILED && at < 0x80000000; at += 0x1000000)
		low = (uint8_t *)mmap((void *)at, 2 * Cache::HALF, PROT_READ,
				      MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
	rw = (uint8_t *)mmap(NULL, 2 * Cache::HALF, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (low == MAP_FAILED || rw == MAP_FAILED ||
	    mprotect(low + Cache::HALF, Cache::HALF, PROT_READ | PROT_EXEC))
		abort();
	close(fd);
	c.data = low;
	c.data_rw = rw;
	c.code = low + Cache::HALF;
	c.code_rw = rw + Cache::HALF;
	c.data_used = 1024; /* the allocator's own, before all ELF files */
	return c;
}

/* ---- what the compiler keeps of a method ---- */

struct Bits {
	Bytes bytes;
	size_t count = 0;

	void put(uint64_t value, unsigned width)
	{
		for (unsigned i = 0; i < width; i++, count++) {
			if (count % 8 == 0)
				bytes.push_back(0);
			bytes.back() |= (uint8_t)((value >> i & 1) << count % 8);
		}
	}
	void varints(std::initializer_list<uint32_t> values)
	{
		for (uint32_t v : values)
			put(v <= 11 ? v : 15, 4);
		for (uint32_t v : values)
			if (v > 11)
				put(v, 32);
	}
};

/* A method that was inlined into another one. */
struct Inlined {
	uint64_t method; /* its ArtMethod */
	uint32_t dex_pc, outer_dex_pc;
	uint64_t own; /* the ArtMethod of the outer one, which its frame has; 0: it has none */
};

/* CodeInfo of Android 11 (runtime/stack_map.h): a stack map for the only call, and the method that
 * was inlined there, told as JIT compilers tell it. Columns have one more than their value. */
static inline Bytes code_info(uint32_t call, const Inlined &inlined)
{
	Bits bits;

#ifdef __aarch64__
	call /= 4;
#endif
	bits.varints({0, 4, 0, 0, 0, 1 << 0 | 1 << 3});
	bits.varints({1, 0, 8, 8, 0, 0, 1, 0, 0});
	bits.put(call + 1, 8);
	bits.put(inlined.outer_dex_pc + 1, 8);
	bits.put(0 + 1, 1);
	bits.varints({1, 1, 8, 0, 32, 32, 0});
	bits.put(0, 1); /* the last one */
	bits.put(inlined.dex_pc + 1, 8);
	bits.put((inlined.method >> 32) + 1, 32);
	bits.put((inlined.method & 0xffffffff) + 1, 32);
	bits.put(0, 64);
	return bits.bytes;
}

/* ---- changes ---- */

static Cache cache;
static Descriptor *list;      /* libart's __jit_debug_descriptor */
static void (*changed)(void); /* its __jit_debug_register_code */
static const Entry *free_entries;

/* Odd: a reader waits. */
static inline void seqlock(void)
{
	__atomic_fetch_add(&list->seqlock, 1, __ATOMIC_SEQ_CST);
}

/* GetNextTimestamp: no two are the same. */
static inline uint64_t next_timestamp(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	uint64_t now = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;

	return now > list->timestamp ? now : list->timestamp + 1;
}

/* CreateJITCodeEntryInternal. The ELF file at symfile stays there while the entry is valid. */
static inline const Entry *add_entry(const uint8_t *symfile, size_t bytes,
				     const Entry *behind = NULL)
{
	const Entry *entry = free_entries, *head = list->head;

	if (entry) {
		free_entries = entry->next;
	} else {
		entry = (const Entry *)cache.take_data(sizeof(*entry));
		cache.writable(entry)->seqlock = 1;
	}
	Entry *w = cache.writable(entry);

	/* InsertNewEntry: the zygote's go to the tail. */
	if (behind)
		head = NULL;
	w->symfile = symfile;
	w->symfile_bytes = bytes;
	w->timestamp = next_timestamp();
	seqlock();
	__atomic_store_n(&w->next, head, __ATOMIC_RELAXED);
	w->prev = behind;
	__atomic_fetch_add(&w->seqlock, 1, __ATOMIC_RELEASE);
	if (head)
		cache.writable(head)->prev = entry;
	if (behind)
		__atomic_store_n(&cache.writable(behind)->next, entry, __ATOMIC_RELEASE);
	else
		__atomic_store_n(&list->head, entry, __ATOMIC_RELEASE);
	list->relevant = entry;
	list->action = 1;
	list->timestamp = w->timestamp;
	seqlock();
	changed();
	return entry;
}

/* DeleteJITCodeEntryInternal */
static inline void remove_entry(const Entry *entry)
{
	Entry *w = cache.writable(entry);

	seqlock();
	if (entry->next)
		cache.writable(entry->next)->prev = entry->prev;
	if (entry->prev)
		__atomic_store_n(&cache.writable(entry->prev)->next, entry->next, __ATOMIC_RELAXED);
	else
		__atomic_store_n(&list->head, entry->next, __ATOMIC_RELAXED);
	list->relevant = entry;
	list->action = 2;
	list->timestamp = next_timestamp();
	seqlock();
	changed();
	__atomic_fetch_add(&w->seqlock, 1, __ATOMIC_RELEASE);
	std::atomic_thread_fence(std::memory_order_release);
	w->symfile = NULL;
	__atomic_store_n(&w->next, free_entries, __ATOMIC_RELAXED);
	w->prev = NULL;
	free_entries = entry;
}

static inline const uint8_t *store(const Bytes &elf, uint8_t *at)
{
	memcpy(cache.writable(at), elf.data(), elf.size());
	return at;
}

/* The last entry. At first the list gets two that are empty: the app's last, the zygote's first. */
static inline const Entry *boundary(void)
{
	static bool there;
	const Entry *last = list->head;

	if (!there)
		for (int i = 0; i < 2; i++) {
			while (last && last->next)
				last = last->next;
			last = add_entry(NULL, 0, last);
		}
	there = true;
	while (last->next)
		last = last->next;
	return last;
}

static inline void spoil(const std::string &how)
{
	static const Method odd = {"com.example.Odd", 0x1000, 16, {}};
	Bytes elf = plain_elf({odd});
	const uint8_t *file = store(elf, cache.take_data(elf.size()));

	if (how == "huge")
		add_entry(file, (size_t)1 << 40);
	else if (how == "gone")
		add_entry((const uint8_t *)0x1000, 4096);
	else if (how == "half")
		add_entry(file, elf.size() / 2);
	else if (how == "cycle")
		cache.writable(boundary())->next = list->head;
	else
		abort();
}

} /* namespace jit */

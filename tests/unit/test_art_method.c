/* SPDX-License-Identifier: BSD-2-Clause */
/* From an ArtMethod in the memory of a process to its DEX file and its number there; libart's own
 * words on the layout of Android 11 are in tests/kernel/test_art.sh. */
#include <criterion/criterion.h>
#include <string.h>

#include "stack/code/art_method.h"

#define METHOD   0x71000000ull
#define CLASS    0x72000000u
#define CACHE    0x73000000u
#define DEX_FILE 0x7400000000ull
#define BEGIN    0x7500000000ull
#define TAG      0xb400000000000000ull

/* Words at their addresses. */
struct memory {
	struct {
		uint64_t address;
		uint32_t word;
	} words[16];
	unsigned count, reads, moves_at;
};

static void put(struct memory *memory, uint64_t address, uint32_t word)
{
	memory->words[memory->count].address = address;
	memory->words[memory->count++].word = word;
}

static void put_pointer(struct memory *memory, uint64_t address, uint64_t pointer)
{
	put(memory, address, (uint32_t)pointer);
	put(memory, address + 4, (uint32_t)(pointer >> 32));
}

static int read_words(void *ctx, uint64_t address, void *to, size_t length)
{
	struct memory *memory = ctx;

	/* A collector moves the class. */
	if (++memory->reads == memory->moves_at)
		memory->words[0].word += 64;
	for (size_t done = 0; done < length; done += 4) {
		unsigned i = 0;

		while (i < memory->count && memory->words[i].address != address + done)
			i++;
		if (i == memory->count)
			return -EFAULT;
		memcpy((char *)to + done, &memory->words[i].word, 4);
	}
	return 0;
}

static struct memory a_memory(uint32_t at_8, uint32_t at_12, uint64_t tag)
{
	struct memory memory = {0};

	put(&memory, METHOD, CLASS);
	put(&memory, METHOD + 4, 9);
	put(&memory, METHOD + 8, at_8);
	put(&memory, METHOD + 12, at_12);
	put(&memory, CLASS + 16, CACHE);
	put_pointer(&memory, CACHE + 16, DEX_FILE | tag);
	put_pointer(&memory, DEX_FILE + 8, BEGIN);
	return memory;
}

static int ask(struct memory *memory, enum stack_arch arch, unsigned version,
	       struct art_method *method)
{
	const struct byte_source source = {read_words, memory, 1ull << 56};

	return art_method_read(&source, arch, version, METHOD, method);
}

Test(art_method, the_number_stands_where_the_version_says)
{
	static const struct {
		unsigned version;
		int err;
		uint32_t number;
	} rows[] = {{170, 0, 12}, {183, 0, 12},       {195, 0, 8},       {239, 0, 8},
		    {259, 0, 8},  {138, -ENOTSUP, 0}, {190, -ENOTSUP, 0}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct memory memory = a_memory(8, 12, 0);
		struct art_method method = {0};

		cr_expect_eq(ask(&memory, STACK_X86_64, rows[i].version, &method), rows[i].err);
		cr_expect_eq(method.number, rows[i].number, "version %u: %u", rows[i].version,
			     method.number);
		cr_expect_eq(method.dex, rows[i].err ? 0 : BEGIN);
	}
}

Test(art_method, pointers_of_malloc_have_tags_on_arm64)
{
	struct memory memory = a_memory(8, 12, TAG);
	struct art_method method;

	cr_expect_eq(ask(&memory, STACK_ARM64, 239, &method), 0);
	cr_expect_eq(method.dex, BEGIN);
	cr_expect_eq(ask(&memory, STACK_X86_64, 239, &method), -EBADMSG, "outside of memory");
}

Test(art_method, what_makes_no_sense_is_told)
{
	struct memory memory = a_memory(8, 70000, 0);
	struct art_method method;

	cr_expect_eq(ask(&memory, STACK_X86_64, 183, &method), -EBADMSG, "too large a number");
	memory = a_memory(8, 12, 0);
	memory.moves_at = 3;
	cr_expect_eq(ask(&memory, STACK_X86_64, 183, &method), -EBADMSG, "changed meanwhile");
	for (unsigned i = 0; i < 9; i++) {
		memory = a_memory(8, 12, 0);
		memory.words[i].address = 1;
		cr_expect_eq(ask(&memory, STACK_X86_64, 183, &method), -EFAULT, "word %u", i);
	}
	memory = a_memory(8, 12, 0);
	memory.words[7].word = memory.words[8].word = 0;
	cr_expect_eq(ask(&memory, STACK_X86_64, 183, &method), -EBADMSG, "no DEX file");
}

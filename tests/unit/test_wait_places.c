/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/elf_file.h"
#include "stack/wait_places.h"
#include "unit/stack_elf.h"
#include <criterion/criterion.h>
#include <errno.h>

/* arm64 instructions */
#define BTI_C     0xd503245fu
#define MOV_X8(n) (0xd2800008u | (uint32_t)(n) << 5)
#define SVC       0xd4000001u
#define CMN       0xb140041fu /* cmn x0, #1, lsl #12 */
#define CNEG      0xda809400u /* cneg x0, x0, hi */
#define B_HI      0x54000048u /* two instructions on */
#define B         0x14000002u
#define RET       0xd65f03c0u
#define NOP       0xd503201fu
#define NR_EPOLL  22

static struct wait_places places;

/* Search these instructions, which are a function named `name`. Offsets count from its begin. */
static int find(const char *name, const uint32_t *words, size_t count)
{
	struct made_elf *elf = malloc(sizeof(*elf));
	char strings[32] = "";
	Elf64_Sym symbols[2] = {{0}};
	struct elf_file file;
	unsigned text, names;
	uint64_t at;
	uint8_t *bytes;
	int err;

	made_start(elf);
	strcpy(strings + 1, name);
	text = made_section(elf, ".text", SHT_PROGBITS, words, count * 4, ELF_TEXT, 0, 0);
	at = elf->sections[text].sh_offset;
	elf->sections[text].sh_addr = ELF_TEXT + at;
	symbols[1] = (Elf64_Sym){
		1, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, text, ELF_TEXT + at, count * 4};
	names = made_section(elf, ".strtab", SHT_STRTAB, strings, sizeof(strings), 0, 0, 0);
	made_section(elf, ".symtab", SHT_SYMTAB, symbols, sizeof(symbols), 0, names,
		     sizeof(Elf64_Sym));
	made_end(elf, EM_AARCH64);
	/* The whole segment, which is searched. */
	bytes = malloc(sizeof(elf->bytes));
	memcpy(bytes, elf->bytes, sizeof(elf->bytes));
	cr_assert_eq(elf_file_open_memory(&file, bytes, sizeof(elf->bytes)), 0);
	err = wait_places_find(&file, &places);
	for (uint32_t i = 0; i < places.enter_count; i++)
		places.enter[i].offset -= at;
	for (uint32_t i = 0; i < places.leave_count; i++)
		places.leave[i].offset -= at;
	elf_file_close(&file);
	free(elf);
	return err;
}

#define FIND(name, ...)                             \
	find(name, (const uint32_t[]){__VA_ARGS__}, \
	     sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

/* The call returns to `back` bytes in front of the place behind it. */
static void expect(uint64_t enter, uint64_t leave, uint32_t back, const char *what)
{
	cr_assert_eq(places.enter_count, 1, "%s: %u places before", what, places.enter_count);
	cr_assert_eq(places.leave_count, 1, "%s: %u places behind", what, places.leave_count);
	cr_expect_eq(places.enter[0].kind, WAIT_EPOLL, "%s: its kind", what);
	cr_expect_eq(places.enter[0].offset, enter, "%s: before at %#lx", what,
		     (unsigned long)places.enter[0].offset);
	cr_expect_eq(places.leave[0].offset, leave, "%s: behind at %#lx", what,
		     (unsigned long)places.leave[0].offset);
	cr_expect_eq(places.leave[0].back, back, "%s: %u bytes behind the return", what,
		     places.leave[0].back);
}

Test(wait_places, jump_behind_the_call)
{
	cr_assert_eq(FIND("__epoll_pwait", MOV_X8(NR_EPOLL), SVC, CMN, CNEG, B_HI, RET), 0);
	expect(0, 16, 8, "bionic");
	cr_assert_eq(FIND("__epoll_pwait", BTI_C, MOV_X8(NR_EPOLL), SVC, CMN, CNEG, B_HI, RET), 0);
	expect(4, 20, 8, "bionic with BTI");
	cr_assert_eq(FIND("epoll_pwait", NOP, MOV_X8(NR_EPOLL), SVC, CMN, B_HI, RET), 0);
	expect(4, 16, 4, "glibc");
}

Test(wait_places, no_jump_that_is_known)
{
	cr_assert_eq(FIND("epoll_pwait", MOV_X8(NR_EPOLL), SVC, B, RET), 0);
	expect(0, 8, 0, "musl");
	cr_assert_eq(FIND("epoll_pwait", MOV_X8(NR_EPOLL), SVC, CMN, RET, B_HI), 0);
	expect(0, 8, 0, "a return before the jump");
	cr_assert_eq(FIND("epoll_pwait", MOV_X8(NR_EPOLL), SVC, CMN, CNEG, B, RET), 0);
	expect(0, 8, 0, "a jump without a condition");
	cr_assert_eq(FIND("epoll_pwait", MOV_X8(NR_EPOLL), SVC, CNEG, B_HI, RET), 0);
	expect(0, 8, 0, "nothing is compared");
	cr_assert_eq(FIND("epoll_pwait", MOV_X8(NR_EPOLL), B, SVC, CMN, B_HI), -ENOENT);
}

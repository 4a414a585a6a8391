/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/elf_file.h"
#include "stack/elf_index.h"
#include "unit/stack_elf.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <lzma.h>
#include <sys/mman.h>
#include <unistd.h>

static Elf64_Sym symbol(uint32_t name, unsigned type, unsigned bind, uint64_t value, uint64_t size)
{
	return (Elf64_Sym){name, ELF64_ST_INFO(bind, type), 0, 1, value, size};
}

/* An ELF with symbols: alpha [0, 0x40), _alias of it, beta without size, a data object, an import.
 */
static void make(struct made_elf *elf, unsigned *symtab, unsigned *strtab)
{
	static const char strings[] = "\0alpha\0__alias\0beta\0object\0import\0$x\0far";
	Elf64_Sym symbols[] = {
		symbol(0, STT_NOTYPE, STB_LOCAL, 0, 0),
		symbol(7, STT_FUNC, STB_GLOBAL, ELF_TEXT + 0x100, 0x40),
		symbol(1, STT_FUNC, STB_WEAK, ELF_TEXT + 0x100, 0x40),
		symbol(15, STT_NOTYPE, STB_LOCAL, ELF_TEXT + 0x200, 0),
		symbol(20, STT_OBJECT, STB_GLOBAL, ELF_TEXT + 0x300, 8),
		symbol(27, STT_FUNC, STB_GLOBAL, ELF_TEXT + 0x400, 8),
		symbol(34, STT_NOTYPE, STB_LOCAL, ELF_TEXT + 0x208, 0),
		symbol(37, STT_FUNC, STB_GLOBAL, 0x900000, 8), /* outside of any segment */
	};

	symbols[5].st_shndx = SHN_UNDEF;
	made_start(elf);
	*strtab = made_section(elf, ".strtab", SHT_STRTAB, strings, sizeof(strings), 0, 0, 0);
	*symtab = made_section(elf, ".symtab", SHT_SYMTAB, symbols, sizeof(symbols), 0, *strtab,
			       sizeof(Elf64_Sym));
}

static int open_copy(struct elf_file *file, const uint8_t *from, size_t size)
{
	uint8_t *bytes = malloc(size ? size : 1);

	memcpy(bytes, from, size);
	return elf_file_open_memory(file, bytes, size);
}

Test(stack_elf, index)
{
	struct made_elf *elf = malloc(sizeof(*elf));
	char name[ELF_INDEX_NAME_BYTES];
	struct elf_index index;
	struct elf_file file;
	unsigned symtab, strtab;

	make(elf, &symtab, &strtab);
	made_end(elf, EM_X86_64);
	cr_assert_eq(open_copy(&file, elf->bytes, elf->size), 0);
	cr_assert_eq(elf_index_build(&index, &file, NULL), 0);
	cr_assert_eq(index.count, 2);
	cr_assert_null(elf_index_find(&index, ELF_TEXT + 0xff, 0));
	cr_assert_null(elf_index_find(&index, ELF_TEXT + 0x140, 0));
	cr_assert_eq(
		elf_index_name(&index, &file, elf_index_find(&index, ELF_TEXT + 0x13f, 0), name),
		0);
	cr_expect_str_eq(name, "alpha");
	cr_assert_eq(
		elf_index_name(&index, &file, elf_index_find(&index, ELF_TEXT + 0x300, 0), name),
		0);
	cr_expect_str_eq(name, "beta");
	elf_index_free(&index);
	elf_file_close(&file);
	free(elf);
}

/* Each header field in turn with each absurd value: no crash, and memory stays within bounds
 * (the tests run under ASan too). */
/* A last symbol without a size must not name everything behind it. */
Test(stack_elf, reach_of_a_symbol_without_a_size)
{
	static const char strings[] = "\0last";
	Elf64_Sym symbols[] = {{0}, symbol(1, STT_FUNC, STB_GLOBAL, ELF_TEXT + 0x100, 0)};
	struct made_elf *elf = malloc(sizeof(*elf));
	struct elf_index index;
	struct elf_file file;
	unsigned strtab, text;

	for (unsigned with_section = 0; with_section < 2; with_section++) {
		made_start(elf);
		strtab =
			made_section(elf, ".strtab", SHT_STRTAB, strings, sizeof(strings), 0, 0, 0);
		made_section(elf, ".symtab", SHT_SYMTAB, symbols, sizeof(symbols), 0, strtab,
			     sizeof(Elf64_Sym));
		if (with_section) {
			text = made_section(elf, ".text", SHT_PROGBITS, NULL, 0x300, ELF_TEXT, 0,
					    0);
			elf->sections[text].sh_flags |= SHF_EXECINSTR;
		}
		made_end(elf, EM_X86_64);
		cr_assert_eq(open_copy(&file, elf->bytes, elf->size), 0);
		cr_assert_eq(elf_index_build(&index, &file, NULL), 0);
		cr_assert_not_null(elf_index_find(&index, ELF_TEXT + 0x2ff, 0));
		/* to the end of its section, or 4 KiB */
		cr_assert_eq(!elf_index_find(&index, ELF_TEXT + 0x300, 0), with_section);
		cr_assert_null(elf_index_find(&index, ELF_TEXT + 0x1100, 0));
		/* the tables say that the function goes on */
		cr_assert_eq(!elf_index_find(&index, ELF_TEXT + 0x1100, ELF_TEXT + 0x100),
			     with_section);
		cr_assert_null(elf_index_find(&index, ELF_TEXT + 0x1100, ELF_TEXT + 0x1000));
		elf_index_free(&index);
		elf_file_close(&file);
	}
	free(elf);
}

Test(stack_elf, absurd_values, .timeout = 60)
{
	static const uint64_t absurd[] = {0,
					  1,
					  3,
					  0x7f,
					  0xffff,
					  0x7fffffff,
					  0xffffffff,
					  0x7fffffffffffffff,
					  0xfffffffffffffff0,
					  0xffffffffffffffff};
	struct made_elf *elf = malloc(sizeof(*elf));
	char name[ELF_INDEX_NAME_BYTES];
	unsigned symtab, strtab, opened = 0;

	make(elf, &symtab, &strtab);
	made_section(elf, ".eh_frame", SHT_PROGBITS, "\0\0\0\0\0\0\0", 8, 0x500000, 0, 0);
	made_section(elf, ".note", SHT_NOTE, "\4\0\0\0\4\0\0\0\3\0\0\0GNU\0abcd", 20, 0, 0, 0);
	made_end(elf, EM_X86_64);
	size_t headers = elf->count * sizeof(Elf64_Shdr), from = elf->size - headers;

	for (size_t at = 0; at < sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr) + headers; at += 2) {
		size_t where = at < 120 ? at : from + (at - 120);

		for (size_t v = 0; v < sizeof(absurd) / sizeof(absurd[0]); v++) {
			uint8_t saved[8];
			size_t width = elf->size - where < 8 ? elf->size - where : 8;
			struct elf_file file;
			struct elf_index index;

			memcpy(saved, elf->bytes + where, width);
			memcpy(elf->bytes + where, &absurd[v], width);
			if (!open_copy(&file, elf->bytes, elf->size)) {
				uint64_t address;

				opened++;
				cr_assert_leq(file.build_id_bytes, sizeof(file.build_id));
				elf_file_address(&file, 0x1234, &address);
				elf_file_address(&file, UINT64_MAX, &address);
				if (!elf_index_build(&index, &file, NULL)) {
					for (size_t i = 0; i < index.count; i++)
						elf_index_name(&index, &file, &index.symbols[i],
							       name);
					elf_index_find(&index, ELF_TEXT + 0x110, 0);
					elf_index_free(&index);
				}
				elf_file_close(&file);
			}
			memcpy(elf->bytes + where, saved, width);
		}
	}
	cr_assert_gt(opened, 100);
	free(elf);
}

Test(stack_elf, every_truncation)
{
	struct made_elf *elf = malloc(sizeof(*elf));
	struct elf_file file;
	struct elf_index index;
	unsigned symtab, strtab;

	make(elf, &symtab, &strtab);
	made_end(elf, EM_AARCH64);
	for (size_t size = 0; size <= elf->size; size++) {
		if (open_copy(&file, elf->bytes, size))
			continue;
		if (!elf_index_build(&index, &file, NULL))
			elf_index_free(&index);
		elf_file_close(&file);
	}
	free(elf);
}

/* 8 MiB of zeros in a few hundred bytes of xz: unpacked only up to the limit. */
Test(stack_elf, debugdata_that_unpacks_to_too_much)
{
	size_t zeros = 8 << 20, packed_size = 0;
	uint8_t *bomb = calloc(1, zeros), *packed = malloc(65536);
	struct made_elf *elf = malloc(sizeof(*elf));
	struct elf_file file, mini;

	cr_assert_eq(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC32, NULL, bomb, zeros, packed,
					     &packed_size, 65536),
		     LZMA_OK);
	made_start(elf);
	made_section(elf, ".gnu_debugdata", SHT_PROGBITS, packed, packed_size, 0, 0, 0);
	made_end(elf, EM_X86_64);
	cr_assert_eq(open_copy(&file, elf->bytes, elf->size), 0);
	cr_expect_eq(elf_file_open_minidebug(&file, 1 << 20, &mini), -EFBIG);
	cr_expect_eq(elf_file_open_minidebug(&file, 16 << 20, &mini),
		     -ENOEXEC); /* zeros are no ELF */
	elf_file_close(&file);
	/* cut in the middle */
	made_start(elf);
	made_section(elf, ".gnu_debugdata", SHT_PROGBITS, packed, packed_size / 2, 0, 0, 0);
	made_end(elf, EM_X86_64);
	cr_assert_eq(open_copy(&file, elf->bytes, elf->size), 0);
	cr_expect_eq(elf_file_open_minidebug(&file, 16 << 20, &mini), -ENOEXEC);
	elf_file_close(&file);
	free(elf);
	free(bomb);
	free(packed);
}

/* A file that shrinks while it is open is an error, not a SIGBUS. */
Test(stack_elf, file_that_shrinks)
{
	struct made_elf *elf = malloc(sizeof(*elf));
	struct elf_file file;
	struct elf_index index;
	unsigned symtab, strtab;
	int fd = memfd_create("elf", MFD_CLOEXEC);

	make(elf, &symtab, &strtab);
	made_end(elf, EM_X86_64);
	cr_assert_eq(write(fd, elf->bytes, elf->size), (ssize_t)elf->size);
	cr_assert_eq(elf_file_open(&file, fd, 0), 0);
	cr_assert_eq(ftruncate(fd, 100), 0);
	cr_expect_eq(elf_index_build(&index, &file, NULL), 0);
	cr_expect_eq(index.count, 0);
	cr_expect_gt(index.dropped, 0);
	elf_index_free(&index);
	elf_file_close(&file);
	free(elf);
}

Test(stack_elf, what_is_not_for_us)
{
	struct elf_file file;
	uint8_t ident[64] = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS32, ELFDATA2LSB};

	cr_expect_eq(open_copy(&file, ident, sizeof(ident)), -ENOTSUP);
	ident[EI_CLASS] = ELFCLASS64;
	ident[EI_DATA] = ELFDATA2MSB;
	cr_expect_eq(open_copy(&file, ident, sizeof(ident)), -ENOTSUP);
	ident[EI_DATA] = ELFDATA2LSB;
	cr_expect_eq(open_copy(&file, ident, sizeof(ident)), -ENOTSUP); /* machine 0 */
	cr_expect_eq(open_copy(&file, (const uint8_t *)"PK\3\4", 4), -ENOEXEC);
	cr_expect_eq(elf_file_open(&file, open("/dev/null", O_RDONLY), 0), -ENOEXEC);
	cr_expect_eq(elf_file_open(&file, open("/proc/self/exe", O_RDONLY), 1ull << 62), -ENOEXEC);
}

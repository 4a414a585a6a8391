/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/cfi.h"

#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <libelf.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "util/pages.h"

#define CFI_MAX_SECTION (64u << 20)
/* An Elf, a Dwarf and a Dwarf_CFI of libdw 0.188, with their first nodes. */
#define LIBDW_BYTES 3072
#define RAX         0
#define RBX         3
#define DEX1        0x31584544 /* "DEX1" */

enum { EH_FRAME_HDR = 0, EH_FRAME = 1, DEBUG_FRAME = 2, SECTION_KINDS };

static const char section_names[] = "\0.eh_frame_hdr\0.eh_frame\0.debug_frame\0.shstrtab";
static const uint8_t name_offsets[] = {1, 15, 25, 38};

/* One image around the sections of one file. */
struct cfi_image {
	uint8_t *bytes;
	size_t size;
	Elf *elf;
	Dwarf *dwarf;
	Dwarf_CFI *eh, *debug; /* debug belongs to dwarf */
	/* sorted table of .eh_frame_hdr: pairs of (function, entry), relative to the header */
	const uint8_t *search;
	size_t search_count;
	uint64_t search_base;
};

struct cfi_tables {
	struct cfi_image images[2];
	enum stack_arch arch;
};

static void image_close(struct cfi_image *image)
{
	if (image->eh)
		dwarf_cfi_end(image->eh);
	if (image->dwarf)
		dwarf_end(image->dwarf);
	if (image->elf)
		elf_end(image->elf);
	pages_free(image->bytes);
	*image = (struct cfi_image){0};
}

/* Header layout: version, encodings of pointer, count and table, sdata4 pointer, udata4 count, then
 * the table; what every linker writes. Anything else: no search here, libdw has its own. */
static void find_search_table(struct cfi_image *image, const uint8_t *hdr, size_t size,
			      uint64_t address)
{
	uint32_t count;

	if (size < 12 || hdr[0] != 1 || hdr[1] != 0x1b || hdr[2] != 0x03 || hdr[3] != 0x3b)
		return;
	memcpy(&count, hdr + 8, sizeof(count));
	if (count > (size - 12) / 8)
		return;
	image->search = hdr + 12;
	image->search_count = count;
	image->search_base = address;
}

static uint64_t function_start(const struct cfi_image *image, uint64_t address)
{
	size_t low = 0, high = image->search_count;
	int32_t delta;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		memcpy(&delta, image->search + middle * 8, sizeof(delta));
		if (image->search_base + delta <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return 0;
	memcpy(&delta, image->search + (low - 1) * 8, sizeof(delta));
	return image->search_base + delta;
}

/* 0; -ENODATA: this file has no tables; or why its tables cannot be had. */
static int image_open(struct cfi_image *image, const struct elf_file *file)
{
	const struct elf_section *from[SECTION_KINDS] = {&file->eh_frame_hdr, &file->eh_frame,
							 &file->debug_frame};
	uint8_t *parts[SECTION_KINDS] = {0};
	size_t sizes[SECTION_KINDS] = {0}, at;
	Elf64_Shdr headers[SECTION_KINDS + 2] = {0};
	Elf64_Ehdr header = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = file->arch == STACK_X86_64 ? EM_X86_64 : EM_AARCH64,
		.e_version = EV_CURRENT,
		.e_ehsize = sizeof(header),
		.e_shoff = sizeof(header),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SECTION_KINDS + 2,
		.e_shstrndx = SECTION_KINDS + 1,
	};
	int err = 0;

	if (!file->eh_frame.size && !file->debug_frame.size)
		return -ENODATA;
	at = sizeof(header) + sizeof(headers) + ((sizeof(section_names) + 15) & ~15ul);
	for (unsigned i = 0; i < SECTION_KINDS; i++) {
		if (!from[i]->size)
			continue;
		err = elf_file_section(file, from[i], CFI_MAX_SECTION, &parts[i], &sizes[i]);
		if (err)
			goto out;
		headers[i + 1] = (Elf64_Shdr){.sh_name = name_offsets[i],
					      .sh_type = SHT_PROGBITS,
					      .sh_flags = i == DEBUG_FRAME ? 0 : SHF_ALLOC,
					      .sh_addr = from[i]->address,
					      .sh_offset = at,
					      .sh_size = sizes[i],
					      .sh_addralign = 8};
		at = (at + sizes[i] + 15) & ~15ul;
	}
	headers[SECTION_KINDS + 1] = (Elf64_Shdr){.sh_name = name_offsets[SECTION_KINDS],
						  .sh_type = SHT_STRTAB,
						  .sh_offset = sizeof(header) + sizeof(headers),
						  .sh_size = sizeof(section_names),
						  .sh_addralign = 1};
	image->size = at;
	image->bytes = pages_new(at);
	if (!image->bytes) {
		err = -ENOMEM;
		goto out;
	}
	memcpy(image->bytes, &header, sizeof(header));
	memcpy(image->bytes + sizeof(header), headers, sizeof(headers));
	memcpy(image->bytes + sizeof(header) + sizeof(headers), section_names,
	       sizeof(section_names));
	for (unsigned i = 0; i < SECTION_KINDS; i++) {
		if (parts[i])
			memcpy(image->bytes + headers[i + 1].sh_offset, parts[i], sizes[i]);
	}
	if (parts[EH_FRAME_HDR])
		find_search_table(image, image->bytes + headers[EH_FRAME_HDR + 1].sh_offset,
				  sizes[EH_FRAME_HDR], file->eh_frame_hdr.address);
	elf_version(EV_CURRENT);
	image->elf = elf_memory((char *)image->bytes, image->size);
	if (!image->elf) {
		err = -ENOMEM;
		goto out;
	}
	if (sizes[EH_FRAME])
		image->eh = dwarf_getcfi_elf(image->elf);
	if (sizes[DEBUG_FRAME]) {
		image->dwarf = dwarf_begin_elf(image->elf, DWARF_C_READ, NULL);
		image->debug = image->dwarf ? dwarf_getcfi(image->dwarf) : NULL;
	}
	if (!image->eh && !image->debug)
		err = -ENODATA;
out:
	for (unsigned i = 0; i < SECTION_KINDS; i++)
		free(parts[i]);
	if (err)
		image_close(image);
	return err;
}

int cfi_tables_new(const struct elf_file *elf, const struct elf_file *mini, struct cfi_tables **out)
{
	struct cfi_tables *tables = calloc(1, sizeof(*tables));
	int err, mini_err = -ENODATA;

	*out = NULL;
	if (!tables)
		return -ENOMEM;
	tables->arch = elf->arch;
	err = image_open(&tables->images[0], elf);
	if (mini && mini->arch == elf->arch)
		mini_err = image_open(&tables->images[1], mini);
	if (err && mini_err) {
		free(tables);
		return err != -ENODATA ? err : mini_err;
	}
	*out = tables;
	return 0;
}

void cfi_tables_free(struct cfi_tables *tables)
{
	if (!tables)
		return;
	image_close(&tables->images[0]);
	image_close(&tables->images[1]);
	free(tables);
}

size_t cfi_tables_bytes(const struct cfi_tables *tables)
{
	size_t bytes = sizeof(*tables);

	for (unsigned i = 0; i < 2; i++)
		if (tables->images[i].bytes)
			bytes += pages_held_bytes(tables->images[i].size) + LIBDW_BYTES;
	return bytes;
}

/* libdw describes a saved register by operations; the common shapes become numbers. True when the
 * rule refers to the operations. */
static bool fold_rule(struct cfi_rule *rule, const Dwarf_Op *ops, size_t count)
{
	bool value = count > 1 && ops[count - 1].atom == DW_OP_stack_value;
	size_t rest = value ? count - 1 : count;

	if (count == 1 && ops[0].atom == DW_OP_regx) {
		rule->kind = RULE_REGISTER;
		rule->other = ops[0].number < STACK_REGISTERS ? ops[0].number : STACK_REGISTERS;
		return false;
	}
	if (ops[0].atom == DW_OP_call_frame_cfa &&
	    (rest == 1 || (rest == 2 && ops[1].atom == DW_OP_plus_uconst))) {
		rule->kind = value ? RULE_IS_CFA : RULE_AT_CFA;
		rule->offset = rest == 2 ? (int64_t)ops[1].number : 0;
		return false;
	}
	rule->kind = RULE_EXPRESSION;
	rule->other = count < UINT16_MAX ? count : UINT16_MAX;
	rule->ops = ops;
	return true;
}

/* ART's interpreters give a register that no caller saves the value of the DEX pc, and mark that by
 * a constant that is dropped at once: "DEX1" (art/runtime/interpreter/cfi_asm_support.h). libdw
 * puts the CFA before the operations of a value. */
static bool is_dex_pc(const struct cfi_rule *rule)
{
	const Dwarf_Op *ops = rule->ops;

	return rule->kind == RULE_EXPRESSION && rule->other >= 4 &&
	       ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom == DW_OP_const4u &&
	       ops[1].number == DEX1 && ops[2].atom == DW_OP_drop;
}

/* A register that no operation describes. None at all (NULL): it has its value still; an empty
 * list: undefined. Callee-saved registers without a rule have the former, by libdw's tables of the
 * System V ABI of x86_64 (3.2.1) and of the AAPCS64 (6.1.1); the one of x86_64 has the number of
 * rax where it means rbx (backends/x86_64_cfi.c, elfutils 0.188). */
static bool is_undefined(enum stack_arch arch, unsigned reg, const Dwarf_Op *ops)
{
	if (arch == STACK_X86_64 && (reg == RAX || reg == RBX))
		return reg == RAX;
	return ops;
}

static int row_of_frame(const struct cfi_tables *tables, const struct cfi_image *image,
			uint64_t address, Dwarf_Frame *frame, struct cfi_row **out)
{
	unsigned registers = tables->arch == STACK_X86_64 ? 17 : 32;
	struct cfi_row row = {0}, *copy;
	struct cfi_rule rules[STACK_REGISTERS];
	bool keep = false;
	Dwarf_Op mem[STACK_REGISTERS][3], *ops;
	size_t count;
	int ra = dwarf_frame_info(frame, NULL, NULL, &row.signal);

	if (ra < 0 || ra >= STACK_REGISTERS || dwarf_frame_cfa(frame, &ops, &count) || !count)
		return -EBADMSG;
	row.return_register = ra;
	if (count == 1 && ops[0].atom == DW_OP_bregx) {
		if (ops[0].number >= registers ||
		    (int64_t)ops[0].number2 != (int32_t)ops[0].number2)
			return -EBADMSG;
		row.cfa_register = ops[0].number;
		row.cfa_offset = (int32_t)ops[0].number2;
	} else {
		row.cfa_ops = ops;
		row.cfa_op_count = count < UINT16_MAX ? count : UINT16_MAX;
		keep = true;
	}
	for (unsigned reg = 0; reg < registers; reg++) {
		if (dwarf_frame_register(frame, reg, mem[reg], &ops, &count))
			return -EBADMSG;
		if (!count) {
			if (is_undefined(tables->arch, reg, ops))
				row.undefined |= 1ull << reg;
			continue;
		}
		rules[row.rule_count].reg = reg;
		rules[row.rule_count].other = 0;
		keep |= fold_rule(&rules[row.rule_count], ops, count);
		if (is_dex_pc(&rules[row.rule_count++]))
			row.dex_rule = row.rule_count;
	}
	row.function = function_start(image, address);
	copy = malloc(sizeof(row) + row.rule_count * sizeof(rules[0]));
	if (!copy)
		return -ENOMEM;
	*copy = row;
	memcpy(copy->rules, rules, row.rule_count * sizeof(rules[0]));
	for (unsigned i = 0; i < row.rule_count; i++) {
		/* An expression in our own memory would not outlive this call; libdw gives such
		 * only for the shapes that fold_rule knows. */
		if (rules[i].kind == RULE_EXPRESSION &&
		    (uintptr_t)rules[i].ops - (uintptr_t)mem < sizeof(mem)) {
			free(copy);
			return -EBADMSG;
		}
	}
	if (keep)
		copy->frame = frame;
	else
		free(frame);
	*out = copy;
	return 0;
}

int cfi_row_at(struct cfi_tables *tables, uint64_t address, struct cfi_row **row)
{
	bool malformed = false;

	*row = NULL;
	for (unsigned i = 0; i < 4; i++) {
		struct cfi_image *image = &tables->images[i / 2];
		Dwarf_CFI *cfi = i % 2 ? image->debug : image->eh;
		Dwarf_Frame *frame = NULL;
		int err;

		if (!cfi)
			continue;
		if (dwarf_cfi_addrframe(cfi, address, &frame)) {
			int number = dwarf_errno();

			/* "no matching address range" is the one error that is none */
			malformed |= number && !strstr(dwarf_errmsg(number) ?: "", "match");
			continue;
		}
		err = row_of_frame(tables, image, address, frame, row);
		if (!err)
			return 0;
		free(frame);
		if (err == -ENOMEM)
			return err;
		malformed = true;
	}
	return malformed ? -EBADMSG : -ENODATA;
}

void cfi_row_free(struct cfi_row *row)
{
	if (!row)
		return;
	free(row->frame);
	free(row);
}

size_t cfi_row_bytes(const struct cfi_row *row)
{
	if (!row)
		return 0;
	return malloc_usable_size((void *)row) + sizeof(size_t) +
	       (row->frame ? malloc_usable_size(row->frame) + sizeof(size_t) : 0);
}

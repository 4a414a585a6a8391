/* SPDX-License-Identifier: BSD-2-Clause */
/* Compiled methods for the host's machine and the ELF files that ART's JIT keeps of them in memory
 * (compiler/debug/elf_debug_writer.cc, elf_debug_frame_writer.h). */
#pragma once
#include <elf.h>
#include <lzma.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <string>
#include <vector>

namespace jit
{

typedef std::vector<uint8_t> Bytes;

/* ---- code: void method(void *state, void (*next)(void *state), void *own) ---- */

struct Shape {
	Bytes code, cfi;
};

/* Frames of two sizes. Both destroy the registers that they saved, so that only their tables lead
 * on, and have no frame pointer. */
#ifdef __aarch64__
static const uint16_t machine = EM_AARCH64;
static inline Shape shape(int which)
{
	if (which % 2)
		return {{0xfd, 0x7b, 0xbe, 0xa9,  /* stp x29, x30, [sp, #-32]! */
			 0xfd, 0x03, 0x1f, 0xaa,  /* mov x29, xzr */
			 0x20, 0x00, 0x3f, 0xd6,  /* blr x1 */
			 0xfd, 0x7b, 0xc2, 0xa8,  /* ldp x29, x30, [sp], #32 */
			 0xc0, 0x03, 0x5f, 0xd6}, /* ret */
			{0x44, 0x0e, 32, 0x9d, 8, 0x9e, 6, 0x4c, 0x0e, 0, 0xdd, 0xde}};
	return {{0xff, 0x43, 0x01, 0xd1,  /* sub sp, sp, #80 */
		 0xf6, 0x1f, 0x00, 0xf9,  /* str x22, [sp, #56] */
		 0xfd, 0x7b, 0x04, 0xa9,  /* stp x29, x30, [sp, #64] */
		 0xf6, 0x03, 0x1f, 0xaa,  /* mov x22, xzr */
		 0xfd, 0x03, 0x1f, 0xaa,  /* mov x29, xzr */
		 0x20, 0x00, 0x3f, 0xd6,  /* blr x1 */
		 0xfd, 0x7b, 0x44, 0xa9,  /* ldp x29, x30, [sp, #64] */
		 0xf6, 0x1f, 0x40, 0xf9,  /* ldr x22, [sp, #56] */
		 0xff, 0x43, 0x01, 0x91,  /* add sp, sp, #80 */
		 0xc0, 0x03, 0x5f, 0xd6}, /* ret */
		{0x44, 0x0e, 80, 0x44, 0x96, 6, 0x44, 0x9d, 4, 0x9e, 2, /* as they are saved */
		 0x50, 0xdd, 0xde, 0x44, 0xd6, 0x44, 0x0e, 0}};
}
/* As the larger one, with its own ArtMethod at the stack pointer. */
static inline Shape shape_with_method()
{
	Shape s = shape(0);
	const uint8_t store[] = {0xe2, 0x03, 0x00, 0xf9}; /* str x2, [sp] */

	s.code.insert(s.code.begin() + 12, store, store + 4);
	s.cfi[11] = 0x54; /* it is behind what is saved */
	return s;
}
#else
static const uint16_t machine = EM_X86_64;
static inline Shape shape(int which)
{
	if (which % 2)
		return {{0x53,                    /* push rbx */
			 0x48, 0x83, 0xec, 0x40,  /* sub rsp, 64 */
			 0x31, 0xdb,              /* xor ebx, ebx */
			 0xff, 0xd6,              /* call rsi */
			 0x48, 0x83, 0xc4, 0x40,  /* add rsp, 64 */
			 0x5b, 0xc3},             /* pop rbx; ret */
			{0x41, 0x0e, 16, 0x83, 4, /* cfa at rsp + 16, rbx at cfa - 16 */
			 0x44, 0x0e, 80,          /* rsp + 80 */
			 0x48, 0x0e, 16,          /* behind the add */
			 0x41, 0xc3, 0x0e, 8}};   /* behind the pop: rbx again */
	return {{0x55, 0x53,                      /* push rbp; push rbx */
		 0x48, 0x83, 0xec, 0x28,          /* sub rsp, 40 */
		 0x31, 0xdb, 0x31, 0xed,          /* xor ebx, ebx; xor ebp, ebp */
		 0xff, 0xd6,                      /* call rsi */
		 0x48, 0x83, 0xc4, 0x28,          /* add rsp, 40 */
		 0x5b, 0x5d, 0xc3},               /* pop rbx; pop rbp; ret */
		{0x41, 0x0e, 16,   0x86, 4,       /* cfa at rsp + 16, rbp at cfa - 16 */
		 0x41, 0x0e, 24,   0x83, 6,       /* rsp + 24, rbx at cfa - 24 */
		 0x44, 0x0e, 64,                  /* rsp + 64 */
		 0x4a, 0x0e, 24,                  /* behind the add */
		 0x41, 0xc3, 0x0e, 16,   0x41, 0xc6, 0x0e, 8}};
}
/* As the larger one, with its own ArtMethod at the stack pointer. */
static inline Shape shape_with_method()
{
	Shape s = shape(0);
	const uint8_t store[] = {0x48, 0x89, 0x14, 0x24}; /* mov [rsp], rdx */

	s.code.insert(s.code.begin() + 6, store, store + 4);
	for (uint8_t &op : s.cfi)
		op = op == 0x4a ? 0x4e : op; /* it is behind the sub */
	return s;
}
#endif

/* Where the call of such code returns to. */
static inline uint32_t behind_call(int which)
{
#ifdef __aarch64__
	return which % 2 ? 12 : 24;
#else
	return which % 2 ? 9 : 12;
#endif
}

struct Method {
	std::string name; /* PrettyMethod without a signature */
	uint64_t address, bytes;
	Bytes cfi;
};

/* ---- the ELF file ---- */

template <class T> static inline void put(Bytes *to, T value)
{
	to->insert(to->end(), (uint8_t *)&value, (uint8_t *)&value + sizeof(value));
}

/* Length, then what is in it, filled up with DW_CFA_nop. */
static inline void put_unit(Bytes *to, Bytes unit)
{
	while ((unit.size() + 4) % 8)
		unit.push_back(0);
	put<uint32_t>(to, (uint32_t)unit.size());
	to->insert(to->end(), unit.begin(), unit.end());
}

/* What WriteCIE of ART says: version 1, data alignment -4, and which registers stay as they are. */
#ifdef __aarch64__
static inline Bytes cie_body()
{
	Bytes cie;

	put<uint32_t>(&cie, 0xffffffff);
	for (uint8_t b : {1, 0, 1, 0x7c, 30, 0x0c, 31, 0})
		cie.push_back(b);
	for (uint8_t reg = 0; reg < 30; reg++) {
		cie.push_back(reg < 19 ? 0x07 : 0x08);
		cie.push_back(reg);
	}
	return cie;
}
#else
static inline Bytes cie_body()
{
	/* DWARF's numbers of ART's registers 0..7 */
	static const uint8_t core[] = {0, 2, 1, 3, 7, 6, 4, 5};
	Bytes cie;

	put<uint32_t>(&cie, 0xffffffff);
	for (uint8_t b : {1, 0, 1, 0x7c, 16})
		cie.push_back(b);
	for (uint8_t b : {0x0c, 7, 8, 0x80 | 16, 2})
		cie.push_back(b);
	for (uint8_t reg = 0; reg < 16; reg++) {
		if (reg == 4)
			continue;
		cie.push_back(reg < 12 && reg != 3 && reg != 5 ? 0x07 : 0x08);
		cie.push_back(reg < 8 ? core[reg] : reg);
	}
	for (uint8_t reg = 0; reg < 16; reg++) {
		cie.push_back(reg < 12 ? 0x07 : 0x08);
		cie.push_back((uint8_t)(17 + reg));
	}
	return cie;
}
#endif

/* .debug_frame: that, and WriteFDE of each. */
static inline Bytes frames(const std::vector<Method> &methods)
{
	Bytes out;

	put_unit(&out, cie_body());
	for (const Method &m : methods) {
		Bytes fde;

		put<uint32_t>(&fde, 0);
		put<uint64_t>(&fde, m.address);
		put<uint64_t>(&fde, m.bytes);
		fde.insert(fde.end(), m.cfi.begin(), m.cfi.end());
		put_unit(&out, fde);
	}
	return out;
}

struct Section {
	const char *name;
	uint32_t type, link, info;
	uint64_t flags, address, bytes, entry;
	Bytes content;
};

/* No program headers, .text without bytes at the address of the code. */
static inline Bytes elf_of(uint64_t text, uint64_t text_bytes, std::vector<Section> sections)
{
	std::vector<Elf64_Shdr> table(1);
	Bytes out(sizeof(Elf64_Ehdr)), names(1);
	Elf64_Ehdr head = {};

	sections.insert(
		sections.begin(),
		{".text", SHT_NOBITS, 0, 0, SHF_ALLOC | SHF_EXECINSTR, text, text_bytes, 0, {}});
	sections.push_back({".shstrtab", SHT_STRTAB, 0, 0, 0, 0, 0, 0, {}});
	for (Section &s : sections) {
		Elf64_Shdr h = {};

		h.sh_name = (uint32_t)names.size();
		names.insert(names.end(), s.name, s.name + strlen(s.name) + 1);
		if (&s == &sections.back())
			s.content = names;
		while (out.size() % 8)
			out.push_back(0);
		h.sh_type = s.type;
		h.sh_flags = s.flags;
		h.sh_addr = s.address;
		h.sh_offset = out.size();
		h.sh_size = s.type == SHT_NOBITS ? s.bytes : s.content.size();
		h.sh_link = s.link;
		h.sh_info = s.info;
		h.sh_addralign = s.type == SHT_NOBITS ? 1 : 8;
		h.sh_entsize = s.entry;
		table.push_back(h);
		out.insert(out.end(), s.content.begin(), s.content.end());
	}
	while (out.size() % 8)
		out.push_back(0);
	memcpy(head.e_ident, ELFMAG, SELFMAG);
	head.e_ident[EI_CLASS] = ELFCLASS64;
	head.e_ident[EI_DATA] = ELFDATA2LSB;
	head.e_ident[EI_VERSION] = EV_CURRENT;
	head.e_type = ET_DYN;
	head.e_machine = machine;
	head.e_version = EV_CURRENT;
	head.e_ehsize = sizeof(head);
	head.e_shoff = out.size();
	head.e_shentsize = sizeof(Elf64_Shdr);
	head.e_shnum = (uint16_t)table.size();
	head.e_shstrndx = (uint16_t)(table.size() - 1);
	memcpy(out.data(), &head, sizeof(head));
	out.insert(out.end(), (uint8_t *)table.data(), (uint8_t *)(table.data() + table.size()));
	return out;
}

/* What a new entry holds: the methods' .symtab and .debug_frame. */
static inline Bytes plain_elf(const std::vector<Method> &methods)
{
	uint64_t begin = methods.front().address, end = 0;
	Bytes symbols(sizeof(Elf64_Sym)), names(1);

	for (const Method &m : methods) {
		Elf64_Sym s = {};

		s.st_name = (uint32_t)names.size();
		names.insert(names.end(), m.name.c_str(), m.name.c_str() + m.name.size() + 1);
		s.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
		s.st_shndx = 1;
		s.st_value = m.address;
		s.st_size = m.bytes;
		put(&symbols, s);
		begin = m.address < begin ? m.address : begin;
		end = m.address + m.bytes > end ? m.address + m.bytes : end;
	}
	return elf_of(begin, end - begin,
		      {{".symtab", SHT_SYMTAB, 3, 1, 0, 0, 0, sizeof(Elf64_Sym), symbols},
		       {".strtab", SHT_STRTAB, 0, 0, 0, 0, 0, 0, names},
		       {".debug_frame", SHT_PROGBITS, 0, 0, 0, 0, 0, 0, frames(methods)}});
}

/* What the repacking behind a garbage collection leaves: the same in .gnu_debugdata. */
static inline Bytes packed_elf(const std::vector<Method> &methods)
{
	Bytes inner = plain_elf(methods), packed(lzma_stream_buffer_bound(inner.size()));
	size_t used = 0;

	if (lzma_easy_buffer_encode(1, LZMA_CHECK_CRC32, NULL, inner.data(), inner.size(),
				    packed.data(), &used, packed.size()) != LZMA_OK)
		abort();
	packed.resize(used);
	return elf_of(methods.front().address,
		      methods.back().address + methods.back().bytes - methods.front().address,
		      {{".gnu_debugdata", SHT_PROGBITS, 0, 0, 0, 0, 0, 0, packed}});
}

} /* namespace jit */

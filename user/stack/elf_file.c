/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/elf_file.h"

#include <elf.h>
#include <errno.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define MAX_SECTION_NAMES (1u << 20)
#define MAX_NOTE_BYTES    4096

int elf_file_read(const struct elf_file *elf, uint64_t offset, void *to, size_t len)
{
	if (offset > elf->size || len > elf->size - offset)
		return -EIO;
	if (elf->fd < 0) {
		memcpy(to, elf->memory + offset, len);
		return 0;
	}
	for (size_t done = 0; done < len;) {
		ssize_t n =
			pread(elf->fd, (char *)to + done, len - done, elf->start + offset + done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EIO;
		done += n;
	}
	return 0;
}

static int inflate_section(const uint8_t *from, size_t from_size, size_t limit, uint8_t **bytes,
			   size_t *size)
{
	Elf64_Chdr header;
	uLongf unpacked;
	uint8_t *to;

	if (from_size < sizeof(header))
		return -ENOEXEC;
	memcpy(&header, from, sizeof(header));
	if (header.ch_type != ELFCOMPRESS_ZLIB)
		return -ENOEXEC;
	if (header.ch_size > limit)
		return -EFBIG;
	to = malloc(header.ch_size ? header.ch_size : 1);
	if (!to)
		return -ENOMEM;
	unpacked = header.ch_size;
	if (uncompress(to, &unpacked, from + sizeof(header), from_size - sizeof(header)) != Z_OK ||
	    unpacked != header.ch_size) {
		free(to);
		return -ENOEXEC;
	}
	*bytes = to;
	*size = unpacked;
	return 0;
}

int elf_file_section(const struct elf_file *elf, const struct elf_section *section, size_t limit,
		     uint8_t **bytes, size_t *size)
{
	uint8_t *from;
	int err;

	if (section->size > limit)
		return -EFBIG;
	if (section->offset > elf->size || section->size > elf->size - section->offset)
		return -EIO;
	from = malloc(section->size ? section->size : 1);
	if (!from)
		return -ENOMEM;
	err = elf_file_read(elf, section->offset, from, section->size);
	if (!err && section->flags & SHF_COMPRESSED) {
		err = inflate_section(from, section->size, limit, bytes, size);
		free(from);
		return err;
	}
	if (err) {
		free(from);
		return err;
	}
	*bytes = from;
	*size = section->size;
	return 0;
}

/* Go's linker writes its own build id (cmd/internal/buildid). */
#define NT_GO_BUILD_ID 4

/* Look for build ids in a run of notes. */
static void find_build_id(struct elf_file *elf, uint64_t offset, uint64_t size)
{
	uint8_t notes[MAX_NOTE_BYTES];
	size_t at = 0;

	if (size > sizeof(notes))
		size = sizeof(notes);
	if ((elf->build_id_bytes && elf->go) || elf_file_read(elf, offset, notes, size))
		return;
	while (size - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		uint64_t name, desc, next;

		memcpy(&note, notes + at, sizeof(note));
		name = at + sizeof(note);
		desc = name + (((uint64_t)note.n_namesz + 3) & ~3ull);
		next = desc + (((uint64_t)note.n_descsz + 3) & ~3ull);
		if (desc > size || note.n_descsz > size - desc)
			return;
		if (note.n_type == NT_GO_BUILD_ID && note.n_namesz == 4 &&
		    !memcmp(notes + name, "Go\0", 4))
			elf->go = true;
		if (!elf->build_id_bytes && note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    !memcmp(notes + name, "GNU", 4) && note.n_descsz &&
		    note.n_descsz <= sizeof(elf->build_id)) {
			memcpy(elf->build_id, notes + desc, note.n_descsz);
			elf->build_id_bytes = note.n_descsz;
		}
		if (next > size)
			return;
		at = next;
	}
}

/* A file without section headers: .eh_frame by way of PT_GNU_EH_FRAME. Its size is not written
 * anywhere; it ends at the latest where its segment ends. */
static void find_eh_frame_by_segment(struct elf_file *elf, uint64_t offset, uint64_t address,
				     uint64_t size)
{
	uint8_t header[8];
	int32_t delta;
	uint64_t eh_address;

	if (elf->eh_frame.size || size < sizeof(header) ||
	    elf_file_read(elf, offset, header, sizeof(header)))
		return;
	/* version 1, eh_frame_ptr as pcrel | sdata4: what every linker writes */
	if (header[0] != 1 || header[1] != 0x1b)
		return;
	memcpy(&delta, header + 4, sizeof(delta));
	eh_address = address + 4 + delta;
	for (unsigned i = 0; i < elf->load_count; i++) {
		const struct elf_load *load = &elf->loads[i];

		if (eh_address < load->address || eh_address - load->address >= load->file_bytes)
			continue;
		elf->eh_frame = (struct elf_section){
			.offset = load->offset + (eh_address - load->address),
			.address = eh_address,
			.size = load->file_bytes - (eh_address - load->address),
			.type = SHT_PROGBITS,
		};
		elf->eh_frame_hdr = (struct elf_section){
			.offset = offset, .address = address, .size = size, .type = SHT_PROGBITS};
	}
}

static int read_segments(struct elf_file *elf, const Elf64_Ehdr *header, bool sections)
{
	uint64_t eh_offset = 0, eh_address = 0, eh_size = 0;

	if (header->e_phnum && header->e_phentsize != sizeof(Elf64_Phdr))
		return -ENOEXEC;
	for (unsigned i = 0; i < header->e_phnum; i++) {
		Elf64_Phdr segment;

		if (elf_file_read(elf, header->e_phoff + i * sizeof(segment), &segment,
				  sizeof(segment)))
			return -ENOEXEC;
		if (segment.p_type == PT_LOAD && elf->load_count < ELF_MAX_LOADS) {
			elf->loads[elf->load_count++] = (struct elf_load){
				segment.p_offset, segment.p_vaddr, segment.p_filesz,
				segment.p_memsz, segment.p_flags & PF_X};
		} else if (segment.p_type == PT_NOTE) {
			find_build_id(elf, segment.p_offset, segment.p_filesz);
		} else if (segment.p_type == PT_GNU_EH_FRAME) {
			eh_offset = segment.p_offset;
			eh_address = segment.p_vaddr;
			eh_size = segment.p_filesz;
		}
	}
	if (!sections && eh_size)
		find_eh_frame_by_segment(elf, eh_offset, eh_address, eh_size);
	return 0;
}

static struct elf_section section_of(const Elf64_Shdr *header)
{
	return (struct elf_section){.offset = header->sh_offset,
				    .size = header->sh_size,
				    .address = header->sh_addr,
				    .entry_size = header->sh_entsize,
				    .flags = header->sh_flags,
				    .type = header->sh_type,
				    .link = header->sh_link};
}

/* The string table that belongs to a symbol table. */
static void link_strings(const Elf64_Shdr *headers, uint64_t count, struct elf_section *symbols,
			 struct elf_section *strings)
{
	if (symbols->size && symbols->link < count && symbols->entry_size == sizeof(Elf64_Sym) &&
	    headers[symbols->link].sh_type == SHT_STRTAB)
		*strings = section_of(&headers[symbols->link]);
	else
		symbols->size = 0;
}

static int read_sections(struct elf_file *elf, const Elf64_Ehdr *ehdr)
{
	Elf64_Shdr *headers = NULL, first;
	uint64_t count = ehdr->e_shnum, names_index = ehdr->e_shstrndx;
	char *names = NULL;
	size_t names_size = 0;
	int err = -ENOEXEC;

	if (!ehdr->e_shoff)
		return 0;
	if (ehdr->e_shentsize != sizeof(Elf64_Shdr) ||
	    elf_file_read(elf, ehdr->e_shoff, &first, sizeof(first)))
		return -ENOEXEC;
	if (!count)
		count = first.sh_size;
	if (names_index == SHN_XINDEX)
		names_index = first.sh_link;
	if (count > 65536 || names_index >= count)
		return -ENOEXEC;
	headers = calloc(count, sizeof(*headers));
	if (!headers)
		return -ENOMEM;
	if (elf_file_read(elf, ehdr->e_shoff, headers, count * sizeof(*headers)))
		goto out;
	struct elf_section name_section = section_of(&headers[names_index]);

	name_section.flags = 0;
	err = elf_file_section(elf, &name_section, MAX_SECTION_NAMES, (uint8_t **)&names,
			       &names_size);
	if (err)
		goto out;
	for (uint64_t i = 1; i < count; i++) {
		const Elf64_Shdr *header = &headers[i];
		const char *name = header->sh_name < names_size ? names + header->sh_name : "";
		size_t room = header->sh_name < names_size ? names_size - header->sh_name : 1;
		struct elf_section *to = NULL;

		if (header->sh_flags & SHF_EXECINSTR && elf->code_count < ELF_MAX_CODE)
			elf->code[elf->code_count++] =
				(struct elf_range){header->sh_addr, header->sh_size};
		if (header->sh_type == SHT_NOTE)
			find_build_id(elf, header->sh_offset, header->sh_size);
		if (strnlen(name, room) == room)
			continue;
		/* Stripped of its notes it still needs its table of functions to run. */
		if (!strcmp(name, ".gopclntab") || !strcmp(name, ".data.rel.ro.gopclntab"))
			elf->go = true;
		if (!elf->first_exec_address && !strcmp(name, ".text"))
			elf->first_exec_address = header->sh_addr;
		if (header->sh_type == SHT_NOBITS)
			continue;
		if (header->sh_type == SHT_SYMTAB)
			to = &elf->symtab;
		else if (header->sh_type == SHT_DYNSYM)
			to = &elf->dynsym;
		else if (!strcmp(name, ".eh_frame"))
			to = &elf->eh_frame;
		else if (!strcmp(name, ".eh_frame_hdr"))
			to = &elf->eh_frame_hdr;
		else if (!strcmp(name, ".debug_frame"))
			to = &elf->debug_frame;
		else if (!strcmp(name, ".gnu_debugdata"))
			to = &elf->gnu_debugdata;
		if (to && !to->size)
			*to = section_of(header);
	}
	link_strings(headers, count, &elf->symtab, &elf->strtab);
	link_strings(headers, count, &elf->dynsym, &elf->dynstr);
	err = 0;
out:
	free(names);
	free(headers);
	return err;
}

static int read_headers(struct elf_file *elf)
{
	Elf64_Ehdr header;
	int err;

	if (elf_file_read(elf, 0, &header, EI_NIDENT) || memcmp(header.e_ident, ELFMAG, SELFMAG))
		return -ENOEXEC;
	if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
		return -ENOTSUP;
	if (elf_file_read(elf, 0, &header, sizeof(header)))
		return -ENOEXEC;
	if (header.e_machine == EM_X86_64)
		elf->arch = STACK_X86_64;
	else if (header.e_machine == EM_AARCH64)
		elf->arch = STACK_ARM64;
	else
		return -ENOTSUP;
	elf->type = header.e_type;
	err = read_sections(elf, &header);
	/* A damaged section table does not hide the segments that the kernel goes by. */
	if (err == -ENOMEM)
		return err;
	return read_segments(elf, &header, !err && elf->eh_frame.size);
}

int elf_file_open(struct elf_file *elf, int fd, uint64_t start)
{
	struct stat st;
	int err;

	*elf = (struct elf_file){.fd = fd, .start = start};
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || start >= (uint64_t)st.st_size) {
		err = -ENOEXEC;
	} else {
		elf->size = st.st_size - start;
		err = read_headers(elf);
	}
	if (err)
		elf_file_close(elf);
	return err;
}

int elf_file_open_memory(struct elf_file *elf, uint8_t *bytes, uint64_t size)
{
	int err;

	*elf = (struct elf_file){.fd = -1, .memory = bytes, .size = size};
	err = read_headers(elf);
	if (err)
		elf_file_close(elf);
	return err;
}

void elf_file_close(struct elf_file *elf)
{
	if (elf->fd >= 0)
		close(elf->fd);
	free(elf->memory);
	*elf = (struct elf_file){.fd = -1};
}

int elf_file_open_minidebug(const struct elf_file *elf, size_t limit, struct elf_file *mini)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	uint8_t *packed = NULL, *unpacked = NULL, *more;
	size_t packed_size, room, used = 0;
	lzma_ret ret;
	int err;

	*mini = (struct elf_file){.fd = -1};
	if (!elf->gnu_debugdata.size)
		return -ENOENT;
	err = elf_file_section(elf, &elf->gnu_debugdata, limit, &packed, &packed_size);
	if (err)
		return err;
	/* 128 MiB holds the dictionary of xz -9; a hostile header cannot ask for more. */
	if (lzma_stream_decoder(&stream, 128u << 20, 0) != LZMA_OK) {
		free(packed);
		return -ENOMEM;
	}
	stream.next_in = packed;
	stream.avail_in = packed_size;
	room = packed_size < limit / 4 ? packed_size * 4 + 1 : limit;
	unpacked = malloc(room);
	err = -ENOMEM;
	if (!unpacked)
		goto out;
	do {
		if (used == room) {
			if (room >= limit) {
				err = -EFBIG;
				goto out;
			}
			room = room * 2 < limit ? room * 2 : limit;
			more = realloc(unpacked, room);
			if (!more)
				goto out;
			unpacked = more;
		}
		stream.next_out = unpacked + used;
		stream.avail_out = room - used;
		ret = lzma_code(&stream, LZMA_FINISH);
		used = room - stream.avail_out;
	} while (ret == LZMA_OK);
	if (ret != LZMA_STREAM_END) {
		err = -ENOEXEC;
		goto out;
	}
	err = elf_file_open_memory(mini, unpacked, used);
	unpacked = NULL;
out:
	lzma_end(&stream);
	free(packed);
	free(unpacked);
	return err;
}

bool elf_file_address(const struct elf_file *elf, uint64_t offset, uint64_t *address)
{
	const struct elf_load *fit = NULL;

	for (unsigned i = 0; i < elf->load_count; i++) {
		const struct elf_load *load = &elf->loads[i];
		/* Mappings are whole pages, so that the first and last page of neighbouring
		 * segments share bytes of the file; the executable one is meant. */
		uint64_t first = load->offset & ~0xfffull;

		if (offset < first ||
		    offset - first >=
			    ((load->offset - first + load->file_bytes + 0xfff) & ~0xfffull))
			continue;
		if (!fit || (load->exec && !fit->exec) ||
		    (load->exec == fit->exec && offset >= load->offset))
			fit = load;
	}
	if (!fit)
		return false;
	*address = fit->address + (offset - fit->offset);
	return true;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* boot.art and boot.oat of an Android image (Android 14: image version 108, oat version 239) in
 * memory, at the addresses that they were made for. Both files are taken for hostile: what they say
 * is checked, and they are mapped only where nothing is mapped. What cannot be used ends the
 * program with 2 and one line on stderr. */
#pragma once
#include <elf.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#define PAGE      4096u
#define MAX_FILE  (64u << 20)
#define MAX_IMAGE (256u << 20)

/* ImageHeader of art/runtime/oat/image.h, version 108 */
struct image_header {
	char magic[8];
	uint32_t reservation, components, begin, bytes, checksum, oat_checksum;
	uint32_t oat_file_begin, oat_data_begin, oat_data_end, oat_file_end;
	uint32_t boot[4], roots, pointer_bytes;
	struct {
		uint32_t offset, bytes;
	} sections[12];
	uint64_t methods[9];
	uint32_t data_bytes, blocks_offset, block_count;
};

struct image_block {
	uint32_t mode, data_offset, data_bytes, image_offset, image_bytes;
};

struct oat_header {
	char magic[8];
	uint32_t checksum;
};

struct art_method {
	uint32_t class, access, dex_index;
	uint16_t index, count;
	uint64_t data, entry;
};

enum { SECTION_METHODS = 2, BLOCK_LZ4 = 2 };

struct file {
	const char *path;
	int fd;
	const uint8_t *data;
	size_t bytes;
};

static void __attribute__((noreturn, format(printf, 2, 3)))
boot_image_end(int code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("artdemo: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	exit(code);
}

static struct file open_file(const char *path)
{
	struct file file = {path, open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
	off_t bytes = lseek(file.fd, 0, SEEK_END);

	if (bytes < 256 || bytes > MAX_FILE)
		boot_image_end(2, "%s: no file of 256 bytes to %u MiB", path, MAX_FILE >> 20);
	file.bytes = bytes;
	file.data = mmap(NULL, file.bytes, PROT_READ, MAP_PRIVATE, file.fd, 0);
	if (file.data == MAP_FAILED)
		boot_image_end(2, "%s: %m", path);
	return file;
}

/* Whether [offset, offset + bytes) lies in a thing of `room` bytes. */
static bool inside(uint64_t offset, uint64_t bytes, uint64_t room)
{
	return offset <= room && bytes <= room - offset;
}

/* At an address that nothing is mapped at. */
static void *map_at(uint64_t address, size_t bytes, int rights, int fd, off_t offset,
		    const char *what)
{
	void *got =
		mmap((void *)(uintptr_t)address, bytes, rights,
		     MAP_PRIVATE | MAP_FIXED_NOREPLACE | (fd < 0 ? MAP_ANONYMOUS : 0), fd, offset);

	if (got == MAP_FAILED || (uintptr_t)got != address)
		boot_image_end(2, "%s: cannot be mapped at %#llx: %m", what,
			       (unsigned long long)address);
	return got;
}

static bool lz4_length(const uint8_t **in, const uint8_t *in_end, size_t *length)
{
	uint8_t byte = *length == 15 ? 255 : 0;

	while (byte == 255) {
		if (*in == in_end)
			return false;
		byte = *(*in)++;
		*length += byte;
	}
	return true;
}

/* A block of LZ4 (lz4_Block_format.md). How many bytes it became, or -1. */
static ssize_t lz4_unpack(const uint8_t *in, size_t in_bytes, uint8_t *out, size_t room)
{
	const uint8_t *in_end = in + in_bytes;
	size_t at = 0;

	while (in < in_end) {
		size_t literals = *in >> 4, match = *in & 15, back;

		in++;
		if (!lz4_length(&in, in_end, &literals) || literals > (size_t)(in_end - in) ||
		    literals > room - at)
			return -1;
		memcpy(out + at, in, literals);
		at += literals;
		in += literals;
		if (in == in_end)
			return at; /* the last sequence has literals only */
		if (in_end - in < 2)
			return -1;
		back = in[0] | in[1] << 8;
		in += 2;
		if (!lz4_length(&in, in_end, &match))
			return -1;
		match += 4;
		if (!back || back > at || match > room - at)
			return -1;
		for (; match; match--, at++)
			out[at] = out[at - back];
	}
	return -1;
}

/* boot.art unpacked to where it belongs; its header is a copy that nobody changes. */
static struct image_header map_art(const struct file file)
{
	struct image_header header;
	uint8_t *image;

	memcpy(&header, file.data, sizeof(header));
	if (memcmp(header.magic, "art\n108", 8) || header.pointer_bytes != 8)
		boot_image_end(2, "%s: no image of version 108 with 64-bit pointers", file.path);
	if (header.begin % PAGE || header.begin < MAX_FILE || header.bytes < sizeof(header) ||
	    header.bytes > MAX_IMAGE || (uint64_t)header.begin + header.bytes > UINT32_MAX)
		boot_image_end(2, "%s: its place is %#x and %#x bytes", file.path, header.begin,
			       header.bytes);
	if (!inside(header.blocks_offset, (uint64_t)header.block_count * sizeof(struct image_block),
		    file.bytes))
		boot_image_end(2, "%s: its blocks are not in it", file.path);
	image = map_at(header.begin, (header.bytes + PAGE - 1) & -PAGE, PROT_READ | PROT_WRITE, -1,
		       0, file.path);
	memcpy(image, &header, sizeof(header));
	for (uint32_t i = 0; i < header.block_count; i++) {
		struct image_block block;
		const uint8_t *data;

		memcpy(&block, file.data + header.blocks_offset + i * sizeof(block), sizeof(block));
		if (!inside(block.data_offset, block.data_bytes, file.bytes) ||
		    !inside(block.image_offset, block.image_bytes, header.bytes))
			boot_image_end(2, "%s: block %u is not in it", file.path, i);
		data = file.data + block.data_offset;
		if (block.mode != BLOCK_LZ4 ||
		    lz4_unpack(data, block.data_bytes, image + block.image_offset,
			       block.image_bytes) != (ssize_t)block.image_bytes)
			boot_image_end(2, "%s: block %u (mode %u) cannot be unpacked", file.path, i,
				       block.mode);
	}
	return header;
}

/* boot.oat's segments, where boot.art expects them. */
static void map_oat(const struct file *file, const struct image_header *art)
{
	uint64_t room = art->oat_file_end - (uint64_t)art->oat_file_begin;
	struct oat_header header;
	Elf64_Phdr segment;
	Elf64_Ehdr elf;

	memcpy(&elf, file->data, sizeof(elf));
	if (memcmp(elf.e_ident, ELFMAG "\2\1", SELFMAG + 2) || elf.e_machine != EM_AARCH64 ||
	    elf.e_phentsize != sizeof(segment) ||
	    !inside(elf.e_phoff, (uint64_t)elf.e_phnum * sizeof(segment), file->bytes))
		boot_image_end(2, "%s: no ELF file for arm64", file->path);
	if (art->oat_file_begin % PAGE || art->oat_file_begin < MAX_FILE ||
	    art->oat_file_end < art->oat_file_begin || room > MAX_IMAGE)
		boot_image_end(2, "%s: its place is %#x to %#x", file->path, art->oat_file_begin,
			       art->oat_file_end);
	for (unsigned i = 0; i < elf.e_phnum; i++) {
		int rights;

		memcpy(&segment, file->data + elf.e_phoff + i * sizeof(segment), sizeof(segment));
		rights = (segment.p_flags & PF_X ? PROT_EXEC : 0) |
			 (segment.p_flags & PF_W ? PROT_WRITE : 0) | PROT_READ;
		if (segment.p_type != PT_LOAD || !segment.p_memsz)
			continue;
		if (segment.p_vaddr % PAGE || segment.p_offset % PAGE ||
		    !inside(segment.p_vaddr, segment.p_memsz, room) ||
		    !inside(segment.p_offset, segment.p_filesz, file->bytes) ||
		    (segment.p_filesz && segment.p_filesz != segment.p_memsz))
			boot_image_end(2, "%s: segment %u is not in its place", file->path, i);
		map_at(art->oat_file_begin + segment.p_vaddr, segment.p_memsz, rights,
		       segment.p_filesz ? file->fd : -1, segment.p_filesz ? segment.p_offset : 0,
		       file->path);
	}
	/* Read through the file: the place in memory may be a hole. */
	if (!inside(art->oat_data_begin - (uint64_t)art->oat_file_begin, sizeof(header),
		    file->bytes))
		boot_image_end(2, "%s: no oat header", file->path);
	memcpy(&header, file->data + art->oat_data_begin - art->oat_file_begin, sizeof(header));
	if (memcmp(header.magic, "oat\n239", 8) || header.checksum != art->oat_checksum)
		boot_image_end(2, "%s: no oat file of version 239 with the checksum %#x",
			       file->path, art->oat_checksum);
}

/* A method by its offset in the image, or NULL: there is none. */
static struct art_method *image_method(const struct image_header *art, uint32_t offset)
{
	uint32_t begin = art->sections[SECTION_METHODS].offset;
	uint32_t bytes = art->sections[SECTION_METHODS].bytes;

	if (!inside(begin, bytes, art->bytes) || offset % 8 || offset < begin ||
	    !inside(offset - begin, sizeof(struct art_method), bytes))
		return NULL;
	return (struct art_method *)(uintptr_t)(art->begin + (uint64_t)offset);
}

/* The method whose code is at an address, or NULL. */
static struct art_method *image_method_of(const struct image_header *art, uint64_t code)
{
	struct art_method *method;

	for (uint32_t offset = art->sections[SECTION_METHODS].offset;
	     (method = image_method(art, offset)); offset += 8)
		if (method->entry == code)
			return method;
	return NULL;
}

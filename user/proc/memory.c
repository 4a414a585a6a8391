/* SPDX-License-Identifier: BSD-2-Clause */
#include "proc/memory.h"

#include <string.h>

#include "proc/keys.h"
#include "proc/maps.h"

#define COUNT(rows)       (sizeof(rows) / sizeof(*(rows)))
#define NSEC_OF_USEC(us)  ((us)*1000)
#define MAX_PRESSURE_USEC (UINT64_MAX / 1000)

void proc_parse_memory(const char *text, size_t length, struct proc_memory *memory)
{
	static const struct proc_key keys[] = {
		{"VmSize", offsetof(struct proc_memory, virtual_bytes)},
		{"VmRSS", offsetof(struct proc_memory, rss_bytes)},
		{"RssAnon", offsetof(struct proc_memory, anon_bytes)},
		{"RssFile", offsetof(struct proc_memory, file_bytes)},
		{"RssShmem", offsetof(struct proc_memory, shmem_bytes)},
		{"VmSwap", offsetof(struct proc_memory, swap_bytes)},
		{"HugetlbPages", offsetof(struct proc_memory, hugetlb_bytes)},
		{"Threads", offsetof(struct proc_memory, threads)},
	};

	*memory = (struct proc_memory){0};
	proc_parse_keys(text, length, keys, COUNT(keys), memory);
}

static const struct proc_key smaps_keys[] = {
	{"Rss", offsetof(struct proc_smaps, rss_bytes)},
	{"Pss", offsetof(struct proc_smaps, pss_bytes)},
	{"Pss_Anon", offsetof(struct proc_smaps, pss_anon_bytes)},
	{"Pss_File", offsetof(struct proc_smaps, pss_file_bytes)},
	{"Pss_Shmem", offsetof(struct proc_smaps, pss_shmem_bytes)},
	{"Private_Clean", offsetof(struct proc_smaps, private_clean_bytes)},
	{"Private_Dirty", offsetof(struct proc_smaps, private_dirty_bytes)},
	{"Swap", offsetof(struct proc_smaps, swap_bytes)},
	{"SwapPss", offsetof(struct proc_smaps, swap_pss_bytes)},
};

void proc_parse_smaps(const char *text, size_t length, struct proc_smaps *smaps)
{
	*smaps = (struct proc_smaps){0};
	proc_parse_keys(text, length, smaps_keys, COUNT(smaps_keys), smaps);
}

/* ---- kinds ---- */

struct name_part {
	const char *text;
	enum memory_kind kind;
};

static bool begins(const char *name, size_t length, const char *text)
{
	size_t n = strlen(text);

	return length >= n && !memcmp(name, text, n);
}

static bool ends(const char *name, size_t length, const char *text)
{
	size_t n = strlen(text);

	return length >= n && !memcmp(name + length - n, text, n);
}

/* The first that fits. A file's name begins with '/', so that no file can pass for a heap. Before
 * Android 10 the spaces of ART were files of /dev/ashmem. */
enum memory_kind proc_memory_kind(const char *name, size_t length)
{
	static const struct name_part beginnings[] = {
		{"[heap]", MEMORY_NATIVE_HEAP},
		{"[anon:libc_malloc", MEMORY_NATIVE_HEAP},
		{"[anon:scudo:", MEMORY_NATIVE_HEAP},
		{"[anon:GWP-ASan", MEMORY_NATIVE_HEAP},
		{"[stack", MEMORY_STACK},
		{"[anon:stack_and_tls:", MEMORY_STACK},
		{"[anon:thread stack", MEMORY_STACK},
		{"[anon:dalvik-main space", MEMORY_JAVA_HEAP},
		{"[anon:dalvik-alloc space", MEMORY_JAVA_HEAP},
		{"[anon:dalvik-large object space", MEMORY_JAVA_HEAP},
		{"[anon:dalvik-free list large object space", MEMORY_JAVA_HEAP},
		{"[anon:dalvik-zygote space", MEMORY_JAVA_HEAP},
		{"[anon:dalvik-non moving space", MEMORY_JAVA_HEAP},
		{"[anon:dalvik-", MEMORY_JAVA_OTHER},
		{"/dev/ashmem/dalvik-main space", MEMORY_JAVA_HEAP},
		{"/dev/ashmem/dalvik-alloc space", MEMORY_JAVA_HEAP},
		{"/dev/ashmem/dalvik-large object space", MEMORY_JAVA_HEAP},
		{"/dev/ashmem/dalvik-free list large object space", MEMORY_JAVA_HEAP},
		{"/dev/ashmem/dalvik-zygote space", MEMORY_JAVA_HEAP},
		{"/dev/ashmem/dalvik-non moving space", MEMORY_JAVA_HEAP},
		{"/dev/ashmem/dalvik-", MEMORY_JAVA_OTHER},
		{"/memfd:jit-", MEMORY_JAVA_OTHER},
		{"/memfd:/jit-", MEMORY_JAVA_OTHER},
		{"/dev/kgsl-3d0", MEMORY_GRAPHICS},
		{"/dev/mali", MEMORY_GRAPHICS},
		{"/dev/dri/", MEMORY_GRAPHICS},
		{"/dmabuf:", MEMORY_GRAPHICS},
		{"anon_inode:dmabuf", MEMORY_GRAPHICS},
	};
	static const struct name_part endings[] = {
		{".so", MEMORY_CODE},  {".jar", MEMORY_CODE},      {".apk", MEMORY_CODE},
		{".dex", MEMORY_CODE}, {".odex", MEMORY_CODE},     {".vdex", MEMORY_CODE},
		{".oat", MEMORY_CODE}, {".ttf", MEMORY_CODE},      {".otf", MEMORY_CODE},
		{".hyb", MEMORY_CODE}, {".art", MEMORY_JAVA_HEAP}, {".art]", MEMORY_JAVA_HEAP},
	};
	static const char deleted[] = " (deleted)";

	if (ends(name, length, deleted))
		length -= sizeof(deleted) - 1;
	/* An image that ART has copied: [anon:dalvik-/system/framework/boot.art]. */
	for (size_t i = begins(name, length, "[anon:dalvik-/") ? COUNT(endings) - 1
							       : COUNT(endings);
	     i < COUNT(endings); i++)
		if (ends(name, length, endings[i].text))
			return endings[i].kind;
	for (size_t i = 0; i < COUNT(beginnings); i++)
		if (begins(name, length, beginnings[i].text))
			return beginnings[i].kind;
	for (size_t i = 0; length && *name == '/' && i < COUNT(endings); i++)
		if (ends(name, length, endings[i].text))
			return endings[i].kind;
	return MEMORY_OTHER;
}

void proc_take_smaps_line(struct proc_smaps_kinds *kinds, const char *line, const char *end)
{
	struct proc_smaps smaps = {0};
	struct proc_mapping mapping;

	if (proc_parse_mapping(line, end, &mapping)) {
		kinds->at = proc_memory_kind(mapping.path, mapping.path_length);
		/* The program itself, and libraries named libx.so.1. */
		if (kinds->at == MEMORY_OTHER && mapping.flags & MAP_EXEC && mapping.path_length &&
		    *mapping.path == '/')
			kinds->at = MEMORY_CODE;
		kinds->kind[kinds->at].mappings++;
		kinds->begun = true;
		return;
	}
	if (!kinds->begun || !proc_take_key(line, end, smaps_keys, COUNT(smaps_keys), &smaps))
		return;
	kinds->kind[kinds->at].pss_bytes += smaps.pss_bytes.value;
	kinds->kind[kinds->at].swap_pss_bytes += smaps.swap_pss_bytes.value;
	kinds->kind[kinds->at].private_dirty_bytes += smaps.private_dirty_bytes.value;
}

/* ---- the machine ---- */

void proc_parse_meminfo(const char *text, size_t length, struct proc_meminfo *meminfo)
{
	static const struct proc_key keys[] = {
		{"MemTotal", offsetof(struct proc_meminfo, total_bytes)},
		{"MemAvailable", offsetof(struct proc_meminfo, available_bytes)},
		{"SwapTotal", offsetof(struct proc_meminfo, swap_total_bytes)},
		{"SwapFree", offsetof(struct proc_meminfo, swap_free_bytes)},
	};

	*meminfo = (struct proc_meminfo){0};
	proc_parse_keys(text, length, keys, COUNT(keys), meminfo);
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=12345", in microseconds. */
static void take_pressure(const char *line, const char *end, const char *word, struct opt_u64 *ns)
{
	static const char total[] = " total=";
	uint64_t us = 0;
	const char *at;

	if (ns->present || !begins(line, (size_t)(end - line), word))
		return;
	at = memmem(line, (size_t)(end - line), total, sizeof(total) - 1);
	if (!at || (at += sizeof(total) - 1) == end)
		return;
	for (; at < end && *at >= '0' && *at <= '9'; at++)
		if (__builtin_mul_overflow(us, 10, &us) ||
		    __builtin_add_overflow(us, (uint64_t)(*at - '0'), &us))
			return;
	if (at == end && us <= MAX_PRESSURE_USEC)
		*ns = SOME_U64(NSEC_OF_USEC(us));
}

void proc_parse_pressure(const char *text, size_t length, struct proc_pressure *pressure)
{
	const char *line = text, *end = text + length, *newline;

	*pressure = (struct proc_pressure){0};
	while ((newline = memchr(line, '\n', (size_t)(end - line)))) {
		take_pressure(line, newline, "some ", &pressure->some_ns);
		take_pressure(line, newline, "full ", &pressure->full_ns);
		line = newline + 1;
	}
}

/* ---- buffers ---- */

/* "1234 KiB": the unit is none, KiB or MiB. */
static bool take_amount(const char *at, const char *end, uint64_t *sum)
{
	uint64_t number = 0, unit = 1;

	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	if (at == end || *at < '0' || *at > '9')
		return false;
	for (; at < end && *at >= '0' && *at <= '9'; at++)
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number))
			return false;
	if (end - at == 4 && !memcmp(at, " KiB", 4))
		unit = 1024;
	else if (end - at == 4 && !memcmp(at, " MiB", 4))
		unit = 1024 * 1024;
	else if (at != end)
		return false;
	return !__builtin_mul_overflow(number, unit, &number) &&
	       !__builtin_add_overflow(*sum, number, sum);
}

/* "drm-total-system0:\t1234 KiB": 0 or more regions. */
static void take_region(const char *line, const char *end, struct proc_buffer *buffer)
{
	const char *colon = memchr(line, ':', (size_t)(end - line));

	if (!colon || !begins(line, (size_t)(end - line), "drm-total-"))
		return;
	buffer->gpu_bytes.present = true;
	buffer->senseless |= !take_amount(colon + 1, end, &buffer->gpu_bytes.value);
}

void proc_parse_buffer(const char *text, size_t length, struct proc_buffer *buffer)
{
	static const struct proc_key keys[] = {
		{"size", offsetof(struct proc_buffer, dmabuf_bytes)},
		{"ino", offsetof(struct proc_buffer, inode)},
		{"drm-client-id", offsetof(struct proc_buffer, gpu_client)},
	};
	const char *line = text, *end = text + length, *newline;
	bool exported = false;

	*buffer = (struct proc_buffer){0};
	while ((newline = memchr(line, '\n', (size_t)(end - line)))) {
		proc_take_key(line, newline, keys, COUNT(keys), buffer);
		take_region(line, newline, buffer);
		exported |= begins(line, (size_t)(newline - line), "exp_name:");
		line = newline + 1;
	}
	buffer->dmabuf_bytes.present &= exported;
	buffer->gpu_bytes.present &= !buffer->senseless;
}

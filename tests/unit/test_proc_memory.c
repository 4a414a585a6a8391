/* SPDX-License-Identifier: BSD-2-Clause */
/* What /proc tells of memory, in texts of kernels and in texts that nobody should trust. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proc/keys.h"
#include "proc/memory.h"

/* A copy that ends at a page that cannot be read. */
static const char *at_an_edge(const char *text, size_t length)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (length / page + 1) * page;
	char *pages =
		mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(pages, MAP_FAILED);
	mprotect(pages + room, page, PROT_NONE);
	memcpy(pages + room - length, text, length);
	return pages + room - length;
}

static struct proc_memory memory_of(const char *text, size_t length)
{
	struct proc_memory memory;

	proc_parse_memory(at_an_edge(text, length), length, &memory);
	return memory;
}

Test(proc_memory, a_status)
{
	static const char text[] =
		"Name:\tsleep\nUmask:\t0022\nState:\tS (sleeping)\n"
		"VmPeak:\t    5484 kB\nVmSize:\t    5484 kB\nVmRSS:\t    1876 kB\n"
		"RssAnon:\t      96 kB\nRssFile:\t    1780 kB\n"
		"RssShmem:\t       4 kB\nVmSwap:\t       8 kB\n"
		"HugetlbPages:\t    2048 kB\nThreads:\t1\n";
	struct proc_memory memory = memory_of(text, strlen(text));

	cr_expect_eq(memory.virtual_bytes.value, 5484 * 1024);
	cr_expect_eq(memory.rss_bytes.value, 1876 * 1024);
	cr_expect_eq(memory.anon_bytes.value, 96 * 1024);
	cr_expect_eq(memory.file_bytes.value, 1780 * 1024);
	cr_expect_eq(memory.shmem_bytes.value, 4 * 1024);
	cr_expect_eq(memory.swap_bytes.value, 8 * 1024);
	cr_expect_eq(memory.hugetlb_bytes.value, 2048 * 1024);
	cr_expect_eq(memory.threads.value, 1);
}

/* A number is a whole one from 0 to 2^64 - 1, in bytes too; everything else is absent. */
Test(proc_memory, numbers_that_are_none)
{
	static const struct {
		const char *text;
		bool present;
		uint64_t value;
	} cases[] = {
		{"VmRSS:\t0 kB\n", true, 0},
		{"VmRSS:\t-1 kB\n", false, 0},
		{"VmRSS:\t+1 kB\n", false, 0},
		{"VmRSS:\t18446744073709551616 kB\n", false, 0},
		{"VmRSS:\t18446744073709551615 kB\n", false, 0},
		{"VmRSS:\t18014398509481983 kB\n", true, 18446744073709550592ull},
		{"VmRSS:\t18014398509481984 kB\n", false, 0},
		{"VmRSS:\t18446744073709551615\n", true, UINT64_MAX},
		{"VmRSS:\t18446744073709551616\n", false, 0},
		{"VmRSS:\t99999999999999999999999999999999 kB\n", false, 0},
		{"VmRSS:\n", false, 0},
		{"VmRSS:", false, 0},
		{"VmRSS: \t \n", false, 0},
		{"VmRSS:\t12 MB\n", false, 0},
		{"VmRSS:\t12 kB trailing\n", false, 0},
		{"VmRSS:\t12kB\n", false, 0},
		{"VmRSS:\t0x10 kB\n", false, 0},
		{"VmRSS:\t1e3 kB\n", false, 0},
		/* cut within its number: no end of the line, no value */
		{"VmRSS:\t12", false, 0},
		{"VmRSS:\t12 kB", false, 0},
		{"VmRSS \t12 kB\n", false, 0},
		{"vmrss:\t12 kB\n", false, 0},
		{"VmRSSS:\t12 kB\n", false, 0},
		{"VmRS:\t12 kB\n", false, 0},
		/* the first counts; the kernel escapes a newline in a name */
		{"VmRSS:\t1 kB\nVmRSS:\t2 kB\n", true, 1024},
		{"Name:\t) R 1 2\nVmRSS:\t3 kB\n", true, 3072},
		{"Name:\ta\\nVmRSS:\t9 kB\nVmRSS:\t3 kB\n", true, 3072},
		{"", false, 0},
		{"\n\n\n:\n: 5\n", false, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct proc_memory memory = memory_of(cases[i].text, strlen(cases[i].text));

		cr_expect_eq(memory.rss_bytes.present, cases[i].present, "'%s'", cases[i].text);
		if (cases[i].present)
			cr_expect_eq(memory.rss_bytes.value, cases[i].value, "'%s'", cases[i].text);
	}
}

Test(proc_memory, binary_and_long_lines)
{
	static const char end[] = "\nVmRSS:\t5 kB\n";
	size_t length = 1 << 20;
	char *text = malloc(length + sizeof(end));
	unsigned seed = 1;

	for (size_t i = 0; i < length; i++)
		text[i] = (char)(seed = seed * 1103515245 + 12345, seed >> 16);
	memory_of(text, length);
	memset(text, 'V', length);
	memcpy(text + length, end, sizeof(end));
	cr_expect_eq(memory_of(text, length + strlen(end)).rss_bytes.value, 5 * 1024);
	memset(text, 0, length);
	cr_expect(!memory_of(text, length).rss_bytes.present);
	free(text);
}

Test(proc_memory, a_rollup)
{
	static const char text[] = "55d0c4c3b000-7ffd5b3f1000 ---p 00000000 00:00 0                "
				   "          [rollup]\n"
				   "Rss:                1716 kB\nPss:                 187 kB\n"
				   "Pss_Dirty:            96 kB\nPss_Anon:             96 kB\n"
				   "Pss_File:             91 kB\nPss_Shmem:             0 kB\n"
				   "Shared_Clean:       1600 kB\nShared_Dirty:          0 kB\n"
				   "Private_Clean:        20 kB\nPrivate_Dirty:        96 kB\n"
				   "Swap:                  7 kB\nSwapPss:               3 "
				   "kB\nLocked:                0 kB\n";
	struct proc_smaps smaps;

	proc_parse_smaps(at_an_edge(text, strlen(text)), strlen(text), &smaps);
	cr_expect_eq(smaps.pss_bytes.value, 187 * 1024);
	cr_expect_eq(smaps.pss_anon_bytes.value, 96 * 1024);
	cr_expect_eq(smaps.private_clean_bytes.value, 20 * 1024);
	cr_expect_eq(smaps.private_dirty_bytes.value, 96 * 1024);
	cr_expect_eq(smaps.swap_bytes.value, 7 * 1024);
	cr_expect_eq(smaps.swap_pss_bytes.value, 3 * 1024);
}

Test(proc_memory, kinds_by_name)
{
	static const struct {
		const char *name;
		enum memory_kind kind;
	} names[] = {
		{"[anon:dalvik-main space (region space)]", MEMORY_JAVA_HEAP},
		{"[anon:dalvik-main space]", MEMORY_JAVA_HEAP},
		{"[anon:dalvik-zygote space]", MEMORY_JAVA_HEAP},
		{"[anon:dalvik-non moving space]", MEMORY_JAVA_HEAP},
		{"[anon:dalvik-free list large object space]", MEMORY_JAVA_HEAP},
		{"[anon:dalvik-large object space allocation]", MEMORY_JAVA_HEAP},
		{"[anon:dalvik-/apex/com.android.art/javalib/boot.art]", MEMORY_JAVA_HEAP},
		{"/data/misc/apexdata/com.android.art/dalvik-cache/arm64/boot.art",
		 MEMORY_JAVA_HEAP},
		{"/dev/ashmem/dalvik-main space (deleted)", MEMORY_JAVA_HEAP},
		{"[anon:dalvik-LinearAlloc]", MEMORY_JAVA_OTHER},
		{"[anon:dalvik-jit-code-cache]", MEMORY_JAVA_OTHER},
		{"[anon:dalvik-mark stack]", MEMORY_JAVA_OTHER},
		{"/memfd:jit-cache (deleted)", MEMORY_JAVA_OTHER},
		{"[anon:scudo:primary]", MEMORY_NATIVE_HEAP},
		{"[anon:scudo:secondary]", MEMORY_NATIVE_HEAP},
		{"[anon:libc_malloc]", MEMORY_NATIVE_HEAP},
		{"[anon:GWP-ASan Guard Page]", MEMORY_NATIVE_HEAP},
		{"[heap]", MEMORY_NATIVE_HEAP},
		{"[stack]", MEMORY_STACK},
		{"[anon:stack_and_tls:main]", MEMORY_STACK},
		{"/system/lib64/libc.so", MEMORY_CODE},
		{"/data/app/~~x==/com.example-y==/base.apk", MEMORY_CODE},
		{"/data/app/x/oat/arm64/base.odex", MEMORY_CODE},
		{"/data/app/x/oat/arm64/base.vdex (deleted)", MEMORY_CODE},
		{"/dev/kgsl-3d0", MEMORY_GRAPHICS},
		{"/dmabuf:", MEMORY_GRAPHICS},
		{"/dmabuf: (deleted)", MEMORY_GRAPHICS},
		{"anon_inode:dmabuf", MEMORY_GRAPHICS},
		{"", MEMORY_OTHER},
		{"[anon:.bss]", MEMORY_OTHER},
		{"[vdso]", MEMORY_OTHER},
		/* A file cannot pass for a heap, nor a name that only contains one. */
		{"/tmp/[heap]", MEMORY_OTHER},
		{"/tmp/[anon:dalvik-main space]", MEMORY_OTHER},
		{"[anon:my [heap]", MEMORY_OTHER},
		{"[anon:lib.so]", MEMORY_OTHER},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		cr_expect_eq(proc_memory_kind(at_an_edge(names[i].name, strlen(names[i].name)),
					      strlen(names[i].name)),
			     names[i].kind, "'%s' is %d", names[i].name,
			     proc_memory_kind(names[i].name, strlen(names[i].name)));
}

static void take(struct proc_smaps_kinds *kinds, const char *text)
{
	const char *newline;

	for (; (newline = strchr(text, '\n')); text = newline + 1)
		proc_take_smaps_line(kinds, text, newline);
}

Test(proc_memory, a_smaps_is_summed_up_by_kind)
{
	struct proc_smaps_kinds kinds = {0};

	take(&kinds,
	     "Pss:                 999 kB\n" /* before any mapping: of none */
	     "12c00000-32c00000 rw-p 00000000 00:00 0    [anon:dalvik-main space (region space)]\n"
	     "Size:             524288 kB\nPss:                1000 kB\nPss_Dirty:          900 "
	     "kB\n"
	     "Private_Dirty:       900 kB\nSwapPss:              10 kB\n"
	     "VmFlags: rd wr mr mw me ac\n"
	     "70000000-70001000 rw-p 00000000 00:00 0    [anon:scudo:primary]\n"
	     "Pss:                  50 kB\nPrivate_Dirty:        40 kB\nSwapPss:               5 "
	     "kB\n"
	     "70001000-70002000 rw-p 00000000 00:00 0    [anon:scudo:secondary]\n"
	     "Pss:                   7 kB\nPrivate_Dirty:         7 kB\nSwapPss:               0 "
	     "kB\n"
	     "70002000-70003000 r-xp 00000000 fd:01 77    /usr/lib/libx.so.1\n"
	     "Pss:                   3 kB\n"
	     "70003000-70004000 rw-p 00000000 00:00 0 \n"
	     "Pss:                   2 kB\n");
	cr_expect_eq(kinds.kind[MEMORY_JAVA_HEAP].pss_bytes, 1000 * 1024);
	cr_expect_eq(kinds.kind[MEMORY_JAVA_HEAP].private_dirty_bytes, 900 * 1024);
	cr_expect_eq(kinds.kind[MEMORY_JAVA_HEAP].swap_pss_bytes, 10 * 1024);
	cr_expect_eq(kinds.kind[MEMORY_NATIVE_HEAP].mappings, 2);
	cr_expect_eq(kinds.kind[MEMORY_NATIVE_HEAP].pss_bytes, 57 * 1024);
	cr_expect_eq(kinds.kind[MEMORY_NATIVE_HEAP].swap_pss_bytes, 5 * 1024);
	cr_expect_eq(kinds.kind[MEMORY_CODE].pss_bytes, 3 * 1024);
	cr_expect_eq(kinds.kind[MEMORY_OTHER].pss_bytes, 2 * 1024);
}

Test(proc_memory, a_meminfo_and_a_pressure)
{
	static const char text[] = "MemTotal:       24683620 kB\nMemFree:        22182740 kB\n"
				   "MemAvailable:   24028100 kB\nSwapTotal:            12 kB\n"
				   "SwapFree:              4 kB\nHugePages_Total:       0\n";
	static const char pressure_text[] = "some avg10=0.00 avg60=1.20 avg300=0.00 total=123456\n"
					    "full avg10=0.00 avg60=0.00 avg300=0.00 total=99\n";
	struct proc_pressure pressure;
	struct proc_meminfo meminfo;

	proc_parse_meminfo(at_an_edge(text, strlen(text)), strlen(text), &meminfo);
	cr_expect_eq(meminfo.total_bytes.value, 24683620ull * 1024);
	cr_expect_eq(meminfo.available_bytes.value, 24028100ull * 1024);
	cr_expect_eq(meminfo.swap_total_bytes.value, 12 * 1024);
	cr_expect_eq(meminfo.swap_free_bytes.value, 4 * 1024);
	proc_parse_pressure(at_an_edge(pressure_text, strlen(pressure_text)), strlen(pressure_text),
			    &pressure);
	cr_expect_eq(pressure.some_ns.value, 123456000);
	cr_expect_eq(pressure.full_ns.value, 99000);
}

Test(proc_memory, a_pressure_that_is_none)
{
	static const char *const texts[] = {
		"",
		"some avg10=0.00 total=\n",
		"some avg10=0.00 total=-5\n",
		"some avg10=0.00 total=12",
		"some avg10=0.00 total=18446744073709551615\n", /* in ns beyond 2^64 */
		"some avg10=0.00 total=99999999999999999999999\n",
		"some avg10=0.00 total=5 more\n",
		"awesome avg10=0.00 total=5\n",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct proc_pressure pressure;

		proc_parse_pressure(at_an_edge(texts[i], strlen(texts[i])), strlen(texts[i]),
				    &pressure);
		cr_expect(!pressure.some_ns.present, "'%s'", texts[i]);
	}
}

Test(proc_memory, buffers)
{
	static const char dmabuf[] = "pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t77\nsize:\t4096000\n"
				     "count:\t2\nexp_name:\tsystem\nname:\tframe\n";
	static const char other[] = "pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t78\nsize:\t5\n";
	static const char gpu[] = "pos:\t0\nino:\t9\ndrm-driver:\tmsm\ndrm-client-id:\t5\n"
				  "drm-engine-gpu:\t12 ns\ndrm-total-memory:\t10 KiB\n"
				  "drm-total-stolen0:\t1 MiB\ndrm-total-x:\t7\n";
	static const char *const senseless[] = {
		"",
		"\t",
		"-7",
		"18446744073709551615 MiB",
		"18446744073709551615",
		"7 GiB",
		"7 KiB ",
		"0x10",
		") R 1 2",
	};
	char text[512];
	struct proc_buffer buffer;

	proc_parse_buffer(at_an_edge(dmabuf, strlen(dmabuf)), strlen(dmabuf), &buffer);
	cr_expect(buffer.dmabuf_bytes.present);
	cr_expect_eq(buffer.dmabuf_bytes.value, 4096000);
	cr_expect_eq(buffer.inode.value, 77);
	cr_expect(!buffer.gpu_bytes.present);
	proc_parse_buffer(at_an_edge(other, strlen(other)), strlen(other), &buffer);
	cr_expect(!buffer.dmabuf_bytes.present);
	proc_parse_buffer(at_an_edge(gpu, strlen(gpu)), strlen(gpu), &buffer);
	cr_expect(!buffer.dmabuf_bytes.present);
	cr_expect_eq(buffer.gpu_bytes.value, 10 * 1024 + 1024 * 1024 + 7);
	cr_expect_eq(buffer.gpu_client.value, 5);
	cr_expect(!buffer.senseless);
	/* A region that makes no sense: the others are no sum. */
	for (size_t i = 0; i < sizeof(senseless) / sizeof(*senseless); i++) {
		size_t length = (size_t)snprintf(text, sizeof(text), "%sdrm-total-z:\t%s\n", gpu,
						 senseless[i]);

		proc_parse_buffer(at_an_edge(text, length), length, &buffer);
		cr_expect(!buffer.gpu_bytes.present && buffer.senseless, "'%s'", senseless[i]);
	}
	/* Before Linux 5.3 a dmabuf does not tell its size; it has no inode before 5.14. */
	proc_parse_buffer("pos:\t0\nflags:\t02\n", 18, &buffer);
	cr_expect(!buffer.dmabuf_bytes.present && !buffer.inode.present && !buffer.senseless);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts of the libraries that are linked in but can never be wanted here: 0.3 MB of the binary. A
 * name defined first keeps the linker from taking the archive's member. What asks for one of them
 * gets that library's own "not supported". */
#include <stddef.h>

/* Named by -u, so that the linker takes this file before the libraries. */
extern const char left_out;
const char left_out;

#define ANSWERS(type, name, answer) \
	type name(void);            \
	type name(void)             \
	{                           \
		return answer;      \
	}

/* elfutils: processors that no Android runs on. NULL: libebl goes on with its defaults
 * (eblopenbackend.c). */
ANSWERS(void *, alpha_init, NULL)
ANSWERS(void *, bpf_init, NULL)
ANSWERS(void *, csky_init, NULL)
ANSWERS(void *, ia64_init, NULL)
ANSWERS(void *, m68k_init, NULL)
ANSWERS(void *, ppc_init, NULL)
ANSWERS(void *, ppc64_init, NULL)
ANSWERS(void *, riscv_init, NULL)
ANSWERS(void *, s390_init, NULL)
ANSWERS(void *, sh_init, NULL)
ANSWERS(void *, sparc_init, NULL)

/* elfutils: nobody disassembles. */
ANSWERS(int, i386_disasm, -1)
ANSWERS(int, x86_64_disasm, -1)

/* zstd: formats from before 1.0 (2016), which nobody writes. */
#define ZSTD_GENERIC_ERROR     ((size_t)-1)
#define ZSTD_CONTENTSIZE_ERROR (0ull - 2)

#define LEGACY(version)                                                                       \
	ANSWERS(void *, ZSTDv##version##_createDCtx, NULL)                                    \
	ANSWERS(size_t, ZSTDv##version##_freeDCtx, 0)                                         \
	ANSWERS(size_t, ZSTDv##version##_getFrameParams, ZSTD_GENERIC_ERROR)                  \
	ANSWERS(size_t, ZSTDv##version##_decompress_usingDict, ZSTD_GENERIC_ERROR)            \
	ANSWERS(void *, ZBUFFv##version##_createDCtx, NULL)                                   \
	ANSWERS(size_t, ZBUFFv##version##_freeDCtx, 0)                                        \
	ANSWERS(size_t, ZBUFFv##version##_decompressInitDictionary, ZSTD_GENERIC_ERROR)       \
	ANSWERS(size_t, ZBUFFv##version##_decompressContinue, ZSTD_GENERIC_ERROR)             \
	void ZSTDv##version##_findFrameSizeInfoLegacy(const void *, size_t, size_t *,         \
						      unsigned long long *);                  \
	void ZSTDv##version##_findFrameSizeInfoLegacy(                                        \
		const void *from, size_t size, size_t *compressed, unsigned long long *bound) \
	{                                                                                     \
		*compressed = ZSTD_GENERIC_ERROR;                                             \
		*bound = ZSTD_CONTENTSIZE_ERROR;                                              \
	}

LEGACY(05)
LEGACY(06)
LEGACY(07)

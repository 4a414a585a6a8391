/* SPDX-License-Identifier: BSD-2-Clause */
/* Compiled Java code in a main thread, without a runtime: from an epoll loop C calls the
 * java.util.Arrays.sort(int[]) of an Android image (boot_image.h). Two methods that it calls are
 * left to the interpreter by the image; here they are C. So a stack goes from C through Java to C.
 *
 * usage: artdemo BOOT.art BOOT.oat NUMBERS ROUNDS PERIOD_MS
 *   each PERIOD_MS a round: NUMBERS numbers are sorted. Prints "ready", then "round N
 * MICROSECONDS". Exit code 2: the files cannot be used; 77: they can, and nothing is known of their
 * methods, or this is no arm64. One line on stderr says why. The code of the image is run: in a
 * guest only. */
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>

#include "boot_image.h"

#define ARRAY_BASE 0x50000000ul /* references are 32 bits wide */
#define MAX_COUNT  10000000
#define THREAD     65536u

/* What is known of an image, by the checksum of its code. Offsets in boot.oat: the code of
 * Arrays.sort(int[]), and the trampoline that methods without code have as theirs. Offsets in
 * boot.art: methods of DualPivotQuicksort without code. */
static const struct known_image {
	uint32_t oat_checksum, sort, nterp, merge_runs, insertion_sort[2];
} known_images[] = {
	{0x2b65b7c8,
	 0xcea30,
	 0x94070,
	 0x173e48,
	 {0x173bc8, 0x173be8}}, /* Android 14, AP1A.240505.005 */
};

struct java_ints {
	uint32_t class, lock;
	int32_t length, numbers[];
};

/* What art_quick_invoke_stub does: x19 is the thread, x20 the marking register, x21 where the code
 * looks for a wish to suspend it; the 32 bytes at sp are the callee's, for its arguments. */
void art_invoke(uint64_t code, void *method, struct java_ints *array, void *thread, void *suspend);
#ifdef __aarch64__
__asm__(".text\n.global art_invoke\n.type art_invoke, %function\nart_invoke:\n"
	".cfi_startproc\nsub sp, sp, #80\n.cfi_def_cfa_offset 80\n"
	"stp x29, x30, [sp, #32]\n.cfi_offset 29, -48\n.cfi_offset 30, -40\n"
	"stp x19, x20, [sp, #48]\n.cfi_offset 19, -32\n.cfi_offset 20, -24\n"
	"str x21, [sp, #64]\n.cfi_offset 21, -16\nadd x29, sp, #32\n"
	"mov x9, x0\nmov x0, x1\nmov x1, x2\nmov x19, x3\nmov x20, xzr\nmov x21, x4\nblr x9\n"
	"ldr x21, [sp, #64]\n.cfi_restore 21\nldp x19, x20, [sp, #48]\n.cfi_restore 19\n"
	".cfi_restore 20\nldp x29, x30, [sp, #32]\n.cfi_restore 29\n.cfi_restore 30\n"
	"add sp, sp, #80\n.cfi_def_cfa_offset 0\nret\n"
	".cfi_endproc\n.size art_invoke, .-art_invoke\n");
#else
void art_invoke(uint64_t code, void *method, struct java_ints *array, void *thread, void *suspend)
{
	boot_image_end(77, "the code is for arm64");
}
#endif

/* DualPivotQuicksort.tryMergeRuns: no. */
static uint64_t merge_runs(void *method)
{
	return 0;
}

/* DualPivotQuicksort.mixedInsertionSort of numbers[low] to numbers[high - 1]. */
static void insertion_sort(void *method, struct java_ints *array, int low, int last, int high)
{
	for (int i = low + 1; i < high; i++) {
		int32_t number = array->numbers[i];
		int to = i;

		for (; to > low && array->numbers[to - 1] > number; to--)
			array->numbers[to] = array->numbers[to - 1];
		array->numbers[to] = number;
	}
}

static void give_code(const struct image_header *art, uint32_t offset, uint64_t nterp,
		      uint64_t code)
{
	struct art_method *method = image_method(art, offset);

	if (!method || method->entry != art->oat_file_begin + nterp)
		boot_image_end(77, "no method without code at %#x", offset);
	method->entry = code;
}

/* A frame of its own: what a stack is to show below Java. */
static void __attribute__((noinline, noclone))
sort_round(uint64_t code, void *method, struct java_ints *array, char *thread, unsigned seed)
{
	uint64_t *suspend = (uint64_t *)(thread + THREAD / 2);

	for (int i = 0; i < array->length; i++) {
		seed = seed * 1664525 + 1013904223;
		array->numbers[i] = seed >> 1;
	}
	*suspend = (uintptr_t)suspend; /* no wish: the code loads its own address */
	art_invoke(code, method, array, thread, suspend);
	for (int i = 1; i < array->length; i++)
		if (array->numbers[i - 1] > array->numbers[i])
			boot_image_end(1, "not sorted at %d", i);
}

static void run_rounds(uint64_t code, void *method, struct java_ints *array, char *thread,
		       const char *rounds, long period_ms)
{
	struct itimerspec period = {{period_ms / 1000, period_ms % 1000 * 1000000}};
	int epoll = epoll_create1(EPOLL_CLOEXEC),
	    timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	struct epoll_event event = {.events = EPOLLIN};
	uint64_t expired;

	period.it_value = period.it_interval;
	if (epoll < 0 || timer < 0 || timerfd_settime(timer, 0, &period, NULL) ||
	    epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event))
		boot_image_end(1, "no loop: %m");
	for (int round = 0; round < atoi(rounds); round++) {
		struct timespec begin, end;

		if (epoll_wait(epoll, &event, 1, -1) < 1 ||
		    read(timer, &expired, sizeof(expired)) < 0)
			continue;
		clock_gettime(CLOCK_MONOTONIC, &begin);
		sort_round(code, method, array, thread, round + 1);
		clock_gettime(CLOCK_MONOTONIC, &end);
		printf("round %d %ld\n", round,
		       (end.tv_sec - begin.tv_sec) * 1000000 +
			       (end.tv_nsec - begin.tv_nsec) / 1000);
	}
}

int main(int argc, char **argv)
{
	int count = argc == 6 ? atoi(argv[3]) : 0, period_ms = argc == 6 ? atoi(argv[5]) : 0;
	const struct known_image *known = NULL;
	struct image_header art;
	struct file oat_file;
	struct java_ints *array;
	uint64_t code;
	char *thread;

	if (count < 1 || count > MAX_COUNT || period_ms < 1)
		boot_image_end(2, "usage: artdemo BOOT.art BOOT.oat NUMBERS ROUNDS PERIOD_MS");
	setvbuf(stdout, NULL, _IOLBF, 0);
	oat_file = open_file(argv[2]);
	art = map_art(open_file(argv[1]));
	map_oat(&oat_file, &art);
	for (size_t i = 0; i < sizeof(known_images) / sizeof(*known_images); i++)
		if (known_images[i].oat_checksum == art.oat_checksum)
			known = &known_images[i];
	if (!known)
		boot_image_end(77, "the methods of the image with checksum %#x are not known",
			       art.oat_checksum);
	code = art.oat_file_begin + (uint64_t)known->sort;
	give_code(&art, known->merge_runs, known->nterp, (uintptr_t)merge_runs);
	for (int i = 0; i < 2; i++)
		give_code(&art, known->insertion_sort[i], known->nterp, (uintptr_t)insertion_sort);
	array = map_at(ARRAY_BASE, sizeof(*array) + count * sizeof(*array->numbers),
		       PROT_READ | PROT_WRITE, -1, 0, "the array");
	array->length = count;
	thread = mmap(NULL, THREAD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (thread == MAP_FAILED)
		boot_image_end(1, "no memory: %m");
	puts("ready");
	run_rounds(code, image_method_of(&art, code), array, thread, argv[4], period_ms);
	return 0;
}

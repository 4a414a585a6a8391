/* SPDX-License-Identifier: BSD-2-Clause */
/* A main loop whose handler runs for 300 ms, five times, in code whose frames are easily named
 * wrong.
 *
 * usage: loop_frames MODE GO_FILE   (as loop_kinds)
 *   named    code of a JIT compiler, in an executable memfd, which /tmp/perf-PID.map names
 *            "jit_render"
 *   decoy    the same without a name, and its frame pointer leads to a made-up record whose return
 *            address is in decoy_outer, which is never called
 *   vdso     spins in the vdso's clock_gettime
 *   hacked   the same, but the names in its own copy of the vdso are others */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define BLOCK_NS 300000000u

static uint8_t *code;
static int is_decoy;
static volatile int sink;
static sigjmp_buf back;

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int decoy_outer(void);
NOINLINE int decoy_outer(void)
{
	sink++;
	return sink;
}

/* Spins; before that it loads the frame pointer with the address of a frame record. */
static int make_code(void)
{
	int fd = memfd_create("jit-cache", 0);

	if (fd < 0 || ftruncate(fd, 4096))
		return -1;
	code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED, fd, 0);
	close(fd);
	if (code == MAP_FAILED)
		return -1;
#if defined(__x86_64__)
	/* mov $record, %rbp; jmp . */
	static const uint8_t spin[] = {0x48, 0xbd, 0, 0, 0, 0, 0, 0, 0, 0, 0xeb, 0xfe};

	memcpy(code, spin, sizeof(spin));
	if (!is_decoy)
		memcpy(code, spin + 10, 2);
#else
	/* ldr x29, .+8; b . */
	static const uint32_t spin[] = {0x5800005d, 0x14000000};

	memcpy(code, is_decoy ? spin : spin + 1, is_decoy ? 8 : 4);
	__builtin___clear_cache((char *)code, (char *)code + 16);
#endif
	return 0;
}

static void name_code(void)
{
	char path[64], text[80];
	int fd, n;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	n = snprintf(text, sizeof(text), "%lx 40 jit_render\n", (unsigned long)(uintptr_t)code);
	if (fd < 0 || write(fd, text, (size_t)n) != n)
		exit(3);
	close(fd);
}

static void hack_vdso(void)
{
	uint64_t vdso = getauxval(AT_SYSINFO_EHDR);
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	static char bytes[8192];

	for (unsigned page = 0; page < 2; page++)
		if (fd < 0 ||
		    (pread(fd, bytes + page * 4096, 4096, (off_t)(vdso + page * 4096)) != 4096 &&
		     !page))
			exit(3);
	for (unsigned i = 0; i + 14 < sizeof(bytes); i++)
		if (!memcmp(bytes + i, "clock_gettime", 13) &&
		    pwrite(fd, "hacked_gettim", 13, (off_t)(vdso + i)) != 13)
			exit(3);
	close(fd);
}

static void on_alarm(int number)
{
	siglongjmp(back, number);
}

static NOINLINE void run_code(void)
{
	struct itimerval once = {{0, 0}, {0, BLOCK_NS / 1000}};
	/* On the stack, which each kind of sample has a copy of. */
	volatile uint64_t record[4];
	uint64_t address = (uintptr_t)record;

	record[0] = address + 16;
	record[1] = (uintptr_t)decoy_outer + 4;
	record[2] = record[3] = 0;
#if defined(__x86_64__)
	if (is_decoy)
		memcpy(code + 2, &address, sizeof(address));
#else
	memcpy(code + 8, &address, sizeof(address));
#endif
	if (sigsetjmp(back, 1))
		return;
	setitimer(ITIMER_REAL, &once, NULL);
	((void (*)(void))code)();
}

static NOINLINE void run_vdso(void)
{
	uint64_t end_ns = now_ns(CLOCK_MONOTONIC) + BLOCK_NS;

	while (now_ns(CLOCK_MONOTONIC) < end_ns)
		sink++;
}

int main(int argc, char **argv)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC), blocks = 0, wait_ms = 100;
	const char *mode = argc > 2 ? argv[1] : "";
	int jit = !strcmp(mode, "named") || !strcmp(mode, "decoy");
	struct epoll_event event;
	char text[80];

	is_decoy = !strcmp(mode, "decoy");
	if (argc < 3 || (jit && make_code()))
		return 2;
	if (!strcmp(mode, "named"))
		name_code();
	if (!strcmp(mode, "hacked"))
		hack_vdso();
	signal(SIGALRM, on_alarm);
	if (write(1, "ready\n", 6) != 6)
		return 1;
	for (;;) {
		uint64_t boot_ns, since_ns;
		int n;

		epoll_wait(epoll, &event, 1, wait_ms);
		if (access(argv[2], F_OK))
			continue;
		if (++blocks > 5) {
			wait_ms = -1;
			continue;
		}
		boot_ns = now_ns(CLOCK_BOOTTIME);
		since_ns = now_ns(CLOCK_MONOTONIC);
		if (jit)
			run_code();
		else
			run_vdso();
		n = snprintf(text, sizeof(text), "block %llu %llu\n", (unsigned long long)boot_ns,
			     (unsigned long long)(now_ns(CLOCK_MONOTONIC) - since_ns));
		if (write(1, text, (size_t)n) != n)
			return 1;
		wait_ms = 500;
	}
}

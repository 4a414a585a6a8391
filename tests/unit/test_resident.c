/* SPDX-License-Identifier: BSD-2-Clause */
/* What stays in memory: the program, and nothing that is to go back. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/resident.h"

static long locked_kb(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	long kb = -1;

	cr_assert(file);
	while (fgets(line, sizeof(line), file) && sscanf(line, "VmLck: %ld", &kb) != 1)
		;
	fclose(file);
	return kb;
}

/* The flags of the mapping that an address is in, as the kernel writes them ("lo" is locked). */
static bool is_locked(const void *address)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long begin, end, at = (unsigned long)address;
	bool inside = false, locked = false;
	char line[512];

	cr_assert(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
			inside = at >= begin && at < end;
		else if (inside && !strncmp(line, "VmFlags:", 8))
			locked = strstr(line, " lo");
	}
	fclose(file);
	return locked;
}

Test(resident, program_and_no_heap)
{
	static char data[1] = {1};
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err, status;
	pid_t pid;

	cr_assert(page != MAP_FAILED && !is_locked((const void *)resident_keep) &&
		  !is_locked(data));
	err = resident_keep();
	if (err == -ENOMEM || err == -EPERM)
		cr_skip_test("mlock2: %s", strerror(-err));
	cr_assert_eq(err, 0);
	cr_expect(is_locked((const void *)resident_keep));
	cr_expect(is_locked(data));
	cr_expect(is_locked((const void *)fopen), "of the library as well");
	cr_expect(!is_locked(page));
	cr_expect_eq(madvise(page, 4096, MADV_DONTNEED), 0);
	pid = fork();
	if (pid == 0)
		_exit(locked_kb() != 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0, "a child has no lock");
}

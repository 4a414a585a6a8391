/* SPDX-License-Identifier: BSD-2-Clause */
/* The parsers of /proc against texts that a hostile process can make. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/maps.h"
#include "proc/read.h"
#include "proc/stat.h"
#include "proc/status.h"

#define AFTER_NAME \
	" R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21 22 23 24 25 26 27 28 29 30\n"

/* Ends at a page that cannot be read, so that a byte too far is a crash, sanitizer or not. */
static int parse(const char *text, char *comm, uint64_t *ticks)
{
	struct proc_stat stat = {0};
	size_t length = strlen(text), page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *exact = pages + page - length;
	int err;

	cr_assert_neq(pages, MAP_FAILED);
	cr_assert_lt(length, page);
	memcpy(exact, text, length);
	mprotect(pages + page, page, PROT_NONE);
	err = proc_parse_stat(exact, length, &stat);
	if (!err) {
		memcpy(comm, stat.comm, PROC_COMM_LEN);
		*ticks = stat.start_ticks;
	}
	munmap(pages, 2 * page);
	return err;
}

Test(proc_stat, names_with_anything_in_them)
{
	static const char *const names[] = {
		"cat",
		"",
		")",
		"(",
		"()",
		") R 1 2",
		"a) S 5 6 7 (b",
		"x y",
		"tab\tnew\nline",
		"\xff\xfe\x80",
		") R 1 2 3 4 5 6",
	};
	char text[512], comm[PROC_COMM_LEN];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		uint64_t ticks = 0;

		snprintf(text, sizeof(text), "77 (%s)%s", names[i], AFTER_NAME);
		cr_expect_eq(parse(text, comm, &ticks), 0, "'%s'", names[i]);
		cr_expect_str_eq(comm, names[i]);
		cr_expect_eq(ticks, 4242, "'%s'", names[i]);
	}
}

/* Kernel threads of workqueues show more than TASK_COMM_LEN. */
Test(proc_stat, long_name_is_cut)
{
	char comm[PROC_COMM_LEN];
	uint64_t ticks;

	cr_expect_eq(parse("9 (kworker/u256:0-events_unbound)" AFTER_NAME, comm, &ticks), 0);
	cr_expect_str_eq(comm, "kworker/u256:0-");
	cr_expect_eq(ticks, 4242);
}

Test(proc_stat, every_cut_is_refused_or_right)
{
	static const char whole[] = "77 (a b)" AFTER_NAME;
	char text[sizeof(whole)], comm[PROC_COMM_LEN];
	size_t after = (size_t)(strstr(whole, "4242 ") - whole) + 5;

	for (size_t length = 0; length < sizeof(whole); length++) {
		uint64_t ticks = 1;
		int err;

		memcpy(text, whole, length);
		text[length] = 0;
		err = parse(text, comm, &ticks);
		/* A number that may go on behind the cut is no number. */
		if (length < after)
			cr_expect_eq(err, -EBADMSG, "%zu bytes gave %d, %llu", length, err,
				     (unsigned long long)ticks);
		else
			cr_expect(err == 0 && ticks == 4242, "%zu bytes", length);
	}
}

Test(proc_stat, hostile_lines)
{
	static const char *const bad[] = {
		"",
		"\n",
		"77",
		"77 (",
		"77 )",
		"77 )(",
		"77 (x)",
		"77 (x) R",
		"77 (x) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 -4 20\n",
		"77 (x) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x 20\n",
		"77 (x) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 12x 20\n",
		"77 (x) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 99999999999999999999 20\n",
		"77 (x)                                                                        ",
	};
	char comm[PROC_COMM_LEN];
	uint64_t ticks;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		cr_expect_eq(parse(bad[i], comm, &ticks), -EBADMSG, "'%s'", bad[i]);
}

/* fs/proc/array.c escapes newline and backslash: by letter, and in octal on older kernels. */
Test(proc_stat, escapes_are_undone)
{
	static const struct {
		const char *text, *comm;
	} cases[] = {
		{"a\\nb", "a\nb"},
		{"a\\012b", "a\nb"},
		{"a\\\\b", "a\\b"},
		{"a\\134b", "a\\b"},
		{"\\", "\\"},
		{"x\\01", "x\\01"},
		{"\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n", "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n"},
	};
	char text[512], comm[PROC_COMM_LEN];
	uint64_t ticks;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		snprintf(text, sizeof(text), "77 (%s)%s", cases[i].text, AFTER_NAME);
		cr_expect_eq(parse(text, comm, &ticks), 0);
		cr_expect_str_eq(comm, cases[i].comm);
	}
}

Test(proc_stat, the_kernel_s_own_text_of_an_odd_name)
{
	static const char *const names[] = {") R 1 2", "x\ny\\z", "\n\n) S (\n", "", "a(b"};
	struct proc_stat stat;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		int dir = proc_open("", getpid());

		cr_assert_geq(dir, 0);
		prctl(PR_SET_NAME, names[i]);
		/* The main thread may be another one: criterion runs a test in a process of its
		 * own. */
		cr_expect_eq(proc_stat(dir, &stat), 0);
		cr_expect_str_eq(stat.comm, names[i]);
		cr_expect_eq(stat.ppid, getppid());
		cr_expect_eq(stat.state, 'R');
		cr_expect(!proc_stat_is_over(&stat) && !proc_stat_is_kernel_thread(&stat));
		close(dir);
	}
}

Test(proc_status, fields_and_what_is_missing)
{
	struct proc_status status;

	proc_parse_status("Name:\tUid:\t7\nTgid:\t12\nPid:\t13\nTracerPid:\t9\n"
			  "Uid:\t1000\t1001\t1002\t1003\nRssAnon:\t     12 kB\n"
			  "CapEff:\t000001ffffffffff\nvoluntary_ctxt_switches:\t5\n"
			  "nonvoluntary_ctxt_switches:\t6\n",
			  &status);
	cr_expect_eq(status.tgid, 12);
	cr_expect_eq(status.tracer, 9);
	cr_expect(status.uid.present && status.uid.value == 1000);
	cr_expect(status.anon_bytes.present && status.anon_bytes.value == 12288);
	cr_expect(status.capabilities.present && status.capabilities.value == 0x1ffffffffff);
	cr_expect(status.switches_voluntary.value == 5 && status.switches_involuntary.value == 6);
	cr_expect(!status.seccomp.present);
	proc_parse_status("", &status);
	cr_expect(!status.uid.present && !status.capabilities.present && !status.tgid);
	proc_parse_status("Uid:\nUid:", &status);
	cr_expect(!status.uid.present);
}

Test(proc_status, name_with_a_line_of_its_own)
{
	struct proc_status status;
	int dir = proc_open("", getpid());

	prctl(PR_SET_NAME, "x\nUid:\t77777");
	cr_expect_eq(proc_status(dir, &status), 0);
	cr_expect_eq(status.uid.value, getuid());
	cr_expect_eq(status.tgid, getpid());
	close(dir);
}

Test(proc_schedstat, parsed_or_refused)
{
	struct proc_schedstat schedstat;

	cr_expect_eq(proc_parse_schedstat("12 34 5\n", &schedstat), 0);
	cr_expect(schedstat.cpu_ns == 12 && schedstat.runnable_ns == 34 && schedstat.arrivals == 5);
	cr_expect_eq(proc_parse_schedstat("12 34", &schedstat), -EBADMSG);
	cr_expect_eq(proc_parse_schedstat("", &schedstat), -EBADMSG);
	cr_expect_eq(proc_schedstat_of_thread("", getpid(), getpid(), &schedstat), 0);
	cr_expect_gt(schedstat.cpu_ns, 0);
	cr_expect_eq(proc_schedstat_of_thread("", getpid(), 1, &schedstat), -ENOENT);
}

/* The reader never writes past the buffer, whatever the file's size. */
Test(proc_read, is_bounded)
{
	char root[] = "/tmp/jankscope-proc-XXXXXX", path[64];
	char text[16 + 1];
	int dir, fd;

	cr_assert(mkdtemp(root));
	snprintf(path, sizeof(path), "%s/cmdline", root);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	for (int i = 0; i < 10000; i++)
		cr_assert_eq(write(fd, "0123456789", 10), 10);
	close(fd);
	dir = open(root, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	text[16] = 'X';
	cr_expect_eq(proc_read(dir, "cmdline", text, 16), 15);
	cr_expect_str_eq(text, "012345678901234");
	cr_expect_eq(text[16], 'X');
	cr_expect_eq(proc_argv0(dir, text, 16), 15);
	cr_expect_eq(proc_read(dir, "none", text, 16), -ENOENT);
	cr_expect_str_eq(text, "");
	close(dir);
	unlink(path);
	rmdir(root);
}

Test(proc_read, numbers)
{
	cr_expect_eq(proc_number("1"), 1);
	cr_expect_eq(proc_number("2147483647"), 2147483647);
	cr_expect_eq(proc_number("2147483648"), 0);
	cr_expect_eq(proc_number("99999999999999999999999999"), 0);
	cr_expect_eq(proc_number("0"), 0);
	cr_expect_eq(proc_number("-1"), 0);
	cr_expect_eq(proc_number("12x"), 0);
	cr_expect_eq(proc_number("self"), 0);
	cr_expect_eq(proc_number(""), 0);
}

static bool map_line(const char *line, struct proc_mapping *mapping)
{
	return proc_parse_mapping(line, line + strlen(line), mapping);
}

Test(proc_maps, line)
{
	struct proc_mapping mapping;

	cr_expect(map_line("7f00-7f10 r-xs 00001000 103:02 77   /a b\\012c (deleted)", &mapping));
	cr_expect_eq(mapping.start, 0x7f00);
	cr_expect_eq(mapping.end, 0x7f10);
	cr_expect_eq(mapping.offset, 0x1000);
	cr_expect_eq(mapping.inode, 77);
	cr_expect_eq(mapping.dev, 0x103u << 20 | 2);
	cr_expect_eq(mapping.flags, MAP_READ | MAP_EXEC | MAP_IS_SHARED);
	cr_expect_eq(mapping.path_length, strlen("/a b\\012c (deleted)"));
	cr_expect(map_line("1-2 ---p 0 0:0 0", &mapping));
	cr_expect_eq(mapping.path_length, 0);
	cr_expect(!map_line("2-1 ---p 0 0:0 0", &mapping));
	cr_expect(!map_line("1-2 rwx 0 0:0 0", &mapping));
	cr_expect(!map_line("11111111111111111-2 ---p 0 0:0 0", &mapping));
	cr_expect(!map_line("1-2 ---p 0 0:0 99999999999999999999999", &mapping));
	cr_expect(!map_line("", &mapping));
}

Test(proc, a_kept_file_is_of_one_thread_alone)
{
	struct proc_kept kept = {.fd = -1};
	struct proc_schedstat schedstat;
	char text[256];
	pid_t child;
	int fd;

	proc_keep(&kept, getpid(), getpid());
	cr_assert_eq(proc_schedstat_kept(&kept, &schedstat), 0);
	fd = kept.fd;
	cr_assert_geq(fd, 0);
	cr_expect_eq(proc_schedstat_kept(&kept, &schedstat), 0);
	cr_expect_eq(kept.fd, fd, "it was opened again");
	child = fork();
	if (!child)
		for (;;)
			pause();
	proc_drop_kept(&kept);
	proc_keep(&kept, child, child);
	cr_expect_gt(proc_read_kept(&kept, "stat", text, sizeof(text)), 0);
	cr_expect_eq(strtol(text, NULL, 10), child, "%s", text);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	cr_expect_leq(proc_read_kept(&kept, "stat", text, sizeof(text)), 0);
	cr_expect_eq(text[0], 0);
	cr_expect_eq(kept.fd, -1);
	proc_keep(&kept, getpid(), getpid());
	cr_expect_gt(proc_read_kept(&kept, "stat", text, sizeof(text)), 0);
	cr_expect_eq(strtol(text, NULL, 10), getpid(), "%s", text);
	proc_drop_kept(&kept);
}

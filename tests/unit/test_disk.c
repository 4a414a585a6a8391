/* SPDX-License-Identifier: BSD-2-Clause */
/* What tasks read and wrote, from readings that come early, late, twice or never; and Android's
 * /proc/uid_io/stats. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proc/uid_io.h"
#include "source/disk/ledger.h"
#include "source/disk/rows.h"
#include "source/disk/uids.h"

#define BEGIN_NS 1000000
#define SECOND   1000000000ull

static struct disk_line a_line(enum disk_line_kind kind, uint64_t address, uint32_t tid,
			       uint64_t start_ns, uint64_t bytes)
{
	return (struct disk_line){
		.task = address,
		.start_boot_ns = start_ns,
		.process_start_boot_ns = start_ns,
		.at_boot_ns = BEGIN_NS + 50,
		.tid = tid,
		.tgid = 10,
		.uid = 7,
		.kind = kind,
		.sums = {.read_bytes = bytes, .rchar_bytes = 2 * bytes, .read_calls = 1},
		.comm = "reader",
	};
}

static void take(struct disk_ledger *ledger, struct disk_line line)
{
	cr_assert_eq(disk_ledger_take(ledger, &line), 0);
}

static struct disk_ledger *a_ledger(void)
{
	struct disk_ledger *ledger = disk_ledger_new();

	cr_assert(ledger);
	take(ledger, a_line(DISK_LINE_ALIVE, 0x100, 10, 500, 4096));
	disk_ledger_begin(ledger, BEGIN_NS);
	cr_assert_eq(disk_ledger_count(ledger), 0);
	return ledger;
}

static uint64_t all_bytes(const struct disk_ledger *ledger)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < disk_ledger_count(ledger); i++) {
		const struct disk_task *task = disk_ledger_at(ledger, i);

		cr_assert_eq(task->part.rchar_bytes, 2 * task->part.read_bytes);
		sum += task->part.read_bytes;
	}
	return sum;
}

Test(disk_ledger, only_what_grew_since_the_beginning_counts)
{
	struct disk_ledger *ledger = a_ledger();

	take(ledger, a_line(DISK_LINE_ALIVE, 0x100, 10, 500, 4096));
	cr_assert_eq(all_bytes(ledger), 0);
	take(ledger, a_line(DISK_LINE_ALIVE, 0x100, 10, 500, 5000));
	take(ledger, a_line(DISK_LINE_ALIVE, 0x100, 10, 500, 5000));
	cr_assert_eq(all_bytes(ledger), 904);
	disk_ledger_turn(ledger);
	cr_assert_eq(all_bytes(ledger), 0);
	disk_ledger_free(ledger);
}

Test(disk_ledger, a_task_that_is_born_and_dies_between_two_walks_counts_once)
{
	struct disk_ledger *ledger = a_ledger();

	take(ledger, a_line(DISK_LINE_EXIT, 0x200, 11, BEGIN_NS + 5, 100));
	/* Closing its files read some more. */
	take(ledger, a_line(DISK_LINE_FREE, 0x200, 11, BEGIN_NS + 5, 130));
	cr_assert_eq(all_bytes(ledger), 130);
	cr_assert_eq(disk_ledger_at(ledger, 0)->end_boot_ns, BEGIN_NS + 50);
	cr_assert_eq(disk_ledger_known(ledger), 1);
	disk_ledger_turn(ledger);
	/* Its address is another task's now. */
	take(ledger, a_line(DISK_LINE_ALIVE, 0x200, 12, BEGIN_NS + 70, 40));
	cr_assert_eq(all_bytes(ledger), 40);
	disk_ledger_free(ledger);
}

Test(disk_ledger, the_end_of_a_task_may_be_told_in_a_later_interval)
{
	struct disk_ledger *ledger = a_ledger();

	take(ledger, a_line(DISK_LINE_EXIT, 0x100, 10, 500, 5096));
	cr_assert_eq(all_bytes(ledger), 1000);
	disk_ledger_turn(ledger);
	take(ledger, a_line(DISK_LINE_ALIVE, 0x100, 10, 500, 5096)); /* a zombie */
	cr_assert_eq(all_bytes(ledger), 0);
	disk_ledger_turn(ledger);
	take(ledger, a_line(DISK_LINE_FREE, 0x100, 10, 500, 5100));
	cr_assert_eq(all_bytes(ledger), 4);
	disk_ledger_turn(ledger);
	cr_assert_eq(disk_ledger_known(ledger), 0);
	disk_ledger_free(ledger);
}

Test(disk_ledger, what_was_before_the_beginning_counts_nothing)
{
	struct disk_ledger *ledger = a_ledger();
	struct disk_line early = a_line(DISK_LINE_EXIT, 0x300, 13, 600, 9000);

	/* It ended while the first walk went on, behind its back. */
	early.at_boot_ns = BEGIN_NS - 10;
	take(ledger, early);
	take(ledger, a_line(DISK_LINE_FREE, 0x300, 13, 600, 9001));
	/* It had ended before the programs were there, and is freed now. */
	take(ledger, a_line(DISK_LINE_FREE, 0x400, 14, 400, 7777));
	cr_assert_eq(all_bytes(ledger), 1);
	/* It lived through the walk, and had done nothing yet. */
	take(ledger, a_line(DISK_LINE_EXIT, 0x500, 15, 450, 20));
	cr_assert_eq(all_bytes(ledger), 21);
	disk_ledger_free(ledger);
}

Test(disk_ledger, a_thread_that_takes_its_leaders_place_keeps_its_own_sums)
{
	struct disk_ledger *ledger = a_ledger();

	take(ledger, a_line(DISK_LINE_ALIVE, 0x200, 11, BEGIN_NS + 5, 300));
	cr_assert_eq(all_bytes(ledger), 300);
	disk_ledger_turn(ledger);
	/* The leader ends, the thread has its tid and start time, and the leader the thread's tid.
	 */
	take(ledger, a_line(DISK_LINE_EXIT, 0x100, 10, 500, 4096));
	take(ledger, a_line(DISK_LINE_FREE, 0x100, 11, 500, 4096));
	take(ledger, a_line(DISK_LINE_ALIVE, 0x200, 10, 500, 320));
	cr_assert_eq(all_bytes(ledger), 20);
	cr_assert_eq(disk_ledger_at(ledger, 0)->tid, 10);
	cr_assert_eq(disk_ledger_known(ledger), 1);
	disk_ledger_free(ledger);
}

Test(disk_ledger, an_address_that_is_used_again_before_its_free_was_told)
{
	struct disk_ledger *ledger = a_ledger();

	take(ledger, a_line(DISK_LINE_ALIVE, 0x100, 12, BEGIN_NS + 5, 50));
	cr_assert_eq(all_bytes(ledger), 50);
	take(ledger, a_line(DISK_LINE_FREE, 0x100, 10, 500, 4196));
	cr_assert_eq(all_bytes(ledger), 150);
	take(ledger, a_line(DISK_LINE_ALIVE, 0x100, 12, BEGIN_NS + 5, 60));
	cr_assert_eq(all_bytes(ledger), 160);
	cr_assert_eq(disk_ledger_known(ledger), 1);
	disk_ledger_free(ledger);
}

/* The kernel does not show every free (bpf/README.md). */
Test(disk_ledger, an_address_that_is_used_again_and_whose_first_free_is_never_told)
{
	struct disk_ledger *ledger = a_ledger();

	take(ledger, a_line(DISK_LINE_EXIT, 0x100, 10, 500, 4106));
	take(ledger, a_line(DISK_LINE_ALIVE, 0x100, 12, BEGIN_NS + 5, 50));
	take(ledger, a_line(DISK_LINE_EXIT, 0x100, 12, BEGIN_NS + 5, 60));
	take(ledger, a_line(DISK_LINE_FREE, 0x100, 12, BEGIN_NS + 5, 60));
	cr_assert_eq(all_bytes(ledger), 70);
	cr_assert_eq(disk_ledger_known(ledger), 1);
	take(ledger, a_line(DISK_LINE_ALIVE, 0x100, 13, BEGIN_NS + 9, 5));
	cr_assert_eq(all_bytes(ledger), 75);
	for (int i = 0; i < 2000; i++) {
		disk_ledger_turn(ledger);
		take(ledger, a_line(DISK_LINE_ALIVE, 0x100, 13, BEGIN_NS + 9, 5));
	}
	cr_assert_eq(disk_ledger_known(ledger), 1);
	disk_ledger_free(ledger);
}

Test(disk_ledger, tasks_whose_end_was_lost_are_forgotten)
{
	struct disk_ledger *ledger = a_ledger();

	for (int i = 0; i < 2000; i++) {
		take(ledger, a_line(DISK_LINE_ALIVE, 0x900, 99, BEGIN_NS + 1, 8));
		disk_ledger_turn(ledger);
	}
	cr_assert_eq(disk_ledger_known(ledger), 1);
	take(ledger, a_line(DISK_LINE_ALIVE, 0x900, 99, BEGIN_NS + 1, 9));
	cr_assert_eq(all_bytes(ledger), 1);
	disk_ledger_free(ledger);
}

/* ---- rows ---- */

Test(disk_rows, tasks_and_other_are_the_sums_and_processes_have_their_calls)
{
	struct disk_ledger *ledger = a_ledger();
	struct disk_rows *rows = disk_rows_new();
	const struct disk_process process = {.start_boot_ns = 500, .pid = 10};
	struct disk_syncs syncs = {.uid = 7, .kind = {[DISK_FSYNC] = {3, 1, 5000}}};
	struct record_disk disk = {0};

	take(ledger, a_line(DISK_LINE_ALIVE, 0x100, 10, 500, 4196));
	for (uint32_t i = 0; i < 5; i++) {
		struct disk_line line =
			a_line(DISK_LINE_ALIVE, 0x200 + i, 11 + i, BEGIN_NS + i, 1000 * (i + 1));

		line.process_start_boot_ns = 500;
		take(ledger, line);
	}
	cr_assert_eq(disk_rows_take_syncs(rows, &process, &syncs, true), 0);
	syncs.kind[DISK_FSYNC] = (struct disk_sync){5, 1, 9000};
	cr_assert_eq(disk_rows_take_syncs(rows, &process, &syncs, false), 0);
	cr_assert_eq(disk_rows_fill(rows, ledger, NULL, 2, &disk), 0);
	cr_assert_eq(disk.task_count, 2);
	cr_assert_eq(disk.sums.read_bytes, 15100);
	cr_assert_eq(disk.tasks[0].sums.read_bytes + disk.tasks[1].sums.read_bytes +
			     disk.other.read_bytes,
		     15100);
	cr_assert_eq(disk.tasks[0].tid, 15);
	cr_assert_eq(disk.process_count, 1);
	cr_assert_eq(disk.processes[0].sums.read_bytes, 15100);
	cr_assert(disk.processes[0].has_fsync && !disk.processes[0].has_msync);
	cr_assert_eq(disk.processes[0].fsync.count, 2);
	cr_assert_eq(disk.processes[0].fsync.failed, 0);
	cr_assert_eq(disk.processes[0].fsync.time_ns, 4000);
	/* Nothing new. */
	disk_ledger_turn(ledger);
	disk = (struct record_disk){0};
	cr_assert_eq(disk_rows_take_syncs(rows, &process, &syncs, false), 0);
	cr_assert_eq(disk_rows_fill(rows, ledger, NULL, 0, &disk), 0);
	cr_assert_eq(disk.task_count + disk.process_count, 0);
	cr_assert_eq(disk.sums.read_bytes, 0);
	disk_rows_free(rows);
	disk_ledger_free(ledger);
}

/* ---- uids ---- */

static bool parse(const char *line, struct proc_uid_io *io)
{
	return proc_parse_uid_io(line, line + strlen(line), io);
}

Test(disk_uids, lines_of_android)
{
	struct proc_uid_io io;

	cr_assert(parse("10157 5218113 1051 4198400 12288 88 9 4096 8192 3 4", &io));
	cr_assert_eq(io.uid, 10157);
	cr_assert_eq(io.foreground.rchar_bytes, 5218113);
	cr_assert_eq(io.foreground.write_bytes, 12288);
	cr_assert_eq(io.background.read_bytes, 4096);
	cr_assert_eq(io.foreground.fsyncs, 3);
	cr_assert_eq(io.background.fsyncs, 4);
	cr_assert(parse("4294967295 0 0 0 0 0 0 0 0 18446744073709551615 0", &io));
	cr_assert_eq(io.foreground.fsyncs, UINT64_MAX);
}

Test(disk_uids, what_is_no_line)
{
	static const char *const lines[] = {
		"",
		" ",
		"1 2 3 4 5 6 7 8 9 10",
		"1 2 3 4 5 6 7 8 9 10 11 12",
		"1 2 3 4 5 6 7 8 9 10 11 ",
		" 1 2 3 4 5 6 7 8 9 10 11",
		"1  2 3 4 5 6 7 8 9 10 11",
		"-1 2 3 4 5 6 7 8 9 10 11",
		"4294967296 2 3 4 5 6 7 8 9 10 11",
		"1 2 3 4 5 6 7 8 9 10 18446744073709551616",
		"1 2 3 4 5 6 7 8 9 10 0x11",
		"1 2 3 4 5 6 7 8 9 10 11\r",
		"task,foo,1,2,3,4,5,6,7,8,9,10,11",
	};
	struct proc_uid_io io;

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		cr_assert_not(parse(lines[i], &io), "%s", lines[i]);
	cr_assert(proc_is_uid_io_task(lines[12], lines[12] + strlen(lines[12])));
	cr_assert_not(proc_is_uid_io_task("task", "task" + 4));
}

static void write_file(int fd, const char *text, size_t length)
{
	cr_assert_eq(ftruncate(fd, 0), 0);
	cr_assert_eq(pwrite(fd, text, length, 0), (ssize_t)length);
}

#define WRITE(fd, text) write_file(fd, text, sizeof(text) - 1)

Test(disk_uids, what_grew_between_two_readings)
{
	char path[] = "/tmp/uid_io.XXXXXX";
	int fd = mkstemp(path);
	struct disk_uids *uids;
	struct record_disk disk = {0};

	WRITE(fd, "0 10 20 30 40 1 2 3 4 5 6\ntask,init,1,0,0,0\n1000 1 1 1 1 1 1 1 1 1 1\n");
	uids = disk_uids_new(path);
	cr_assert(uids);
	cr_assert_eq(disk_uids_read(uids, NULL, SECOND, false, &disk), 0);
	cr_assert_not(disk.uids_present);
	cr_assert_eq(disk.uid_count, 0);
	/* 10157 is new: it began at 0. 1000 was removed, and begins anew later. */
	WRITE(fd, "0 10 20 130 40 1 2 3 4 5 8\n10157 1 2 3 4 5 6 7 8 9 10\n");
	disk = (struct record_disk){0};
	cr_assert_eq(disk_uids_read(uids, NULL, 2 * SECOND, false, &disk), 0);
	cr_assert_not(disk.uids_present, "not due yet");
	cr_assert_eq(disk_uids_read(uids, NULL, 11 * SECOND, false, &disk), 0);
	cr_assert(disk.uids_present);
	cr_assert_eq(disk.uids_span_ns, 10 * SECOND);
	cr_assert_eq(disk.uid_count, 2);
	cr_assert_eq(disk.uids[0].foreground.read_bytes, 100);
	cr_assert_eq(disk.uids[0].background.fsyncs, 2);
	cr_assert_eq(disk.uids[1].uid, 10157);
	cr_assert_eq(disk.uids[1].background.write_bytes, 8);
	/* Nonsense is told, and is no beginning. */
	WRITE(fd, "0 10 20 130 40 1 2 3 4 5 8\n\xff\xfe binary\n");
	disk = (struct record_disk){0};
	cr_assert_eq(disk_uids_read(uids, NULL, 12 * SECOND, true, &disk), -EBADMSG);
	cr_assert_eq(disk.uid_count, 0);
	WRITE(fd, "0 1000 20 130 40 1 2 3 4 5 8\n");
	cr_assert_eq(disk_uids_read(uids, NULL, 13 * SECOND, true, &disk), 0);
	cr_assert_eq(disk.uid_count, 0);
	/* One uid twice, a line without an end. */
	WRITE(fd, "0 1 2 3 4 5 6 7 8 9 10\n0 1 2 3 4 5 6 7 8 9 10\n");
	cr_assert_eq(disk_uids_read(uids, NULL, 14 * SECOND, true, &disk), -EBADMSG);
	WRITE(fd, "0 1 2 3 4 5 6 7 8 9 10");
	cr_assert_eq(disk_uids_read(uids, NULL, 15 * SECOND, true, &disk), -EBADMSG);
	/* An empty text is none: what comes behind it did not grow from 0. */
	WRITE(fd, "0 1 2 3 4 5 6 7 8 9 10\n");
	cr_assert_eq(disk_uids_read(uids, NULL, 16 * SECOND, true, &disk), 0);
	WRITE(fd, "");
	cr_assert_eq(disk_uids_read(uids, NULL, 17 * SECOND, true, &disk), -EBADMSG);
	cr_assert_not(disk.uids_present);
	WRITE(fd, "0 5 2 3 4 5 6 7 8 9 10\n");
	cr_assert_eq(disk_uids_read(uids, NULL, 18 * SECOND, true, &disk), 0);
	cr_assert_eq(disk.uid_count, 0);
	WRITE(fd, "0 7 2 3 4 5 6 7 8 9 10\n");
	cr_assert_eq(disk_uids_read(uids, NULL, 19 * SECOND, true, &disk), 0);
	cr_assert_eq(disk.uid_count, 1);
	cr_assert_eq(disk.uids[0].foreground.rchar_bytes, 2);
	disk_uids_free(uids);
	close(fd);
	unlink(path);
}

Test(disk_uids, a_text_of_two_mebibytes_is_refused)
{
	char path[] = "/tmp/uid_io.XXXXXX", *text = malloc(2 << 20);
	int fd = mkstemp(path);
	struct record_disk disk = {0};
	struct disk_uids *uids;
	size_t length = 0;

	for (unsigned uid = 0; length < (2 << 20) - 100; uid++)
		length += (size_t)sprintf(text + length, "%u 1 2 3 4 5 6 7 8 9 10\n", uid);
	write_file(fd, text, length);
	uids = disk_uids_new(path);
	cr_assert_eq(disk_uids_read(uids, NULL, SECOND, false, &disk), -EFBIG);
	/* More uids than any device has, in less than that. */
	write_file(fd, text, 300000);
	cr_assert_lt(disk_uids_read(uids, NULL, SECOND, true, &disk), 0);
	disk_uids_free(uids);
	close(fd);
	unlink(path);
	free(text);
}

Test(disk_uids, a_file_that_is_not_there_or_not_the_kernels)
{
	cr_assert_null(disk_uids_new("/nonexistent/uid_io"));
	cr_assert_eq(errno, ENOENT);
}

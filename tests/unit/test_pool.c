/* SPDX-License-Identifier: BSD-2-Clause */
/* The helper processes and the pool of probers, over real processes. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/loop.h"
#include "prober/pool.h"
#include "prober/warden_private.h"
#include "util/clock.h"

struct rig {
	struct loop *loop;
	struct warden *warden;
	struct prober_pool *pool;
};

struct heard {
	struct loop *loop;
	int count, err;
	uint64_t at_ns;
	int64_t value;
	char data[4096];
	size_t length;
	int fd;
};

static int on_over(void *ctx, uint32_t events)
{
	loop_stop(ctx);
	return 0;
}

/* Let the loop run for so long, or until somebody stops it. */
static void run_for(struct loop *loop, uint64_t ns)
{
	int timer = loop_add_timer(loop, ns, 0, on_over, loop);

	cr_assert_geq(timer, 0);
	cr_assert_eq(loop_run(loop), 0);
	loop_remove_timer(loop, timer);
}

static struct rig start(void)
{
	struct rig rig = {.warden = warden_start()};

	cr_assert_not_null(rig.warden);
	rig.pool = prober_pool_new(rig.warden);
	rig.loop = loop_new();
	cr_assert_not_null(rig.pool);
	cr_assert_not_null(rig.loop);
	cr_assert_eq(warden_join_loop(rig.warden, rig.loop), 0);
	cr_assert_eq(prober_pool_join_loop(rig.pool, rig.loop), 0);
	return rig;
}

static void stop(struct rig *rig)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + 5 * NSEC_PER_SEC;
	pid_t pid = 0;

	prober_pool_free(rig->pool);
	warden_stop(rig->warden);
	loop_free(rig->loop);
	/* Nothing is left, neither alive nor, a little later on a busy machine, dead. */
	while (pid >= 0 && clock_now_ns(CLOCK_MONOTONIC) < until_ns) {
		pid = waitpid(-1, NULL, WNOHANG);
		if (!pid)
			usleep(1000);
	}
	cr_expect_eq(pid, -1);
	cr_expect_eq(errno, ECHILD);
}

static void hear(void *ctx, int err, const struct probe_answer *answer)
{
	struct heard *heard = ctx;

	heard->count++;
	heard->err = err;
	heard->at_ns = clock_now_ns(CLOCK_MONOTONIC);
	heard->fd = -1;
	if (answer) {
		heard->value = answer->value;
		heard->length =
			answer->length < sizeof(heard->data) ? answer->length : sizeof(heard->data);
		memcpy(heard->data, answer->data, heard->length);
		if (answer->fd_count) {
			heard->fd = answer->fds[0];
			answer->fds[0] = -1;
		}
	}
	if (heard->loop)
		loop_stop(heard->loop);
}

static struct heard ask(struct rig *rig, const struct probe_request *request)
{
	struct heard heard = {.loop = rig->loop};

	cr_assert_gt(probe_ask(rig->pool, request, NULL, 0, NULL, 0, NSEC_PER_SEC, hear, &heard),
		     0);
	run_for(rig->loop, 5 * NSEC_PER_SEC);
	cr_assert_eq(heard.count, 1);
	return heard;
}

/* A call may be late on a busy machine: then it is made again, as its users do. */
static ssize_t call(struct rig *rig, const struct probe_request *request, void *to, size_t room)
{
	ssize_t n = -ETIMEDOUT;

	for (int i = 0; i < 2000 && (n == -ETIMEDOUT || n == -EBUSY); i++) {
		run_for(rig->loop, NSEC_PER_MSEC);
		probe_new_turn(rig->pool);
		n = probe_call(rig->pool, request, to, room);
	}
	return n;
}

static uint64_t own_ticks(void)
{
	char text[1024], *p;
	unsigned long long ticks = 0;
	FILE *file = fopen("/proc/self/stat", "r");

	cr_assert(file && fgets(text, sizeof(text), file));
	fclose(file);
	p = strrchr(text, ')');
	for (int i = 0; i < 20; i++)
		p = strchr(p + 1, ' ');
	sscanf(p, "%llu", &ticks);
	return ticks;
}

Test(pool, reads, .timeout = 60)
{
	struct rig rig = start();
	struct probe_request request = {.operation = PROBE_READ, .pid = getpid(), .name = "comm"};
	char text[64] = "", own[16];
	struct heard heard;
	struct stat st;

	prctl(PR_GET_NAME, own);
	cr_expect_eq(call(&rig, &request, text, sizeof(text) - 1), (ssize_t)strlen(own) + 1);
	cr_expect_eq(strncmp(text, own, strlen(own)), 0);
	request.start_ticks = own_ticks();
	cr_expect_gt(call(&rig, &request, text, sizeof(text) - 1), 0);
	request.start_ticks++;
	cr_expect_eq(call(&rig, &request, text, sizeof(text) - 1), -ESRCH, "another process");
	request.start_ticks = 0;
	strcpy(request.name, "../self/comm");
	cr_expect_eq(call(&rig, &request, text, sizeof(text) - 1), -EINVAL);
	request = (struct probe_request){
		.operation = PROBE_READ_LINK, .pid = getpid(), .name = "exe"};
	cr_expect_gt(call(&rig, &request, text, sizeof(text)), 0);
	request = (struct probe_request){.operation = PROBE_MAPS, .pid = getpid()};
	heard = ask(&rig, &request);
	cr_expect_eq(heard.err, 0);
	cr_assert_geq(heard.fd, 0);
	cr_expect_eq(fstat(heard.fd, &st), 0);
	cr_expect_eq(st.st_size, heard.value);
	cr_expect_gt(heard.value, 100);
	close(heard.fd);
	stop(&rig);
}

Test(pool, memory, .timeout = 60)
{
	struct rig rig = start();
	long page = sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, (size_t)(2 * page), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct probe_request request = {.operation = PROBE_MEMORY, .pid = getpid(), .length = 32};
	char bytes[4096];

	strcpy(pages + page - 16, "up to the edge.");
	munmap(pages + page, (size_t)page);
	request.address = (uintptr_t)pages + (uint64_t)page - 16;
	cr_expect_eq(call(&rig, &request, bytes, sizeof(bytes)), 16, "as many as there are");
	cr_expect_str_eq(bytes, "up to the edge.");
	request.address = (uintptr_t)pages + (uint64_t)page;
	cr_expect_eq(call(&rig, &request, bytes, sizeof(bytes)), -EFAULT);
	request.pid = INT32_MAX;
	cr_expect_eq(call(&rig, &request, bytes, sizeof(bytes)), -ESRCH);
	stop(&rig);
}

static pid_t prober_pids(const struct rig *rig, pid_t *pids, size_t room, enum helper_kind kind)
{
	struct helper list[32];
	size_t n = warden_list(rig->warden, list, 32), count = 0;

	for (size_t i = 0; i < n && count < room; i++)
		if (list[i].kind == kind)
			pids[count++] = list[i].pid;
	return (pid_t)count;
}

static bool is_stopped(pid_t pid)
{
	char path[300], text[512], *p;
	struct dirent *entry;
	bool stopped = true;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	folder = opendir(path);
	while (folder && (entry = readdir(folder))) {
		FILE *file;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", pid, entry->d_name);
		file = fopen(path, "r");
		if (file && fgets(text, sizeof(text), file) && (p = strrchr(text, ')')))
			stopped &= p[2] == 'T';
		if (file)
			fclose(file);
	}
	if (folder)
		closedir(folder);
	return stopped;
}

/* A thread may go on for a while after the signal was sent. */
static void stop_process(pid_t pid)
{
	kill(pid, SIGSTOP);
	for (int i = 0; i < 5000 && !is_stopped(pid); i++)
		poll(NULL, 0, 1);
}

Test(pool, stopped_prober, .timeout = 60)
{
	struct rig rig = start();
	struct probe_request request = {.operation = PROBE_READ, .pid = 1, .name = "stat"};
	struct probe_request other = {.operation = PROBE_READ, .pid = getpid(), .name = "stat"};
	struct heard late[8] = {0}, heard;
	struct warden_stats stats;
	struct counter_list counters = {0};
	uint64_t asked_ns;
	pid_t pids[8];
	int count;

	heard = ask(&rig, &other);
	for (int i = 0; i < 1000 && prober_pids(&rig, pids, 8, HELPER_PROBER) < 2; i++)
		run_for(rig.loop, NSEC_PER_MSEC);
	count = prober_pids(&rig, pids, 8, HELPER_PROBER);
	cr_assert_eq(count, 2);
	for (int i = 0; i < count; i++)
		stop_process(pids[i]);
	asked_ns = clock_now_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < count; i++) {
		request.pid = 1 + i;
		late[i].loop = NULL;
		cr_assert_gt(probe_ask(rig.pool, &request, NULL, 0, NULL, 0, PROBE_CALL_NS, hear,
				       &late[i]),
			     0);
	}
	/* Others are served meanwhile. */
	heard = ask(&rig, &other);
	cr_expect_eq(heard.err, 0);
	run_for(rig.loop, 200 * NSEC_PER_MSEC);
	for (int i = 0; i < count; i++) {
		cr_expect_eq(late[i].count, 1);
		cr_expect_eq(late[i].err, -ETIMEDOUT);
		cr_expect_geq(late[i].at_ns - asked_ns, PROBE_CALL_NS);
		cr_expect_lt(late[i].at_ns - asked_ns, PROBE_CALL_NS + 100 * NSEC_PER_MSEC);
	}
	request.pid = 1;
	cr_expect_eq(probe_ask(rig.pool, &request, NULL, 0, NULL, 0, PROBE_CALL_NS, hear, late),
		     -EBUSY, "it holds one up");
	run_for(rig.loop, 1500 * NSEC_PER_MSEC);
	warden_stats(rig.warden, &stats);
	cr_expect_eq(stats.replaced[HELPER_PROBER], 2);
	for (int i = 0; i < count; i++) {
		pid_t now[8];
		int left = prober_pids(&rig, now, 8, HELPER_PROBER);

		for (int j = 0; j < left; j++)
			cr_expect_neq(now[j], pids[i], "a stopped one is gone");
		cr_expect_eq(late[i].count, 1, "no second answer");
	}
	cr_expect_eq(prober_pool_counters(rig.pool, &counters), 0);
	cr_expect_eq(counter_list_get(&counters, "probe_read_late"), 2);
	cr_expect_eq(counter_list_get(&counters, "probe_read_refused"), 1);
	counter_list_free(&counters);
	stop(&rig);
}

/* A prober that goes on before it is replaced is not replaced, and its late answer is dropped. */
Test(pool, late_answer, .timeout = 60)
{
	struct rig rig = start();
	struct probe_request request = {.operation = PROBE_READ, .pid = getpid(), .name = "stat"};
	struct heard late = {0}, heard;
	struct warden_stats stats;
	pid_t pids[8];
	int count;

	ask(&rig, &request);
	for (int i = 0; i < 1000 && prober_pids(&rig, pids, 8, HELPER_PROBER) < 2; i++)
		run_for(rig.loop, NSEC_PER_MSEC);
	count = prober_pids(&rig, pids, 8, HELPER_PROBER);
	for (int i = 0; i < count; i++)
		stop_process(pids[i]);
	cr_assert_gt(probe_ask(rig.pool, &request, NULL, 0, NULL, 0, PROBE_CALL_NS, hear, &late),
		     0);
	run_for(rig.loop, 100 * NSEC_PER_MSEC);
	cr_expect_eq(late.err, -ETIMEDOUT);
	for (int i = 0; i < count; i++)
		kill(pids[i], SIGCONT);
	run_for(rig.loop, 100 * NSEC_PER_MSEC);
	cr_expect_eq(late.count, 1);
	heard = ask(&rig, &request);
	cr_expect_eq(heard.err, 0);
	warden_stats(rig.warden, &stats);
	cr_expect_eq(stats.replaced[HELPER_PROBER], 0);
	stop(&rig);
}

Test(pool, many_at_once, .timeout = 60)
{
	struct rig rig = start();
	struct probe_request request = {.operation = PROBE_READ, .name = "stat"};
	struct heard heard[500] = {0};
	int served = 0, other = 0;

	for (int i = 0; i < 500; i++) {
		request.pid = i % 50 ? getpid() : getppid();
		cr_assert_gt(probe_ask(rig.pool, &request, NULL, 0, NULL, 0, 10 * NSEC_PER_SEC,
				       hear, &heard[i]),
			     0);
	}
	for (int i = 0; i < 10000 && served < 500; i++) {
		run_for(rig.loop, NSEC_PER_MSEC);
		for (served = other = 0; served + other < 500;)
			if (!heard[served].count)
				break;
			else
				served++;
	}
	cr_expect_eq(served, 500);
	for (int i = 0; i < 500; i++)
		cr_expect(heard[i].count == 1 && heard[i].err == 0);
	stop(&rig);
}

/* A warden that somebody stopped is replaced too, and one that is stopped at the end is not left.
 */
Test(pool, warden_stopped, .timeout = 60)
{
	struct rig rig = start();
	struct probe_request request = {.operation = PROBE_READ, .pid = getpid(), .name = "stat"};
	struct warden_usage usage;
	pid_t warden = 0, now = 0;

	ask(&rig, &request);
	for (int i = 0; i < 2000 && !prober_pids(&rig, &warden, 1, HELPER_WARDEN); i++)
		run_for(rig.loop, NSEC_PER_MSEC);
	cr_assert_gt(warden, 0);
	stop_process(warden);
	for (int i = 0; i < 100 && (!prober_pids(&rig, &now, 1, HELPER_WARDEN) || now == warden);
	     i++) {
		warden_usage(rig.warden, &usage);
		run_for(rig.loop, 100 * NSEC_PER_MSEC);
	}
	cr_expect_neq(now, warden);
	cr_expect_eq(ask(&rig, &request).err, 0);
	stop_process(now);
	stop(&rig);
}

Test(pool, warden_dies, .timeout = 60)
{
	struct rig rig = start();
	struct probe_request request = {.operation = PROBE_READ, .pid = getpid(), .name = "stat"};
	struct warden_stats stats;
	pid_t warden = 0, now = 0, pids[8];

	ask(&rig, &request);
	for (int i = 0; i < 2000 && !prober_pids(&rig, &warden, 1, HELPER_WARDEN); i++)
		run_for(rig.loop, NSEC_PER_MSEC);
	cr_assert_gt(warden, 0);
	kill(warden, SIGKILL);
	for (int i = 0; i < 5000 && (!prober_pids(&rig, &now, 1, HELPER_WARDEN) || now == warden);
	     i++)
		run_for(rig.loop, NSEC_PER_MSEC);
	cr_expect_neq(now, warden);
	warden_stats(rig.warden, &stats);
	cr_expect_eq(stats.replaced[HELPER_WARDEN], 1);
	/* The new one makes probers too. */
	for (int i = prober_pids(&rig, pids, 8, HELPER_PROBER); i-- > 0;)
		kill(pids[i], SIGKILL);
	run_for(rig.loop, 300 * NSEC_PER_MSEC);
	for (int i = 0; i < 2000 && prober_pids(&rig, pids, 8, HELPER_PROBER) < 2; i++)
		run_for(rig.loop, NSEC_PER_MSEC);
	cr_expect_eq(ask(&rig, &request).err, 0);
	stop(&rig);
}

static pid_t wait_for_two(struct rig *rig, pid_t *pids)
{
	struct probe_request request = {.operation = PROBE_READ, .pid = getpid(), .name = "stat"};
	pid_t warden = 0;

	ask(rig, &request);
	for (int i = 0; i < 2000 && (prober_pids(rig, pids, 8, HELPER_PROBER) < 2 ||
				     !prober_pids(rig, &warden, 1, HELPER_WARDEN));
	     i++)
		run_for(rig->loop, NSEC_PER_MSEC);
	cr_assert_eq(prober_pids(rig, pids, 8, HELPER_PROBER), 2);
	cr_assert_gt(warden, 0);
	return warden;
}

/* A dead warden's successor is made by a prober that runs as soon as it is free, and not by one
 * that the successor would have to fork first. */
Test(pool, warden_dies_while_probers_are_busy, .timeout = 60)
{
	struct rig rig = start();
	struct probe_request request = {.operation = PROBE_READ, .pid = getpid(), .name = "stat"};
	struct heard heard[3] = {0};
	pid_t pids[8], warden = wait_for_two(&rig, pids), now = 0;
	uint64_t since_ns, took_ns;

	for (int i = 0; i < 2; i++)
		stop_process(pids[i]);
	for (int i = 0; i < 3; i++) {
		request.pid = i == 0 ? getpid() : i == 1 ? getppid() : 1;
		cr_assert_gt(probe_ask(rig.pool, &request, NULL, 0, NULL, 0, 20 * NSEC_PER_SEC,
				       hear, &heard[i]),
			     0);
		if (i == 1)
			kill(warden, SIGKILL);
		run_for(rig.loop, 50 * NSEC_PER_MSEC);
	}
	for (int i = 0; i < 2; i++)
		kill(pids[i], SIGCONT);
	since_ns = clock_now_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < 5000 && (!prober_pids(&rig, &now, 1, HELPER_WARDEN) || now == warden);
	     i++)
		run_for(rig.loop, NSEC_PER_MSEC);
	took_ns = clock_now_ns(CLOCK_MONOTONIC) - since_ns;
	cr_expect_neq(now, warden);
	cr_expect_lt(took_ns, 500 * NSEC_PER_MSEC, "%.0f ms", (double)took_ns / 1e6);
	for (int i = 0; i < 2000 && !(heard[0].count && heard[1].count && heard[2].count); i++)
		run_for(rig.loop, NSEC_PER_MSEC);
	for (int i = 0; i < 3; i++)
		cr_expect(heard[i].count == 1 && !heard[i].err, "%d: %d", i, heard[i].err);
	stop(&rig);
}

static void new_turn(void *ctx)
{
	probe_new_turn(ctx);
}

static int count_entries(const struct warden *warden)
{
	int count = 0;

	for (const struct entry *entry = warden->entries; entry; entry = entry->next)
		count++;
	return count;
}

static uint64_t own_cpu_ns(void)
{
	return clock_now_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* A warden that can make no process (here its table of descriptors is full) is not asked for one
 * after the other without a rest, and none of them leaves anything behind. */
Test(pool, no_process_can_be_made, .timeout = 60)
{
	struct rig rig = start();
	struct probe_request request = {.operation = PROBE_READ, .pid = getpid(), .name = "stat"};
	struct rlimit limit, before;
	struct warden_stats stats;
	pid_t pids[8], warden = wait_for_two(&rig, pids);
	uint64_t cpu_ns = own_cpu_ns();
	int entries = count_entries(rig.warden);

	loop_on_turn(rig.loop, new_turn, NULL, rig.pool);
	cr_assert_eq(prlimit(warden, RLIMIT_NOFILE, NULL, &before), 0);
	limit = before;
	limit.rlim_cur = 4;
	cr_assert_eq(prlimit(warden, RLIMIT_NOFILE, &limit, NULL), 0);
	kill(pids[0], SIGKILL);
	run_for(rig.loop, NSEC_PER_SEC);
	cpu_ns = own_cpu_ns() - cpu_ns;
	warden_stats(rig.warden, &stats);
	cr_expect_leq(stats.replaced[HELPER_PROBER], 20, "%d tries",
		      (int)stats.replaced[HELPER_PROBER]);
	cr_expect_lt(cpu_ns, 100 * NSEC_PER_MSEC, "%.0f ms", (double)cpu_ns / 1e6);
	cr_expect_leq(count_entries(rig.warden), entries, "%d entries", count_entries(rig.warden));
	cr_expect_eq(ask(&rig, &request).err, 0, "the other one is there");
	cr_assert_eq(prlimit(warden, RLIMIT_NOFILE, &before, NULL), 0);
	for (int i = 0; i < 3000 && prober_pids(&rig, pids, 8, HELPER_PROBER) < 2; i++)
		run_for(rig.loop, NSEC_PER_MSEC);
	cr_expect_eq(prober_pids(&rig, pids, 8, HELPER_PROBER), 2, "and is soon not alone");
	stop(&rig);
}

/* Its end is told by the warden before the end of its socket is read: it counts all the same. */
Test(pool, death_that_the_warden_tells_first, .timeout = 60)
{
	struct rig rig = start();
	struct warden_usage usage;
	struct warden_stats stats;
	pid_t pids[8];

	wait_for_two(&rig, pids);
	kill(pids[0], SIGKILL);
	poll(NULL, 0, 200);
	warden_usage(rig.warden, &usage);
	run_for(rig.loop, 200 * NSEC_PER_MSEC);
	warden_stats(rig.warden, &stats);
	cr_expect_eq(stats.replaced[HELPER_PROBER], 1, "%d", (int)stats.replaced[HELPER_PROBER]);
	stop(&rig);
}

/* The first mapping whose path ends so. */
static bool find_mapping(const char *name, struct probe_request *request)
{
	unsigned long start, end, inode;
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512], path[256];
	bool found = false;

	while (!found && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %*s %*s %*s %lu %255s", &start, &end, &inode, path) !=
			    4 ||
		    !strstr(path, name))
			continue;
		request->address = start;
		request->end = end;
		request->inode = inode;
		snprintf(request->name, sizeof(request->name), "%s", path);
		found = true;
	}
	fclose(maps);
	return found;
}

Test(pool, opens, .timeout = 60)
{
	struct rig rig = start();
	struct probe_request request = {.operation = PROBE_OPEN, .pid = getpid()};
	struct probe_file file;
	struct stat st, own;
	struct heard heard;
	char here[64], there[64];
	void *mapped;
	int fd;

	cr_assert_eq(stat("/proc/self/exe", &own), 0);
	cr_assert(find_mapping("/tests/unit/all", &request));
	heard = ask(&rig, &request);
	cr_expect_eq(heard.err, 0);
	cr_assert_eq(heard.length, sizeof(file));
	memcpy(&file, heard.data, sizeof(file));
	cr_expect_eq(fstat(heard.fd, &st), 0);
	cr_expect(st.st_ino == own.st_ino && file.inode == own.st_ino && !file.copied);
	cr_expect_eq(file.size_bytes, (uint64_t)own.st_size);
	cr_expect_eq(fcntl(heard.fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	close(heard.fd);
	request.inode++;
	cr_expect_eq(ask(&rig, &request).err, -ESTALE, "another file by now");
	request = (struct probe_request){.operation = PROBE_OPEN_EXE, .pid = getpid()};
	heard = ask(&rig, &request);
	cr_expect_eq(heard.err, 0);
	close(heard.fd);
	/* A file system that is none of the local ones: a copy comes. */
	cr_assert_eq(stat("/sys/kernel/btf/vmlinux", &own), 0);
	fd = open("/sys/kernel/btf/vmlinux", O_RDONLY | O_CLOEXEC);
	mapped = mmap(NULL, (size_t)own.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	/* The kernel lets it be mapped since 6.16; a prober opens only what its process maps. */
	if (mapped == MAP_FAILED) {
		stop(&rig);
		return;
	}
	request = (struct probe_request){.operation = PROBE_OPEN, .pid = getpid()};
	cr_assert(find_mapping("/sys/kernel/btf/vmlinux", &request));
	heard = ask(&rig, &request);
	cr_expect_eq(heard.err, 0);
	memcpy(&file, heard.data, sizeof(file));
	cr_expect_eq(file.copied, 1);
	cr_expect_eq(file.inode, own.st_ino, "it has the identity of its original");
	cr_expect_eq(fstat(heard.fd, &st), 0);
	cr_expect_eq(st.st_size, own.st_size);
	fd = open(request.name, O_RDONLY | O_CLOEXEC);
	cr_expect_eq(pread(fd, here, sizeof(here), own.st_size - 64), 64);
	cr_expect_eq(pread(heard.fd, there, sizeof(there), own.st_size - 64), 64);
	cr_expect_arr_eq(here, there, sizeof(here));
	cr_expect_eq(write(heard.fd, "", 1), -1, "sealed");
	close(fd);
	close(heard.fd);
	/* A device is not opened. */
	fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	cr_assert_neq(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0), MAP_FAILED);
	close(fd);
	request = (struct probe_request){.operation = PROBE_OPEN, .pid = getpid()};
	cr_assert(find_mapping("/dev/zero", &request));
	cr_expect_eq(ask(&rig, &request).err, -EACCES);
	stop(&rig);
}

/* No room for a descriptor is said as that. */
Test(pool, full_table, .timeout = 60)
{
	struct rig rig = start();
	struct probe_request request = {.operation = PROBE_OPEN_EXE, .pid = getpid()};
	struct rlimit limit, before;
	struct heard heard;
	pid_t pids[8];
	int next;

	ask(&rig, &request);
	for (int i = 0; i < 1000 && prober_pids(&rig, pids, 8, HELPER_PROBER) < 2; i++)
		run_for(rig.loop, NSEC_PER_MSEC);
	next = dup(0);
	close(next);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit = before;
	limit.rlim_cur = (rlim_t)next;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	heard = ask(&rig, &request);
	cr_expect_eq(heard.err, -EMFILE);
	cr_expect_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	heard = ask(&rig, &request);
	cr_expect_eq(heard.err, 0);
	close(heard.fd);
	stop(&rig);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *wait_for_lock(void *ctx)
{
	*(volatile pid_t *)ctx = gettid();
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	return NULL;
}

Test(pool, standing_and_lock_owner, .timeout = 60)
{
	struct rig rig = start();
	volatile pid_t waiter = 0;
	struct probe_request request = {.operation = PROBE_STANDING, .pid = getpid()};
	struct probe_standing standing = {0};
	struct probe_owner owner;
	struct heard heard;
	pthread_t thread;

	pthread_mutex_lock(&lock);
	pthread_create(&thread, NULL, wait_for_lock, (void *)&waiter);
	for (int i = 0; i < 5000 && standing.syscall_nr != SYS_futex; i++) {
		run_for(rig.loop, NSEC_PER_MSEC);
		request.tid = waiter;
		if (!waiter)
			continue;
		heard = ask(&rig, &request);
		cr_assert_eq(heard.err, 0);
		memcpy(&standing, heard.data, sizeof(standing));
	}
	cr_expect_eq(standing.syscall_nr, SYS_futex);
	cr_expect_eq(standing.state, 'S');
	cr_expect_eq(standing.arguments[0], (uint64_t)(uintptr_t)&lock);
	cr_expect_not(standing.is_32_bit);
	cr_expect_gt(standing.cpu_ns, 0);
	cr_expect_gt(standing.switches, 0);
	cr_expect_geq(standing.after_mono_ns, standing.before_mono_ns);
	request = (struct probe_request){.operation = PROBE_LOCK_OWNER,
					 .pid = getpid(),
					 .tid = waiter,
					 .address = standing.arguments[0],
					 .argument = standing.arguments[1]};
	heard = ask(&rig, &request);
	cr_expect_eq(heard.err, 0);
	memcpy(&owner, heard.data, sizeof(owner));
	cr_expect_eq(owner.tid, gettid());
	cr_expect_gt(strlen(owner.thread), 0);
	request.address = (uintptr_t)&standing;
	cr_expect_eq(ask(&rig, &request).err, -ENOENT, "no lock");
	request.address = 8;
	cr_expect_eq(ask(&rig, &request).err, -EFAULT);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
	stop(&rig);
}

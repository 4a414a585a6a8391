/* SPDX-License-Identifier: BSD-2-Clause */
/* The demo inside a guest: a program that knows its own load runs in namespaces of its own under
 * the real `jankscope record`; what the records say is compared with what it did. For both twins.
 * Its threads sleep from before the last record on: their CPU times are equal to the kernel's sums.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net_rig.h"
#include "tap.h"

#define TOOL     "/bin/jankscope"
#define DEMO     "/payload/apps/demo"
#define RECORD   "/tmp/truth.jsonl"
#define TRUTH    "/tmp/truth.json"
#define SECONDS  "1"
#define THREADS  4
#define TCP_ACKS (40 * 52) /* bare ACKs that TCP_INFO does not tell the demo of */

static pid_t run(const char *const argv[], int ns)
{
	pid_t pid = fork();
	int out;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	out = open("/tmp/truth.log", O_WRONLY | O_CREAT | O_APPEND, 0644);
	dup2(out, 1);
	dup2(out, 2);
	if (ns >= 0 && setns(ns, CLONE_NEWNET))
		_exit(99);
	execv(argv[0], (char *const *)argv);
	_exit(127);
}

static int finish(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static bool wait_for_start(void)
{
	char text[8192];
	int tries;

	for (tries = 0; tries < 300; tries++) {
		usleep(100000);
		read_text(RECORD, text, sizeof(text));
		if (strstr(text, "\"event\":\"start\""))
			return true;
	}
	return false;
}

struct sums {
	json_int_t cpu_ns, short_cpu_ns, short_threads, tx_bytes, rx_bytes, lost, intervals;
	bool closed; /* tasks + other + overflow = busy in each interval */
};

static json_int_t number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* Sum up the records: CPU of one thread (tid), of threads of pid that are none of `known`, bytes of
 * one uid. */
static int sum_up(pid_t pid, pid_t tid, const json_t *known, uid_t uid, struct sums *sums)
{
	FILE *file = fopen(RECORD, "r");
	char *line = NULL;
	size_t room = 0;

	*sums = (struct sums){.closed = true};
	if (!file)
		return -errno;
	while (getline(&line, &room, file) > 0) {
		json_t *record = json_loads(line, 0, NULL), *cpu, *row;
		const char *type = json_string_value(json_object_get(record, "type"));
		json_int_t tasks_ns = 0;
		const char *reason;
		size_t i, k;

		if (!type || strcmp(type, "interval")) {
			json_decref(record);
			continue;
		}
		sums->intervals++;
		json_object_foreach (json_object_get(record, "lost"), reason, row)
			/* Neither a late timer loses anything, nor a slot whose CPU waits for its
			 * turn in the middle of it: its sums come with the next read-out. What the
			 * host took of a task that then ended is no loss. */
			if (strcmp(reason, "interval_overruns") &&
			    strcmp(reason, "cpu_torn_reads") &&
			    strcmp(reason, "cpu_told_ahead_ns")) {
				sums->lost += json_integer_value(row);
				if (!tid && !uid)
					tap_note("lost: %s %lld", reason, json_integer_value(row));
			}
		cpu = json_object_get(record, "cpu");
		json_array_foreach (json_object_get(cpu, "tasks"), i, row) {
			bool is_known = false;
			const json_t *thread;

			tasks_ns += number(row, "cpu_ns");
			if (number(row, "tid") == tid)
				sums->cpu_ns += number(row, "cpu_ns");
			if (number(row, "pid") != pid)
				continue;
			json_array_foreach (known, k, thread)
				is_known = is_known || number(thread, "tid") == number(row, "tid");
			if (is_known)
				continue;
			sums->short_cpu_ns += number(row, "cpu_ns");
			sums->short_threads += json_is_true(json_object_get(row, "exited"));
		}
		if (tasks_ns + number(cpu, "other_ns") + number(cpu, "overflow_ns") !=
		    number(cpu, "busy_ns"))
			sums->closed = false;
		json_array_foreach (json_object_get(json_object_get(record, "net"), "uids"), i,
				    row) {
			if (number(row, "uid") != (json_int_t)uid)
				continue;
			sums->tx_bytes += number(row, "tx_bytes");
			sums->rx_bytes += number(row, "rx_bytes");
		}
		json_decref(record);
	}
	free(line);
	fclose(file);
	return 0;
}

static void note_log(void)
{
	char text[1024];
	int fd = open("/tmp/truth.log", O_RDONLY);
	off_t end = lseek(fd, 0, SEEK_END);
	ssize_t n;

	lseek(fd, end > 600 ? end - 600 : 0, SEEK_SET);
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		tap_note("log: %s", line);
}

/* The demo has written its truth, and all of it sleeps. */
static bool demo_holds(pid_t demo, json_t **truth)
{
	char path[64], text[512], *state;
	json_t *row;
	size_t i;

	for (int tries = 0; tries < 1200 && waitpid(demo, NULL, WNOHANG) == 0; tries++) {
		bool asleep = true;

		usleep(50000);
		json_decref(*truth);
		*truth = json_load_file(TRUTH, 0, NULL);
		json_array_foreach (json_object_get(*truth, "threads"), i, row) {
			snprintf(path, sizeof(path), "/proc/%d/task/%lld/stat", demo,
				 number(row, "tid"));
			state = read_text(path, text, sizeof(text)) ? strrchr(text, ')') : NULL;
			asleep = asleep && state && state[2] == 'S';
		}
		if (*truth && asleep)
			return true;
	}
	return false;
}

static void read_sums(pid_t demo, const json_t *truth, json_int_t cpu_ns[THREADS])
{
	char path[64], text[128];
	json_t *row;
	size_t i;

	json_array_foreach (json_object_get(truth, "threads"), i, row) {
		snprintf(path, sizeof(path), "/proc/%d/task/%lld/schedstat", demo,
			 number(row, "tid"));
		if (i < THREADS)
			cpu_ns[i] = read_text(path, text, sizeof(text)) ? atoll(text) : -1;
	}
}

static void compare(const char *variant, const json_t *truth, const json_int_t cpu_ns[THREADS])
{
	const json_t *threads, *row;
	pid_t pid = (pid_t)number(truth, "pid");
	struct sums sums;
	size_t i;

	threads = json_object_get(truth, "threads");
	json_array_foreach (threads, i, row) {
		sum_up(pid, (pid_t)number(row, "tid"), threads, 0, &sums);
		tap_ok(i < THREADS && sums.cpu_ns == cpu_ns[i],
		       "%s: CPU of %s: %lld ns, by the kernel's sum %lld ns", variant,
		       json_string_value(json_object_get(row, "name")), sums.cpu_ns,
		       i < THREADS ? cpu_ns[i] : -1);
	}
	row = json_object_get(truth, "short");
	tap_ok(sums.short_threads == number(row, "threads"), "%s: %lld short threads, truth %lld",
	       variant, sums.short_threads, number(row, "threads"));
	tap_ok(sums.short_cpu_ns >= number(row, "cpu_ns") * 98 / 100,
	       "%s: CPU of short threads: %lld us, at least %lld us", variant,
	       sums.short_cpu_ns / 1000, number(row, "cpu_ns") / 1000);
	sum_up(pid, 0, threads, 0, &sums);
	tap_ok(sums.closed, "%s: tasks + other + overflow = busy in %lld intervals", variant,
	       sums.intervals);
	tap_ok(!sums.lost, "%s: nothing was lost", variant);
	json_array_foreach (json_object_get(truth, "uids"), i, row) {
		uid_t uid = (uid_t)number(row, "uid");

		sum_up(pid, 0, threads, uid, &sums);
		/* The demo sees its TCP segments from above: to 0.1 % and a few ACKs. */
		json_int_t slack = uid == 10124 ? 0 : number(row, "tx_bytes") / 1000 + TCP_ACKS;

		tap_ok(llabs(sums.tx_bytes - number(row, "tx_bytes")) <= slack,
		       "%s: uid %u sent %lld bytes, truth %lld", variant, uid, sums.tx_bytes,
		       number(row, "tx_bytes"));
		/* Received are ACKs for the most part, and on an emulator more of them are bare. */
		slack = uid == 10124 ? 0 : number(row, "rx_bytes") / 50 + TCP_ACKS;
		tap_ok(llabs(sums.rx_bytes - number(row, "rx_bytes")) <= slack,
		       "%s: uid %u received %lld bytes, truth %lld", variant, uid, sums.rx_bytes,
		       number(row, "rx_bytes"));
	}
}

static void test_variant(const struct rig *rig, const char *variant)
{
	const char *const record[] = {
		TOOL, "record",     "-a",  "-i", "1s",   "--cpu",     "switch", "--net", "hooks",
		"-q", "--max-lost", "100", "-o", RECORD, "--variant", variant,  NULL};
	const char *const peer[] = {DEMO, "--peer", RIG_PEER4, NULL};
	const char *const demo[] = {DEMO, SECONDS, TRUTH, RIG_PEER4, "hold", NULL};
	json_int_t cpu_ns[THREADS] = {0};
	pid_t peer_pid, record_pid, demo_pid;
	json_t *truth = NULL;
	bool holds;
	int status;

	unlink(RECORD);
	unlink(TRUTH);
	unlink("/tmp/truth.log");
	peer_pid = run(peer, rig->ns[RIG_PEER]);
	record_pid = run(record, -1);
	if (!tap_ok(wait_for_start(), "%s: record starts", variant))
		note_log();
	usleep(300000);
	demo_pid = run(demo, rig->ns[RIG_DEVICE]);
	holds = demo_holds(demo_pid, &truth);
	tap_ok(holds, "%s: the demo wrote its truth, and sleeps", variant);
	usleep(500000); /* the last segments */
	kill(record_pid, SIGINT);
	status = finish(record_pid);
	if (!tap_ok(status == 0, "%s: record ends with 0 (%d)", variant, status))
		note_log();
	if (holds) {
		read_sums(demo_pid, truth, cpu_ns);
		compare(variant, truth, cpu_ns);
	}
	kill(demo_pid, SIGKILL);
	finish(demo_pid);
	kill(peer_pid, SIGTERM);
	finish(peer_pid);
	json_decref(truth);
}

int main(void)
{
	struct rig rig = {0};
	const char *why = "";

	if (!getenv("GUEST")) {
		tap_skip("guest truth", "only in a guest; here `make demo` does this");
		return 0;
	}
	if (access(TOOL, X_OK) || access(DEMO, X_OK)) {
		tap_skip("guest truth", "no " TOOL " or " DEMO);
		return 0;
	}
	if (rig_up(&rig, &why)) {
		tap_skip("guest truth", why);
	} else {
		test_variant(&rig, "tp_btf");
		test_variant(&rig, "raw_tp");
	}
	rig_down(&rig);
	return tap_done();
}

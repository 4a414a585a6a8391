/* SPDX-License-Identifier: BSD-2-Clause */
/* What reports of 72 hours at 1 s cost: 259,200 intervals of one app, 5,000 blocks. usage:
 * bench_report JANKSCOPE            time and memory of each output
 * bench_report JANKSCOPE make FILE  write that recording (make check-html) */
#include <errno.h>
#include <sys/resource.h>

#include "bench.h"
#include "record/json_write.h"

#define INTERVALS 259200
#define BOOT      5000000000000ull
#define SEC       1000000000ull
#define APP       "com.example.application"

static const char *const threads[] = {"e.application",   "RenderThread",    "binder:400_1",
				      "Jit thread pool", "FinalizerDaemon", "OkHttp Dispatch"};
#define THREADS (sizeof(threads) / sizeof(*threads))

static void put(FILE *to, struct record *record)
{
	size_t length;
	char *line = record_to_line(record, &length);

	if (!line || fwrite(line, 1, length, to) != length) {
		perror("bench_report");
		exit(1);
	}
	free(line);
	record->seq++;
}

static void put_header(FILE *to, struct record *record)
{
	static struct header_target target = {.package = APP};
	struct record_header header = {.kernel = "Linux",
				       .arch = "arm64",
				       .clock = {BOOT, BOOT, 1763985600 * SEC},
				       .interval_ns = SEC,
				       .block_ns = SEC / 2,
				       .targets = &target,
				       .target_count = 1};

	strcpy(header.session, "11111111-2222-3333-4444-555555555555");
	strcpy(header.boot_id, "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee");
	record->type = RECORD_HEADER;
	record->t_boot_ns = BOOT;
	record->header = &header;
	put(to, record);
}

static void put_interval(FILE *to, struct record *record, unsigned n, unsigned *seed)
{
	static struct record_task tasks[THREADS];
	static struct record_process_cpu process = {400, 10123, APP, APP, .threads = THREADS};
	static struct record_uid_cpu uid = {10123, 0};
	static struct record_uid_net net = {10123, APP, {0}};
	static struct record_layer layer = {.pid = 400, .package = APP, .layer = APP "/Main#0"};
	static struct record_memory_process memory = {
		.pid = 400, .uid = 10123, .process = APP, .package = APP};
	static struct record_zone zone = {0, "cpu-big", {true, 0}};
	struct record_interval interval = {.dur_ns = SEC};

	process.cpu_ns = 0;
	for (size_t i = 0; i < THREADS; i++) {
		tasks[i] = (struct record_task){.tid = 400 + (pid_t)i,
						.pid = 400,
						.uid = 10123,
						.process = APP,
						.package = APP,
						.cpu_ns = (uint64_t)rand_r(seed) % 100000000,
						.runnable_ns =
							SOME_U64((uint64_t)rand_r(seed) % 2000000)};
		snprintf(tasks[i].thread, sizeof(tasks[i].thread), "%s", threads[i]);
		process.cpu_ns += tasks[i].cpu_ns;
	}
	uid.cpu_ns = process.cpu_ns;
	interval.cpu = (struct record_cpu){.present = true,
					   .online_cpus = 8,
					   .busy_ns = process.cpu_ns,
					   .idle_ns = SOME_U64(8 * SEC - process.cpu_ns),
					   .online_ns = 8 * SEC,
					   .tasks = tasks,
					   .task_count = THREADS,
					   .processes = &process,
					   .process_count = 1,
					   .uids = &uid,
					   .uid_count = 1};
	net.bytes.rx_bytes = (uint64_t)rand_r(seed) % 100000;
	net.bytes.tx_bytes = (uint64_t)rand_r(seed) % 10000;
	interval.net = (struct record_net){.present = true, .uids = &net, .uid_count = 1};
	layer.shown = 60;
	layer.janky = rand_r(seed) % 50 == 0;
	interval.frames =
		(struct record_frames){.present = true, .layers = &layer, .layer_count = 1};
	memory.rss_bytes = SOME_U64((200ull << 20) + n * 100 + (unsigned)rand_r(seed) % 1000000);
	interval.memory.present = true;
	interval.memory.processes = &memory;
	interval.memory.process_count = 1;
	zone.temperature_mc.value = 40000 + rand_r(seed) % 5000;
	interval.power = (struct record_power){
		.present = true, .read_boot_ns = BOOT, .zones = &zone, .zone_count = 1};
	record->type = RECORD_INTERVAL;
	record->interval = &interval;
	put(to, record);
}

static void put_block(FILE *to, struct record *record, unsigned n, unsigned *seed)
{
	char names[20][32];
	struct record_frame frames[20] = {0};
	struct record_stack stack = {.complete = true, .frames = frames, .frame_count = 20};
	struct record_block block = {.pid = 400,
				     .tid = 400,
				     .package = APP,
				     .process = APP,
				     .state = BLOCK_CLOSED,
				     .stacks = &stack,
				     .stack_count = 1};

	block.wall_ns = SEC / 2 + (uint64_t)rand_r(seed) * 2;
	block.class = block.wall_ns > 5 * SEC   ? BLOCK_ANR
		      : block.wall_ns > 2 * SEC ? BLOCK_LONG
						: BLOCK_SHORT;
	block.start_boot_ns = record->t_boot_ns - block.wall_ns;
	block.ledger.sleeping_ns = block.wall_ns;
	stack.weight_ns = block.wall_ns;
	for (int i = 0; i < 20; i++) {
		snprintf(names[i], sizeof(names[i]), "com.example.C%d.work%d", i,
			 i < 3 ? rand_r(seed) % 40 : (int)(n % 3));
		frames[i].symbol = names[i];
		frames[i].module = "base.odex";
		frames[i].kind = FRAME_DEX;
	}
	record->type = RECORD_BLOCK;
	record->block = &block;
	put(to, record);
}

static void make(const char *path)
{
	FILE *to = fopen(path, "we");
	struct record record = {0};
	unsigned seed = 1;

	if (!to) {
		perror(path);
		exit(1);
	}
	put_header(to, &record);
	for (unsigned n = 1; n <= INTERVALS; n++) {
		record.t_boot_ns = BOOT + n * SEC;
		put_interval(to, &record, n, &seed);
		if (n % 52 == 0)
			put_block(to, &record, n, &seed);
	}
	if (fclose(to)) {
		perror(path);
		exit(1);
	}
}

static void run(const char *jankscope, const char *path, const char *flag, const char *name)
{
	struct rusage usage;
	char value[64], spread[64];
	uint64_t start_ns = bench_now_ns(CLOCK_MONOTONIC);
	pid_t pid = fork();
	int status;

	if (!pid) {
		if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
			_exit(127);
		execl(jankscope, jankscope, "report", path, flag, flag ? "/dev/null" : NULL, NULL);
		_exit(127);
	}
	wait4(pid, &status, 0, &usage);
	snprintf(value, sizeof(value), "%.2f s",
		 (double)(bench_now_ns(CLOCK_MONOTONIC) - start_ns) / 1e9);
	snprintf(spread, sizeof(spread), "%ld MiB%s", usage.ru_maxrss >> 10,
		 WIFEXITED(status) && WEXITSTATUS(status) <= 3 ? "" : ", FAILED");
	bench_row(name, value, spread, "<= 5 s, <= 128 MiB");
}

int main(int argc, char **argv)
{
	static const char *const flags[] = {NULL,      "--html",   "--csv",         "--perfetto",
					    "--pprof", "--folded", "--openmetrics", "--speedscope"};
	char path[] = "/tmp/bench_report.XXXXXX", name[64];

	if (argc == 4 && !strcmp(argv[2], "make")) {
		make(argv[3]);
		return 0;
	}
	if (argc < 2 || mkstemp(path) < 0)
		return 2;
	make(path);
	printf("reports of 72 h at 1 s, one app\n");
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		snprintf(name, sizeof(name), "report %s", flags[i] ? flags[i] : "(the summary)");
		run(argv[1], path, flags[i], name);
	}
	unlink(path);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Code of a runtime that speaks gdb's JIT interface: its frames are named and left by its own
 * tables in each layout, from outside, while the list is being changed; and the app is never
 * stopped. */
/* Runs beside others (61 s, 17 s of CPU) */
#include <libgen.h>
#include <sys/resource.h>

#include "unwinder_rig.h"
#include "jit_target.h"
#include "prober/jit_list.h"
#include "stack/code/jit_elf.h"
#include "stack/registers.h"

#define READS 20000

static char app_path[512];

struct app {
	pid_t pid;
	int in, out;
};

static bool wait_line(struct app *app, const char *line)
{
	char text[16];
	ssize_t n = read(app->out, text, sizeof(text));

	return n == (ssize_t)strlen(line) && !memcmp(text, line, (size_t)n);
}

static bool start_app(struct app *app, const char *layout, const char *how, const char *more,
		      const char *number)
{
	int to[2], from[2];

	if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
		return false;
	app->pid = fork();
	if (!app->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(to[0], 0);
		dup2(from[1], 1);
		execl(app_path, app_path, layout, how, more, number, NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	app->in = to[1];
	app->out = from[0];
	return app->pid > 0 && wait_line(app, "ready\n");
}

static void end_app(struct app *app)
{
	if (app->pid > 0) {
		kill(app->pid, SIGKILL);
		waitpid(app->pid, NULL, 0);
	}
	close(app->in);
	close(app->out);
}

static const char *const all_frames[] = {"c_innermost",
					 "com.example.Hot.inner",
					 "int com.example.Hot.middle(java.lang.String)",
					 "void com.example.Hot.outer()",
					 "c_outermost",
					 "main"};

/* The names, one after the other with nothing between them, and the way that the JIT frames were
 * left. */
static bool is_whole(const struct unwound *trace, size_t count)
{
	size_t at;

	if (!trace || !has(trace, all_frames[0], &at) || trace->count < at + count)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct unwound_frame *frame = &trace->frames[at + i];
		bool jit = strstr(all_frames[i], "com.example") != NULL;

		if (!frame->symbol || strcmp(frame->symbol, all_frames[i]) ||
		    (frame->kind == FRAME_JIT) != jit || frame->method != (METHOD_CFI))
			return false;
	}
	return true;
}

static void test_layouts(void)
{
	static const char *const layouts[] = {"plain", "android1", "android2"};
	static const char *const ways[] = {"single", "packed"};

	for (unsigned i = 0; i < 6; i++) {
		const char *layout = layouts[i / 2], *way = ways[i % 2];
		struct unwound *trace = NULL;
		struct app app;

		if (start_app(&app, layout, way, "", ""))
			trace = unwind(capture_of(app.pid, STACK_PTRACE), 5 * NSEC_PER_SEC);
		if (!tap_ok(is_whole(trace, 6) && trace->complete,
			    "%s, %s: a stack from C through three methods to main, all named, "
			    "all by tables",
			    layout, way))
			print_trace(trace);
		free(trace);
		end_app(&app);
	}
}

static void test_unlisted(void)
{
	struct unwound *trace = NULL;
	struct app app;

	if (start_app(&app, "android2", "half", "", ""))
		trace = unwind(capture_of(app.pid, STACK_PTRACE), 5 * NSEC_PER_SEC);
	if (!tap_ok(trace && trace->count >= 2 && trace->end == END_JIT && !trace->complete &&
			    trace->frames[trace->count - 1].kind == FRAME_JIT &&
			    !trace->frames[trace->count - 1].symbol,
		    "a method that is in no list ends the stack, and says why"))
		print_trace(trace);
	free(trace);
	end_app(&app);
}

/* What an app says of its code costs its own stacks their names, and is counted. */
static void test_lies(void)
{
	uint64_t malformed = counter("jit_elf_malformed"), unread = counter("jit_lists_unread");
	struct unwound *trace = NULL;
	struct app app, ring;

	if (start_app(&app, "android2", "garbage", "", ""))
		trace = unwind(capture_of(app.pid, STACK_PTRACE), 5 * NSEC_PER_SEC);
	if (!tap_ok(is_whole(trace, 6) && counter("jit_elf_malformed") == malformed + 1,
		    "an ELF that makes no sense is counted, the others name the stack"))
		print_trace(trace);
	free(trace);
	trace = NULL;
	if (start_app(&ring, "android2", "ring", "", ""))
		trace = unwind(capture_of(ring.pid, STACK_PTRACE), 5 * NSEC_PER_SEC);
	if (!tap_ok(trace && trace->end == END_JIT && counter("jit_lists_unread") == unread + 1,
		    "a list without an end is counted"))
		print_trace(trace);
	free(trace);
	trace = unwind(capture_of(app.pid, STACK_PTRACE), 5 * NSEC_PER_SEC);
	tap_ok(is_whole(trace, 6), "and the next app's stack has its names");
	free(trace);
	end_app(&app);
	end_app(&ring);
}

/* Code that is entered later is asked for by itself, and what is known is not. */
static void test_late(void)
{
	struct jit_list_request request = {.symfiles = true};
	struct jit_list first = {0}, later = {0};
	unsigned copied = 0, late = 0;
	struct app app;
	int same = -1;

	if (start_app(&app, "android2", "single", "many", "100")) {
		request.descriptor = jit_descriptor_of(app.pid);
		jit_list_read_process(app.pid, &request, &first);
		request.known = first.header.version;
		request.since = first.header.timestamp;
		same = jit_list_read_process(app.pid, &request, &later);
		for (unsigned i = 0; i < 3; i++)
			late += write(app.in, "\n", 1) == 1 && wait_line(&app, "done\n");
		jit_list_read_process(app.pid, &request, &later);
	}
	for (uint32_t i = 0; i < later.header.count; i++)
		copied += later.entries[i].offset != 0;
	tap_ok(first.header.count == 103 && !same && late == 3 && later.header.count == 106 &&
		       copied == 3,
	       "a list of %u methods: unchanged at first, and of the %u that it has later %u are "
	       "copied",
	       first.header.count, later.header.count, copied);
	jit_list_free(&first);
	jit_list_free(&later);
	end_app(&app);
}

/* Its pid and its start stay the same, and its list is elsewhere, in another layout. */
static void test_again(void)
{
	struct unwound *first = NULL, *second = NULL;
	struct app app;
	size_t at = 0, at_again = 0;
	bool runs;

	if (start_app(&app, "android2", "again", "", ""))
		first = unwind(capture_of(app.pid, STACK_PTRACE), 5 * NSEC_PER_SEC);
	runs = write(app.in, "\n", 1) == 1 && wait_line(&app, "ready\n");
	/* The picture of the mappings is 2 s old at the most. */
	nap_ms(2500);
	if (runs)
		second = unwind(capture_of(app.pid, STACK_PTRACE), 5 * NSEC_PER_SEC);
	if (!tap_ok(is_whole(first, 6) && is_whole(second, 6) && has(first, "main", &at) &&
			    has(second, "main", &at_again) &&
			    first->frames[at].pc != second->frames[at_again].pc,
		    "a process that runs another program has the names of that one"))
		print_trace(second);
	free(first);
	free(second);
	end_app(&app);
}

/* gdb reads the same list, by another way. */
static void test_gdb(void)
{
	static const char *const names[] = {"com.example.Hot.inner", "com.example.Hot.middle",
					    "com.example.Hot.outer", "c_outermost", "main"};
	char command[128], line[512];
	unsigned found = 0;
	struct app app;
	FILE *gdb;

	if (access("/usr/bin/gdb", X_OK)) {
		tap_skip("gdb's frames", "no gdb here");
		return;
	}
	if (!tap_ok(start_app(&app, "plain", "single", "", ""), "an app for gdb"))
		goto out;
	snprintf(command, sizeof(command),
		 "timeout 30 gdb -nx -batch -p %d -ex bt </dev/null 2>/dev/null", app.pid);
	gdb = popen(command, "r");
	while (gdb && fgets(line, sizeof(line), gdb)) {
		if (line[0] == '#')
			tap_note("gdb: %.*s", (int)strcspn(line, "\n"), line);
		if (line[0] == '#' && found < 5 && strstr(line, names[found]))
			found++;
	}
	if (gdb)
		pclose(gdb);
	tap_ok(found == 5, "gdb sees the same five frames in the same order: %u", found);
out:
	end_app(&app);
}

/* ---- while it changes ---- */

/* How often the main thread, which sleeps, left a CPU: each stop would be one more. */
static uint64_t switches_of(pid_t pid)
{
	char path[64], line[256];
	uint64_t sum = 0, value;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, pid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "voluntary_ctxt_switches: %" SCNu64, &value) == 1 ||
		    sscanf(line, "nonvoluntary_ctxt_switches: %" SCNu64, &value) == 1)
			sum += value;
	if (file)
		fclose(file);
	return sum;
}

struct seen {
	uint64_t lists, failed, files, wrong, malformed, hot_missing;
	int err;
};

static void check_list(struct seen *seen, const struct jit_list *list)
{
	unsigned hot = 0;

	for (uint32_t i = 0; i < list->header.count; i++) {
		const struct jit_list_entry *entry = &list->entries[i];
		unsigned long long said;
		size_t unpack = 1 << 20;
		struct jit_elf *elf;
		struct jit_range *ranges = NULL;
		uint64_t start;
		char *name;

		if (!entry->offset)
			continue;
		seen->files++;
		elf = jit_elf_new(list->bytes + entry->offset - 1, entry->size, STACK_HOST_ARCH,
				  &unpack);
		if (!elf || jit_elf_ranges(elf, &ranges) != 1) {
			seen->malformed++;
			free(ranges);
			jit_elf_free(elf);
			continue;
		}
		name = jit_elf_name(elf, ranges[0].start, &start);
		if (name && strstr(name, "com.example.Hot"))
			hot++;
		else if (!name || sscanf(name, "void churn.at%llx.x", &said) != 1 ||
			 said != start || start != ranges[0].start)
			seen->wrong++;
		free(name);
		free(ranges);
		jit_elf_free(elf);
	}
	if (hot != 3)
		tap_note("%u of 3 in a list of %u, %u unread, %u left out, version %" PRIx64, hot,
			 list->header.count, list->header.unread, list->header.left_out,
			 list->header.version);
	seen->hot_missing += hot != 3;
}

static void test_churn(const char *layout, const char *pace, unsigned reads)
{
	struct jit_list_request request = {.symfiles = true};
	struct seen seen = {0};
	struct app app;
	uint64_t switches, from_ns, unnamed = 0;
	struct jit_list list;

	if (!tap_ok(start_app(&app, layout, "churn", pace, ""), "%s: the list changes", layout))
		goto out;
	request.descriptor = jit_descriptor_of(app.pid);
	nap_ms(100); /* it has said that it is ready, and sleeps now */
	switches = switches_of(app.pid);
	from_ns = clock_now_ns(CLOCK_MONOTONIC);
	for (unsigned i = 0; i < reads; i++) {
		int err = jit_list_read_process(app.pid, &request, &list);

		if (err != 1) {
			seen.failed++;
			seen.err = err;
			continue;
		}
		seen.lists++;
		check_list(&seen, &list);
		jit_list_free(&list);
	}
	from_ns = clock_now_ns(CLOCK_MONOTONIC) - from_ns;
	tap_note("%s: %" PRIu64 " lists, %" PRIu64 " not had (%s), %" PRIu64 " files, %" PRIu64
		 " us each",
		 layout, seen.lists, seen.failed, strerror(-seen.err), seen.files,
		 from_ns / 1000 / (reads ?: 1));
	tap_ok(seen.lists && !seen.wrong && !seen.malformed && !seen.hot_missing,
	       "%s: %u reads while a thread enters and removes methods: %" PRIu64
	       " wrong names, %" PRIu64 " malformed files, %" PRIu64 " lists without a method "
	       "that was there all the time",
	       layout, reads, seen.wrong, seen.malformed, seen.hot_missing);
	tap_ok(switches && switches_of(app.pid) == switches,
	       "%s: the thread below them was not touched", layout);
	for (unsigned i = 0; i < 50; i++) {
		struct unwound *trace = unwind(capture_of(app.pid, STACK_PTRACE), 5 * NSEC_PER_SEC);

		if (!is_whole(trace, 6)) {
			if (!unnamed++)
				print_trace(trace);
		}
		free(trace);
	}
	tap_note("%s: %" PRIu64 " lists unread, %" PRIu64 " files malformed, %" PRIu64 " dropped",
		 layout, counter("jit_lists_unread"), counter("jit_elf_malformed"),
		 counter("jit_elf_dropped"));
	tap_ok(!unnamed, "%s: 50 stacks meanwhile, %" PRIu64 " of them without a name", layout,
	       unnamed);
out:
	end_app(&app);
}

int main(int argc, char **argv)
{
	unsigned reads = argc > 1 ? (unsigned)atoi(argv[1]) : tap_is_emulated() ? 1000 : READS;
	char *copy = strdup(argv[0]);

	snprintf(app_path, sizeof(app_path), "%.400s/../apps/jit_app", dirname(copy));
	free(copy);
	signal(SIGPIPE, SIG_IGN);
	if (access(app_path, X_OK)) {
		tap_skip("code of a runtime", "no jit_app beside this program");
		return tap_done();
	}
	if (!rig_start())
		return 1;
	test_layouts();
	test_unlisted();
	test_lies();
	test_late();
	test_again();
	test_gdb();
	test_churn("android2", "", reads);
	test_churn("android2", "slow", reads / 10);
	test_churn("android1", "slow", reads / 10);
	test_churn("plain", "slow", reads / 10);
	rig_stop();
	return tap_done();
}

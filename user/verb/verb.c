/* SPDX-License-Identifier: BSD-2-Clause */
#include "verb/verb.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/legend.h"
#include "kernel/load.h"

static const struct verb {
	struct verb_description description;
	enum exit_code (*run)(const struct options *options);
} verbs[] = {
	{{"doctor", VERB_DOCTOR, "[--json]", "Say what works on this kernel, and what is missing."},
	 verb_doctor},
	{{"record", VERB_RECORD, "[TARGET] [-i 1s] [-d 60s] [-o FILE|DIR]",
	  "Sample CPU time, bytes, long blocks and frames; print and record them."},
	 verb_record},
	{{"top", VERB_TOP, "[TARGET] [-i 1s] [-o FILE|DIR]",
	  "The same as a live screen; ? lists its keys."},
	 verb_top},
	{{"frames", VERB_FRAMES, "TRACE... [--json] [--rows] [--layer GLOB]",
	  "Frame timing of Perfetto, systrace, ftrace and dumpsys files."},
	 verb_frames},
	{{"report", VERB_REPORT, "FILE|DIR... [--folded FILE] [--mapping FILE]",
	  "Check recordings, print their summaries, or write what they hold."},
	 verb_report},
	{{"verify", VERB_VERIFY, "FILE|DIR... [--deep] [--repair]",
	  "Say what is whole of recordings, what is torn or missing, and why."},
	 verb_verify},
	{{"status", VERB_STATUS, "DIR [--json] [--pid]",
	  "Say how a recording in a folder goes, or how it ended."},
	 verb_status},
	{{"stop", VERB_STOP, "DIR", "End a recording in a folder, and wait until it has ended."},
	 verb_stop},
	{{"mark", VERB_MARK, "DIR NAME [--end]",
	  "Begin or end a scene in a running recording; the summary has its sums."},
	 verb_mark},
};
#define VERB_COUNT (sizeof(verbs) / sizeof(*verbs))

/* Verbs without flags, which dispatch() runs itself. */
static const struct verb_description plain_verbs[] = {
	{"man", 0, "", "Print the man page."},
	{"completion", 0, "bash|zsh|fish", "Print a completion script for a shell."},
};
#define PLAIN_COUNT     (sizeof(plain_verbs) / sizeof(*plain_verbs))
#define ALL_VERBS_COUNT (VERB_COUNT + PLAIN_COUNT)

static size_t descriptions(struct verb_description all[ALL_VERBS_COUNT])
{
	for (size_t i = 0; i < VERB_COUNT; i++)
		all[i] = verbs[i].description;
	memcpy(all + VERB_COUNT, plain_verbs, sizeof(plain_verbs));
	return ALL_VERBS_COUNT;
}

static void usage(FILE *out)
{
	struct verb_description all[ALL_VERBS_COUNT];

	descriptions(all);
	fputs("usage: jankscope VERB [FLAGS]\n\n", out);
	for (size_t i = 0; i < ALL_VERBS_COUNT; i++)
		fprintf(out, "  %-10s %s\n", all[i].name, all[i].summary);
	fputs("\njankscope VERB --help lists the flags of a verb.\n", out);
}

static int run_verb(const struct verb *verb, int argc, char **argv)
{
	struct options options;
	int code = EXIT_USAGE;

	options_init(&options);
	if (!options_parse(&options, &verb->description, argc, argv)) {
		if (options.help) {
			options_print_help(stdout, &verb->description);
			code = EXIT_FINE;
		} else if (options.legend) {
			legend_print(stdout, verb->description.bit);
			code = EXIT_FINE;
		} else {
			kernel_log_init(options.verbose);
			code = verb->run(&options);
		}
	}
	options_free(&options);
	return code;
}

static int dispatch(int argc, char **argv)
{
	struct verb_description all[ALL_VERBS_COUNT];

	if (argc < 2) {
		usage(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		usage(stdout);
		return EXIT_FINE;
	}
	if (!strcmp(argv[1], "--version")) {
		puts("jankscope " JANKSCOPE_VERSION);
		return EXIT_FINE;
	}
	if (!strcmp(argv[1], "man")) {
		options_print_man(stdout, all, descriptions(all));
		return EXIT_FINE;
	}
	if (!strcmp(argv[1], "completion")) {
		if (!options_print_completion(stdout, argc > 2 ? argv[2] : "", all,
					      descriptions(all)))
			return EXIT_FINE;
		fprintf(stderr, "jankscope: error: completion: name a shell: bash, zsh or fish\n");
		return EXIT_USAGE;
	}
	for (size_t i = 0; i < VERB_COUNT; i++)
		if (!strcmp(argv[1], verbs[i].description.name))
			return run_verb(&verbs[i], argc - 1, argv + 1);
	fprintf(stderr, "jankscope: error: %s: unknown verb; see jankscope --help\n", argv[1]);
	return EXIT_USAGE;
}

/* A file of ours must never become stdout or stderr because the shell closed those. */
static void fill_standard_streams(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

/* Somebody who shares the pipe or terminal made it non-blocking, and stdio drops what it has no
 * room for. Then stdout is opened anew, because the flag is of the open file and not ours to
 * change. A socket cannot be opened: there the end of verb_main tells. */
static void own_stdout(void)
{
	int flags = fcntl(STDOUT_FILENO, F_GETFL), fd;
	struct stat status;

	if (flags < 0 || !(flags & O_NONBLOCK) || fstat(STDOUT_FILENO, &status) ||
	    !(S_ISFIFO(status.st_mode) || isatty(STDOUT_FILENO)))
		return;
	/* With the flag, because a pipe without a reader would be waited for. */
	fd = open("/proc/self/fd/1", (flags & (O_ACCMODE | O_APPEND)) | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return;
	if (!fcntl(fd, F_SETFL, flags & O_APPEND))
		dup2(fd, STDOUT_FILENO);
	close(fd);
}

int verb_main(int argc, char **argv)
{
	int code;

	fill_standard_streams();
	own_stdout();
	/* A reader that went away is told by EPIPE, and is no error of any verb. */
	signal(SIGPIPE, SIG_IGN);
	code = dispatch(argc, argv);
	if (fflush(stdout) && errno != EPIPE && code == EXIT_FINE) {
		fprintf(stderr, "jankscope: error: cannot write stdout: %s\n", strerror(errno));
		code = EXIT_INTERNAL;
	}
	return code;
}

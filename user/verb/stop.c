/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "control/control.h"
#include "control/keeper.h"
#include "sink/text.h"
#include "store/folder.h"
#include "util/clock.h"
#include "verb/folder_state.h"
#include "verb/verb.h"

#define ASK_NS  (5 * NSEC_PER_SEC)
#define END_NS  (15 * NSEC_PER_SEC)
#define LOOK_MS 20

/* The keeper passes it on, and begins no other recorder. */
static int ask_to_stop(int dir_fd)
{
	char reply[256];
	int err = control_ask(dir_fd, "stop", reply, sizeof(reply), ASK_NS);

	/* A recorder that hangs is killed by its keeper. */
	return err && !keeper_stop(dir_fd) ? 0 : err;
}

/* Whoever wrote to the folder has let go of it. */
static bool wait_for_end(int dir_fd)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + END_NS;

	while (keeper_find(dir_fd, NULL) || store_folder_writer(dir_fd)) {
		if (clock_now_ns(CLOCK_MONOTONIC) >= until_ns)
			return false;
		poll(NULL, 0, LOOK_MS);
	}
	return true;
}

static enum exit_code say_end(const char *path, int dir_fd)
{
	enum exit_code code = EXIT_FINE;
	json_t *state = folder_state_get(path, &code);
	int of_keeper = -1;

	if (!state)
		return code;
	keeper_find(dir_fd, &of_keeper);
	if (of_keeper > 0)
		code = (enum exit_code)of_keeper;
	else if (strcmp(folder_state_text(state, "state"), "ended"))
		code = EXIT_INCOMPLETE;
	folder_state_print(state);
	json_decref(state);
	return code;
}

enum exit_code verb_stop(const struct options *options)
{
	enum exit_code code = EXIT_FINE;
	const char *path;
	char name[512];
	int dir_fd, err;

	if (options->argument_count != 1) {
		fprintf(stderr, "jankscope: error: stop: name one folder of a recording; see "
				"jankscope stop --help\n");
		return EXIT_USAGE;
	}
	path = options->arguments[0];
	text_clean(name, sizeof(name), path);
	dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0) {
		code = errno == ENOENT || errno == ENOTDIR ? EXIT_NO_TARGET : EXIT_INTERNAL;
		fprintf(stderr, "jankscope: error: %s: %s\n", name, strerror(errno));
		return code;
	}
	err = ask_to_stop(dir_fd);
	if (err == -ENOENT || err == -ECONNREFUSED) {
		fprintf(stderr, "jankscope: error: %s: nobody records here\n", name);
		code = EXIT_NO_TARGET;
	} else if (err) {
		fprintf(stderr, "jankscope: error: %s: the recorder does not answer: %s\n", name,
			strerror(-err));
		code = err == -EPERM ? EXIT_UNSUPPORTED : EXIT_INTERNAL;
	} else if (!wait_for_end(dir_fd) && (keeper_stop(dir_fd) || !wait_for_end(dir_fd))) {
		fprintf(stderr,
			"jankscope: error: %s: it was told to stop, and has not ended "
			"yet\n",
			name);
		code = EXIT_INTERNAL;
	} else {
		code = say_end(path, dir_fd);
	}
	close(dir_fd);
	return code;
}

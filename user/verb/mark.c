/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "control/control.h"
#include "sink/text.h"
#include "summary/scenes.h"
#include "util/clock.h"
#include "verb/verb.h"

#define ASK_NS (5 * NSEC_PER_SEC)

static enum exit_code say_refusal(const char *folder, int err, const char *reply)
{
	char name[512], why[256];
	bool nobody = err == -ENOENT || err == -ECONNREFUSED;

	/* A recorder that refuses says why; an empty reply is of nobody. */
	if (*reply)
		text_clean(why, sizeof(why), reply);
	else
		snprintf(why, sizeof(why), "%s", nobody ? "nobody records here" : strerror(-err));
	fprintf(stderr, "jankscope: error: %s: %s\n", text_clean(name, sizeof(name), folder), why);
	if (nobody && !*reply)
		return EXIT_NO_TARGET;
	return *reply && err != -EAGAIN ? EXIT_USAGE : EXIT_INTERNAL;
}

enum exit_code verb_mark(const struct options *options)
{
	char request[CONTROL_REQUEST_BYTES], reply[256] = "";
	const char *folder, *scene;
	int dir_fd, err;

	if (options->argument_count != 2) {
		fprintf(stderr, "jankscope: error: mark: name a folder of a recording and a scene; "
				"see jankscope mark --help\n");
		return EXIT_USAGE;
	}
	folder = options->arguments[0];
	scene = options->arguments[1];
	/* The protocol would take such a name for the flag (control/README.md). */
	if (!strncmp(scene, "--end", strlen("--end")) || !scene_name_is_good(scene) ||
	    snprintf(request, sizeof(request), "mark %s%s", options->end ? "--end " : "", scene) >=
		    (int)sizeof(request) - 1) {
		fprintf(stderr, "jankscope: error: mark: a scene's name has 1 to 64 bytes of "
				"printable UTF-8, does not begin with a blank or --end, and is not "
				"unknown, mixed or other\n");
		return EXIT_USAGE;
	}
	dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return say_refusal(folder, errno == ENOTDIR ? -ENOENT : -errno, "");
	err = control_ask(dir_fd, request, reply, sizeof(reply), ASK_NS);
	close(dir_fd);
	return err ? say_refusal(folder, err, reply) : EXIT_FINE;
}

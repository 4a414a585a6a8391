/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sink/text.h"
#include "verb/folder_state.h"
#include "verb/verb.h"

static enum exit_code print_pid(const json_t *state, const char *path)
{
	char name[512], word[32];

	if (!json_object_get(state, "pid")) {
		fprintf(stderr, "jankscope: error: %s: no recorder runs (it %s)\n",
			text_clean(name, sizeof(name), path),
			text_clean(word, sizeof(word), folder_state_text(state, "state")));
		return EXIT_NO_TARGET;
	}
	printf("%" PRIu64 "\n", folder_state_number(state, "pid"));
	return EXIT_FINE;
}

enum exit_code verb_status(const struct options *options)
{
	enum exit_code code = EXIT_FINE;
	const char *word;
	json_t *state;

	if (options->argument_count != 1) {
		fprintf(stderr, "jankscope: error: status: name one folder of a recording; see "
				"jankscope status --help\n");
		return EXIT_USAGE;
	}
	state = folder_state_get(options->arguments[0], &code);
	if (!state)
		return code;
	word = folder_state_text(state, "state");
	/* A recording without its end is incomplete data. */
	if (!strcmp(word, "died") || !strcmp(word, "hangs") || json_object_get(state, "damages"))
		code = EXIT_INCOMPLETE;
	if (options->pid) {
		code = print_pid(state, options->arguments[0]);
	} else if (options->json) {
		json_dumpf(state, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
		putchar('\n');
	} else {
		folder_state_print(state);
	}
	json_decref(state);
	return code;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* jankscope top: a run of record as a live screen; without a terminal, as the lines of record. */
#include <unistd.h>

#include "sink/screen.h"
#include "verb/record.h"

static struct sink *show_screen(const struct table_options *table)
{
	return screen_can_be_shown(STDOUT_FILENO)
		       ? screen_sink_open(STDIN_FILENO, STDOUT_FILENO, table)
		       : table_sink_fd(STDOUT_FILENO, table);
}

enum exit_code verb_top(const struct options *options)
{
	return record_with_view(options, show_screen);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The records of a run as a live screen (jankscope top). */
#pragma once
#include "jankscope/sink.h"
#include "sink/table.h"

/* Whether stdout is a terminal that can show it. */
bool screen_can_be_shown(int out_fd);
/* Shows the records on the terminal behind out_fd and takes keys from in_fd, where that is a
 * terminal, too. Both stay the caller's. The terminal is written by a process of its own
 * (sink/writer.h), which leaves it as it was when the recorder is killed; a frame that it does not
 * take is dropped, records never are. At the end the summary is printed below what the terminal
 * showed before, in the way of the table. Key q sends SIGINT to the process. NULL with errno. */
struct sink *screen_sink_open(int in_fd, int out_fd, const struct table_options *options);

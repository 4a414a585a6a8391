/* SPDX-License-Identifier: BSD-2-Clause */
/* A report as one HTML file that needs nothing else: figures as JSON in it, and a script that draws
 * them (sink/html/README.md). */
#pragma once
#include <stdio.h>

#include "jankscope/sink.h"

/* The file stays below this, whatever was recorded. */
#define HTML_MAX_BYTES (5u << 20)

/* Writes to a stream that stays the caller's, at finish(). It takes blocks with all their stacks.
 * NULL with errno ENOMEM. */
struct sink *html_sink_new(FILE *to);

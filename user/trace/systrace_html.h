/* SPDX-License-Identifier: BSD-2-Clause */
/* Takes the trace text out of a systrace HTML page, pushed in piece by piece: out of its
 * <script class="trace-data"> elements, or out of the JavaScript string linuxPerfData = "..." that
 * systrace wrote before 2013. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct systrace_html;

/* text is called with stretches of the text in order; between two stretches of different elements
 * comes a newline. NULL with errno on failure. */
struct systrace_html *systrace_html_new(int (*text)(void *ctx, const char *data, size_t size),
					void *ctx);
void systrace_html_free(struct systrace_html *html);
/* 0 or what text returned. */
int systrace_html_feed(struct systrace_html *html, const uint8_t *data, size_t size);

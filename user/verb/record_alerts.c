/* SPDX-License-Identifier: BSD-2-Clause */
/* --alert and --on-alert: their rules and the command, read before anything is opened. */
#include "verb/record_alerts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sink/text.h"

#define FILE_BYTES (64u << 10)
#define WRITER_MS  5000 /* for the next bytes of a pipe, as of @<(command) */

static enum exit_code refuse(const char *flag, const char *what, const char *why)
{
	char clean[300];

	fprintf(stderr, "jankscope: error: %s %s: %s\n", flag,
		text_clean(clean, sizeof(clean), what), why);
	return EXIT_USAGE;
}

static enum exit_code add_rule(struct record_alerts *alerts, const char *text, const char *place)
{
	char why[512];

	if (alerts->count == ALERT_RULES)
		return refuse("--alert", place, "there are 64 rules already");
	if (!alerts->rules)
		alerts->rules = calloc(ALERT_RULES, sizeof(*alerts->rules));
	if (!alerts->rules) {
		fprintf(stderr, "jankscope: error: %s\n", strerror(ENOMEM));
		return EXIT_INTERNAL;
	}
	if (alert_rule_parse(text, &alerts->rules[alerts->count], why, sizeof(why)))
		return refuse("--alert", place, why);
	alerts->count++;
	return EXIT_FINE;
}

/* As read, but what a pipe does not have yet is waited for. */
static ssize_t read_soon(int fd, char *text, size_t size)
{
	struct pollfd ready = {fd, POLLIN, 0};

	if (poll(&ready, 1, WRITER_MS) > 0)
		return read(fd, text, size);
	errno = ETIMEDOUT;
	return -1;
}

/* One rule a line; empty lines and those that begin with # are none. */
static enum exit_code add_file(struct record_alerts *alerts, const char *path)
{
	/* A FIFO without a writer would be waited for without end. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char *text = calloc(1, FILE_BYTES + 1), place[300];
	enum exit_code code = EXIT_FINE;
	size_t used = 0, line = 0;
	ssize_t n = -1;

	while (fd >= 0 && text && used <= FILE_BYTES &&
	       (n = read_soon(fd, text + used, FILE_BYTES + 1 - used)) > 0)
		used += (size_t)n;
	if (n < 0)
		code = refuse("--alert @", path, strerror(errno));
	else if (used > FILE_BYTES || memchr(text, 0, used))
		code = refuse("--alert @", path, "is no file of rules (text of at most 64 KiB)");
	if (fd >= 0)
		close(fd);
	for (char *p = text, *end; !code && p && *p; p = end) {
		end = p + strcspn(p, "\n");
		if (*end)
			*end++ = 0;
		line++;
		p += strspn(p, " \t\r");
		p[strcspn(p, "\r")] = 0;
		if (!*p || *p == '#')
			continue;
		snprintf(place, sizeof(place), "@%.200s:%zu", path, line);
		code = add_rule(alerts, p, place);
	}
	free(text);
	return code;
}

static enum exit_code take_command(struct record_alerts *alerts, const char *text)
{
	char why[128];
	int err = command_split(text, &alerts->command, why, sizeof(why));

	if (err)
		return refuse("--on-alert", text, why);
	err = command_find(&alerts->command);
	if (err)
		return refuse("--on-alert", alerts->command.words, strerror(-err));
	if (!alerts->count)
		return refuse("--on-alert", text, "without --alert there is nothing to run it for");
	return EXIT_FINE;
}

enum exit_code record_alerts_take(struct record_alerts *alerts, const struct options *options)
{
	enum exit_code code = EXIT_FINE;

	for (size_t i = 0; i < options->alerts.count && !code; i++) {
		const char *text = options->alerts.items[i];

		code = *text == '@' ? add_file(alerts, text + 1) : add_rule(alerts, text, text);
	}
	return code || !options->on_alert ? code : take_command(alerts, options->on_alert);
}

void record_alerts_free(struct record_alerts *alerts)
{
	free(alerts->rules);
	alerts->rules = NULL;
}

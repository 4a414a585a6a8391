/* SPDX-License-Identifier: BSD-2-Clause */
#include "alert/command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alert/wire.h"
#include "core/loop.h"
#include "prober/warden.h"
#include "util/channel.h"

/* ---- words ---- */

static int refuse(char *why, size_t size, const char *what)
{
	snprintf(why, size, "%s", what);
	return -EINVAL;
}

int command_split(const char *text, struct command *command, char *why, size_t size)
{
	bool in_word = false;
	char quote = 0;

	*command = (struct command){0};
	for (; *text; text++) {
		char c = *text;

		if (command->bytes + 2 > sizeof(command->words))
			return refuse(why, size, "a command has at most 4095 bytes");
		if (!quote && (c == ' ' || c == '\t')) {
			if (in_word)
				command->words[command->bytes++] = 0;
			in_word = false;
			continue;
		}
		if (!in_word && ++command->count > COMMAND_WORDS)
			return refuse(why, size, "a command has at most 64 words");
		in_word = true;
		if (quote ? c == quote : c == '\'' || c == '"') {
			quote = quote ? 0 : c;
			continue;
		}
		if (c == '\\' && quote != '\'') {
			if (!*++text)
				return refuse(why, size, "nothing follows the last backslash");
			c = *text;
		}
		command->words[command->bytes++] = c;
	}
	if (quote)
		return refuse(why, size, "a quote is not closed");
	if (in_word)
		command->words[command->bytes++] = 0;
	if (!command->count || !command->words[0])
		return refuse(why, size, "names no program");
	return 0;
}

static int can_run(const char *path)
{
	struct stat status;

	if (stat(path, &status))
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EACCES;
	return access(path, X_OK) ? -errno : 0;
}

int command_find(const struct command *command)
{
	const char *path = getenv("PATH");
	int err = -ENOENT;

	if (strchr(command->words, '/'))
		return can_run(command->words);
	for (path = path ? path : "/bin:/usr/bin:/system/bin"; err && *path;) {
		size_t length = strcspn(path, ":");
		char full[4096 + COMMAND_BYTES];

		snprintf(full, sizeof(full), "%.*s/%s", length < 4000 ? (int)length : 0, path,
			 command->words);
		err = can_run(full);
		path += length + (path[length] == ':');
	}
	return err;
}

/* ---- the recorder's side ---- */

struct commands {
	struct command command;
	struct warden *warden;
	struct loop *loop;
	struct helper helper;
	int folder; /* where jankscope was started: the helpers are in / */
	struct command_counts counts;
	uint64_t asked, answered; /* of the process that runs them: what it began or refused */
};

static void lose(struct commands *commands)
{
	if (commands->helper.socket >= 0)
		loop_remove_fd(commands->loop, commands->helper.socket);
	if (commands->helper.serial)
		warden_drop(commands->warden, &commands->helper, false);
	commands->helper.socket = -1;
}

static void take(struct commands *commands, const struct run_answer *answer)
{
	struct command_counts *counts = &commands->counts;

	switch ((enum run_end)answer->end) {
	case RUN_STARTED:
		counts->started++;
		commands->answered++;
		break;
	case RUN_ENDED:
		if (WIFEXITED(answer->status) && WEXITSTATUS(answer->status) == RUN_NOT_FOUND)
			counts->not_found++;
		else if (answer->status)
			counts->failed++;
		break;
	case RUN_KILLED:
		counts->killed++;
		break;
	case RUN_REFUSED:
		counts->not_run++;
		commands->answered++;
		break;
	}
}

static int on_answer(void *ctx, uint32_t events)
{
	struct commands *commands = ctx;
	uint8_t message[sizeof(struct helper_hello)];
	int fds[CHANNEL_FDS];
	size_t count;
	ssize_t got;

	do {
		got = channel_receive(commands->helper.socket, message, sizeof(message), fds,
				      &count);
		if (got > 0 &&
		    !helper_take_hello(&commands->helper, message, (size_t)got, fds, count)) {
			struct run_answer answer;

			while (count)
				close(fds[--count]);
			if (got == sizeof(answer)) {
				memcpy(&answer, message, sizeof(answer));
				take(commands, &answer);
			}
		}
	} while (got > 0);
	/* It died: the next command has another one made. */
	if (got == 0)
		lose(commands);
	return 0;
}

static int spawn(struct commands *commands)
{
	int err = warden_spawn(commands->warden, HELPER_RUNNER, &commands->helper);

	if (!err)
		err = loop_add_fd(commands->loop, commands->helper.socket, EPOLLIN, on_answer,
				  commands);
	if (err)
		lose(commands);
	return err;
}

struct commands *commands_new(const struct command *command, struct warden *warden,
			      struct loop *loop)
{
	struct commands *commands = calloc(1, sizeof(*commands));

	if (!commands)
		return NULL;
	commands->command = *command;
	commands->warden = warden;
	commands->loop = loop;
	commands->helper = (struct helper){.kind = HELPER_RUNNER, .socket = -1, .pidfd = -1};
	commands->folder = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	spawn(commands); /* else the first command tries again */
	return commands;
}

void commands_free(struct commands *commands)
{
	if (!commands)
		return;
	lose(commands);
	if (commands->folder >= 0)
		close(commands->folder);
	free(commands);
}

void commands_run(struct commands *commands, const char *variables, size_t bytes)
{
	const struct command *command = &commands->command;
	struct run_request request = {
		.words = (uint32_t)command->count,
		.word_bytes = (uint32_t)command->bytes,
		.variable_bytes = (uint32_t)bytes,
	};
	struct iovec parts[] = {{&request, sizeof(request)},
				{(void *)command->words, command->bytes},
				{(void *)variables, bytes}};

	for (size_t i = 0; i < bytes; i++)
		request.variables += !variables[i];
	if ((commands->helper.socket < 0 && spawn(commands)) || bytes > RUN_VARIABLES_BYTES ||
	    channel_send(commands->helper.socket, parts, 3, &commands->folder,
			 commands->folder >= 0))
		commands->counts.not_run++;
	else
		commands->asked++;
}

struct command_counts commands_counts(struct commands *commands)
{
	struct command_counts counts;

	if (commands->helper.socket >= 0)
		on_answer(commands, EPOLLIN);
	counts = commands->counts;
	if (commands->asked > commands->answered)
		counts.unanswered = commands->asked - commands->answered;
	return counts;
}

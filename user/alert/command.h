/* SPDX-License-Identifier: BSD-2-Clause */
/* --on-alert: the user's own command, run for an alert without a shell. A process that the warden
 * makes runs it (HELPER_RUNNER), with the rights and the environment that jankscope was started
 * with, in the folder where it was: the recorder has given up its own. The recorder waits for none
 * of them. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct loop;
struct warden;

#define COMMAND_BYTES 4096
#define COMMAND_WORDS 64
/* Commands that run at a time, and how long one may take until it is killed. */
#define COMMANDS_AT_ONCE 4
#define COMMAND_NS       300000000000ull

/* A command split into words, each with its NUL. */
struct command {
	char words[COMMAND_BYTES];
	size_t bytes, count;
};

/* Split at blanks; '...' and "..." keep them, and a backslash outside of '...' keeps the next
 * character. Nothing is expanded. 0, or -EINVAL with what is wrong in why. */
int command_split(const char *text, struct command *command, char *why, size_t size);
/* Whether its first word is a program that this process may run, by $PATH. 0 or -errno. */
int command_find(const struct command *command);

struct commands;

struct command_counts {
	uint64_t started;
	uint64_t failed;    /* ended with another status than 0, or by a signal */
	uint64_t killed;    /* after COMMAND_NS */
	uint64_t not_run;   /* COMMANDS_AT_ONCE ran already, or there was nobody to run it */
	uint64_t not_found; /* could not be executed */
	/* The process that runs them was asked, and has not said (yet) whether it began one. */
	uint64_t unanswered;
};

/* NULL with errno. The warden and the loop must live as long. */
struct commands *commands_new(const struct command *command, struct warden *warden,
			      struct loop *loop);
/* Commands that run go on; nothing waits for them. */
void commands_free(struct commands *commands);
/* Have it run with these variables ("NAME=value", each with its NUL) in its environment, or count
 * that it is not. */
void commands_run(struct commands *commands, const char *variables, size_t bytes);
/* As of this moment: answers that have come are taken first. */
struct command_counts commands_counts(struct commands *commands);

/* SPDX-License-Identifier: BSD-2-Clause */
#include "verb/folder_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "control/control.h"
#include "control/keeper.h"
#include "control/run_status.h"
#include "proc/read.h"
#include "record/json_buffer.h"
#include "sink/text.h"
#include "source/recording.h"
#include "store/folder.h"
#include "util/clock.h"
#include "util/units.h"

#define ASK_NS (5 * NSEC_PER_SEC)

const char *folder_state_text(const json_t *state, const char *key)
{
	const char *text = json_string_value(json_object_get(state, key));

	return text ? text : "";
}

uint64_t folder_state_number(const json_t *state, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(state, key));

	return value > 0 ? (uint64_t)value : 0;
}

/* ---- from the files ---- */

struct fold {
	struct run_status status;
	bool this_boot;
};

static int take_record(void *ctx, const struct record *record)
{
	struct fold *fold = ctx;
	char boot_id[40] = "";

	if (record->type == RECORD_HEADER) {
		proc_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot_id, sizeof(boot_id));
		boot_id[strcspn(boot_id, "\n")] = 0;
		fold->this_boot = !strcmp(boot_id, record->header->boot_id);
	}
	run_status_take(&fold->status, record);
	return 0;
}

static json_t *parse(const char *text, size_t length)
{
	json_error_t error;
	json_t *state = json_loadb(text, length, 0, &error);

	if (json_is_object(state))
		return state;
	json_decref(state);
	return NULL;
}

static void add_damages(json_t *state, uint64_t damages)
{
	char text[64];

	snprintf(text, sizeof(text), "%" PRIu64 " damages: verify names them", damages);
	json_object_set_new(state, "damages", json_integer((json_int_t)damages));
	json_array_append_new(json_object_get(state, "warnings"), json_string(text));
}

static json_t *read_files(const char *path, const char *state_word, pid_t pid, int *err)
{
	struct fold *fold = calloc(1, sizeof(*fold));
	const struct recording_reader reader = {.record = take_record, .ctx = fold};
	struct recording_counts counts;
	struct json_buffer text = {0};
	struct run_live live = {.state = state_word, .pid = pid};
	json_t *state = NULL;

	*err = fold ? recording_read(path, &reader, &counts) : -ENOMEM;
	/* Nothing has come yet. */
	if (*err == -EBADMSG && state_word)
		*err = 0;
	if (!*err) {
		if (!live.state)
			live.state = fold->status.footer ? "ended" : "died";
		if (fold->this_boot)
			live.now_boot_ns = clock_now_ns(CLOCK_BOOTTIME);
		run_status_write(&fold->status, &live, &text);
		state = text.failed ? NULL : parse(text.text, text.length);
		if (!state)
			*err = -ENOMEM;
	}
	/* That a recorder died is told as its state. */
	if (state && !state_word && counts.damages > !fold->status.footer)
		add_damages(state, counts.damages - !fold->status.footer);
	free(text.text);
	free(fold);
	return state;
}

/* ---- the folder ---- */

static uint64_t folder_bytes(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *entry;
	uint64_t bytes = 0;
	struct stat st;

	if (!dir && fd >= 0)
		close(fd);
	while (dir && (entry = readdir(dir)))
		if (!fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
		    S_ISREG(st.st_mode))
			bytes += (uint64_t)st.st_blocks * 512;
	if (dir)
		closedir(dir);
	return bytes;
}

static json_t *ask(int dir_fd, int *err)
{
	char *reply = malloc(CONTROL_REPLY_BYTES);
	json_t *state = NULL;

	*err = reply ? 0 : -ENOMEM;
	/* One that hangs up is busy with others, or has just died. */
	for (int tries = 0; reply && tries < 3 && (!tries || *err == -ECONNRESET); tries++)
		*err = control_ask(dir_fd, "status", reply, CONTROL_REPLY_BYTES, ASK_NS);
	if (!*err && !(state = parse(reply, strlen(reply))))
		*err = -EPROTO;
	free(reply);
	return state;
}

/* Who kept the recorder has gone without a word. */
static void add_keeper(json_t *state, int dir_fd)
{
	int code = 0;
	pid_t keeper = keeper_find(dir_fd, &code);

	if (keeper)
		json_object_set_new(state, "keeper_pid", json_integer(keeper));
	else if (code >= 0)
		json_object_set_new(state, "exit_code", json_integer(code));
	else if (json_object_get(state, "pid") && !faccessat(dir_fd, KEEPER_NAME, F_OK, 0))
		json_array_append_new(json_object_get(state, "warnings"),
				      json_string("the keeper is dead: nobody will restart this "
						  "recorder"));
}

json_t *folder_state_get(const char *path, enum exit_code *code)
{
	int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = 0;
	const char *word = NULL;
	char name[512];
	json_t *state;
	pid_t writer;

	text_clean(name, sizeof(name), path);
	if (dir_fd < 0) {
		*code = errno == ENOENT || errno == ENOTDIR ? EXIT_NO_TARGET : EXIT_INTERNAL;
		fprintf(stderr, "jankscope: error: %s: %s\n", name, strerror(errno));
		return NULL;
	}
	state = ask(dir_fd, &err);
	if (!state) {
		writer = (pid_t)store_folder_writer(dir_fd);
		if (err == -ETIMEDOUT)
			word = "hangs";
		else if (writer > 0)
			word = "starting";
		else if (keeper_find(dir_fd, NULL))
			word = "restarting";
		state = read_files(path, word, writer, &err);
	}
	if (state) {
		json_object_set_new(state, "disk_bytes",
				    json_integer((json_int_t)folder_bytes(dir_fd)));
		add_keeper(state, dir_fd);
	} else {
		*code = err == -EBADMSG || err == -ENOENT ? EXIT_NO_TARGET
			: err == -EPROTONOSUPPORT         ? EXIT_UNSUPPORTED
							  : EXIT_INTERNAL;
		fprintf(stderr, "jankscope: error: %s: %s\n", name,
			*code == EXIT_NO_TARGET     ? "there is no recording in this folder"
			: *code == EXIT_UNSUPPORTED ? "a schema that only a newer jankscope reads"
						    : strerror(-err));
	}
	close(dir_fd);
	return state;
}

/* ---- text ---- */

static void print_lost(const json_t *state)
{
	json_t *lost = json_object_get(state, "lost"), *value;
	const char *name, *mark = "  lost";
	char text[64];

	if (!json_object_size(lost))
		printf("  lost 0");
	json_object_foreach (lost, name, value) {
		printf("%s %s %" JSON_INTEGER_FORMAT, mark, text_clean(text, sizeof(text), name),
		       json_integer_value(value));
		mark = ",";
	}
}

static void print_first(const json_t *state)
{
	uint64_t restarts = folder_state_number(state, "recorder_restarts");
	uint64_t there = folder_state_number(state, "intervals");
	uint64_t expected = folder_state_number(state, "intervals_expected");
	char word[32], age[32], suspended[32], gap[32];

	printf("%s %s  intervals %" PRIu64 "/%" PRIu64 "  target restarts %" PRIu64
	       "  gaps %" PRIu64,
	       text_clean(word, sizeof(word), folder_state_text(state, "state")),
	       format_duration(age, sizeof(age), folder_state_number(state, "age_ns")), there,
	       expected > there ? expected : there, folder_state_number(state, "target_restarts"),
	       folder_state_number(state, "gaps"));
	printf("  suspend %s (%" PRIu64 "x)",
	       format_duration(suspended, sizeof(suspended),
			       folder_state_number(state, "suspended_ns")),
	       folder_state_number(state, "suspends"));
	print_lost(state);
	if (restarts)
		printf("  restarts of jankscope %" PRIu64 "  gap %s (%" PRIu64
		       " intervals missing)",
		       restarts,
		       format_duration(gap, sizeof(gap), folder_state_number(state, "gap_ns")),
		       expected > there ? expected - there : 0);
	putchar('\n');
}

static void print_resources(const json_t *state)
{
	const json_t *self = json_object_get(state, "self");
	const json_t *slope = json_object_get(self, "anon_slope_bytes_per_h");
	uint64_t limit = folder_state_number(state, "disk_limit_bytes");
	char bytes[32];

	printf("disk %s",
	       format_bytes(bytes, sizeof(bytes), folder_state_number(state, "disk_bytes")));
	if (limit)
		printf(" of %s", format_bytes(bytes, sizeof(bytes), limit));
	printf("  self cpu %.2f %%", json_real_value(json_object_get(self, "cpu_pct")));
	printf(" anon %s",
	       format_bytes(bytes, sizeof(bytes), folder_state_number(self, "anon_bytes")));
	if (slope)
		printf(" (slope %+.1f KiB/h)", (double)json_integer_value(slope) / 1024);
	printf("  stops %" PRIu64 " max %.1f ms\n", folder_state_number(self, "stops"),
	       (double)folder_state_number(self, "stop_max_ns") / 1e6);
}

static void print_last(const json_t *state)
{
	const json_t *age = json_object_get(state, "last_interval_age_ns"), *warning;
	const json_t *warnings = json_object_get(state, "warnings");
	char text[256];
	size_t i;

	if (age)
		printf("last interval %s ago   ",
		       format_duration(text, sizeof(text),
				       folder_state_number(state, "last_interval_age_ns")));
	printf("warnings:%s", json_array_size(warnings) ? "" : " none");
	json_array_foreach (warnings, i, warning)
		printf("%s %s", i ? ";" : "",
		       text_clean(text, sizeof(text), json_string_value(warning) ?: ""));
	putchar('\n');
	if (json_object_get(state, "last_error"))
		printf("last error: %s\n",
		       text_clean(text, sizeof(text), folder_state_text(state, "last_error")));
}

void folder_state_print(const json_t *state)
{
	print_first(state);
	print_resources(state);
	print_last(state);
}

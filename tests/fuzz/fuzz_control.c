/* SPDX-License-Identifier: BSD-2-Clause */
/* libFuzzer target of what recorder, keeper and their clients say to one another. The first byte
 * chooses: what a client sends to a recorder, what a recorder answers, the files in a folder that
 * say who keeps and writes it, or records from which `status` makes its answer. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/control.h"
#include "control/keeper.h"
#include "control/request.h"
#include "control/run_status.h"
#include "record/json_buffer.h"
#include "record/json_read.h"
#include "store/folder.h"
#include "store/line.h"
#include "verb/folder_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int say(void *ctx, const char *argument, char *reply, size_t room)
{
	snprintf(reply, room, "%s", argument);
	return *argument == '-' ? -EBUSY : 0;
}

static const struct control_row rows[] = {
	{"mark --end", true, say},
	{"mark", true, say},
	{"status", false, say},
};

/* A request has an answer, and the client understands it. */
static void check_request(const char *text, size_t size)
{
	char request[CONTROL_REQUEST_BYTES], *answer, *told;
	size_t length = size < sizeof(request) ? size : sizeof(request), answered;

	memcpy(request, text, length);
	/* as the recorder calls it: a newline is there, or no more fits */
	if (length < sizeof(request) && !memchr(request, '\n', length))
		request[length++] = '\n';
	answer = request_answer(rows, sizeof(rows) / sizeof(*rows), NULL, false, request, length,
				&answered);
	if (!answer || answered != strlen(answer) ||
	    request_take_answer(answer, answered, &told) == -EPROTO)
		abort();
	free(answer);
}

static void check_state(const char *text, size_t size)
{
	json_t *state = json_loadb(text, size, 0, NULL);

	if (json_is_object(state))
		folder_state_print(state);
	json_decref(state);
}

static void check_answer(const char *text, size_t size)
{
	char *answer = malloc(size + 1), *told = NULL;

	if (!answer)
		abort();
	memcpy(answer, text, size);
	answer[size] = 0;
	if (!request_take_answer(answer, size, &told))
		check_state(told, strlen(told));
	free(answer);
	check_state(text, size);
}

static char folder_path[] = "/dev/shm/jankscope-fuzz-XXXXXX";
static const char *const folder_files[] = {KEEPER_NAME, "lock", "index"};
#define FOLDER_FILES (sizeof(folder_files) / sizeof(*folder_files))

static void remove_folder(void)
{
	char path[64];

	for (size_t i = 0; i < FOLDER_FILES; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder_path, folder_files[i]);
		unlink(path);
	}
	rmdir(folder_path);
}

/* The folder is made once, in memory: a disk writes each file that is made anew when it is closed
 * (ext4's auto_da_alloc), for which the fuzzer waited 14 s of 15. */
static int folder(void)
{
	static int fd = -1;

	if (fd < 0 && mkdtemp(folder_path)) {
		fd = open(folder_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		atexit(remove_folder);
	}
	if (fd < 0)
		abort();
	return fd;
}

static void check_files(const char *text, size_t size)
{
	struct store_list list;
	int code, dir = folder();

	for (size_t i = 0; i < FOLDER_FILES; i++) {
		int fd = openat(dir, folder_files[i], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
				0600);

		if (fd < 0 || write(fd, text, size) != (ssize_t)size)
			abort();
		close(fd);
	}
	/* Nobody holds the locks: nobody is there, whatever is written. */
	if (keeper_find(dir, &code) || store_folder_writer(dir))
		abort();
	if (!store_list_read(&list, dir))
		store_list_free(&list);
}

/* Whatever the records say, the answer is an object. */
static void check_records(const char *text, size_t size)
{
	struct run_status *status = calloc(1, sizeof(*status));
	struct run_live live = {.state = "running", .pid = 2, .now_boot_ns = UINT64_MAX / 2};
	struct json_buffer answer = {0};

	while (status && size) {
		const char *newline = memchr(text, '\n', size);
		size_t length = newline ? (size_t)(newline - text) : size;
		struct parsed_record *parsed = NULL;
		char *line = malloc(length + LINE_CRC_BYTES + 2), why[160];

		if (!line)
			abort();
		memcpy(line, text, length);
		line_put_crc(line + length, text, length);
		if (!record_parse(line, length + LINE_CRC_BYTES, &parsed, why, sizeof(why)) &&
		    parsed->known)
			run_status_take(status, &parsed->record);
		parsed_record_free(parsed);
		free(line);
		length += newline != NULL;
		text += length;
		size -= length;
	}
	run_status_write(status, &live, &answer);
	if (answer.failed || answer.length >= CONTROL_REPLY_BYTES)
		abort();
	check_state(answer.text, answer.length);
	free(answer.text);
	free(status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data + 1;

	if (!size)
		return 0;
	switch (data[0] % 4) {
	case 0:
		check_request(text, size - 1);
		break;
	case 1:
		check_answer(text, size - 1);
		break;
	case 2:
		check_files(text, size - 1);
		break;
	case 3:
		check_records(text, size - 1);
		break;
	}
	return 0;
}

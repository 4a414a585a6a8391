/* SPDX-License-Identifier: BSD-2-Clause */
/* A binder client and server of the driver's own protocol (include/uapi/linux/android/binder.h), as
 * libbinder speaks it: one context manager knows the servers by number. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <linux/android/binder.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define CODE_REGISTER 1001 /* data: number, object */
#define CODE_GET      1002 /* data: number; answer: object */
#define SERVERS       32
#define MAPPED_BYTES  (128u << 10)

/* What crosses: a number, and maybe an object. */
struct parcel {
	uint32_t number, reserved;
	struct flat_binder_object object;
};

enum call_flags { CALL_PLAIN = 0, CALL_ONEWAY = 1, CALL_WITH_OBJECT = 2 };

struct client {
	int fd;
	/* What a call does; may call in turn, on the thread that it came to. An answer with an
	 * object returns true. */
	int (*serve)(struct client *client, uint32_t code, struct parcel *parcel);
};

static inline int client_open(struct client *client, const char *device)
{
	uint32_t threads = 0;

	client->fd = open(device, O_RDWR | O_CLOEXEC);
	if (client->fd < 0 || mmap(NULL, MAPPED_BYTES, PROT_READ, MAP_PRIVATE | MAP_NORESERVE,
				   client->fd, 0) == MAP_FAILED)
		return -errno;
	/* The driver asks for no thread by itself: the test makes its own. */
	return ioctl(client->fd, BINDER_SET_MAX_THREADS, &threads) ? -errno : 0;
}

static inline void client_write(struct client *client, const void *bytes, size_t size)
{
	struct binder_write_read wr = {.write_size = size, .write_buffer = (uintptr_t)bytes};

	if (ioctl(client->fd, BINDER_WRITE_READ, &wr))
		_exit(90);
}

static inline void put_command(uint8_t *out, size_t *at, uint32_t command, const void *bytes,
			       size_t size)
{
	memcpy(out + *at, &command, sizeof(command));
	memcpy(out + *at + sizeof(command), bytes, size);
	*at += sizeof(command) + size;
}

static inline void fill_data(struct binder_transaction_data *data, struct parcel *parcel,
			     binder_size_t *offset, bool with_object)
{
	*offset = offsetof(struct parcel, object);
	data->data_size = sizeof(*parcel);
	data->offsets_size = with_object ? sizeof(*offset) : 0;
	data->data.ptr.buffer = (uintptr_t)parcel;
	data->data.ptr.offsets = (uintptr_t)offset;
}

/* One round with the driver: what it reads is handled. Returns 1 when the answer of a call came
 * (parcel is filled), 2 when a call that waits for none was taken, -1 when the call failed, 0
 * otherwise. */
static inline int client_turn(struct client *client, const void *write, size_t write_size,
			      struct parcel *answer)
{
	uint8_t read[512];
	struct binder_write_read wr = {
		.write_size = write_size,
		.write_buffer = (uintptr_t)write,
		.read_size = sizeof(read),
		.read_buffer = (uintptr_t)read,
	};
	int result = 0;
	size_t at = 0;

	while (ioctl(client->fd, BINDER_WRITE_READ, &wr))
		if (errno != EINTR)
			_exit(91);
	while (at + sizeof(uint32_t) <= wr.read_consumed) {
		struct binder_transaction_data data;
		struct binder_ptr_cookie pointer;
		uint32_t command;

		memcpy(&command, read + at, sizeof(command));
		at += sizeof(command);
		switch (command) {
		case BR_TRANSACTION:
		case BR_REPLY: {
			struct parcel parcel = {0};
			uint8_t out[128];
			size_t length = 0;
			binder_size_t offset;
			int with_object;

			memcpy(&data, read + at, sizeof(data));
			memcpy(&parcel, (void *)(uintptr_t)data.data.ptr.buffer,
			       data.data_size < sizeof(parcel) ? data.data_size : sizeof(parcel));
			/* Kept before the buffer goes, with which its reference goes. */
			if (data.offsets_size) {
				uint32_t handle = parcel.object.handle;

				put_command(out, &length, BC_ACQUIRE, &handle, sizeof(handle));
			}
			put_command(out, &length, BC_FREE_BUFFER, &data.data.ptr.buffer,
				    sizeof(data.data.ptr.buffer));
			client_write(client, out, length);
			if (command == BR_REPLY) {
				if (answer)
					*answer = parcel;
				result = 1;
				break;
			}
			with_object = client->serve(client, data.code, &parcel);
			if (data.flags & TF_ONE_WAY)
				break;
			length = 0;
			memset(&data, 0, sizeof(data));
			fill_data(&data, &parcel, &offset, with_object);
			put_command(out, &length, BC_REPLY, &data, sizeof(data));
			client_write(client, out, length);
			break;
		}
		case BR_INCREFS:
		case BR_ACQUIRE: {
			uint8_t out[32];
			size_t length = 0;

			memcpy(&pointer, read + at, sizeof(pointer));
			put_command(out, &length,
				    command == BR_INCREFS ? BC_INCREFS_DONE : BC_ACQUIRE_DONE,
				    &pointer, sizeof(pointer));
			client_write(client, out, length);
			break;
		}
		case BR_DEAD_REPLY:
		case BR_FAILED_REPLY:
			result = -1;
			break;
		case BR_TRANSACTION_COMPLETE:
			if (!result)
				result = 2;
			break;
		}
		at += _IOC_SIZE(command);
	}
	return result;
}

/* A call; the answer in *parcel. False: it failed. */
static inline bool client_call(struct client *client, uint32_t handle, uint32_t code,
			       enum call_flags flags, struct parcel *parcel)
{
	struct binder_transaction_data data = {.code = code};
	uint8_t out[128];
	size_t length = 0;
	binder_size_t offset;
	int result;

	data.target.handle = handle;
	data.flags = flags & CALL_ONEWAY ? TF_ONE_WAY : 0;
	fill_data(&data, parcel, &offset, flags & CALL_WITH_OBJECT);
	put_command(out, &length, BC_TRANSACTION, &data, sizeof(data));
	result = client_turn(client, out, length, parcel);
	while (result == 0 || (result == 2 && !(flags & CALL_ONEWAY)))
		result = client_turn(client, NULL, 0, parcel);
	return result > 0;
}

/* Serve for ever on this thread. */
static inline void __attribute__((noreturn)) client_loop(struct client *client)
{
	uint32_t enter = BC_ENTER_LOOPER;

	client_write(client, &enter, sizeof(enter));
	for (;;)
		client_turn(client, NULL, 0, NULL);
}

/* ---- servers by number ---- */

static inline void client_register(struct client *client, uint32_t number)
{
	struct parcel parcel = {.number = number};

	parcel.object.hdr.type = BINDER_TYPE_BINDER;
	parcel.object.binder = number + 1;
	parcel.object.cookie = number + 1;
	if (!client_call(client, 0, CODE_REGISTER, CALL_WITH_OBJECT, &parcel))
		_exit(92);
}

static inline uint32_t client_find(struct client *client, uint32_t number)
{
	struct parcel parcel = {.number = number};

	if (!client_call(client, 0, CODE_GET, CALL_PLAIN, &parcel) || !parcel.object.handle)
		_exit(93);
	return parcel.object.handle;
}

static uint32_t manager_handles[SERVERS];

static inline int manager_serve(struct client *client, uint32_t code, struct parcel *parcel)
{
	uint32_t number = parcel->number % SERVERS;

	if (code == CODE_REGISTER) {
		manager_handles[number] = parcel->object.handle;
		return 0;
	}
	memset(&parcel->object, 0, sizeof(parcel->object));
	if (!manager_handles[number])
		return 0;
	parcel->object.hdr.type = BINDER_TYPE_HANDLE;
	parcel->object.handle = manager_handles[number];
	return 1;
}

static inline void __attribute__((noreturn)) manager_run(const char *device)
{
	struct client client = {.serve = manager_serve};
	int32_t unused = 0;

	if (client_open(&client, device) || ioctl(client.fd, BINDER_SET_CONTEXT_MGR, &unused))
		_exit(94);
	client_loop(&client);
}

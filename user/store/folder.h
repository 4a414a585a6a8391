/* SPDX-License-Identifier: BSD-2-Clause */
/* The folder of a recording: who may write there, and which segments it holds. Every file is opened
 * relative to the folder's descriptor and never through a link. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "store/index.h"

#define SEGMENT_NAME 24       /* room for a name of a segment */
#define SEGMENT_MAX  99999999 /* the last number that a name has room for */

struct store_segment {
	uint64_t number;
	bool plain, packed; /* which of its two files there is */
	uint64_t file_bytes;
	bool known; /* facts are those of an index that fits */
	bool tried; /* of the writer: it was looked at, and cannot be compressed */
	bool kept;  /* of the writer: its intervals cannot be merged */
	struct segment_facts facts;
};

struct store_list {
	struct store_segment *items; /* by number */
	size_t count;
	uint64_t index_bytes, index_lines;
	uint64_t last_removed; /* the newest segment that the index calls removed; 0: none */
	uint64_t last_known;   /* the newest one of the index, unless it was removed, too; 0 */
	size_t index_refused;  /* lines of the index that are none */
};

/* Open a folder for writing, and make it (mode 0700) where the path ends in '/'. 0, or -errno with
 * a reason in why where the error's own text does not tell. Refused is -ELOOP (a link), -EPERM
 * (someone else's, or writable by others). *dir_fd is the caller's to close. */
int store_folder_open(const char *path, int *dir_fd, char *why, size_t why_size);
/* Be the only writer of a folder, as long as *lock_fd is open; pid: who is to be named to others. A
 * holder that has died and whose writer still works is waited for, 5 s at the most. -EBUSY with the
 * holder's pid in why. */
int store_folder_lock(int dir_fd, int pid, int *lock_fd, char *why, size_t why_size);
/* Somebody may have removed the file that is locked, or made another one: hold the one that is
 * named so by now, before another recorder does. */
void store_folder_keep_lock(int dir_fd, int *lock_fd);
/* The pid of who writes this folder; 0: nobody does. */
int store_folder_writer(int dir_fd);
/* Whether a path is taken for a folder by -o: one that is there, or that ends in '/'. */
bool store_path_is_folder(const char *path);

/* "00000012.jsonl", with ".zst" where it is packed. Returns name. */
const char *segment_name(char name[SEGMENT_NAME], uint64_t number, bool packed);
/* The number of such a name; 0: it is none. */
uint64_t segment_number(const char *name, bool *packed);
/* What a folder holds, with what its index says of it. 0 or -errno. */
int store_list_read(struct store_list *list, int dir_fd);
void store_list_free(struct store_list *list);
/* The content of a segment, from its plain file or else from its compressed one. NULL with errno;
 * an error while it is read is one of the stream, with errno EBADMSG for damaged bytes. */
FILE *segment_open(int dir_fd, uint64_t number, bool *packed);
/* The same of any file: packed is found by its begin. */
FILE *segment_open_file(int dir_fd, const char *name);

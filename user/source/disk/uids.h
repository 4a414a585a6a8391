/* SPDX-License-Identifier: BSD-2-Clause */
/* What /proc/uid_io/stats says of each uid since it was read before. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "jankscope/record.h"

struct disk_uids;
struct target_set;

/* path NULL: the kernel's own, which must be of proc. NULL with errno, -ENOENT among them: no
 * Android's kernel. */
struct disk_uids *disk_uids_new(const char *path);
void disk_uids_free(struct disk_uids *uids);
/* Fill in the uids that read or wrote, of all or of the targets, with their packages; what the
 * record points to is valid until the next call. Reading is left out until it is due; final: it is
 * due. 0, or -errno: -EBADMSG for a text that makes no sense. */
int disk_uids_read(struct disk_uids *uids, struct target_set *targets, uint64_t now_ns, bool final,
		   struct record_disk *disk);

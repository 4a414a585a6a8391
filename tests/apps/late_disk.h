/* SPDX-License-Identifier: BSD-2-Clause */
/* A slow disk: a FUSE server with one file of zeros, whose reads take as long as they are told to.
 * The kernel reads it ahead as it does a real one, so that its reader sleeps in D. */
#pragma once
#include <linux/fuse.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "late_rig.h"

#define DISK_BYTES  (1ll << 31)
#define DISK_STRIDE (256ll << 10) /* farther than the kernel reads ahead */
#define DISK_FILE   2

struct disk {
	int fd;
	char *map;
	int64_t at; /* the next place that nobody has read */
};

static void disk_attributes(uint64_t node, struct fuse_attr *attr)
{
	*attr = (struct fuse_attr){.ino = node, .nlink = 1, .blksize = 4096};
	attr->mode = node == DISK_FILE ? S_IFREG | 0444 : S_IFDIR | 0555;
	attr->size = node == DISK_FILE ? DISK_BYTES : 0;
}

static void disk_answer(int fuse, uint64_t unique, int error, const void *data, size_t size)
{
	struct fuse_out_header out = {(uint32_t)(sizeof(out) + size), error, unique};
	struct iovec parts[2] = {{&out, sizeof(out)}, {(void *)data, size}};

	if (writev(fuse, parts, size ? 2 : 1) < 0 && errno != ENOENT)
		_exit(0);
}

static void disk_serve(int fuse)
{
	static char input[(1 << 17) + 4096], zeros[1 << 20];
	const struct fuse_in_header *in = (const void *)input;
	const void *body = input + sizeof(*in);

	for (;;) {
		ssize_t n = read(fuse, input, sizeof(input));

		if (n < 0 && (errno == EINTR || errno == ENOENT))
			continue;
		if (n < (ssize_t)sizeof(*in))
			_exit(0);
		switch (in->opcode) {
		case FUSE_INIT: {
			const struct fuse_init_in *want = body;
			struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION, .minor = 31};

			out.max_readahead = want->max_readahead;
			out.max_write = 4096;
			out.flags = want->flags & FUSE_ASYNC_READ;
			disk_answer(fuse, in->unique, 0, &out, sizeof(out));
			break;
		}
		case FUSE_LOOKUP: {
			struct fuse_entry_out out = {.nodeid = DISK_FILE, .generation = 1};

			out.entry_valid = out.attr_valid = 3600;
			disk_attributes(DISK_FILE, &out.attr);
			disk_answer(fuse, in->unique, 0, &out, sizeof(out));
			break;
		}
		case FUSE_GETATTR: {
			struct fuse_attr_out out = {.attr_valid = 3600};

			disk_attributes(in->nodeid, &out.attr);
			disk_answer(fuse, in->unique, 0, &out, sizeof(out));
			break;
		}
		case FUSE_OPEN: {
			struct fuse_open_out out = {.open_flags = FOPEN_KEEP_CACHE};

			disk_answer(fuse, in->unique, 0, &out, sizeof(out));
			break;
		}
		case FUSE_READ: {
			const struct fuse_read_in *want = body;
			int64_t ns = __atomic_exchange_n(&shared->disk_ns, 0, __ATOMIC_SEQ_CST);

			if (ns > 0)
				nap_ns(ns);
			disk_answer(fuse, in->unique, 0, zeros,
				    want->size < sizeof(zeros) ? want->size : sizeof(zeros));
			break;
		}
		case FUSE_FORGET:
		case FUSE_BATCH_FORGET:
		case FUSE_INTERRUPT:
			break;
		case FUSE_FLUSH:
		case FUSE_RELEASE:
			disk_answer(fuse, in->unique, 0, NULL, 0);
			break;
		default:
			disk_answer(fuse, in->unique, -ENOSYS, NULL, 0);
		}
	}
}

/* False: there is no FUSE here, or it may not be mounted. */
static bool disk_open(struct disk *disk, const char *folder)
{
	char path[512], options[128];
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fuse < 0)
		return false;
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
	snprintf(path, sizeof(path), "%s/disk", folder);
	mkdir(path, 0700);
	if (mount("late_app", path, "fuse", MS_NOSUID | MS_NODEV, options)) {
		close(fuse);
		return false;
	}
	if (!child("slow-disk")) {
		be_urgent(6);
		disk_serve(fuse);
	}
	close(fuse);
	snprintf(path, sizeof(path), "%s/disk/file", folder);
	disk->fd = open(path, O_RDONLY | O_CLOEXEC);
	must(disk->fd >= 0, path);
	disk->map = mmap(NULL, DISK_BYTES, PROT_READ, MAP_SHARED, disk->fd, 0);
	must(disk->map != MAP_FAILED, "mmap of the slow disk");
	posix_fadvise(disk->fd, 0, 0, POSIX_FADV_RANDOM);
	/* what is open lives on, and nothing is left when it ends */
	snprintf(path, sizeof(path), "%s/disk", folder);
	umount2(path, MNT_DETACH);
	rmdir(path);
	return true;
}

static __attribute__((noinline)) void load_thumbnail(struct disk *disk, int64_t ns)
{
	char byte;

	__atomic_store_n(&shared->disk_ns, ns, __ATOMIC_SEQ_CST);
	must(pread(disk->fd, &byte, 1, disk->at) == 1, "read of the slow disk");
	disk->at = (disk->at + DISK_STRIDE) % DISK_BYTES;
}

static __attribute__((noinline)) void touch_mapped_font(struct disk *disk, int64_t ns)
{
	__atomic_store_n(&shared->disk_ns, ns, __ATOMIC_SEQ_CST);
	*(volatile char *)(disk->map + disk->at);
	disk->at = (disk->at + DISK_STRIDE) % DISK_BYTES;
}

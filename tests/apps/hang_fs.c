/* SPDX-License-Identifier: BSD-2-Clause */
/* A FUSE server on /dev/fuse that stops answering. Its root holds "prog", a copy of a file, and
 * what is created in it.
 *
 * usage: hang_fs MOUNTPOINT FILE [MAX_HANG_SECONDS [MODE [KEPT]]]
 * SIGUSR1: no more answers. SIGUSR2: all that waits is answered, and it goes on. SIGHUP: each write
 * and each new file fails with EIO, as on a disk that breaks, until SIGUSR2. SIGALRM: each fsync
 * fails with EIO, and each write is taken. With KEPT, a folder, files can be renamed and removed,
 * and SIGURG is a power cut: into KEPT goes what an unkind disk would have, which is each name as
 * of the last fsync of the folder with the bytes of the last fsync of that file, and from then on
 * all writes fail. Whatever happens, after MAX_HANG_SECONDS (default 30) of hanging the connection
 * is aborted, so that nobody's test leaves a process in D. Prints "ready DEVICE_MINOR" (of
 * /sys/fs/fuse/connections). SIGTERM or EOF on stdin unmounts and ends. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MAX_FILES 256
#define ROOM      (1u << 20)

static struct file {
	char name[64];
	char *data;
	uint64_t size;
	/* as it was when it was synced */
	char kept_name[64];
	char *kept;
	uint64_t kept_size;
	int used;
} files[MAX_FILES];
static int fuse_fd, broken, unsynced;
static const char *kept_folder;
static unsigned root_mode = 0777;
static char input[ROOM + 4096];

static void answer(const struct fuse_in_header *in, int error, const void *data, size_t length)
{
	struct fuse_out_header out = {(uint32_t)(sizeof(out) + length), error, in->unique};
	struct iovec parts[2] = {{&out, sizeof(out)}, {(void *)data, length}};

	/* ENOENT: the request was interrupted in between */
	if (writev(fuse_fd, parts, length ? 2 : 1) < 0 && errno != ENOENT && errno != ENODEV)
		perror("hang_fs: answer");
}

static void attributes(uint64_t node, struct fuse_attr *attr)
{
	*attr = (struct fuse_attr){.ino = node, .nlink = 1, .blksize = 4096};
	if (node == FUSE_ROOT_ID) {
		attr->mode = S_IFDIR | root_mode;
		attr->nlink = 2;
	} else {
		attr->mode = S_IFREG | (node == 2 ? 0755 : 0666);
		attr->size = files[node - 2].size;
		attr->blocks = (attr->size + 511) / 512;
	}
}

static int find(const char *name)
{
	for (int i = 0; i < MAX_FILES; i++)
		if (files[i].name[0] && !strcmp(files[i].name, name))
			return i;
	return -1;
}

static int create(const char *name)
{
	for (int i = 0; i < MAX_FILES; i++) {
		if (files[i].used)
			continue;
		files[i].used = 1;
		snprintf(files[i].name, sizeof(files[i].name), "%.63s", name);
		return i;
	}
	return -1;
}

/* Entries and attributes are never cached: each open and stat asks the server. */
static void answer_entry(const struct fuse_in_header *in, int i, int opened)
{
	struct {
		struct fuse_entry_out entry;
		struct fuse_open_out open;
	} out = {.entry = {.nodeid = (uint64_t)i + 2, .generation = 1}};

	attributes(out.entry.nodeid, &out.entry.attr);
	answer(in, 0, &out, opened ? sizeof(out) : sizeof(out.entry));
}

static int resize(struct file *file, uint64_t size)
{
	char *data = realloc(file->data, size ? size : 1);

	if (!data)
		return -ENOMEM;
	if (size > file->size)
		memset(data + file->size, 0, size - file->size);
	file->data = data;
	file->size = size;
	return 0;
}

static int sync_file(struct file *file)
{
	char *copy = malloc(file->size ? file->size : 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, file->data, file->size);
	free(file->kept);
	file->kept = copy;
	file->kept_size = file->size;
	return 0;
}

static void sync_names(void)
{
	for (int i = 0; i < MAX_FILES; i++)
		memcpy(files[i].kept_name, files[i].name, sizeof(files[i].name));
}

static int remove_name(const char *name)
{
	int i = find(name);

	if (i < 0)
		return -ENOENT;
	files[i].name[0] = 0;
	return 0;
}

static int rename_to(const char *from, const char *to)
{
	int i = find(from);

	if (i < 0)
		return -ENOENT;
	remove_name(to);
	snprintf(files[i].name, sizeof(files[i].name), "%.63s", to);
	return 0;
}

static void cut_power(void)
{
	int folder = open(kept_folder, O_PATH | O_DIRECTORY | O_CLOEXEC);

	broken = 1;
	for (int i = 1; i < MAX_FILES; i++) {
		const struct file *file = &files[i];
		int fd = file->kept_name[0] ? openat(folder, file->kept_name,
						     O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)
					    : -1;

		for (uint64_t at = 0; fd >= 0 && at < file->kept_size;) {
			ssize_t n = write(fd, file->kept + at, file->kept_size - at);

			if (n <= 0)
				break;
			at += (uint64_t)n;
		}
		if (fd >= 0)
			close(fd);
	}
	close(folder);
	printf("cut\n");
	fflush(stdout);
}

static void serve(const struct fuse_in_header *in, const char *body)
{
	struct file *file =
		in->nodeid >= 2 && in->nodeid < 2 + MAX_FILES ? &files[in->nodeid - 2] : NULL;
	int i;

	switch (in->opcode) {
	case FUSE_INIT: {
		const struct fuse_init_in *want = (const void *)body;
		struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION, .minor = 31};

		out.max_readahead = want->max_readahead;
		out.max_write = 128 << 10;
		out.flags = want->flags & (FUSE_BIG_WRITES | FUSE_ASYNC_READ);
		answer(in, 0, &out, sizeof(out));
		break;
	}
	case FUSE_LOOKUP:
		i = find(body);
		if (i < 0)
			answer(in, -ENOENT, NULL, 0);
		else
			answer_entry(in, i, 0);
		break;
	case FUSE_CREATE:
		body += sizeof(struct fuse_create_in);
		i = broken ? -1 : find(body);
		if (i < 0 && !broken)
			i = create(body);
		if (i < 0)
			answer(in, broken ? -EIO : -ENOSPC, NULL, 0);
		else
			answer_entry(in, i, 1);
		break;
	case FUSE_SETATTR: {
		const struct fuse_setattr_in *set = (const void *)body;

		if (file && (set->valid & FATTR_SIZE) && resize(file, set->size)) {
			answer(in, -ENOMEM, NULL, 0);
			break;
		}
	}
		/* fall through */
	case FUSE_GETATTR: {
		struct fuse_attr_out out = {0};

		attributes(in->nodeid, &out.attr);
		answer(in, 0, &out, sizeof(out));
		break;
	}
	case FUSE_OPEN:
	case FUSE_OPENDIR: {
		struct fuse_open_out out = {0};

		answer(in, 0, &out, sizeof(out));
		break;
	}
	case FUSE_READ: {
		const struct fuse_read_in *want = (const void *)body;
		uint64_t length = want->size;

		if (!file || want->offset >= file->size)
			length = 0;
		else if (length > file->size - want->offset)
			length = file->size - want->offset;
		answer(in, 0, file ? file->data + want->offset : NULL, length);
		break;
	}
	case FUSE_WRITE: {
		const struct fuse_write_in *write_in = (const void *)body;
		struct fuse_write_out out = {.size = write_in->size};

		if (broken || !file ||
		    (write_in->offset + write_in->size > file->size &&
		     resize(file, write_in->offset + write_in->size))) {
			answer(in, -EIO, NULL, 0);
			break;
		}
		memcpy(file->data + write_in->offset, body + sizeof(*write_in), write_in->size);
		answer(in, 0, &out, sizeof(out));
		break;
	}
	case FUSE_STATFS: {
		struct fuse_statfs_out out = {.st = {.bsize = 4096, .namelen = 63}};

		answer(in, 0, &out, sizeof(out));
		break;
	}
	case FUSE_READDIR:
	case FUSE_FLUSH:
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
		answer(in, 0, NULL, 0);
		break;
	case FUSE_FSYNC:
		answer(in, unsynced || broken ? -EIO : file ? sync_file(file) : 0, NULL, 0);
		break;
	case FUSE_FSYNCDIR:
		if (!broken)
			sync_names();
		answer(in, broken ? -EIO : 0, NULL, 0);
		break;
	case FUSE_UNLINK:
		answer(in, !kept_folder ? -ENOSYS : broken ? -EIO : remove_name(body), NULL, 0);
		break;
	case FUSE_RENAME:
	case FUSE_RENAME2:
		if (!kept_folder || broken) {
			answer(in, broken ? -EIO : -ENOSYS, NULL, 0);
			break;
		}
		body += in->opcode == FUSE_RENAME ? sizeof(struct fuse_rename_in)
						  : sizeof(struct fuse_rename2_in);
		answer(in, rename_to(body, body + strlen(body) + 1), NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	default:
		answer(in, -ENOSYS, NULL, 0);
	}
}

static int read_in(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC), i = create("prog");

	if (fd < 0 || i != 0 || fstat(fd, &st) || resize(&files[0], (uint64_t)st.st_size))
		return -1;
	for (uint64_t at = 0; at < files[0].size;) {
		ssize_t n = read(fd, files[0].data + at, files[0].size - at);

		if (n <= 0)
			return -1;
		at += (uint64_t)n;
	}
	close(fd);
	return 0;
}

static void abort_connection(unsigned device)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/fs/fuse/connections/%u/abort", device);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		if (write(fd, "1", 1) != 1)
			perror("hang_fs: abort");
		close(fd);
	}
}

int main(int argc, char **argv)
{
	char options[128];
	struct pollfd fds[3];
	int hanging = 0, limit, aborted = 0;
	struct stat st = {0};
	sigset_t set;
	time_t since = 0;

	if (argc < 3 || read_in(argv[2]))
		return 2;
	limit = argc > 3 ? atoi(argv[3]) : 30;
	fuse_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (argc > 4)
		root_mode = (unsigned)strtoul(argv[4], NULL, 8);
	kept_folder = argc > 5 ? argv[5] : NULL;
	snprintf(options, sizeof(options), "fd=%d,rootmode=%o,user_id=0,group_id=0,allow_other",
		 fuse_fd, S_IFDIR | root_mode);
	if (fuse_fd < 0 ||
	    mount("hang_fs", argv[1], "fuse.hang_fs", MS_NOSUID | MS_NODEV, options)) {
		perror("hang_fs: mount");
		return 1;
	}
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGALRM);
	sigaddset(&set, SIGURG);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fds[0] = (struct pollfd){signalfd(-1, &set, SFD_CLOEXEC), POLLIN, 0};
	fds[1] = (struct pollfd){0, POLLIN, 0};
	fds[2] = (struct pollfd){fuse_fd, POLLIN, 0};
	for (int told = 0;;) {
		int n;

		fds[2].fd = hanging ? -1 : fuse_fd;
		n = poll(fds, 3, told ? 200 : 0);
		if (!n && !told) {
			/* the device's number is known once INIT is answered: statx does not ask */
			struct statx sx;

			if (!statx(AT_FDCWD, argv[1], AT_STATX_DONT_SYNC, 0, &sx)) {
				st.st_dev = makedev(sx.stx_dev_major, sx.stx_dev_minor);
				printf("ready %u\n", minor(st.st_dev));
				fflush(stdout);
				told = 1;
			}
			continue;
		}
		if (hanging && !aborted && time(NULL) - since >= limit) {
			abort_connection(minor(st.st_dev));
			aborted = 1;
			fprintf(stderr, "hang_fs: aborted after %d s\n", limit);
		}
		if (fds[0].revents & POLLIN) {
			struct signalfd_siginfo info;

			if (read(fds[0].fd, &info, sizeof(info)) != sizeof(info))
				return 1;
			if (info.ssi_signo == SIGUSR1) {
				hanging = 1;
				since = time(NULL);
			} else if (info.ssi_signo == SIGUSR2) {
				hanging = broken = unsynced = 0;
			} else if (info.ssi_signo == SIGHUP) {
				broken = 1;
			} else if (info.ssi_signo == SIGALRM) {
				unsynced = 1;
			} else if (info.ssi_signo == SIGURG && kept_folder) {
				cut_power();
			} else {
				break;
			}
		}
		if (fds[1].revents) {
			char byte;

			if (read(0, &byte, 1) <= 0)
				break;
		}
		if (!hanging && fds[2].revents) {
			ssize_t length = read(fuse_fd, input, sizeof(input));

			if (length < 0 && errno == ENODEV)
				break;
			if (length >= (ssize_t)sizeof(struct fuse_in_header))
				serve((const void *)input, input + sizeof(struct fuse_in_header));
		}
	}
	if (!aborted)
		abort_connection(minor(st.st_dev));
	umount2(argv[1], MNT_DETACH);
	return 0;
}

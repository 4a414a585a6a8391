/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that compresses closed segments, one after the other, when the CPU has nothing better
 * to do, and that merges the intervals of old ones. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zstd.h>

#include "store/scan.h"
#include "store/write_private.h"
#include "util/clock.h"
#include "util/crc32c.h"

#define CHUNK_BYTES (128u << 10)

/* include/uapi/linux/ioprio.h */
#define IOPRIO_IDLE (3 << 13)

/* So many segments that wait, or a merge that is late by such a part of what is told. */
#define HURRY_SEGMENTS 4
#define HURRY_PART     4

struct pace {
	int niceness; /* of the writer */
	bool hurries;
	bool merged; /* what was done last */
};

static int write_out(struct store_writer *writer, int fd, const char *data, size_t length)
{
	while (length) {
		ssize_t n = write(fd, data, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		length -= (size_t)n;
		__atomic_fetch_add(&writer->packing_bytes, (uint64_t)n, __ATOMIC_RELAXED);
	}
	return 0;
}

struct packing {
	ZSTD_CCtx *stream;
	char *in, *out;
	size_t out_bytes;
	uint32_t crc; /* of what was read */
};

static int pack_stream(struct store_writer *writer, struct packing *packing, int from, int to)
{
	for (;;) {
		ssize_t n = read(from, packing->in, CHUNK_BYTES);
		ZSTD_inBuffer in = {packing->in, n > 0 ? (size_t)n : 0, 0};
		size_t left;
		int err;

		if (n < 0)
			return -errno;
		packing->crc = crc32c(packing->crc, packing->in, (size_t)n);
		do {
			ZSTD_outBuffer out = {packing->out, packing->out_bytes, 0};

			left = ZSTD_compressStream2(packing->stream, &out, &in,
						    n ? ZSTD_e_continue : ZSTD_e_end);
			if (ZSTD_isError(left))
				return -EIO; /* the file is no longer as long as it was */
			err = write_out(writer, to, packing->out, out.pos);
			if (err)
				return err;
		} while (n ? in.pos < in.size : left);
		if (!n)
			return 0;
	}
}

/* Of the numbers of a row only those of the last few intervals are like it: a window of 1 MiB costs
 * nothing, and the memory is 3 MiB instead of the 30 of a level that shrinks as much (README.md).
 * Digits that happen to be like others are worth no match: btopt weighs that, and takes long
 * matches without a look at others. */
static void set_parameters(ZSTD_CCtx *stream)
{
	ZSTD_CCtx_setParameter(stream, ZSTD_c_strategy, ZSTD_btopt);
	ZSTD_CCtx_setParameter(stream, ZSTD_c_windowLog, 20);
	ZSTD_CCtx_setParameter(stream, ZSTD_c_chainLog, 18);
	ZSTD_CCtx_setParameter(stream, ZSTD_c_hashLog, 18);
	ZSTD_CCtx_setParameter(stream, ZSTD_c_searchLog, 4);
	ZSTD_CCtx_setParameter(stream, ZSTD_c_minMatch, 5);
	ZSTD_CCtx_setParameter(stream, ZSTD_c_targetLength, 999);
}

/* The context goes back to the system with each segment: the writer is small in between. */
static int pack(struct store_writer *writer, int from, int to, uint64_t bytes, uint32_t crc)
{
	struct packing packing = {.stream = ZSTD_createCCtx(),
				  .in = malloc(CHUNK_BYTES),
				  .out_bytes = ZSTD_CStreamOutSize()};
	int err = -ENOMEM;

	packing.out = malloc(packing.out_bytes);
	if (packing.stream && packing.in && packing.out) {
		set_parameters(packing.stream);
		ZSTD_CCtx_setParameter(packing.stream, ZSTD_c_checksumFlag, 1);
		ZSTD_CCtx_setPledgedSrcSize(packing.stream, bytes);
		err = pack_stream(writer, &packing, from, to);
		/* Where the disk has lost what it took, the plain file shows best what is left. */
		if (!err && packing.crc != crc)
			err = -EBADMSG;
	}
	ZSTD_freeCCtx(packing.stream);
	free(packing.in);
	free(packing.out);
	return err;
}

struct store_segment *store_closed(struct store_writer *writer, uint64_t number)
{
	for (size_t i = 0; i < writer->closed.count; i++)
		if (writer->closed.items[i].number == number)
			return &writer->closed.items[i];
	return NULL;
}

/* The compressed file is whole and on the disk before it has its name, and has its name before the
 * plain one goes. */
static void take_place(struct store_writer *writer, uint64_t number, uint64_t bytes)
{
	char plain[SEGMENT_NAME], packed[SEGMENT_NAME];
	struct store_segment *segment;

	segment_name(plain, number, false);
	segment_name(packed, number, true);
	pthread_mutex_lock(&writer->lock);
	segment = store_closed(writer, number);
	if (!segment || renameat(writer->dir_fd, PACK_NAME, writer->dir_fd, packed)) {
		unlinkat(writer->dir_fd, PACK_NAME, 0);
	} else {
		fsync(writer->dir_fd);
		if (!unlinkat(writer->dir_fd, plain, 0) || errno == ENOENT) {
			segment->packed = true;
			segment->plain = false;
			segment->file_bytes = bytes;
		}
	}
	writer->packing_bytes = 0;
	pthread_mutex_unlock(&writer->lock);
}

static void give_up(struct store_writer *writer)
{
	unlinkat(writer->dir_fd, PACK_NAME, 0);
	pthread_mutex_lock(&writer->lock);
	writer->packing_bytes = 0;
	pthread_mutex_unlock(&writer->lock);
}

int64_t store_pack_file(struct store_writer *writer, int from, uint32_t crc)
{
	struct stat status = {0};
	int to = -1, err = 0;

	unlinkat(writer->dir_fd, PACK_NAME, 0);
	if (fstat(from, &status))
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	to = openat(writer->dir_fd, PACK_NAME, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	if (to < 0)
		return -errno;
	err = pack(writer, from, to, (uint64_t)status.st_size, crc);
	if (!err && (fdatasync(to) || fstat(to, &status)))
		err = -errno;
	posix_fadvise(from, 0, 0, POSIX_FADV_DONTNEED);
	posix_fadvise(to, 0, 0, POSIX_FADV_DONTNEED);
	close(to);
	if (!err)
		return status.st_size;
	give_up(writer);
	return err;
}

static void pack_segment(struct store_writer *writer, uint64_t number, uint32_t crc)
{
	char name[SEGMENT_NAME];
	int from = openat(writer->dir_fd, segment_name(name, number, false),
			  O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int64_t bytes;

	if (from < 0)
		return;
	bytes = store_pack_file(writer, from, crc);
	close(from);
	if (bytes >= 0)
		take_place(writer, number, (uint64_t)bytes);
}

/* What an earlier run left without facts gets them; a segment that is torn or damaged stays as it
 * is. */
static void look_after(struct store_writer *writer, const struct store_segment *work)
{
	struct segment_facts facts = work->facts;
	struct store_segment *segment;
	char name[SEGMENT_NAME];
	int err = 0;

	/* Both files: whoever made the compressed one did not come to the end. */
	if (work->plain && work->packed)
		unlinkat(writer->dir_fd, segment_name(name, work->number, true), 0);
	if (!work->known)
		err = store_scan(writer->dir_fd, work->number, &facts);
	pthread_mutex_lock(&writer->lock);
	segment = store_closed(writer, work->number);
	if (segment) {
		segment->tried = true;
		if (segment->plain)
			segment->packed = false;
		if (!err && !segment->known)
			store_index(writer, &facts);
		segment->facts = facts;
		segment->known = !err;
	}
	pthread_mutex_unlock(&writer->lock);
	if (segment && !err && work->plain && !writer->options.plain)
		pack_segment(writer, work->number, facts.crc);
}

static bool needs_work(const struct store_writer *writer, const struct store_segment *segment)
{
	return !segment->tried && (!segment->known || (segment->plain && !writer->options.plain));
}

/* The thread has what others leave, until work piles up: a machine that is always busy leaves it
 * nothing, and then it takes its share like any other. */
static void set_pace(struct pace *pace, bool hurry)
{
	if (pace->hurries == hurry)
		return;
	pace->hurries = hurry;
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), hurry ? pace->niceness : 19);
	syscall(SYS_ioprio_set, 1, 0, hurry ? 0 : IOPRIO_IDLE);
}

/* What is closed is compressed before anything is merged; where both pile up, in turn.
 * *resolution_ns 0: it is to be looked after. */
static void wait_for_work(struct store_writer *writer, struct store_segment *work,
			  uint64_t *resolution_ns, struct pace *pace)
{
	const struct store_segment *due = NULL;
	uint64_t wait_ns, until_ns;
	struct timespec until;

	for (;;) {
		const struct store_segment *merge;
		size_t waiting = 0;
		bool late = store_keep_late(writer) > store_keep_patience(writer) / HURRY_PART;

		for (size_t i = 0; i < writer->closed.count; i++) {
			if (!needs_work(writer, &writer->closed.items[i]))
				continue;
			if (!waiting++)
				due = &writer->closed.items[i];
		}
		merge = store_keep_due(writer, resolution_ns, &wait_ns);
		if (merge && (!due || (late && !pace->merged)))
			due = merge;
		else
			*resolution_ns = 0;
		pace->merged = *resolution_ns;
		set_pace(pace, late || waiting >= HURRY_SEGMENTS);
		if (due)
			break;
		if (!wait_ns) {
			pthread_cond_wait(&writer->more, &writer->lock);
			continue;
		}
		until_ns = clock_now_ns(CLOCK_MONOTONIC) + wait_ns;
		until = (struct timespec){(time_t)(until_ns / NSEC_PER_SEC),
					  (long)(until_ns % NSEC_PER_SEC)};
		pthread_cond_timedwait(&writer->more, &writer->lock, &until);
	}
	*work = *due;
}

static void *pack_life(void *ctx)
{
	struct store_writer *writer = ctx;
	struct store_segment work;
	struct pace pace = {.niceness = getpriority(PRIO_PROCESS, 0), .hurries = true};
	uint64_t resolution_ns;

	prctl(PR_SET_NAME, "jankscope-pack");
	set_pace(&pace, false);
	for (;;) {
		pthread_mutex_lock(&writer->lock);
		wait_for_work(writer, &work, &resolution_ns, &pace);
		pthread_mutex_unlock(&writer->lock);
		if (resolution_ns)
			store_keep_apply(writer, &work, resolution_ns);
		else
			look_after(writer, &work);
	}
	return NULL;
}

void store_pack_clean(struct store_writer *writer)
{
	unlinkat(writer->dir_fd, PACK_NAME, 0);
	unlinkat(writer->dir_fd, KEEP_NAME, 0);
}

void store_pack_start(struct store_writer *writer)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 256 << 10);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	writer->thread = !pthread_create(&thread, &attributes, pack_life, writer);
	pthread_attr_destroy(&attributes);
}

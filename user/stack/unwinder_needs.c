/* SPDX-License-Identifier: BSD-2-Clause */
/* What the unwinder process needs of a target comes from the prober pool, and only of the target
 * whose stack is at work. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stack/unwinder_jobs.h"
#include "util/channel.h"
#include "util/clock.h"

/* Nobody but the unwinder waits for these answers; a prober that hangs is replaced after 1 s, and
 * what it hung on is left alone then. A shorter time costs names where all CPUs are busy. */
#define ANSWER_NS     (900 * NSEC_PER_MSEC)
#define KEPT_FRESH_NS (2 * NSEC_PER_SEC)
#define KEPT_OLD_NS   (300 * NSEC_PER_SEC)

/* ---- maps that are kept ---- */

static bool same_process(const struct stack_process *a, const struct stack_process *b)
{
	return a->pid == b->pid && a->start_ticks == b->start_ticks;
}

static void drop_kept(struct unwinder *u, struct kept_maps *kept)
{
	if (!kept->process.pid)
		return;
	close(kept->fd);
	u->kept_bytes -= kept->length;
	*kept = (struct kept_maps){0};
}

static struct kept_maps *find_kept(struct unwinder *u, const struct stack_process *process)
{
	for (size_t i = 0; i < KEPT_MAPS; i++)
		if (u->kept[i].process.pid && same_process(&u->kept[i].process, process)) {
			u->kept[i].used = ++u->uses;
			return &u->kept[i];
		}
	return NULL;
}

/* A free slot, or that of the picture that was not used for longest. */
static struct kept_maps *oldest_kept(struct unwinder *u, bool only_used)
{
	struct kept_maps *oldest = NULL;

	for (size_t i = 0; i < KEPT_MAPS; i++) {
		struct kept_maps *kept = &u->kept[i];

		if (only_used && !kept->process.pid)
			continue;
		if (!oldest || kept->used < oldest->used)
			oldest = kept;
	}
	return oldest;
}

/* Of processes that nobody asked about for long: most of them are gone. */
static void drop_old(struct unwinder *u, uint64_t now_ns)
{
	for (size_t i = 0; i < KEPT_MAPS; i++)
		if (now_ns - u->kept[i].read_ns > KEPT_OLD_NS)
			drop_kept(u, &u->kept[i]);
}

/* Take over fd. NULL: it is too large to keep, and closed. */
static struct kept_maps *keep(struct unwinder *u, const struct stack_process *process, int fd,
			      uint64_t length)
{
	struct kept_maps *kept = find_kept(u, process);
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	if (kept)
		drop_kept(u, kept);
	drop_old(u, now_ns);
	if (length > KEPT_BYTES) {
		close(fd);
		return NULL;
	}
	while (u->kept_bytes + length > KEPT_BYTES)
		drop_kept(u, oldest_kept(u, true));
	kept = oldest_kept(u, false);
	drop_kept(u, kept);
	*kept = (struct kept_maps){*process, fd, length, now_ns, ++u->uses};
	u->kept_bytes += length;
	return kept;
}

static void free_primer(struct unwinder *u, struct primer *primer)
{
	struct primer **link = &u->primers;

	while (*link != primer)
		link = &(*link)->next;
	*link = primer->next;
	free(primer);
}

void unwinder_free_kept(struct unwinder *u)
{
	for (size_t i = 0; i < KEPT_MAPS; i++)
		drop_kept(u, &u->kept[i]);
	while (u->primers) {
		probe_cancel(u->pool, u->primers->id);
		free_primer(u, u->primers);
	}
}

/* A descriptor of an answer, which becomes ours; -1: there is none. */
static int take_fd(const struct probe_answer *answer)
{
	int fd = answer->fd_count ? answer->fds[0] : -1;

	if (answer->fd_count)
		answer->fds[0] = -1;
	return fd;
}

static void on_primed(void *ctx, int err, const struct probe_answer *answer)
{
	struct primer *primer = ctx;
	struct unwinder *u = primer->unwinder;
	int fd = err ? -1 : take_fd(answer);
	struct job *job = NULL;

	/* The process reads it now, and the vdso, while the target is there. */
	if (fd >= 0 && answer->value > 0 && keep(u, &primer->process, fd, (uint64_t)answer->value))
		job = calloc(1, sizeof(*job));
	else if (fd >= 0 && answer->value <= 0)
		close(fd);
	if (job) {
		*job = (struct job){.type = WIRE_PRIME, .process = primer->process, .fd = -1};
		unwinder_append(u, job);
	}
	free_primer(u, primer);
}

/* A picture that is as good as a new one, or is on its way. */
static bool is_primed(struct unwinder *u, const struct stack_process *process)
{
	const struct kept_maps *kept = find_kept(u, process);

	if (kept && clock_now_ns(CLOCK_MONOTONIC) - kept->read_ns < KEPT_FRESH_NS)
		return true;
	for (const struct primer *primer = u->primers; primer; primer = primer->next)
		if (same_process(&primer->process, process))
			return true;
	return false;
}

void unwinder_prime(struct unwinder *u, pid_t pid, uint64_t start_ticks)
{
	struct probe_request request = {
		.operation = PROBE_MAPS, .pid = pid, .start_ticks = start_ticks};
	struct primer *primer;

	if (is_primed(u, &(struct stack_process){pid, start_ticks}))
		return;
	primer = calloc(1, sizeof(*primer));
	if (!primer)
		return;
	*primer = (struct primer){u->primers, u, {pid, start_ticks}, 0};
	primer->id = probe_ask(u->pool, &request, NULL, 0, NULL, 0, ANSWER_NS, on_primed, primer);
	/* Then it is asked for with the first stack. */
	if (primer->id < 0) {
		free(primer);
		return;
	}
	u->primers = primer;
}

/* ---- needs ---- */

/* The file that the process is about to read: 0, or -EACCES: it hung on this one before. */
static int admit(struct unwinder *u, const struct stack_file_version *file)
{
	if (refused_files_has(&u->refused, file, clock_now_ns(CLOCK_MONOTONIC))) {
		u->elf_refused++;
		return -EACCES;
	}
	u->reading = *file;
	return 0;
}

void unwinder_forget_need(struct unwinder *u)
{
	if (u->probe > 0)
		probe_cancel(u->pool, u->probe);
	u->probe = 0;
	u->need.kind = 0;
}

/* Send the answer to the need under way. */
static int send_answer(struct unwinder *u, int64_t value, const void *bytes, size_t length, int fd)
{
	struct wire_answer answer = {
		.header = {WIRE_ANSWER, (uint32_t)(sizeof(answer) + length), u->number},
		.number = u->need.number,
		.value = value,
		.length = length};
	struct iovec parts[] = {{&answer, sizeof(answer)}, {(void *)bytes, length}};

	u->need.kind = 0;
	u->probe = 0;
	return channel_send(u->helper.socket, parts, length ? 2 : 1, &fd, fd >= 0);
}

static int send_kept(struct unwinder *u, const struct kept_maps *kept)
{
	return send_answer(u, (int64_t)kept->length, NULL, 0, kept->fd);
}

static int answer_maps(struct unwinder *u, int err, const struct probe_answer *answer)
{
	const struct stack_process *process = &u->current->process;
	struct kept_maps *kept = find_kept(u, process);
	int fd = err ? -1 : take_fd(answer);

	if (fd >= 0 && answer->value > 0) {
		if ((uint64_t)answer->value <= KEPT_BYTES) {
			kept = keep(u, process, fd, (uint64_t)answer->value);
			return send_kept(u, kept);
		}
		err = send_answer(u, answer->value, NULL, 0, fd);
		close(fd);
		return err;
	}
	if (fd >= 0)
		close(fd);
	/* A process that is gone, or cannot be asked now: what it had before serves. */
	if (kept)
		return send_kept(u, kept);
	return send_answer(u, err ?: -ESRCH, NULL, 0, -1);
}

static int answer_file(struct unwinder *u, const struct probe_answer *answer)
{
	struct stack_file_version version;
	struct probe_file known;
	struct wire_file file;
	int fd = take_fd(answer), err;

	if (fd < 0 || answer->length != sizeof(known)) {
		if (fd >= 0)
			close(fd);
		return send_answer(u, -EIO, NULL, 0, -1);
	}
	memcpy(&known, answer->data, sizeof(known));
	file = (struct wire_file){known.device, known.inode, known.size_bytes, known.mtime_ns,
				  known.ctime_ns};
	version = (struct stack_file_version){known.device, known.inode, known.size_bytes,
					      known.ctime_ns};
	err = admit(u, &version);
	err = err ? send_answer(u, err, NULL, 0, -1) : send_answer(u, 0, &file, sizeof(file), fd);
	close(fd);
	return err;
}

static int answer_need(struct unwinder *u, int err, const struct probe_answer *answer)
{
	size_t length;
	int fd;

	if (u->need.kind == NEED_MAPS)
		return answer_maps(u, err, answer);
	if (err)
		return send_answer(u, err, NULL, 0, -1);
	switch (u->need.kind) {
	case NEED_FILE:
		return answer_file(u, answer);
	case NEED_JIT_LIST:
		if (!answer->fd_count)
			return send_answer(u, answer->value ? -EIO : 0, NULL, 0, -1);
		/* fall through */
	case NEED_JIT_NAMES:
		fd = take_fd(answer);
		err = send_answer(u, fd < 0 ? -EIO : answer->value, NULL, 0, fd);
		if (fd >= 0)
			close(fd);
		return err;
	default:
		length = answer->length < u->need.length ? answer->length : u->need.length;
		return send_answer(u, (int64_t)length, answer->data, length, -1);
	}
}

static void on_answer(void *ctx, int err, const struct probe_answer *answer)
{
	struct unwinder *u = ctx;

	u->probe = 0;
	err = answer_need(u, err, answer);
	if (err)
		unwinder_lose_process(u, err);
	else
		unwinder_resume(u);
}

static int ask_pool(struct unwinder *u)
{
	const struct wire_need *need = &u->need;
	struct probe_request request = {.pid = u->current->process.pid,
					.start_ticks = u->current->process.start_ticks};

	switch (need->kind) {
	case NEED_MAPS:
		request.operation = PROBE_MAPS;
		break;
	case NEED_FILE:
		request.operation = PROBE_OPEN;
		request.address = need->start;
		request.end = need->end;
		request.offset = need->offset;
		request.inode = need->inode;
		memcpy(request.name, need->path, sizeof(need->path));
		break;
	case NEED_JIT_NAMES:
		request.operation = PROBE_OPEN_JIT_NAMES;
		break;
	case NEED_JIT_LIST:
		request.operation = PROBE_JIT_LIST;
		request.address = need->start;
		request.argument = need->known;
		request.offset = need->since;
		request.length = need->symfiles;
		break;
	default:
		request.operation = PROBE_MEMORY;
		request.address = need->start;
		request.length = need->length;
	}
	u->probe = probe_ask(u->pool, &request, NULL, 0, NULL, 0, ANSWER_NS, on_answer, u);
	if (u->probe > 0)
		return 0;
	return answer_need(u, (int)u->probe, NULL);
}

int unwinder_needs(struct unwinder *u, const struct wire_need *need)
{
	const struct kept_maps *kept;
	bool of_waits = u->current->type == WIRE_WAITS;

	u->need = *need;
	if (of_waits != (need->kind == NEED_LEAVE))
		return -EBADMSG;
	if (need->kind == NEED_LEAVE)
		return send_answer(u, admit(u, &need->file), NULL, 0, -1);
	if (need->kind == NEED_MAPS && !need->fresh) {
		kept = find_kept(u, &u->current->process);
		if (kept && clock_now_ns(CLOCK_MONOTONIC) - kept->read_ns < KEPT_FRESH_NS)
			return send_kept(u, kept);
	}
	return ask_pool(u);
}

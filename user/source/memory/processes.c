/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of processes. status and the folder fd of a process stay open, which spares two thirds
 * of the cost of their reading, and each descriptor stands for that process alone. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/loop.h"
#include "jankscope/target.h"
#include "proc/memory.h"
#include "proc/read.h"
#include "proc/stat.h"
#include "source/memory/private.h"
#include "util/clock.h"

/* A prober that hangs for so long is replaced anyway. */
#define ANSWER_NS NSEC_PER_SEC
/* How often descriptors and buffers are looked at where smaps is not read. */
#define FILES_NS (10 * NSEC_PER_SEC)
/* After a request that was refused. */
#define RETRY_NS (2 * NSEC_PER_SEC)
/* One of so many readings is by kind, too: it takes much longer. */
#define KINDS_EVERY 6
/* After a reading so many times what it took of a CPU: hundreds of processes cost 2 % of a core at
 * the most, and leave the probers to what cannot wait (stacks of blocks). */
#define REST_TIMES 49
/* Where the probers have enough to do. */
#define BUSY_NS (20 * NSEC_PER_MSEC)

/* What is mounted in its place is not opened: to open a file of a dead FUSE server takes for ever.
 * A descriptor or -errno; -EXDEV: such a mount. */
static int open_below(int dir, const char *name, int flags)
{
	const struct open_how how = {
		.flags = (uint64_t)(O_RDONLY | O_CLOEXEC | flags),
		.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS,
	};
	int fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

static void close_files(struct memory_process *process)
{
	if (process->status >= 0)
		close(process->status);
	if (process->files >= 0)
		close(process->files);
	process->status = process->files = -EBADF;
}

static void open_files(struct memory_process *process)
{
	int dir = proc_open("", (pid_t)process->key.pid), survivor, err;
	struct proc_stat stat;

	process->status = process->files = dir < 0 ? dir : -ESRCH;
	if (dir < 0)
		return;
	err = proc_stat(dir, &stat);
	/* It may not have ended: there are descriptors for its folder and for no file in it. */
	if (err && err != -ENOENT)
		process->status = process->files = err;
	if (!err && stat.start_ticks * PROC_TICK_NS == process->key.start_boot_ns) {
		survivor = proc_stat_is_over(&stat) ? proc_open_survivor(dir) : -ENOENT;
		if (survivor >= 0) {
			close(dir);
			dir = survivor;
		}
		process->status = open_below(dir, "status", O_NONBLOCK);
		process->files = open_below(dir, "fd", O_DIRECTORY | O_PATH);
	}
	close(dir);
}

static void name_it(char **name, const char *text)
{
	if (*name && text && !strcmp(*name, text))
		return;
	free(*name);
	*name = text ? strdup(text) : NULL;
}

struct memory_process *memory_find(struct memory_source *memory,
				   const struct target_process *target)
{
	struct memory_process_key key = {target->start_boot_ns / PROC_TICK_NS * PROC_TICK_NS,
					 (uint64_t)target->pid};
	struct memory_process *process;

	HASH_FIND(hh, memory->processes, &key, sizeof(key), process);
	if (process)
		return process;
	process = calloc(1, sizeof(*process));
	if (!process)
		return NULL;
	process->key = key;
	process->source = memory;
	process->status = process->files = -EBADF;
	HASH_ADD(hh, memory->processes, key, sizeof(process->key), process);
	return process;
}

void memory_drop(struct memory_process *process)
{
	struct memory_source *memory = process->source;

	if (process->request > 0)
		probe_cancel(memory->context->probes, process->request);
	if (memory->asked == process)
		memory->asked = NULL; /* the next sample goes on */
	HASH_DEL(memory->processes, process);
	close_files(process);
	memory->kept -= process->kept;
	free(process->process);
	free(process->package);
	free(process);
}

/* ---- what is asked ---- */

/* Nobody is asked about for that long. */
static void rest(struct memory_source *memory, uint64_t ns)
{
	memory->rest_until_ns = clock_now_ns(CLOCK_MONOTONIC) + ns;
	/* Its slack may have the timer come earlier, and it does not come again. */
	loop_set_timer(memory->context->loop, memory->timer, ns + MEMORY_REST_SLACK_NS, 0);
}

static void take_answer(struct memory_process *process, int err, const struct probe_answer *answer)
{
	process->request = 0;
	process->told = true;
	process->err = err;
	process->use_boot_ns = clock_now_ns(CLOCK_BOOTTIME);
	if (err)
		return;
	if (answer->length != sizeof(process->use))
		process->err = -EBADMSG;
	else
		memcpy(&process->use, answer->data, sizeof(process->use));
}

static void on_answer(void *ctx, int err, const struct probe_answer *answer)
{
	struct memory_process *process = ctx;
	struct memory_source *memory = process->source;
	uint64_t cpu_ns = 0;

	take_answer(process, err, answer);
	if (!process->err)
		cpu_ns = process->use.rollup_cpu_ns + process->use.kinds_cpu_ns +
			 process->use.files_cpu_ns;
	memory->asked = NULL;
	rest(memory, cpu_ns < NSEC_PER_SEC ? REST_TIMES * cpu_ns : REST_TIMES * NSEC_PER_SEC);
}

/* What the next reading of it is for. The first one has what is quick; the kinds come at once
 * behind it, by themselves, so that the first PSS of hundreds of processes does not wait for them.
 */
static unsigned next_use(const struct memory_process *process)
{
	/* Those are counted in each interval where the kernel does it. */
	const unsigned files =
		PROBE_USE_BUFFERS | (process->source->counts_files ? 0 : PROBE_USE_FILES);

	if (!process->source->options.smaps_ns)
		return files;
	if (process->readings == 1)
		return PROBE_USE_KINDS;
	return files | PROBE_USE_ROLLUP |
	       (process->readings > 1 && process->readings % KINDS_EVERY == 1 ? PROBE_USE_KINDS
									      : 0);
}

static void ask(struct memory_process *process, uint64_t now_ns)
{
	struct memory_source *memory = process->source;
	uint64_t every_ns = memory->options.smaps_ns ?: FILES_NS;
	const struct probe_request request = {
		.operation = PROBE_MEMORY_USE,
		.pid = (pid_t)process->key.pid,
		.start_ticks = process->key.start_boot_ns / PROC_TICK_NS,
		.argument = next_use(process),
	};

	process->asked = (unsigned)request.argument;
	process->request = probe_ask(memory->context->probes, &request, NULL, 0, NULL, 0, ANSWER_NS,
				     on_answer, process);
	if (process->request > 0) {
		process->readings++;
		/* Behind the first one the kinds are due; they do not move the ones after them. */
		if (process->asked != PROBE_USE_KINDS)
			process->next_ns = now_ns + every_ns;
		process->due_ns = memory->options.smaps_ns && process->readings == 1
					  ? now_ns
					  : process->next_ns;
		memory->asked = process;
		return;
	}
	/* It was not asked: again soon, for all of it. */
	process->due_ns = now_ns + (every_ns < RETRY_NS ? every_ns : RETRY_NS);
	take_answer(process, (int)process->request, NULL);
	rest(memory, 0);
}

void memory_ask_next(struct memory_source *memory)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	/* A timer that comes a little early must not cost a whole interval. */
	uint64_t due_ns = now_ns + memory->context->interval_ns / 2;
	struct memory_process *next = NULL, *process;

	if (!memory->context->probes || memory->asked || now_ns < memory->rest_until_ns)
		return;
	for (process = memory->processes; process; process = process->hh.next)
		if (!process->told && process->due_ns <= due_ns &&
		    (!next || process->due_ns < next->due_ns))
			next = process;
	if (!next)
		return;
	if (probe_has_room(memory->context->probes))
		ask(next, now_ns);
	else
		rest(memory, BUSY_NS);
}

/* ---- rows ---- */

static const char *explain(int err, char *text, size_t size)
{
	switch (err) {
	case -ETIMEDOUT:
		return "no answer within 1 s: its mmap_lock is held, or the machine is too busy";
	case -EBUSY:
		return "it held up a prober, and is left alone for a while";
	case -EPIPE:
		return "the prober died";
	case -ENODATA:
		return "it has no memory: a zombie or a kernel thread";
	case -EFBIG:
		return "its smaps takes more than 0.3 s";
	case -E2BIG:
		return "it has more than 4096 descriptors, or 1024 buffers: not all are looked at";
	case -EOVERFLOW:
		return "its status is longer than 64 KiB: it is in thousands of groups";
	case -EXDEV:
		return "another file system's file stands in its place";
	case -EBADMSG:
		return "the kernel's text makes no sense";
	}
	snprintf(text, size, "%s", strerror(-err));
	return text;
}

/* A reading failed: its keys are absent for that reason. Of a process that has ended nothing is
 * missing. */
static int tell_missing(struct memory_process *process, struct record_memory_process *row,
			const char *key, int err)
{
	char text[64];

	if (err == -ESRCH || err == -ENOENT)
		return 0;
	process->source->unread += err != -ENODATA;
	return missing_list_set(&row->missing, key, explain(err, text, sizeof(text)));
}

static void fill_kinds(struct memory_process *process, struct record_memory_process *row)
{
	const struct proc_smaps_kinds *kinds = &process->use.kinds;

	for (unsigned i = 0; i < MEMORY_KINDS; i++)
		if (kinds->kind[i].mappings)
			process->kinds[row->kind_count++] = (struct record_memory_kind){
				i, kinds->kind[i].mappings, kinds->kind[i].pss_bytes,
				kinds->kind[i].swap_pss_bytes, kinds->kind[i].private_dirty_bytes};
	row->kinds = process->kinds;
	row->has_kinds = true;
	row->kinds_cost =
		(struct record_memory_cost){process->use.kinds_wall_ns, process->use.kinds_cpu_ns};
}

static void fill_rollup(struct memory_process *process, struct record_memory_process *row)
{
	const struct proc_smaps *rollup = &process->use.rollup;

	row->pss_bytes = rollup->pss_bytes;
	row->pss_anon_bytes = rollup->pss_anon_bytes;
	row->pss_file_bytes = rollup->pss_file_bytes;
	row->pss_shmem_bytes = rollup->pss_shmem_bytes;
	row->private_clean_bytes = rollup->private_clean_bytes;
	row->private_dirty_bytes = rollup->private_dirty_bytes;
	row->swap_pss_bytes = rollup->swap_pss_bytes;
	row->has_rollup = true;
	row->rollup_cost = (struct record_memory_cost){process->use.rollup_wall_ns,
						       process->use.rollup_cpu_ns};
}

static int fill_use(struct memory_process *process, struct record_memory_process *row)
{
	const struct probe_memory_use *use = &process->use;
	int err = 0;

	process->told = false;
	row->t_boot_ns = SOME_U64(process->use_boot_ns);
	if (process->err)
		return tell_missing(process, row,
				    process->asked & PROBE_USE_ROLLUP  ? "pss_bytes"
				    : process->asked & PROBE_USE_KINDS ? "kinds"
				    : process->asked & PROBE_USE_FILES ? "fds"
								       : "dmabuf_bytes",
				    process->err);
	if (process->asked & PROBE_USE_ROLLUP && use->rollup_err)
		err = tell_missing(process, row, "pss_bytes", use->rollup_err);
	else if (process->asked & PROBE_USE_ROLLUP)
		fill_rollup(process, row);
	if (!err && process->asked & PROBE_USE_KINDS && use->kinds_err)
		err = tell_missing(process, row, "kinds", use->kinds_err);
	else if (process->asked & PROBE_USE_KINDS)
		fill_kinds(process, row);
	if (!(process->asked & PROBE_USE_BUFFERS))
		return err;
	if (use->files_err)
		return err ? err
			   : tell_missing(process, row,
					  process->asked & PROBE_USE_FILES ? "fds" : "dmabuf_bytes",
					  use->files_err);
	if (process->asked & PROBE_USE_FILES && !row->fds.present)
		row->fds = SOME_U64(use->files);
	if (use->buffers_err)
		return err ? err : tell_missing(process, row, "dmabuf_bytes", use->buffers_err);
	row->dmabufs = SOME_U64(use->dmabufs);
	row->dmabuf_bytes = SOME_U64(use->dmabuf_bytes);
	if (!row->gpu_bytes.present)
		row->gpu_bytes = use->gpu_bytes;
	return err;
}

/* 0, -ESRCH: it has ended, or why its status cannot be read. */
static int fill_status(struct memory_process *process, struct record_memory_process *row)
{
	struct memory_source *memory = process->source;
	struct proc_memory status;
	ssize_t n = process->status;

	if (n >= 0) {
		n = pread(process->status, memory->text, sizeof(memory->text), 0);
		if (n < 0)
			n = -errno;
	}
	if (n <= 0)
		return n == -ENOENT ? -ESRCH : n ? (int)n : -EBADMSG;
	proc_parse_memory(memory->text, (size_t)n, &status);
	row->rss_bytes = status.rss_bytes;
	row->rss_anon_bytes = status.anon_bytes;
	row->rss_file_bytes = status.file_bytes;
	row->rss_shmem_bytes = status.shmem_bytes;
	row->swap_bytes = status.swap_bytes;
	row->hugetlb_bytes = status.hugetlb_bytes;
	row->vss_bytes = status.virtual_bytes;
	row->threads = status.threads;
	if (status.rss_bytes.present)
		return 0;
	if ((size_t)n == sizeof(memory->text))
		return -EOVERFLOW;
	return status.threads.present ? -ENODATA : -EBADMSG;
}

static void count_files(struct memory_process *process, struct record_memory_process *row)
{
	struct stat st;

	/* The kernel side counts set bits of the table of descriptors (f1f1f2569901, 6.2). */
	if (process->source->counts_files && process->files >= 0 && !fstat(process->files, &st))
		row->fds = SOME_U64((uint64_t)st.st_size);
}

/* Descriptors that are wanting now may be there for the next row. */
static void have_files(struct memory_process *process)
{
	struct memory_source *memory = process->source;

	if (process->kept)
		return;
	open_files(process);
	if (process->status < 0 || process->files < 0 || memory->kept >= memory->most_kept)
		return;
	process->kept = true;
	memory->kept++;
}

/* The thread that the files are of has ended: those of one that lives, where one does. */
static void have_other_files(struct memory_process *process)
{
	process->source->kept -= process->kept;
	process->kept = false;
	close_files(process);
	have_files(process);
}

int memory_add_row(struct memory_process *process, const struct target_process *target, bool final)
{
	struct memory_source *memory = process->source;
	struct record_memory_process *row = &memory->rows[memory->row_count];
	int err;

	name_it(&process->process, target->process);
	name_it(&process->package, target->package);
	*row = (struct record_memory_process){
		.pid = (pid_t)process->key.pid,
		.uid = target->uid,
		.start_boot_ns = process->key.start_boot_ns,
		.process = process->process,
		.package = process->package,
		.gpu_bytes = memory_gpu_of(memory, (pid_t)process->key.pid),
	};
	have_files(process);
	err = fill_status(process, row);
	if (err == -ESRCH || (err == -ENODATA && row->threads.value > 1)) {
		have_other_files(process);
		err = fill_status(process, row);
	}
	count_files(process, row);
	if (!process->kept)
		close_files(process);
	/* What was read of it while it lived is told. */
	if (err == -ESRCH && !process->told)
		return 0;
	memory->row_count++;
	err = err ? tell_missing(process, row, "rss_bytes", err) : 0;
	if (!err && process->told)
		err = fill_use(process, row);
	if (!err && final && process->request > 0)
		err = missing_list_set(&row->missing, "pss_bytes",
				       "the run ended before the answer came");
	return err;
}

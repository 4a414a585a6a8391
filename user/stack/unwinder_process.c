/* SPDX-License-Identifier: BSD-2-Clause */
/* The unwinder: a process without any right that gets captures and files, and gives back traces. */
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "prober/warden.h"
#include "stack/elf_file.h"
#include "stack/files_remote.h"
#include "stack/sandbox.h"
#include "stack/unwinder_wire.h"
#include "util/channel.h"
#include "util/clock.h"
#include "util/heap.h"

/* Of one job: then the process ends by SIGPROF. */
#define JOB_CPU_S 1
/* A process that has used so much ends between two jobs, before its hard limit meets it in one. */
#define LIFE_CPU_NS (SANDBOX_CPU_S / 2 * NSEC_PER_SEC)

/* The room for a stack that is kept from one job to the next. */
#define KEPT_STACK_BYTES (256u << 10)
/* free() gives back the end of the heap only: one block above what a busy time took holds all of
 * it. So the holes are given back too, when nothing is to be done for a moment. */
#define TRIM_AFTER_NS      (5 * NSEC_PER_SEC)
#define TRIM_AT_LAST_NS    (60 * NSEC_PER_SEC)
#define TRIM_WHEN_QUIET_NS (20 * NSEC_PER_MSEC)
/* All processes of a crowd wait in the same few libraries. */
#define KNOWN_FILES 8

/* Where a file waits, as it was found. */
struct known_waits {
	struct stack_file_version file;
	uint64_t elf_start;
	int error;
	struct wait_places places;
};

struct unwinder_process {
	struct files_remote remote;
	struct remote_question next;
	struct stack_files files;
	struct stack_unwinder *unwinder;
	struct stack_trace trace;
	struct stack_capture capture;
	uint64_t names_left_out;
	uint64_t trimmed_ns; /* when the heap was given back last */
	bool untrimmed;      /* something was done since */
	struct known_waits known[KNOWN_FILES];
	size_t known_next; /* the oldest of them */
	uint8_t answer[WIRE_MAX_BYTES] __attribute__((aligned(8)));
};

static void limit_cpu(time_t seconds)
{
	struct itimerval timer = {.it_value = {.tv_sec = seconds}};

	setitimer(ITIMER_PROF, &timer, NULL);
}

static void send_or_end(struct unwinder_process *p, void *message, size_t length)
{
	struct iovec part = {message, length};

	if (channel_send(p->remote.socket, &part, 1, NULL, 0))
		_exit(1);
}

static struct wire_losses losses_of(const struct unwinder_process *p)
{
	struct stack_unwind_losses losses;

	stack_unwinder_losses(p->unwinder, &losses);
	return (struct wire_losses){.elf_unreadable = losses.elf_unreadable,
				    .elf_malformed = losses.elf_malformed,
				    .elf_tables_bad = losses.elf_tables_bad,
				    .symbols_dropped = losses.symbols_dropped,
				    .names_dropped = losses.names_dropped + p->names_left_out,
				    .modules_full = losses.modules_full,
				    .mappings_left_out = losses.mappings_left_out,
				    .jit_lists_unread = losses.jit_lists_unread,
				    .jit_elf_malformed = losses.jit_elf_malformed,
				    .jit_elf_dropped = losses.jit_elf_dropped,
				    .dex_malformed = losses.dex_malformed,
				    .dex_unread = losses.dex_unread,
				    .oat_malformed = losses.oat_malformed,
				    .oat_unsupported = losses.oat_unsupported,
				    .code_given_back = losses.code_given_back};
}

/* The stack's bytes, which came with the question, or are in the file of a descriptor. */
static int take_stack(struct stack_capture *capture, const void *here, int fd, uint64_t bytes)
{
	capture->stack_bytes = 0;
	if (bytes > capture->stack_room) {
		uint8_t *more = realloc(capture->stack, bytes);

		if (!more)
			return -ENOMEM;
		capture->stack = more;
		capture->stack_room = bytes;
	}
	if (fd < 0 && bytes) {
		memcpy(capture->stack, here, bytes);
		capture->stack_bytes = bytes;
	}
	while (capture->stack_bytes < bytes) {
		ssize_t n = pread(fd, capture->stack + capture->stack_bytes,
				  bytes - capture->stack_bytes, (off_t)capture->stack_bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EIO;
		capture->stack_bytes += (size_t)n;
	}
	return 0;
}

static void unwind(struct unwinder_process *p, const struct wire_unwind *wire, const void *stack,
		   int fd)
{
	struct stack_capture *capture = &p->capture;
	struct unwound *unwound = NULL;
	struct wire_losses losses;
	uint64_t before;
	int err = take_stack(capture, stack, fd, wire->stack_bytes);

	capture->thread = (struct stack_thread){
		.pid = wire->pid, .pidfd = -1, .start_boot_ns = wire->start_ticks * 10000000};
	capture->registers = (struct stack_registers){.arch = (enum stack_arch)wire->arch,
						      .valid = wire->valid,
						      .syscall_nr = wire->syscall_nr};
	memcpy(capture->registers.value, wire->value, sizeof(wire->value));
	capture->stack_base = wire->stack_base;
	err = err ?: stack_unwind(p->unwinder, capture, &p->trace);
	if (!err && !(unwound = stack_unwound(p->unwinder, &p->trace)))
		err = -ENOMEM;
	losses = losses_of(p);
	before = losses.names_dropped;
	send_or_end(p, p->answer,
		    wire_put_trace(p->answer, wire->header.job, err, unwound,
				   stack_unwinder_cache_bytes(p->unwinder), &losses));
	p->names_left_out += losses.names_dropped - before;
	free(unwound);
	if (capture->stack_room > KEPT_STACK_BYTES) {
		free(capture->stack);
		capture->stack = NULL;
		capture->stack_room = capture->stack_bytes = 0;
	}
}

static const struct known_waits *waits_known(const struct unwinder_process *p,
					     const struct stack_file_version *file,
					     uint64_t elf_start)
{
	for (size_t i = 0; i < KNOWN_FILES; i++)
		if (p->known[i].file.inode && p->known[i].elf_start == elf_start &&
		    !memcmp(&p->known[i].file, file, sizeof(*file)))
			return &p->known[i];
	return NULL;
}

/* Read the file and keep what was found, with the error that says that it waits nowhere. */
static int read_places(struct unwinder_process *p, const struct stack_file_version *file,
		       uint64_t elf_start, int fd, struct wait_places *places)
{
	struct known_waits *known = &p->known[p->known_next];
	struct elf_file elf;
	int err = elf_file_open(&elf, fd, elf_start);

	if (err)
		return err;
	err = wait_places_find(&elf, places);
	elf_file_close(&elf);
	if (err && err != -ENOENT)
		return err;
	*known = (struct known_waits){*file, elf_start, err, *places};
	p->known_next = (p->known_next + 1) % KNOWN_FILES;
	return err;
}

static int find_places(struct unwinder_process *p, uint64_t elf_start, int fd,
		       struct wait_places *places)
{
	const struct known_waits *known;
	struct stack_file_version file;
	struct stat st;
	int err = fstat(fd, &st) ? -errno : 0;

	file = (struct stack_file_version){st.st_dev, st.st_ino, (uint64_t)st.st_size,
					   (uint64_t)st.st_ctim.tv_sec * NSEC_PER_SEC +
						   (uint64_t)st.st_ctim.tv_nsec};
	if (!err)
		err = files_remote_may_read(&p->remote, &file);
	if (!err)
		known = waits_known(p, &file, elf_start);
	if (err || known) {
		close(fd);
		if (!err)
			*places = known->places;
		return err ? err : known->error;
	}
	p->files.reading(p->files.ctx, &file);
	return read_places(p, &file, elf_start, fd, places);
}

static void find_waits(struct unwinder_process *p, const struct wire_waits *wire, int fd)
{
	struct wire_places answer = {.header = {WIRE_PLACES, sizeof(answer), wire->header.job}};

	answer.error = find_places(p, wire->elf_start, fd, &answer.places);
	send_or_end(p, &answer, sizeof(answer));
}

static void prime(struct unwinder_process *p, const struct wire_prime *wire)
{
	struct wire_primed answer = {.header = {WIRE_PRIMED, sizeof(answer), wire->header.job}};

	stack_unwinder_prime(p->unwinder, &(struct stack_process){wire->pid, wire->start_ticks});
	answer.losses = losses_of(p);
	answer.cache_bytes = stack_unwinder_cache_bytes(p->unwinder);
	send_or_end(p, &answer, sizeof(answer));
}

/* fd: the descriptor that came with it, or -1; taken over. 0 or -EBADMSG. */
static int serve(struct unwinder_process *p, const union wire_question *question, size_t length,
		 int fd)
{
	struct wire_unwind wire;

	if (length < sizeof(question->header) || question->header.bytes != length)
		return -EBADMSG;
	files_remote_begin(&p->remote, question->header.job);
	if (question->header.type == WIRE_UNWIND) {
		if (wire_take_unwind(question, length, fd >= 0, &wire))
			return -EBADMSG;
		unwind(p, &wire, question->bytes + sizeof(wire), fd);
		if (fd >= 0)
			close(fd);
		return 0;
	}
	if (question->header.type == WIRE_WAITS && length == sizeof(question->waits) && fd >= 0) {
		find_waits(p, &question->waits, fd);
		return 0;
	}
	if (question->header.type == WIRE_PRIME && length == sizeof(question->prime) && fd < 0) {
		prime(p, &question->prime);
		return 0;
	}
	return -EBADMSG;
}

/* Between two jobs: give free memory back. */
static void give_back(struct unwinder_process *p)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC), since_ns = now_ns - p->trimmed_ns;

	if (!p->untrimmed || since_ns < TRIM_AFTER_NS)
		return;
	if (since_ns < TRIM_AT_LAST_NS &&
	    (p->remote.queued || channel_wait(p->remote.socket, TRIM_WHEN_QUIET_NS)))
		return;
	malloc_trim(0);
	p->trimmed_ns = now_ns;
	p->untrimmed = false;
}

/* The recorder takes traces in its own time, and where nobody has CAP_NET_ADMIN four of them can
 * fill the socket: the next job begins when three quarters of it are free. */
static void wait_for_room(int socket)
{
	struct pollfd room = {.fd = socket, .events = POLLOUT};

	while (poll(&room, 1, -1) < 0 && errno == EINTR)
		;
}

void unwinder_main(int socket)
{
	struct unwinder_process *p;

	helper_begin(HELPER_UNWINDER, &socket);
	/* The recorder reads the end of the socket. */
	if (sandbox_enter())
		_exit(1);
	heap_map_pages();
	heap_fill_cache();
	p = calloc(1, sizeof(*p));
	if (!p || stack_trace_init(&p->trace))
		_exit(1);
	p->remote.socket = socket;
	p->files = files_remote(&p->remote);
	p->unwinder = stack_unwinder_new(&(struct stack_unwind_config){.files = &p->files});
	if (!p->unwinder)
		_exit(1);
	for (;;) {
		give_back(p);
		wait_for_room(socket);
		files_remote_next(&p->remote, &p->next);
		limit_cpu(JOB_CPU_S);
		if (serve(p, &p->next.question, p->next.length, p->next.fd))
			break;
		limit_cpu(0);
		p->untrimmed = true;
		if (clock_now_ns(CLOCK_PROCESS_CPUTIME_ID) > LIFE_CPU_NS)
			break;
	}
	_exit(1);
}

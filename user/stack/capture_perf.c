/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread on a CPU: a perf event of one sample that copies its registers and up to 64 KiB of its
 * stack in the timer interrupt. The target loses that interrupt and nothing else. */
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stack/capture.h"
#include "stack/capture_perf.h"
#include "util/clock.h"

#define PERIOD_NS       100000
#define DUMP_BYTES      65528 /* the size of a record is 16 bits; must be a multiple of 8 */
#define RING_DATA_BYTES (128u << 10)

/* A record lies at byte `at` of the ring's endless stream, and may go on at its begin. */
struct perf_record {
	const uint8_t *data;
	uint64_t at;
	size_t size;
};

/* Copy from a record; the caller has checked that it is so long. */
static void take(const struct perf_record *record, size_t offset, void *to, size_t size)
{
	size_t from = (record->at + offset) % RING_DATA_BYTES, first = RING_DATA_BYTES - from;

	if (first > size)
		first = size;
	memcpy(to, record->data + from, first);
	memcpy((uint8_t *)to + first, record->data, size - first);
}

/* Parse the one PERF_RECORD_SAMPLE: abi, registers, size, bytes, bytes that are valid. */
static enum stack_failure parse_sample(const struct perf_record *record,
				       struct stack_capture *capture)
{
	size_t registers = __builtin_popcountll(registers_perf_mask()), size = record->size, at;
	uint64_t words[64], abi, dumped, valid;

	if (size < sizeof(struct perf_event_header) + sizeof(abi))
		return STACK_UNSUPPORTED;
	at = sizeof(struct perf_event_header);
	take(record, at, &abi, sizeof(abi));
	at += sizeof(abi);
	if (abi == PERF_SAMPLE_REGS_ABI_32)
		return STACK_COMPAT;
	if (abi != PERF_SAMPLE_REGS_ABI_64)
		return STACK_KERNEL_THREAD;
	if (size - at < registers * 8 + sizeof(dumped))
		return STACK_UNSUPPORTED;
	take(record, at, words, registers * 8);
	at += registers * 8;
	take(record, at, &dumped, sizeof(dumped));
	at += sizeof(dumped);
	if (registers_from_perf(&capture->registers, STACK_HOST_ARCH, words, registers))
		return STACK_UNSUPPORTED;
	capture->stack_base = registers_sp(&capture->registers);
	capture->stack_bytes = 0;
	if (!dumped)
		return STACK_OK;
	if (dumped > size - at || size - at - dumped < sizeof(valid))
		return STACK_UNSUPPORTED;
	take(record, at + dumped, &valid, sizeof(valid));
	if (valid > dumped)
		return STACK_UNSUPPORTED;
	capture->stack_bytes = valid < capture->stack_room ? valid : capture->stack_room;
	take(record, at, capture->stack, capture->stack_bytes);
	return STACK_OK;
}

static bool is_ring_of(const struct perf_ring *ring, const struct stack_thread *thread)
{
	return ring->tid == thread->tid && thread->start_boot_ns &&
	       ring->start_boot_ns == thread->start_boot_ns;
}

bool perf_rings_have(const struct perf_rings *rings, const struct stack_thread *thread)
{
	for (unsigned i = 0; i < PERF_RINGS; i++)
		if (is_ring_of(&rings->rings[i], thread))
			return true;
	return false;
}

static void close_ring(struct perf_ring *ring)
{
	if (!ring->tid)
		return;
	munmap(ring->pages, (size_t)sysconf(_SC_PAGESIZE) + RING_DATA_BYTES);
	close(ring->fd);
	*ring = (struct perf_ring){0};
}

void perf_rings_expire(struct perf_rings *rings, uint64_t now_ns)
{
	for (unsigned i = 0; i < PERF_RINGS; i++)
		if (now_ns - rings->rings[i].used_ns > PERF_RING_KEEP_NS)
			close_ring(&rings->rings[i]);
}

void perf_rings_free(struct perf_rings *rings)
{
	for (unsigned i = 0; i < PERF_RINGS; i++)
		close_ring(&rings->rings[i]);
}

static enum stack_failure open_ring(const struct stack_thread *thread, struct perf_ring *ring)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = PERIOD_NS,
		.sample_type = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
		.sample_regs_user = registers_perf_mask(),
		.sample_stack_user = DUMP_BYTES,
		.disabled = 1,
		.wakeup_events = 1,
	};
	size_t page = sysconf(_SC_PAGESIZE);
	void *pages;
	int fd;

	fd = syscall(SYS_perf_event_open, &attr, thread->tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return errno == ESRCH                      ? STACK_GONE
		       : errno == EACCES || errno == EPERM ? STACK_NOT_PERMITTED
							   : STACK_UNSUPPORTED;
	pages = mmap(NULL, page + RING_DATA_BYTES, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_POPULATE, fd, 0);
	if (pages == MAP_FAILED) {
		close(fd);
		return STACK_UNSUPPORTED;
	}
	*ring = (struct perf_ring){.tid = thread->tid,
				   .fd = fd,
				   .start_boot_ns = thread->start_boot_ns,
				   .pages = pages};
	return STACK_OK;
}

/* The ring of this thread: the one that is open, or a new one instead of the one that was not used
 * for longest. */
static enum stack_failure find_ring(struct perf_rings *rings, const struct stack_thread *thread,
				    struct perf_ring **found)
{
	struct perf_ring *ring = &rings->rings[0];

	perf_rings_expire(rings, clock_now_ns(CLOCK_MONOTONIC));
	for (unsigned i = 0; i < PERF_RINGS; i++) {
		*found = &rings->rings[i];
		if (is_ring_of(*found, thread))
			return STACK_OK;
		if ((*found)->used_ns < ring->used_ns)
			ring = *found;
	}
	close_ring(ring);
	*found = ring;
	return open_ring(thread, ring);
}

/* The record at byte `at`, before head. False: it makes no sense. */
static bool find_record(const uint8_t *data, uint64_t at, uint64_t head, struct perf_record *record,
			struct perf_event_header *header)
{
	*record = (struct perf_record){data, at, sizeof(*header)};
	if (head - at < sizeof(*header))
		return false;
	take(record, 0, header, sizeof(*header));
	record->size = header->size;
	return header->size >= sizeof(*header) && header->size <= head - at;
}

static enum stack_failure sample(struct perf_ring *ring, uint64_t wait_ns,
				 struct stack_capture *capture)
{
	struct perf_event_mmap_page *page = (struct perf_event_mmap_page *)ring->pages;
	const uint8_t *data = ring->pages + sysconf(_SC_PAGESIZE);
	struct pollfd pollfd = {.fd = ring->fd, .events = POLLIN};
	uint64_t tail = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE), head = tail;
	uint64_t since_ns = clock_now_ns(CLOCK_MONOTONIC), spent_ns = 0;
	enum stack_failure failure = STACK_OFF_CPU;
	struct perf_event_header header;
	struct perf_record record;

	/* What came after the last wait was over is old. */
	__atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
	/* After one overflow the event is disabled and POLLHUP follows the sample. An old wake-up
	 * may still be pending: then nothing is there yet. */
	if (ioctl(ring->fd, PERF_EVENT_IOC_REFRESH, 1) == 0) {
		while (head == tail && spent_ns < wait_ns) {
			struct timespec left = {.tv_nsec = (long)(wait_ns - spent_ns)};

			if (ppoll(&pollfd, 1, &left, NULL) < 0 && errno != EINTR)
				break;
			head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
			spent_ns = clock_now_ns(CLOCK_MONOTONIC) - since_ns;
			if (pollfd.revents & (POLLHUP | POLLERR))
				break;
		}
	}
	ioctl(ring->fd, PERF_EVENT_IOC_DISABLE, 0);
	capture->t_boot_ns = clock_now_ns(CLOCK_BOOTTIME);
	head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	for (uint64_t at = tail; find_record(data, at, head, &record, &header); at += header.size) {
		if (header.type == PERF_RECORD_SAMPLE) {
			failure = parse_sample(&record, capture);
			break;
		}
	}
	__atomic_store_n(&page->data_tail, head, __ATOMIC_RELEASE);
	return failure;
}

enum stack_failure capture_perf(struct perf_rings *rings, const struct stack_thread *thread,
				uint64_t wait_ns, struct stack_capture *capture)
{
	struct perf_ring *ring;
	enum stack_failure failure = find_ring(rings, thread, &ring);

	if (failure)
		return failure;
	failure = sample(ring, wait_ns, capture);
	ring->used_ns = clock_now_ns(CLOCK_MONOTONIC);
	/* An event without a sample may be that of a thread that is gone. */
	if (failure || !ring->start_boot_ns)
		close_ring(ring);
	if (!failure)
		capture->kind = CAPTURE_PERF;
	return failure;
}

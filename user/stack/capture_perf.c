/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread on a CPU: a perf event of one sample that copies its registers and up to 64 KiB of its
 * stack in the timer interrupt. The target loses that interrupt and nothing else. */
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stack/capture.h"

#define PERIOD_NS       100000
#define DUMP_BYTES      65528 /* the size of a record is 16 bits; must be a multiple of 8 */
#define RING_DATA_BYTES (128u << 10)

/* Parse the one PERF_RECORD_SAMPLE: abi, registers, size, bytes, bytes that are valid. */
static enum stack_failure parse_sample(const uint8_t *record, size_t size,
				       struct stack_capture *capture)
{
	size_t registers = __builtin_popcountll(registers_perf_mask()), at;
	uint64_t words[64], abi, dumped, valid;

	if (size < sizeof(struct perf_event_header) + sizeof(abi))
		return STACK_UNSUPPORTED;
	at = sizeof(struct perf_event_header);
	memcpy(&abi, record + at, sizeof(abi));
	at += sizeof(abi);
	if (abi == PERF_SAMPLE_REGS_ABI_32)
		return STACK_COMPAT;
	if (abi != PERF_SAMPLE_REGS_ABI_64)
		return STACK_KERNEL_THREAD;
	if (size - at < registers * 8 + sizeof(dumped))
		return STACK_UNSUPPORTED;
	memcpy(words, record + at, registers * 8);
	at += registers * 8;
	memcpy(&dumped, record + at, sizeof(dumped));
	at += sizeof(dumped);
	if (registers_from_perf(&capture->registers, STACK_HOST_ARCH, words, registers))
		return STACK_UNSUPPORTED;
	capture->stack_base = registers_sp(&capture->registers);
	capture->stack_bytes = 0;
	if (!dumped)
		return STACK_OK;
	if (dumped > size - at || size - at - dumped < sizeof(valid))
		return STACK_UNSUPPORTED;
	memcpy(&valid, record + at + dumped, sizeof(valid));
	if (valid > dumped)
		return STACK_UNSUPPORTED;
	capture->stack_bytes = valid < capture->stack_room ? valid : capture->stack_room;
	memcpy(capture->stack, record + at, capture->stack_bytes);
	return STACK_OK;
}

enum stack_failure capture_perf(const struct stack_thread *thread, uint64_t wait_ns,
				struct stack_capture *capture)
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
	enum stack_failure failure = STACK_OFF_CPU;
	struct perf_event_mmap_page *ring;
	struct perf_event_header header;
	struct pollfd pollfd = {.events = POLLIN};
	struct timespec wait = {.tv_nsec = wait_ns};
	uint64_t head;

	pollfd.fd = syscall(SYS_perf_event_open, &attr, thread->tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (pollfd.fd < 0)
		return errno == ESRCH                      ? STACK_GONE
		       : errno == EACCES || errno == EPERM ? STACK_NOT_PERMITTED
							   : STACK_UNSUPPORTED;
	ring = mmap(NULL, page + RING_DATA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
		    pollfd.fd, 0);
	if (ring == MAP_FAILED) {
		close(pollfd.fd);
		return STACK_UNSUPPORTED;
	}
	/* After one overflow the event is disabled and POLLHUP follows the sample. */
	if (ioctl(pollfd.fd, PERF_EVENT_IOC_REFRESH, 1) == 0)
		ppoll(&pollfd, 1, &wait, NULL);
	ioctl(pollfd.fd, PERF_EVENT_IOC_DISABLE, 0);
	capture->t_boot_ns = capture_now_boot_ns();
	head = __atomic_load_n(&ring->data_head, __ATOMIC_ACQUIRE);
	/* Nothing was consumed, so that records start at 0 and do not wrap. */
	for (uint64_t at = 0; at + sizeof(header) <= head && at + sizeof(header) <= RING_DATA_BYTES;
	     at += header.size) {
		const uint8_t *record = (const uint8_t *)ring + page + at;

		memcpy(&header, record, sizeof(header));
		if (header.size < sizeof(header) || header.size > RING_DATA_BYTES - at)
			break;
		if (header.type == PERF_RECORD_SAMPLE) {
			failure = parse_sample(record, header.size, capture);
			break;
		}
	}
	munmap(ring, page + RING_DATA_BYTES);
	close(pollfd.fd);
	if (!failure)
		capture->kind = CAPTURE_PERF;
	return failure;
}

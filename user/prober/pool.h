/* SPDX-License-Identifier: BSD-2-Clause */
/* What has to be asked of a target goes through here: a few prober processes that may hang in the
 * recorder's place. Each request has a deadline; when it is missed the recorder goes on, and a
 * prober that still hangs 1 s after its request is replaced. A process that holds up one prober is
 * not asked about again before that prober is back or gone, so that one target costs one prober.
 * Where more of them hang than there are probers, one prober is still kept for those that have
 * answered before, and those that hang are given up sooner. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "jankscope/record.h"
#include "proc/memory.h"

struct loop;
struct prober_pool;
struct warden;

#define PROBE_CALL_NS   (10 * 1000 * 1000ull)   /* a copy */
#define PROBE_ATTACH_NS (1000 * 1000 * 1000ull) /* a probe */
#define PROBE_BYTES     (64u << 10)

enum probe_operation {
	PROBE_NONE = 0,
	PROBE_READ = 1,      /* a file of /proc/PID or /proc/PID/task/TID by name: its bytes */
	PROBE_READ_LINK = 2, /* the same of a link ("exe", "fd/7"): its text */
	PROBE_MAPS = 3, /* what of its maps a stack can need (maps_filter.h): fd, value = length */
	PROBE_MEMORY = 4,   /* address, length: bytes of its memory, as many as there are */
	PROBE_OPEN = 5,     /* the file of the mapping address..end (inode, path as in maps): fd and
			     * struct probe_file; regular files only */
	PROBE_STANDING = 6, /* struct probe_standing of thread tid */
	PROBE_LOCK_OWNER = 7, /* address, argument = futex operation: struct probe_owner */
	PROBE_ATTACH = 8, /* struct probe_places: descriptors that hold the probes; none of them and
			   * value = -pid: that process holds its mmap_lock (mm_locks.h) */
	PROBE_WARDEN = 9, /* fork a warden on the socket that comes with it */
	PROBE_OPEN_EXE = 10,       /* /proc/PID/exe: fd, struct probe_file */
	PROBE_OPEN_JIT_NAMES = 11, /* its /tmp/perf-PID.map: fd, struct probe_file */
	PROBE_OPEN_AT = 12,        /* the file of the mapping that holds address: as PROBE_OPEN;
				    * in_stack: of `end`, a stack pointer */
	PROBE_COUNT_WAITERS = 13,  /* argument = an epoll descriptor: how many threads wait in it
				    * now, beside tid: value, at most 1 */
	PROBE_NAMES = 14,          /* payload: struct probe_named of each of at most PROBE_MAX_NAMES
				    * processes; for each an int16_t, the length of its argv[0] or
				    * -errno, and that text. pid: 0, or the only one */
	PROBE_JIT_LIST = 15,       /* address of a descriptor, argument = version that is known,
				    * offset = timestamp, length 1: with symfiles
				    * (jit_list.h): fd, value = length; value 0: as known */
	PROBE_MEMORY_USE = 16,     /* argument = enum probe_use: struct probe_memory_use */
	PROBE_OPERATIONS = 17,
};

struct probe_request {
	uint32_t operation;
	int32_t pid, tid; /* tid 0: the process */
	uint32_t length;
	uint64_t start_ticks; /* of the process, in 10 ms of CLOCK_BOOTTIME; 0: whoever has the pid
			       */
	uint64_t address, end, offset, inode;
	uint64_t argument;
	char name[256]; /* of a file below /proc/PID, or the path in maps (cut) */
};

#define PROBE_MAX_NAMES  128
#define PROBE_NAME_BYTES 255 /* of an argv[0] at the most */
struct probe_named {
	int32_t pid;
	uint32_t reserved;
	uint64_t start_ticks;
};

/* What a thread does now, read as near together as it can be. */
struct probe_standing {
	int64_t syscall_nr; /* -1: not in one, -2: running */
	uint64_t arguments[6], stack_pointer, program_counter;
	uint64_t before_mono_ns, after_mono_ns; /* around the reading */
	uint64_t cpu_ns, delay_ns, arrivals;    /* schedstat */
	uint64_t switches;                      /* nvcsw + nivcsw */
	uint64_t faults_minor, faults_major;
	uint32_t is_32_bit;
	char state;
	char reserved[3];
};

enum probe_lock {
	LOCK_NONE = 0,
	LOCK_PI = 1,     /* a PI futex, of any library */
	LOCK_GLIBC = 2,  /* glibc's pthread_mutex_t */
	LOCK_ART = 3,    /* art::Mutex, also that of a Java monitor */
	LOCK_BIONIC = 4, /* bionic's pthread_mutex_t, recursive or error-checking */
	LOCK_JOIN = 5,   /* no lock: the thread waits for this one's end (pthread_join) */
	LOCK_KINDS = 6,
};

struct probe_owner {
	int32_t tid;
	uint32_t lock; /* enum probe_lock */
	char thread[16];
};

/* Data of PROBE_OPEN and PROBE_OPEN_EXE: which file it is, also where the descriptor is a copy. A
 * file of a local file system is handed on as it is; one that a server could hold up (FUSE, NFS, 9p
 * ...) is copied into a sealed memfd of at most PROBE_COPY_BYTES. */
#define PROBE_COPY_BYTES (64u << 20)
struct probe_file {
	uint64_t device, inode, size_bytes, mtime_ns, ctime_ns;
	uint32_t copied;
	/* PROBE_OPEN_AT only: a pointer is in the main thread's own stack; the mapping */
	uint32_t in_stack;
	uint64_t start, end, offset;
};

#define PROBE_MAX_PLACES 32
/* Where uprobes are put: fds[0] is the file, fds[1..] the programs, and behind these may stand the
 * program of mm_locks_look. */
struct probe_places {
	uint32_t multi; /* by one uprobe_multi link a program; else one perf event a place */
	uint32_t program_count, place_count;
	uint32_t reserved;
	struct {
		uint64_t offset; /* in the file */
		uint64_t cookie;
		uint32_t program; /* index into the programs */
		uint32_t reserved;
	} places[PROBE_MAX_PLACES];
};

/* What is asked of the memory of a process, and its open files. */
enum probe_use {
	PROBE_USE_ROLLUP = 1,  /* smaps_rollup */
	PROBE_USE_KINDS = 2,   /* smaps, summed up by kind */
	PROBE_USE_FILES = 4,   /* how many descriptors it has */
	PROBE_USE_BUFFERS = 8, /* which of these are dmabufs or clients of a GPU; counts none */
};

/* One error each: 0, -errno, or -ENODATA: the process is there and has no memory (a zombie, a
 * kernel thread). A reading of smaps waits for the mmap_lock of the process and then holds it for
 * reading: at most wall_ns, and not longer than that where another task wants it (ff9f47f6f00c,
 * 5.10); what it took of a CPU is cpu_ns. buffers_err is -E2BIG where there are too many
 * descriptors or buffers to look at all of them. */
struct probe_memory_use {
	int32_t rollup_err, kinds_err, files_err, buffers_err;
	uint64_t rollup_wall_ns, rollup_cpu_ns, kinds_wall_ns, kinds_cpu_ns, files_cpu_ns;
	struct proc_smaps rollup;
	struct proc_smaps_kinds kinds;
	uint64_t files, dmabufs, dmabuf_bytes;
	struct opt_u64 gpu_bytes; /* absent: no client of a GPU whose driver tells */
};

struct probe_answer {
	int64_t value;
	const void *data; /* valid during the callback */
	size_t length;
	int *fds; /* a callback that keeps one sets it to -1; the others are closed */
	size_t fd_count;
};

/* err: 0 with the answer; -ETIMEDOUT: not by the deadline (an answer that comes later is dropped);
 * -EBUSY: not asked, because its process holds up a prober since; -EPIPE: the prober died; else the
 * operation's own error. answer is NULL unless err is 0. */
typedef void (*probe_fn)(void *ctx, int err, const struct probe_answer *answer);

/* warden is borrowed; this pool has its successor forked when it dies. NULL with errno. */
struct prober_pool *prober_pool_new(struct warden *warden);
void prober_pool_free(struct prober_pool *pool);
/* Until then only probe_call works. loop NULL: leave it, before it is freed; what was asked is
 * never answered then. 0 or -errno. */
int prober_pool_join_loop(struct prober_pool *pool, struct loop *loop);

/* Ask; the callback runs in the loop, once, never during this call. payload (may be NULL) follows
 * the request; fds stay the caller's. Requests about one process are served one after the other, so
 * that it can hold up one prober only. Returns an id above 0, or -EBUSY: this process holds up a
 * prober, or too many requests wait; -EPIPE: there is no prober and none can be made; -EINVAL. */
int64_t probe_ask(struct prober_pool *pool, const struct probe_request *request,
		  const void *payload, size_t payload_length, const int *fds, size_t fd_count,
		  uint64_t deadline_ns, probe_fn callback, void *ctx);
/* The pool's queue is short. A caller with many requests asks this before each, so that the pool
 * refuses none of them. */
bool probe_has_room(const struct prober_pool *pool);
/* A request about this process would be refused, because it holds up a prober. */
bool probe_holds_up(struct prober_pool *pool, pid_t pid);
/* The callback of this request is not to be run any more. */
void probe_cancel(struct prober_pool *pool, int64_t id);

/* Ask and wait, at most PROBE_CALL_NS, and of all calls since probe_new_turn together not longer
 * than that (-EBUSY from then on). For operations that answer with data, not with descriptors.
 * Length of what was copied to `to`, or -ETIMEDOUT, -EBUSY, -EPIPE, or its own error. */
ssize_t probe_call(struct prober_pool *pool, const struct probe_request *request, void *to,
		   size_t room);
/* The loop turns: waiting is allowed again. */
void probe_new_turn(struct prober_pool *pool);

/* How many requests since the last call of this were late, refused or lost, by name
 * ("probe_late_read", "probe_refused_open", "probe_lost_memory" ...), for `late` of an interval:
 * what was asked again later is not lost. 0 or -ENOMEM. */
int prober_pool_counters(struct prober_pool *pool, struct counter_list *late);
/* The sum of all of them since the start. */
uint64_t prober_pool_given_up(const struct prober_pool *pool);

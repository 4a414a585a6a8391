/* SPDX-License-Identifier: BSD-2-Clause */
/* Who holds the lock that a thread waits for in futex(2). */
#pragma once
#include <stdint.h>
#include <sys/types.h>

struct bounded_calls;

/* address and operation are the first two arguments of the futex call of a thread of pid (its tid
 * is waiter). Understands PI futexes (the kernel's own format), glibc's pthread_mutex_t (owner's
 * tid at +8) and ART's art::Mutex (at +4, runtime/base/mutex.h). A number is believed only when it
 * is another thread of the same process. The tid, or -ENOENT when the words do not tell, or -errno.
 * calls: the memory is waited for no longer than a bounded call takes (util/bounded_call.h). */
pid_t lock_owner(struct bounded_calls *calls, pid_t pid, pid_t waiter, uint64_t address,
		 uint32_t operation);

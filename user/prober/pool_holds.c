/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes that held up a prober until that was replaced: they are not asked about for a while. */
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "prober/pool_private.h"

/* A process that cost a prober is left alone for so long, doubled each time. */
#define BACKOFF_NS     NSEC_PER_SEC
#define BACKOFF_MAX_NS (30 * NSEC_PER_SEC)

struct hold *pool_find_hold(struct prober_pool *pool, pid_t pid)
{
	for (size_t i = 0; i < pool->hold_end && pid; i++)
		if (pool->holds[i].pid == pid)
			return &pool->holds[i];
	return NULL;
}

void pool_clear_hold(struct hold *hold)
{
	if (hold->pidfd >= 0)
		close(hold->pidfd);
	*hold = (struct hold){.pidfd = -1};
}

void pool_add_hold(struct prober_pool *pool, pid_t pid, int pidfd)
{
	struct hold *hold = pool_find_hold(pool, pid), *oldest = &pool->holds[0];
	uint64_t backoff_ns = hold ? hold->backoff_ns * 2 : BACKOFF_NS;

	for (size_t i = 0; i < pool->hold_end && !hold; i++) {
		if (!pool->holds[i].pid)
			hold = &pool->holds[i];
		if (pool->holds[i].until_ns < oldest->until_ns)
			oldest = &pool->holds[i];
	}
	if (!hold && pool->hold_end < MAX_HOLDS) {
		hold = &pool->holds[pool->hold_end++];
		hold->pidfd = -1;
	}
	hold = hold ?: oldest;
	pool_clear_hold(hold);
	*hold = (struct hold){
		.pid = pid,
		.pidfd = pidfd >= 0 ? fcntl(pidfd, F_DUPFD_CLOEXEC, 0) : -1,
		.backoff_ns = backoff_ns < BACKOFF_MAX_NS ? backoff_ns : BACKOFF_MAX_NS,
	};
	hold->until_ns = pool_now_ns() + hold->backoff_ns;
}

bool pool_holds_up(struct prober_pool *pool, pid_t pid)
{
	struct prober *prober = pool_prober_on(pool, pid);
	struct hold *hold = pool_find_hold(pool, pid);

	if (prober && pool_is_late(prober, pool_now_ns()))
		return true;
	if (!hold)
		return false;
	if (hold->pidfd >= 0) {
		struct pollfd pollfd = {.fd = hold->pidfd, .events = POLLIN};

		if (poll(&pollfd, 1, 0) <= 0)
			return true;
		close(hold->pidfd);
		hold->pidfd = -1;
	}
	return pool_now_ns() < hold->until_ns;
}

/* ---- who answers ---- */

void pool_set_proven(struct prober_pool *pool, pid_t pid, bool proven)
{
	unsigned bit = (unsigned)pid % PROVEN;

	if (proven)
		pool->proven[bit / 8] |= (uint8_t)(1u << bit % 8);
	else
		pool->proven[bit / 8] &= (uint8_t) ~(1u << bit % 8);
}

bool pool_is_proven(const struct prober_pool *pool, pid_t pid)
{
	unsigned bit = (unsigned)pid % PROVEN;

	/* Pid 0 is no target: the prober itself does what is asked. */
	return !pid || pool->proven[bit / 8] >> bit % 8 & 1;
}

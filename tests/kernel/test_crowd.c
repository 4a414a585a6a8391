/* SPDX-License-Identifier: BSD-2-Clause */
/* More targets that hang than there are probers: what that costs a target that answers. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "helpers_rig.h"

#define HUNG    20
#define OTHERS  200
#define SECONDS 4
#define ASK_NS  (10 * NSEC_PER_MSEC)
/* How long a target that answers may wait for its turn: less than the second after which a prober
 * that hangs is replaced. */
#define SERVED_NS (400 * NSEC_PER_MSEC)

struct hung {
	struct probe_request request;
	struct heard heard;
	pid_t pid;
};

/* What one that answers sees. */
struct asking {
	bool waits;
	uint64_t asked_ns, worst_ns, refused, failed, served;
};

struct crowd {
	struct rig rig;
	struct hung hung[HUNG];
	struct asking old, fresh; /* one that has answered before; always another one */
	pid_t others[OTHERS];
	size_t other, most;
};

/* A process with a page that nobody ever fills. */
static pid_t start_hung(uint64_t *address)
{
	int ends[2];
	pid_t pid;

	if (pipe(ends))
		return -1;
	pid = fork();
	if (!pid) {
		int uffd;
		void *page = hanging_page(&uffd);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (write(ends[1], &page, sizeof(page)) != sizeof(page))
			_exit(1);
		for (;;)
			pause();
	}
	if (read(ends[0], address, sizeof(void *)) != sizeof(void *))
		*address = 0;
	close(ends[0]);
	close(ends[1]);
	return pid;
}

static void on_served(void *ctx, int err, const struct probe_answer *answer)
{
	struct asking *asking = ctx;
	uint64_t took_ns = clock_now_ns(CLOCK_MONOTONIC) - asking->asked_ns;

	asking->waits = false;
	asking->failed += err != 0;
	asking->served += !err;
	if (took_ns > asking->worst_ns)
		asking->worst_ns = took_ns;
}

static void ask_about(struct crowd *crowd, struct asking *asking, pid_t pid)
{
	struct probe_request request = {.operation = PROBE_READ, .pid = pid, .name = "stat"};

	asking->asked_ns = clock_now_ns(CLOCK_MONOTONIC);
	asking->waits = probe_ask(crowd->rig.pool, &request, NULL, 0, NULL, 0, NSEC_PER_SEC,
				  on_served, asking) > 0;
	asking->refused += !asking->waits;
}

static int on_turn(void *ctx, uint32_t events)
{
	struct crowd *crowd = ctx;
	pid_t pids[32];
	size_t count = pids_of(&crowd->rig, HELPER_PROBER, pids, 32);

	if (count > crowd->most)
		crowd->most = count;
	/* Each that hangs is asked about whenever that is allowed. */
	for (int i = 0; i < HUNG; i++) {
		struct hung *hung = &crowd->hung[i];

		probe_ask(crowd->rig.pool, &hung->request, NULL, 0, NULL, 0, PROBE_CALL_NS, hear,
			  &hung->heard);
	}
	if (!crowd->old.waits)
		ask_about(crowd, &crowd->old, getpid());
	if (!crowd->fresh.waits && crowd->other < OTHERS)
		ask_about(crowd, &crowd->fresh, crowd->others[crowd->other++]);
	return 0;
}

static pid_t start_other(void)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

static void judge(const struct asking *asking, const char *who, uint64_t delay_ns, uint64_t least)
{
	tap_ok(!asking->refused && !asking->failed,
	       "crowd: %s is never refused (%d) nor given up (%d)", who, (int)asking->refused,
	       (int)asking->failed);
	tap_ok(asking->worst_ns < SERVED_NS + delay_ns && asking->served >= least,
	       "crowd: and is served %d times, at worst after %.1f ms", (int)asking->served,
	       (double)asking->worst_ns / 1e6);
}

/* Two hang, one waits for its turn, and then a call hangs as well: what it is that is late next
 * must not make the one that waits be forgotten. */
static void test_late_call(const struct hung *hung)
{
	struct probe_request request = {.operation = PROBE_READ, .pid = getppid(), .name = "stat"};
	struct heard waits = {0}, hang = {0};
	uint64_t asked_ns, delay_ns;
	pid_t pids[32];
	struct rig rig;
	char byte;

	if (!tap_ok(start(&rig) && wait_for_pids(&rig, HELPER_PROBER, pids, 2) == 2,
		    "late call: a recorder starts"))
		return;
	waits.loop = rig.loop;
	for (int i = 0; i < 2; i++)
		probe_ask(rig.pool, &hung[i].request, NULL, 0, NULL, 0, 5 * NSEC_PER_SEC, hear,
			  &hang);
	asked_ns = clock_now_ns(CLOCK_MONOTONIC);
	delay_ns = run_delay_ns();
	probe_ask(rig.pool, &request, NULL, 0, NULL, 0, 5 * NSEC_PER_SEC, hear, &waits);
	probe_new_turn(rig.pool);
	tap_ok(probe_call(rig.pool, &hung[2].request, &byte, 1) == -ETIMEDOUT,
	       "late call: a call hangs");
	run_for(rig.loop, 3 * NSEC_PER_SEC);
	delay_ns = waits.delay_ns - delay_ns;
	tap_ok(waits.count == 1 && !waits.err && waits.at_ns - asked_ns < SERVED_NS + delay_ns,
	       "late call: who waited before it is served after %.1f ms",
	       waits.count ? (double)(waits.at_ns - asked_ns) / 1e6 : -1);
	stop(&rig);
}

struct burst {
	struct rig *rig;
	const struct hung *hung;
	struct heard hang, good;
	uint64_t begin_ns, asked_ns;
};

/* A loop that has no credit left: it is woken each millisecond. */
static int on_busy(void *ctx, uint32_t events)
{
	struct burst *burst = ctx;
	struct probe_request request = {.operation = PROBE_READ, .pid = getpid(), .name = "stat"};

	if (burst->asked_ns || clock_now_ns(CLOCK_MONOTONIC) - burst->begin_ns < NSEC_PER_SEC / 2)
		return 0;
	for (int i = 0; i < 5; i++)
		probe_ask(burst->rig->pool, &burst->hung[i].request, NULL, 0, NULL, 0,
			  5 * NSEC_PER_SEC, hear, &burst->hang);
	burst->asked_ns = clock_now_ns(CLOCK_MONOTONIC);
	probe_ask(burst->rig->pool, &request, NULL, 0, NULL, 0, 5 * NSEC_PER_SEC, hear,
		  &burst->good);
	return 0;
}

/* Until one that answers is served, which was asked about behind five that hang. */
static uint64_t serve_behind(const struct hung *hung)
{
	struct probe_request request = {.operation = PROBE_READ, .pid = getpid(), .name = "stat"};
	struct burst burst = {.hung = hung};
	uint64_t took_ns = UINT64_MAX;
	pid_t pids[32];
	struct rig rig;

	if (!start(&rig) || wait_for_pids(&rig, HELPER_PROBER, pids, 2) != 2 ||
	    ask(&rig, &request, NULL, 0, NULL, 0).err)
		return took_ns;
	burst.rig = &rig;
	burst.good.loop = rig.loop;
	burst.begin_ns = clock_now_ns(CLOCK_MONOTONIC);
	loop_add_timer(rig.loop, NSEC_PER_MSEC, NSEC_PER_MSEC, on_busy, &burst);
	run_for(rig.loop, 4 * NSEC_PER_SEC);
	if (burst.good.count && !burst.good.err)
		took_ns = burst.good.at_ns - burst.asked_ns;
	stop(&rig);
	return took_ns;
}

/* It waits until there are six probers, and no longer because the loop has much else to do. */
static void test_burst(const struct hung *hung)
{
	const uint64_t most_ns = (tap_is_emulated() ? 1000 : 50) * NSEC_PER_MSEC;
	uint64_t took_ns = UINT64_MAX;

	/* Four forks take longer on a busy machine. */
	for (int i = 0; i < 5 && took_ns >= most_ns; i++)
		took_ns = serve_behind(hung);
	tap_ok(took_ns < most_ns, "burst: who answers is served after %.1f ms",
	       (double)took_ns / 1e6);
}

int main(void)
{
	struct probe_request request = {.operation = PROBE_READ, .pid = getpid(), .name = "stat"};
	struct crowd crowd = {0};
	int timer, ready = 0, answered = 0;
	uint64_t delay_ns;

	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < HUNG; i++) {
		struct hung *hung = &crowd.hung[i];

		hung->request = (struct probe_request){.operation = PROBE_MEMORY, .length = 64};
		hung->pid = hung->request.pid = start_hung(&hung->request.address);
		ready += hung->pid > 0 && hung->request.address;
	}
	for (int i = 0; i < OTHERS; i++)
		crowd.others[i] = start_other();
	if (ready < HUNG) {
		tap_skip("crowd", "there is no userfaultfd");
		goto out;
	}
	test_late_call(crowd.hung);
	test_burst(crowd.hung);
	if (!tap_ok(start(&crowd.rig), "crowd: a recorder starts"))
		goto out;
	tap_ok(!ask(&crowd.rig, &request, NULL, 0, NULL, 0).err, "crowd: a target answers");
	timer = loop_add_timer(crowd.rig.loop, ASK_NS, ASK_NS, on_turn, &crowd);
	loop_urgent_timer(crowd.rig.loop, timer);
	delay_ns = run_delay_ns();
	run_for(crowd.rig.loop, SECONDS * NSEC_PER_SEC);
	loop_remove_timer(crowd.rig.loop, timer);
	delay_ns = run_delay_ns() - delay_ns;
	for (int i = 0; i < HUNG; i++)
		answered += crowd.hung[i].heard.count && !crowd.hung[i].heard.err;
	tap_ok(!answered && crowd.most >= 6, "crowd: %d others hang, and have all but one of %zu",
	       HUNG, crowd.most);
	judge(&crowd.old, "who has answered before", delay_ns,
	      SECONDS * (tap_is_emulated() ? 5 : 50));
	judge(&crowd.fresh, "who was never asked", delay_ns, SECONDS * 2);
	stop(&crowd.rig);
out:
	for (int i = 0; i < HUNG; i++)
		if (crowd.hung[i].pid > 0)
			kill(crowd.hung[i].pid, SIGKILL);
	for (int i = 0; i < OTHERS; i++)
		if (crowd.others[i] > 0)
			kill(crowd.others[i], SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		;
	return tap_done();
}

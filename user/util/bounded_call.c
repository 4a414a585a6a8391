/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/bounded_call.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"

/* Untouched, it takes no memory. */
#define HELPER_STACK_BYTES (1u << 20)
/* The caller waits, so nothing that runs is more urgent. */
#define HELPER_NICENESS (-20)

enum helper_state {
	HELPER_ABSENT,
	HELPER_IDLE,
	HELPER_CALLED, /* has not begun */
	HELPER_RUNS,
	HELPER_DONE,
	HELPER_LEFT, /* runs what nobody waits for */
};

struct helper {
	struct bounded_calls *calls;
	pthread_t thread;
	pthread_cond_t called, done;
	enum helper_state state;
	pid_t pid;
	void (*run)(void *job), (*drop)(void *job);
	void *job;
};

struct bounded_calls {
	pthread_mutex_t lock;
	struct helper helpers[BOUNDED_HELPERS];
	uint64_t given_up;
	bool stop;
};

struct bounded_calls *bounded_calls_new(void)
{
	struct bounded_calls *calls = calloc(1, sizeof(*calls));
	pthread_condattr_t attributes;

	if (!calls)
		return NULL;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_mutex_init(&calls->lock, NULL);
	for (int i = 0; i < BOUNDED_HELPERS; i++) {
		calls->helpers[i].calls = calls;
		pthread_cond_init(&calls->helpers[i].called, NULL);
		pthread_cond_init(&calls->helpers[i].done, &attributes);
	}
	pthread_condattr_destroy(&attributes);
	return calls;
}

static void *help(void *ctx)
{
	struct helper *helper = ctx;
	struct bounded_calls *calls = helper->calls;

	setpriority(PRIO_PROCESS, (id_t)gettid(), HELPER_NICENESS);
	pthread_mutex_lock(&calls->lock);
	while (!calls->stop) {
		if (helper->state != HELPER_CALLED) {
			pthread_cond_wait(&helper->called, &calls->lock);
			continue;
		}
		helper->state = HELPER_RUNS;
		pthread_mutex_unlock(&calls->lock);
		helper->run(helper->job);
		pthread_mutex_lock(&calls->lock);
		/* What the job refers to is there as long as nobody has called bounded_calls_free.
		 */
		if (helper->state == HELPER_LEFT && !calls->stop) {
			pthread_mutex_unlock(&calls->lock);
			helper->drop(helper->job);
			pthread_mutex_lock(&calls->lock);
			helper->state = HELPER_IDLE;
		} else if (helper->state == HELPER_RUNS) {
			helper->state = HELPER_DONE;
			pthread_cond_signal(&helper->done);
		}
	}
	pthread_mutex_unlock(&calls->lock);
	return NULL;
}

static int start_helper(struct helper *helper)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int err;

	/* Signals are for the loop. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, HELPER_STACK_BYTES);
	err = pthread_create(&helper->thread, &attributes, help, helper);
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!err)
		helper->state = HELPER_IDLE;
	return -err;
}

/* One that is free; NULL if this process holds one up already, or others all of them. */
static struct helper *take_helper(struct bounded_calls *calls, pid_t pid)
{
	struct helper *idle = NULL, *absent = NULL;

	for (int i = 0; i < BOUNDED_HELPERS; i++) {
		struct helper *helper = &calls->helpers[i];

		if (helper->state == HELPER_LEFT && helper->pid == pid)
			return NULL;
		if (helper->state == HELPER_IDLE && !idle)
			idle = helper;
		if (helper->state == HELPER_ABSENT && !absent)
			absent = helper;
	}
	if (!idle && absent && !start_helper(absent))
		idle = absent;
	return idle;
}

int bounded_call(struct bounded_calls *calls, pid_t pid, void (*run)(void *job),
		 void (*drop)(void *job), void *job)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + BOUNDED_CALL_NS;
	struct timespec until = {(time_t)(until_ns / NSEC_PER_SEC),
				 (long)(until_ns % NSEC_PER_SEC)};
	struct helper *helper;
	int err = 0;

	if (!calls) {
		run(job);
		return 0;
	}
	pthread_mutex_lock(&calls->lock);
	helper = take_helper(calls, pid);
	if (!helper) {
		calls->given_up++;
		pthread_mutex_unlock(&calls->lock);
		return -EBUSY;
	}
	helper->pid = pid;
	helper->run = run;
	helper->drop = drop;
	helper->job = job;
	helper->state = HELPER_CALLED;
	pthread_cond_signal(&helper->called);
	while ((helper->state == HELPER_CALLED || helper->state == HELPER_RUNS) && !err)
		err = pthread_cond_timedwait(&helper->done, &calls->lock, &until);
	if (helper->state == HELPER_DONE) {
		helper->state = HELPER_IDLE;
		err = 0;
	} else {
		/* One that got no CPU itself has not begun: the job is taken back. */
		err = helper->state == HELPER_CALLED ? -EBUSY : -ETIMEDOUT;
		helper->state = err == -EBUSY ? HELPER_IDLE : HELPER_LEFT;
		calls->given_up++;
	}
	pthread_mutex_unlock(&calls->lock);
	return err;
}

bool bounded_calls_held_up(struct bounded_calls *calls)
{
	bool held_up = false;

	if (!calls)
		return false;
	pthread_mutex_lock(&calls->lock);
	for (int i = 0; i < BOUNDED_HELPERS; i++)
		held_up |= calls->helpers[i].state == HELPER_LEFT;
	pthread_mutex_unlock(&calls->lock);
	return held_up;
}

uint64_t bounded_calls_given_up(struct bounded_calls *calls)
{
	uint64_t given_up;

	if (!calls)
		return 0;
	pthread_mutex_lock(&calls->lock);
	given_up = calls->given_up;
	pthread_mutex_unlock(&calls->lock);
	return given_up;
}

void bounded_calls_free(struct bounded_calls *calls)
{
	bool held_up = false;

	if (!calls)
		return;
	pthread_mutex_lock(&calls->lock);
	calls->stop = true;
	for (int i = 0; i < BOUNDED_HELPERS; i++)
		pthread_cond_signal(&calls->helpers[i].called);
	for (int i = 0; i < BOUNDED_HELPERS; i++) {
		struct helper *helper = &calls->helpers[i];

		if (helper->state == HELPER_LEFT) {
			held_up = true;
			pthread_detach(helper->thread);
		} else if (helper->state != HELPER_ABSENT) {
			pthread_mutex_unlock(&calls->lock);
			pthread_join(helper->thread, NULL);
			pthread_mutex_lock(&calls->lock);
		}
	}
	pthread_mutex_unlock(&calls->lock);
	if (held_up)
		return;
	for (int i = 0; i < BOUNDED_HELPERS; i++) {
		pthread_cond_destroy(&calls->helpers[i].called);
		pthread_cond_destroy(&calls->helpers[i].done);
	}
	pthread_mutex_destroy(&calls->lock);
	free(calls);
}

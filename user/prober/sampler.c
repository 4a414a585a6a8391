/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of the sampler process. Its first thread talks to the recorder and does nothing else.
 * Of its hands (threads above nice 0) one leads: it waits until a sample is due and takes it. A
 * capture may hang on its target (a page that nobody fills, a lock that is held), so the leader
 * arms a timer before each; when that fires, another hand leads on, and the one that hangs holds
 * up nothing but its own target. */
#include "prober/sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "prober/sampler_private.h"
#include "prober/warden.h"
#include "abi/flight.h"
#include "util/channel.h"
#include "util/clock.h"

#define HANDS         4
#define HAND_NICENESS (-20)
/* A capture that takes longer than this has another hand lead on. */
#define HANG_NS (5 * NSEC_PER_MSEC)
/* A target that held up a capture is left alone for this long, and each time for twice as long. */
#define FIRST_BACKOFF_NS (100 * NSEC_PER_MSEC)
#define MAX_BACKOFF_NS   (64 * NSEC_PER_SEC)
#define HELD_UP_NS       (50 * NSEC_PER_MSEC)
#define PONG_AGAIN_MS    10
#define HAND_STACK_BYTES (256u << 10)

struct sampler {
	int socket, changed_fd, hang_timer;
	struct sampler_view view;
	/* below: under the lock */
	pthread_mutex_t lock;
	struct sampler_row **rows; /* by index of the slot; NULL: not watched */
	unsigned leader;
	struct hand {
		struct sampler *sampler;
		unsigned number;
		pthread_t thread;
		uint64_t since_ns, slot_id; /* of the capture that it takes; since_ns 0: none */
		struct sampler_hand *tools;
		bool first_in_queue;
	} hands[HANDS];
	uint64_t samples, not_taken;
	struct sampler_ping unanswered; /* its answer found no room; type 0: none */
};

/* ---- rows ---- */

static void free_row(struct sampler_row *row)
{
	if (!row)
		return;
	if (row->thread.pidfd >= 0)
		close(row->thread.pidfd);
	free(row);
}

/* A row whose capture is under way is freed by the hand that takes it. */
static void remove_row(struct sampler *sampler, uint32_t index)
{
	struct sampler_row *row = sampler->rows[index];

	sampler->rows[index] = NULL;
	if (row && row->claimed)
		row->gone = true;
	else
		free_row(row);
}

static void watch(struct sampler *sampler, const struct sampler_watch *message, int pidfd)
{
	struct sampler_row *row;

	if (!sampler->rows || message->index >= sampler->view.room ||
	    !(row = calloc(1, sizeof(*row)))) {
		if (pidfd >= 0)
			close(pidfd);
		return;
	}
	row->index = message->index;
	row->slot_id = message->slot_id;
	row->from_birth = message->from_birth;
	row->left_alone_until_ns = message->left_alone_until_ns;
	row->thread = (struct stack_thread){
		.pid = message->pid,
		.tid = message->tid,
		.pidfd = pidfd,
		.start_boot_ns = message->start_boot_ns,
	};
	remove_row(sampler, message->index);
	sampler->rows[message->index] = row;
}

/* ---- who leads ---- */

static void arm(const struct sampler *sampler, uint64_t ns)
{
	struct itimerspec when = {.it_value = {0, (long)ns}};

	timerfd_settime(sampler->hang_timer, 0, &when, NULL);
}

/* Rows have changed. */
static void wake_leader(const struct sampler *sampler)
{
	uint64_t one = 1;

	if (write(sampler->changed_fd, &one, sizeof(one)) < 0)
		return; /* it is readable already */
}

static bool leader_hangs(const struct sampler *sampler)
{
	uint64_t since_ns = sampler->hands[sampler->leader].since_ns;

	return since_ns && clock_now_ns(CLOCK_MONOTONIC) - since_ns >= HANG_NS;
}

/* Until then; UINT64_MAX: for ever. */
static void wait_for(struct pollfd *fds, nfds_t count, uint64_t until_ns)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
	struct timespec left = {(time_t)(left_ns / NSEC_PER_SEC), (long)(left_ns % NSEC_PER_SEC)};

	ppoll(fds, count, until_ns == UINT64_MAX ? NULL : &left, NULL);
}

static void wait_to_lead(struct sampler *sampler, struct hand *hand)
{
	struct pollfd pollfd = {.fd = sampler->hang_timer, .events = POLLIN};
	uint64_t rest_ns = sampler_hand_rest(hand->tools, clock_now_ns(CLOCK_MONOTONIC));
	uint64_t expirations;

	pthread_mutex_unlock(&sampler->lock);
	wait_for(&pollfd, 1, rest_ns);
	pthread_mutex_lock(&sampler->lock);
	if (!leader_hangs(sampler))
		return;
	sampler->leader = hand->number;
	if (read(sampler->hang_timer, &expirations, sizeof(expirations)) < 0)
		return; /* the leader disarmed it just now; leading twice is prevented by the lock
			 */
}

/* ---- sampling ---- */

static bool is_due(struct sampler *sampler, struct sampler_row *row, uint64_t now_ns)
{
	bool due;

	if (row->next_ns > now_ns)
		return false;
	if (!row->for_frame)
		return sampler_row_is_due(&sampler->view, row, now_ns);
	due = sampler_frame_is_due(&sampler->view, row, now_ns);
	if (!due)
		sampler_frames_rest(&sampler->view, sampler->rows, row, now_ns);
	return due;
}

/* The first row that is due. Asking a row takes the sample off its schedule, so that no other is
 * asked then. */
static struct sampler_row *find_due(struct sampler *sampler, uint64_t now_ns, uint64_t *next_ns)
{
	*next_ns = UINT64_MAX;
	for (uint32_t i = 0; i < sampler->view.room + FLIGHT_THREADS && sampler->rows; i++) {
		struct sampler_row *row = sampler->rows[i];

		if (!row || row->claimed)
			continue;
		if (is_due(sampler, row, now_ns))
			return row;
		if (row->next_ns < *next_ns)
			*next_ns = row->next_ns;
	}
	return NULL;
}

static int on_wake(void *ctx, const struct looper_event *event, size_t size)
{
	struct sampler *sampler = ctx;
	struct sampler_row *row;

	if (event->index >= sampler->view.room || !sampler->rows)
		return 0;
	row = sampler->rows[event->index];
	/* Also while a sample of the period before is taken: a wake comes once. */
	if (row && row->slot_id == event->slot_id)
		row->next_ns = event->begin_ns + sampler->view.first_ns;
	if (row)
		sampler_frames_wake(&sampler->view, sampler->rows, row->thread.pid,
				    event->begin_ns);
	return 0;
}

static void wait_for_work(struct sampler *sampler, struct hand *hand, uint64_t next_ns)
{
	uint64_t rest_ns = sampler_hand_rest(hand->tools, clock_now_ns(CLOCK_MONOTONIC));
	uint64_t expirations;
	struct pollfd fds[2] = {
		{.fd = sampler->changed_fd, .events = POLLIN},
		{.fd = sampler->view.wakes_fd, .events = POLLIN},
	};

	pthread_mutex_unlock(&sampler->lock);
	wait_for(fds, 2, next_ns < rest_ns ? next_ns : rest_ns);
	if (fds[0].revents && read(sampler->changed_fd, &expirations, sizeof(expirations)) < 0)
		fds[0].revents = 0; /* another thread took it */
	pthread_mutex_lock(&sampler->lock);
	if (fds[1].revents & POLLIN)
		sampler_view_wakes(&sampler->view, on_wake, sampler);
}

static void take_sample(struct sampler *sampler, struct hand *hand, struct sampler_row *row)
{
	uint64_t since_ns = clock_now_ns(CLOCK_MONOTONIC), took_ns;
	uint64_t cpu_ns = row->for_frame ? clock_now_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
	int err;

	if (!row->for_frame)
		sampler_frames_share(&sampler->view, sampler->rows, row, since_ns);
	row->claimed = true;
	hand->since_ns = since_ns;
	hand->slot_id = row->slot_id;
	arm(sampler, HANG_NS);
	pthread_mutex_unlock(&sampler->lock);
	err = sampler_hand_sample(hand->tools, row, sampler->socket);
	pthread_mutex_lock(&sampler->lock);
	hand->since_ns = 0;
	sampler->samples++;
	if (row->for_frame)
		sampler_frame_charge(&sampler->view,
				     clock_now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns);
	if (err && err != -EPIPE) {
		sampler->not_taken++;
		/* A thread that sleeps on is sampled once: that was not this time. */
		row->sampled_spell = SAMPLER_NO_SPELL;
	}
	row->claimed = false;
	/* Who leads now does not know when this row is due. */
	if (sampler->leader == hand->number)
		arm(sampler, 0);
	else
		wake_leader(sampler);
	if (row->gone) {
		free_row(row);
		return;
	}
	took_ns = clock_now_ns(CLOCK_MONOTONIC) - since_ns;
	if (row->refuse) {
		/* Nothing was tried: the target is as it was found before. */
	} else if (took_ns > HELD_UP_NS) {
		row->backoff_ns = row->backoff_ns ? row->backoff_ns * 2 : FIRST_BACKOFF_NS;
		if (row->backoff_ns > MAX_BACKOFF_NS)
			row->backoff_ns = MAX_BACKOFF_NS;
		row->left_alone_until_ns = since_ns + took_ns + row->backoff_ns;
	} else {
		row->backoff_ns = 0;
	}
}

static void *lead(void *ctx)
{
	struct hand *hand = ctx;
	struct sampler *sampler = hand->sampler;

	setpriority(PRIO_PROCESS, (id_t)gettid(), HAND_NICENESS);
	prctl(PR_SET_TIMERSLACK, 1);
	pthread_mutex_lock(&sampler->lock);
	for (;;) {
		struct sampler_row *row;
		uint64_t next_ns;

		if (sampler->leader != hand->number) {
			wait_to_lead(sampler, hand);
			continue;
		}
		if (sampler->view.frames.step_ns && !hand->first_in_queue) {
			hand->first_in_queue = true;
			sampler_frames_queue_first();
		}
		row = find_due(sampler, clock_now_ns(CLOCK_MONOTONIC), &next_ns);
		if (row)
			take_sample(sampler, hand, row);
		else
			wait_for_work(sampler, hand, next_ns);
	}
	return NULL;
}

/* ---- the thread that talks to the recorder ---- */

static int start_hands(struct sampler *sampler)
{
	pthread_attr_t attributes;
	int err = 0;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, HAND_STACK_BYTES);
	for (unsigned i = 0; i < HANDS && !err; i++) {
		struct hand *hand = &sampler->hands[i];

		hand->sampler = sampler;
		hand->number = i;
		hand->tools = sampler_hand_new(&sampler->view);
		err = hand->tools ? -pthread_create(&hand->thread, &attributes, lead, hand)
				  : -ENOMEM;
	}
	pthread_attr_destroy(&attributes);
	return err;
}

static int set_up(struct sampler *sampler, const struct sampler_setup *setup, const int *fds,
		  size_t fd_count)
{
	int err;

	if (sampler->rows)
		return -EEXIST;
	err = sampler_view_open(&sampler->view, setup, fds, fd_count);
	if (err)
		return err;
	sampler->rows = calloc(setup->room + FLIGHT_THREADS, sizeof(struct sampler_row *));
	return sampler->rows ? start_hands(sampler) : -ENOMEM;
}

static void answer_ping(struct sampler *sampler, const struct sampler_ping *ping)
{
	struct sampler_pong pong = {
		.type = SAMPLER_PONG,
		.serial = ping->serial,
		.samples = sampler->samples,
		.not_taken = sampler->not_taken,
		.resynced = sampler->view.loopers.resynced,
		.frames_thinned = sampler->view.frames.thinned,
	};
	struct iovec part = {&pong, sizeof(pong)};
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	for (unsigned i = 0; i < HANDS; i++) {
		uint64_t since_ns = sampler->hands[i].since_ns;

		if (sampler->hands[i].tools)
			pong.workers[i] = sampler_hand_worker(sampler->hands[i].tools);
		if (!since_ns || now_ns - since_ns < HELD_UP_NS)
			continue;
		pong.stuck++;
		if (now_ns - since_ns > pong.oldest_stuck_ns) {
			pong.oldest_stuck_ns = now_ns - since_ns;
			pong.stuck_slot_id = sampler->hands[i].slot_id;
		}
	}
	sampler->unanswered = *ping;
	/* Behind samples that the recorder does not take: without an answer it takes this process
	 * for one that hangs. */
	if (channel_send(sampler->socket, &part, 1, NULL, 0) != -EAGAIN)
		sampler->unanswered.type = 0;
}

static void answer_again(struct sampler *sampler)
{
	const struct sampler_ping ping = sampler->unanswered;

	pthread_mutex_lock(&sampler->lock);
	answer_ping(sampler, &ping);
	pthread_mutex_unlock(&sampler->lock);
}

/* Takes over what it uses of fds by setting it to -1. */
static int take_message(struct sampler *sampler, const void *message, size_t length, int *fds,
			size_t fd_count)
{
	uint32_t type = *(const uint32_t *)message;
	int err = 0;

	if (type == SAMPLER_WARDEN) {
		/* What the recorder is not told reads as a socket that ends. */
		if (fd_count == 1)
			helper_fork_warden(fds[0]);
		return 0;
	}
	pthread_mutex_lock(&sampler->lock);
	if (type == SAMPLER_SETUP && length >= sizeof(struct sampler_setup)) {
		err = set_up(sampler, message, fds, fd_count);
		for (size_t i = 0; i < fd_count; i++)
			fds[i] = -1; /* the view's now */
	} else if (type == SAMPLER_WATCH && length >= sizeof(struct sampler_watch)) {
		watch(sampler, message, fd_count ? fds[0] : -1);
		if (fd_count)
			fds[0] = -1;
	} else if (type == SAMPLER_UNWATCH && length >= sizeof(struct sampler_unwatch)) {
		const struct sampler_unwatch *unwatch = message;
		struct sampler_row *row = sampler->rows && unwatch->index < sampler->view.room
						  ? sampler->rows[unwatch->index]
						  : NULL;

		if (row && row->slot_id == unwatch->slot_id)
			remove_row(sampler, unwatch->index);
	} else if (type == SAMPLER_FRAMES && length >= sizeof(struct sampler_frames)) {
		/* Without the maps no frame is sampled, and blocks are. */
		sampler_frames_set(&sampler->view, sampler->rows, message, fds, fd_count);
	} else if (type == SAMPLER_FRAME_WATCH && length >= sizeof(struct sampler_frame_watch)) {
		const struct sampler_frame_watch *frame = message;

		if (sampler->rows && frame->index < FLIGHT_THREADS) {
			remove_row(sampler, sampler->view.room + frame->index);
			sampler->rows[sampler->view.room + frame->index] =
				sampler_frame_new(&sampler->view, frame);
		}
	} else if (type == SAMPLER_FRAME_UNWATCH && length >= sizeof(struct sampler_unwatch)) {
		const struct sampler_unwatch *unwatch = message;

		if (sampler->rows && unwatch->index < FLIGHT_THREADS)
			remove_row(sampler, sampler->view.room + unwatch->index);
	} else if (type == SAMPLER_PING && length >= sizeof(struct sampler_ping)) {
		answer_ping(sampler, message);
	}
	pthread_mutex_unlock(&sampler->lock);
	/* The hand that leads looks at all rows when it is woken: an answer changed none. */
	if (type != SAMPLER_PING)
		wake_leader(sampler);
	return err;
}

/* A session is scheduled as one group (kernel/sched/autogroup.c), inside of which alone niceness
 * counts: without this a busy machine samples late. No kernel for Android has it. */
static void weigh_session(void)
{
	char text[8];
	int fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
	int n = snprintf(text, sizeof(text), "%d", HAND_NICENESS);

	if (fd < 0)
		return;
	/* Where it is not permitted the sampler is late. */
	if (write(fd, text, (size_t)n) < n)
		text[0] = 0;
	close(fd);
}

void sampler_main(int socket)
{
	struct sampler *sampler = calloc(1, sizeof(*sampler));
	_Alignas(8) char message[1024];

	helper_begin(HELPER_SAMPLER, &socket);
	weigh_session();
	if (!sampler)
		_exit(1);
	pthread_mutex_init(&sampler->lock, NULL);
	sampler->socket = socket;
	sampler->changed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	sampler->hang_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (sampler->changed_fd < 0 || sampler->hang_timer < 0)
		_exit(1);
	for (;;) {
		struct pollfd pollfd = {.fd = socket, .events = POLLIN};
		int fds[CHANNEL_FDS];
		size_t fd_count;
		ssize_t n;

		if (!poll(&pollfd, 1, sampler->unanswered.type ? PONG_AGAIN_MS : -1)) {
			answer_again(sampler);
			continue;
		}
		n = channel_receive(socket, message, sizeof(message), fds, &fd_count);
		if (n == -EAGAIN || n == -EMSGSIZE)
			continue;
		/* The recorder is gone. A hand that hangs ends with the process; a thread that the
		 * ptrace worker holds is let go, because the worker dies with this process. */
		if (n <= 0)
			_exit(0);
		if ((size_t)n >= sizeof(uint32_t) &&
		    take_message(sampler, message, (size_t)n, fds, fd_count))
			_exit(1);
		for (size_t i = 0; i < fd_count; i++)
			if (fds[i] >= 0)
				close(fds[i]);
	}
}

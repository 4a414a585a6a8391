/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/frames/janks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "source/flight/flight.h"
#include "source/frames/suspends.h"
#include "source/frames/untold.h"
#include "source/frames/window.h"
#include "util/clock.h"
#include "why/tell.h"

#define MAX_CAST    32   /* threads of a frame */
#define MOST_FRAMES 1024 /* that are judged at a time, each second: 8 apps of 120 Hz, all late */

struct frames_janks {
	const struct source_context *context;
	struct source *flight;
	struct frames_untold *untold;
	struct frames_room rooms[MAX_CAST]; /* of the threads of the frame that is judged */
	struct why_thread threads[MAX_CAST];
	size_t count;
	uint64_t judged, not_judged, not_recorded; /* since the last turn */
	struct suspends suspends;
};

/* With each frame and each interval: the clocks part while the machine sleeps. */
static void look_at_clocks(struct frames_janks *janks)
{
	uint64_t apart_ns = clock_suspended_ns();

	suspends_look(&janks->suspends, apart_ns, clock_now_ns(CLOCK_BOOTTIME));
}

struct frames_janks *frames_janks_new(const struct source_context *context, struct source *flight)
{
	struct frames_janks *janks = calloc(1, sizeof(*janks));

	if (!janks)
		return NULL;
	janks->context = context;
	janks->flight = flight;
	look_at_clocks(janks);
	janks->untold = frames_untold_new(context, flight_source_sampler(flight));
	if (!janks->untold) {
		free(janks);
		return NULL;
	}
	return janks;
}

void frames_janks_free(struct frames_janks *janks)
{
	if (!janks)
		return;
	for (size_t i = 0; i < MAX_CAST; i++)
		free(janks->rooms[i].spells);
	frames_untold_free(janks->untold);
	free(janks);
}

bool frames_janks_boot_of(struct frames_janks *janks, int64_t mono_ns, int64_t *boot_ns)
{
	look_at_clocks(janks);
	return !__builtin_add_overflow(mono_ns, suspends_apart(&janks->suspends, mono_ns), boot_ns);
}

void frames_janks_turn(struct frames_janks *janks, janks_lose lose, void *ctx)
{
	look_at_clocks(janks);
	lose(ctx, "janks_not_judged", janks->not_judged);
	lose(ctx, "janks_not_recorded", janks->not_recorded);
	janks->judged = janks->not_judged = janks->not_recorded = 0;
}

static enum jank_role role_of(enum flight_role role)
{
	static const enum jank_role roles[] = {
		[FLIGHT_ROLE_OTHER] = JANK_ROLE_OTHER,
		[FLIGHT_ROLE_MAIN] = JANK_ROLE_MAIN,
		[FLIGHT_ROLE_RENDER] = JANK_ROLE_RENDER,
		[FLIGHT_ROLE_HWUI] = JANK_ROLE_HWUI_TASK,
		[FLIGHT_ROLE_SURFACEFLINGER] = JANK_ROLE_SF_MAIN,
		[FLIGHT_ROLE_RENDER_ENGINE] = JANK_ROLE_RENDER_ENGINE,
		[FLIGHT_ROLE_COMPOSER] = JANK_ROLE_HWC,
	};

	return roles[role];
}

static bool has_window(struct frames_janks *janks, int64_t from_ns, int64_t to_ns,
		       struct frames_window *window)
{
	look_at_clocks(janks);
	if (from_ns <= 0 || to_ns <= from_ns)
		return false;
	*window = (struct frames_window){.from_ns = (uint64_t)from_ns, .to_ns = (uint64_t)to_ns};
	window->suspends = suspends_between(&janks->suspends, window->from_ns, window->to_ns);
	return true;
}

/* In which order the threads of a late frame get a place in its record: 0 the main thread and the
 * RenderThread, 1 the threads of the display, 2 the app's helpers. */
static unsigned rank_of(enum flight_role role)
{
	if (role == FLIGHT_ROLE_MAIN || role == FLIGHT_ROLE_RENDER)
		return 0;
	return role >= FLIGHT_ROLE_SURFACEFLINGER ? 1 : 2;
}

static int add_thread(struct frames_janks *janks, size_t n, const struct flight_watched *watched,
		      const char *process, const struct frames_window *window)
{
	struct frames_room *room = &janks->rooms[janks->count];
	int err = frames_window_read(window, janks->flight, n, room);

	janks->threads[janks->count] = (struct why_thread){
		.tid = watched->tid,
		.pid = watched->pid,
		.process = process,
		.role = role_of(watched->role),
		.spells = room->spells,
		.spell_count = room->count,
	};
	memcpy(janks->threads[janks->count++].comm, watched->comm, sizeof(watched->comm));
	return err;
}

/* The app's threads, and those of the display; left_over: that found no room. */
static int gather(struct frames_janks *janks, const struct timeline_late *late, const char *process,
		  const struct frames_window *window, size_t *left_over)
{
	struct flight_watched watched;
	int err = 0;

	janks->count = 0;
	for (unsigned rank = 0; rank < 3; rank++) {
		for (size_t n = 0; !err && flight_source_thread(janks->flight, n, &watched); n++) {
			bool is_own = watched.pid == late->pid;

			if (rank_of(watched.role) != rank || (!is_own && rank != 1))
				continue;
			if (janks->count == MAX_CAST)
				++*left_over;
			else
				err = add_thread(janks, n, &watched, is_own ? process : NULL,
						 window);
		}
	}
	return err;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return b != TIMELINE_NONE && b < a ? b : a;
}

static int64_t later(int64_t a, int64_t b)
{
	return b != TIMELINE_NONE && b > a ? b : a;
}

static const char *why_missing(const struct frames_janks *janks,
			       const struct suspends_span *suspends)
{
	if (suspends->before_ns != suspends->after_ns)
		return "the machine was suspended about then";
	return janks->flight->state == SOURCE_ABSENT && janks->flight->reason[0]
		       ? janks->flight->reason
		       : "the flight recorder has nothing of that time";
}

int frames_janks_take(struct frames_janks *janks, const struct layer *layer, const char *package,
		      const char *process, const struct timeline_late *late)
{
	struct why_frame frame = {
		.expected_start_ns = late->expected_start_ns,
		.expected_end_ns = late->expected_end_ns,
		.actual_start_ns = late->start_ns,
		.actual_end_ns = late->end_ns,
		.present_ns = late->present_ns,
		.predicted_ns = late->predicted_ns,
		.compose_start_ns = late->compose_start_ns,
		.compose_due_ns = late->compose_due_ns,
		.handed_ns = WHY_NO_TIME,
		.queued_ns = WHY_NO_TIME,
		.jank = late->jank,
		.dropped = late->dropped,
		.threads = janks->threads,
	};
	int64_t from_ns = earlier(late->start_ns, late->expected_start_ns);
	int64_t to_ns = later(late->end_ns, late->present_ns);
	struct frames_window window = {0};
	char jank_type[512];
	struct record_jank jank = {
		.pid = late->pid,
		.package = package,
		.process = process,
		.layer = layer->name,
	};
	struct why_verdict verdict;
	size_t left_over = 0;
	int err;

	_Static_assert(TIMELINE_NONE == WHY_NO_TIME, "both say that a time is not known");
	if (janks->judged >= MOST_FRAMES) {
		janks->not_judged++;
		return 0;
	}
	janks->judged++;
	if (late->is_row) {
		jank.surface_frame_token = SOME_I64(late->token);
		jank.jank_type = timeline_jank_text(late->jank, jank_type, sizeof(jank_type));
		jank.display_frame_token = SOME_I64(late->display_token);
	}
	janks->count = 0;
	if (has_window(janks, from_ns, to_ns, &window)) {
		frame.clock_error_ns = (int64_t)window.suspends.error_ns;
		err = gather(janks, late, process, &window, &left_over);
		if (err)
			return err;
	}
	frame.thread_count = janks->count;
	why_judge(&frame, &verdict);
	err = why_record_fill(&jank, &frame, &verdict, why_missing(janks, &window.suspends));
	/* Only its threads can be missing yet. */
	janks->not_recorded += jank.missing.count != 0;
	if (!err && left_over)
		err = counter_list_add(&jank.lost, "threads_over_limit", left_over);
	if (!err)
		return frames_untold_add(janks->untold, &jank);
	why_record_free(&jank);
	return err;
}

void frames_janks_flush(struct frames_janks *janks)
{
	frames_untold_flush(janks->untold);
}

bool frames_janks_ledger(struct frames_janks *janks, pid_t pid, int64_t from_ns, int64_t to_ns,
			 struct why_ledger *ledger)
{
	struct frames_room *room = &janks->rooms[0];
	struct flight_watched watched;
	struct frames_window window;

	if (!has_window(janks, from_ns, to_ns, &window) || window.suspends.error_ns)
		return false;
	for (size_t n = 0; flight_source_thread(janks->flight, n, &watched); n++) {
		if (watched.pid != pid || watched.role != FLIGHT_ROLE_MAIN)
			continue;
		if (frames_window_read(&window, janks->flight, n, room))
			return false;
		why_cut(room->spells, room->count, from_ns, to_ns, ledger);
		return !ledger->ns[SPELL_UNKNOWN];
	}
	return false;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/launches.h"

#include <stdlib.h>
#include <string.h>

#define MAX_OPEN     64 /* of a trace that was not asked for any yet; a device has one at a time */
#define MAX_LAYERS   64 /* that showed something since a launch began */
#define MAX_STEPS    64 /* what main threads did lately */
#define WAIT_NS      10000000000LL
#define SLICE        "launchingActivity#"
#define SLICE_BYTES  (sizeof(SLICE) - 1)
#define FOCUS_TRACK  "Focused app"   /* Android 14 and later */
#define FOCUS_PREFIX "focused app: " /* 13 */

/* A launch of which not all is known yet. */
struct tracked {
	struct launch launch;
	bool completed;
	struct {
		uint32_t layer;
		int64_t present_ns; /* the first one since the launch began */
	} layers[MAX_LAYERS];
	size_t layer_count;
};

/* A slice of a main thread that tells the kind of a launch. */
struct step {
	int64_t ts_ns;
	int32_t pid;
	enum launch_kind kind;
};

struct launches {
	struct tracked open[MAX_OPEN]; /* in the order in which they were first heard of */
	size_t count;
	struct step steps[MAX_STEPS];
	size_t next_step;
	struct focus focus;
	int64_t newest_frame_ns;
	uint64_t lost;
};

const char *launch_kind_name(enum launch_kind kind)
{
	static const char *const names[] = {"unknown", "hot", "warm", "cold"};

	return names[kind];
}

struct launches *launches_new(void)
{
	return calloc(1, sizeof(struct launches));
}

void launches_free(struct launches *launches)
{
	free(launches);
}

uint64_t launches_lost(const struct launches *launches)
{
	return launches->lost;
}

static void remove_at(struct launches *launches, size_t at)
{
	launches->count--;
	memmove(&launches->open[at], &launches->open[at + 1],
		(launches->count - at) * sizeof(launches->open[0]));
}

/* Where all places are taken the oldest one goes: it was given up, or the trace began behind it. */
static struct tracked *find_or_make(struct launches *launches, int32_t teller, uint64_t number)
{
	struct tracked *tracked;

	for (size_t i = 0; i < launches->count; i++) {
		tracked = &launches->open[i];
		if (tracked->launch.teller == teller && tracked->launch.number == number)
			return tracked;
	}
	if (launches->count == MAX_OPEN) {
		launches->lost += launches->open[0].completed;
		remove_at(launches, 0);
	}
	tracked = &launches->open[launches->count++];
	memset(tracked, 0, sizeof(*tracked));
	tracked->launch.teller = teller;
	tracked->launch.number = number;
	return tracked;
}

static bool starts_with(const char **text, size_t *size, const char *word)
{
	size_t n = strlen(word);

	if (*size < n || memcmp(*text, word, n))
		return false;
	*text += n;
	*size -= n;
	return true;
}

static bool take_number(const char **text, size_t *size, uint64_t *number)
{
	size_t digits = 0;

	for (*number = 0; *size && **text >= '0' && **text <= '9' && digits < 18; digits++) {
		*number = *number * 10 + (uint64_t)(**text - '0');
		++*text;
		--*size;
	}
	return digits;
}

static void copy_text(char *to, size_t room, const char *text, size_t size)
{
	size_t n = size < room ? size : room - 1;

	memcpy(to, text, n);
	to[n] = 0;
}

/* ":completed-KIND:PACKAGE", or without a kind. */
static void complete(struct launches *launches, const struct trace_mark *mark, uint64_t number,
		     const char *text, size_t size)
{
	enum launch_kind kind = LAUNCH_UNKNOWN;
	struct tracked *tracked;

	if (!starts_with(&text, &size, ":completed"))
		return;
	if (starts_with(&text, &size, "-hot"))
		kind = LAUNCH_HOT;
	else if (starts_with(&text, &size, "-warm"))
		kind = LAUNCH_WARM;
	else if (starts_with(&text, &size, "-cold"))
		kind = LAUNCH_COLD;
	if (!starts_with(&text, &size, ":") || !size || size >= LAUNCH_PACKAGE_BYTES)
		return;
	tracked = find_or_make(launches, mark->pid, number);
	tracked->completed = true;
	tracked->launch.kind = kind;
	copy_text(tracked->launch.package, sizeof(tracked->launch.package), text, size);
}

static void set_focus(struct launches *launches, const struct trace_mark *mark, const char *text,
		      size_t size)
{
	if (!size || mark->ts_ns < launches->focus.since_ns)
		return;
	launches->focus.since_ns = mark->ts_ns;
	launches->focus.teller = mark->pid;
	copy_text(launches->focus.activity, sizeof(launches->focus.activity), text, size);
}

/* What the main thread of an app does in a launch: with a new process bindApplication, with a new
 * activity activityStart, and activityResume with each. */
static void note_step(struct launches *launches, const struct trace_mark *mark)
{
	static const struct {
		const char *name;
		enum launch_kind kind;
	} known[] = {{"bindApplication", LAUNCH_COLD},
		     {"activityStart", LAUNCH_WARM},
		     {"activityResume", LAUNCH_HOT}};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		if (mark->name_size != strlen(known[i].name) ||
		    memcmp(mark->name, known[i].name, mark->name_size))
			continue;
		launches->steps[launches->next_step++ % MAX_STEPS] = (struct step){
			.ts_ns = mark->ts_ns, .pid = mark->pid, .kind = known[i].kind};
	}
}

void launches_mark(struct launches *launches, const struct trace_mark *mark)
{
	const char *text = mark->name;
	size_t size = mark->name_size;
	struct tracked *tracked;
	uint64_t number;

	if (!text || mark->ts_ns <= 0)
		return;
	if (mark->kind == MARK_BEGIN) {
		if (mark->tid == mark->pid)
			note_step(launches, mark);
		return;
	}
	if (mark->kind == MARK_TRACK_BEGIN) {
		if (mark->track_size == sizeof(FOCUS_TRACK) - 1 &&
		    !memcmp(mark->track, FOCUS_TRACK, mark->track_size))
			set_focus(launches, mark, text, size);
		return;
	}
	if (mark->kind == MARK_ASYNC_BEGIN && starts_with(&text, &size, FOCUS_PREFIX)) {
		set_focus(launches, mark, text, size);
		return;
	}
	if (!starts_with(&text, &size, SLICE) || !take_number(&text, &size, &number))
		return;
	if (mark->kind == MARK_INSTANT) {
		complete(launches, mark, number, text, size);
	} else if (!size && mark->kind == MARK_ASYNC_BEGIN) {
		tracked = find_or_make(launches, mark->pid, number);
		tracked->launch.start_ns = mark->ts_ns;
	} else if (!size && mark->kind == MARK_ASYNC_END) {
		tracked = find_or_make(launches, mark->pid, number);
		tracked->launch.end_ns = mark->ts_ns;
	}
}

static void note_frame(struct tracked *tracked, uint32_t layer, int64_t present_ns)
{
	size_t i = 0;

	if (!tracked->launch.start_ns || present_ns < tracked->launch.start_ns)
		return;
	while (i < tracked->layer_count && tracked->layers[i].layer != layer)
		i++;
	if (i == MAX_LAYERS)
		return;
	if (i == tracked->layer_count) {
		tracked->layer_count++;
		tracked->layers[i].layer = layer;
		tracked->layers[i].present_ns = present_ns;
	} else if (present_ns < tracked->layers[i].present_ns) {
		tracked->layers[i].present_ns = present_ns;
	}
}

void launches_frame(struct launches *launches, uint32_t layer, int64_t present_ns)
{
	if (present_ns > launches->newest_frame_ns)
		launches->newest_frame_ns = present_ns;
	for (size_t i = 0; i < launches->count; i++)
		note_frame(&launches->open[i], layer, present_ns);
}

void launches_forget_layers(struct launches *launches)
{
	for (size_t i = 0; i < launches->count; i++)
		launches->open[i].layer_count = 0;
}

static bool is_system_server(const struct launch_names *names, int32_t pid)
{
	const char *name = names->process(names->ctx, pid);

	return !name || !strcmp(name, "system_server");
}

static int64_t first_frame(const struct tracked *tracked, const struct launch_names *names)
{
	int64_t first_ns = 0;

	for (size_t i = 0; i < tracked->layer_count; i++) {
		char buffer[256];
		const char *package = names->layer_package(names->ctx, tracked->layers[i].layer,
							   buffer, sizeof(buffer));

		if (package && !strcmp(package, tracked->launch.package) &&
		    (!first_ns || tracked->layers[i].present_ns < first_ns))
			first_ns = tracked->layers[i].present_ns;
	}
	return first_ns;
}

/* Android 13 does not tell the kind: it is that of the highest step of the app's main thread in the
 * launch. */
static enum launch_kind kind_by_steps(const struct launches *launches, const struct launch *launch,
				      const struct launch_names *names)
{
	enum launch_kind kind = LAUNCH_UNKNOWN;

	for (size_t i = 0; i < MAX_STEPS; i++) {
		const struct step *step = &launches->steps[i];
		const char *name;

		if (step->ts_ns < launch->start_ns || step->ts_ns > launch->end_ns ||
		    step->kind <= kind)
			continue;
		name = names->process(names->ctx, step->pid);
		if (name && !strcmp(name, launch->package))
			kind = step->kind;
	}
	return kind;
}

bool launches_take(struct launches *launches, const struct launch_names *names, bool final,
		   struct launch *out)
{
	for (size_t i = 0; i < launches->count; i++) {
		struct tracked *tracked = &launches->open[i];
		struct launch *launch = &tracked->launch;

		if (!tracked->completed || !launch->start_ns || launch->end_ns < launch->start_ns)
			continue;
		launch->first_frame_ns = first_frame(tracked, names);
		if (!launch->first_frame_ns && !final &&
		    launches->newest_frame_ns < launch->end_ns + WAIT_NS)
			continue;
		if (launch->kind == LAUNCH_UNKNOWN)
			launch->kind = kind_by_steps(launches, launch, names);
		*out = *launch;
		remove_at(launches, i);
		if (is_system_server(names, out->teller))
			return true;
		i--;
	}
	return false;
}

bool launches_focus(const struct launches *launches, const struct launch_names *names,
		    struct focus *out)
{
	*out = launches->focus;
	return out->since_ns && is_system_server(names, out->teller);
}

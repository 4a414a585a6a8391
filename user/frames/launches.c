/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/launches.h"

#include <stdlib.h>
#include <string.h>

#define MAX_LAUNCHES 128           /* of a trace; the oldest makes room */
#define MAX_STEPS    1024          /* of main threads, three a launch at the most */
#define MAX_FOCI     64            /* that nobody took; the oldest makes room */
#define MAX_FIRSTS   8             /* packages that drew while a launch went on */
#define FRAME_NS     60000000000LL /* a frame that comes later is not its first */
#define SLICE        "launchingActivity#"
#define FOCUS_TRACK  "Focused app"   /* Android 14 and later */
#define FOCUS_PREFIX "focused app: " /* 13 */

/* A slice of a main thread that tells the kind of a launch. */
struct step {
	int64_t ts_ns;
	int32_t pid;
	enum launch_kind kind;
};

struct launches {
	struct tracked {
		struct launch launch;
		bool completed, taken;
		uint64_t asked_ns; /* when it was first asked for; 0: it was not */
		struct first {
			uint64_t package; /* its hash */
			int64_t present_ns;
		} firsts[MAX_FIRSTS];
		size_t first_count;
	} all[MAX_LAUNCHES]; /* a ring, as steps */
	size_t count;        /* that were heard of */
	struct step steps[MAX_STEPS];
	size_t step_count;
	uint64_t lost;               /* that made room before anybody took them */
	int64_t forgotten_ns;        /* steps up to there made room for later ones */
	struct focus focus;          /* the newest */
	struct focus foci[MAX_FOCI]; /* a ring */
	size_t focus_count, focus_taken;
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

static size_t oldest(const struct launches *launches)
{
	return launches->count > MAX_LAUNCHES ? launches->count - MAX_LAUNCHES : 0;
}

static struct tracked *find_or_make(struct launches *launches, int32_t teller, uint64_t number)
{
	struct tracked *tracked;

	for (size_t i = launches->count; i-- > oldest(launches);) {
		tracked = &launches->all[i % MAX_LAUNCHES];
		if (tracked->launch.teller == teller && tracked->launch.number == number)
			return tracked;
	}
	tracked = &launches->all[launches->count++ % MAX_LAUNCHES];
	launches->lost += tracked->completed && !tracked->taken;
	*tracked = (struct tracked){.launch = {.teller = teller, .number = number}};
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
	struct focus *focus;

	if (!size)
		return;
	focus = &launches->foci[launches->focus_count++ % MAX_FOCI];
	focus->since_ns = mark->ts_ns;
	focus->teller = mark->pid;
	copy_text(focus->activity, sizeof(focus->activity), text, size);
	if (mark->ts_ns >= launches->focus.since_ns)
		launches->focus = *focus;
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
	struct step *step;

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		if (mark->name_size != strlen(known[i].name) ||
		    memcmp(mark->name, known[i].name, mark->name_size))
			continue;
		step = &launches->steps[launches->step_count++ % MAX_STEPS];
		if (step->ts_ns > launches->forgotten_ns)
			launches->forgotten_ns = step->ts_ns;
		*step = (struct step){
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

static bool is_system_server(launch_process_name process, void *ctx, int32_t pid)
{
	const char *name = process(ctx, pid);

	return !name || !strcmp(name, "system_server");
}

/* Android 13 does not tell the kind: it is that of the highest step of the app's main thread in the
 * launch, if all steps since its begin are known. */
static enum launch_kind kind_by_steps(const struct launches *launches, const struct launch *launch,
				      launch_process_name process, void *ctx)
{
	enum launch_kind kind = LAUNCH_UNKNOWN;

	if (launch->start_ns <= launches->forgotten_ns)
		return LAUNCH_UNKNOWN;
	for (size_t i = 0; i < MAX_STEPS; i++) {
		const struct step *step = &launches->steps[i];
		const char *name;

		if (step->ts_ns < launch->start_ns || step->ts_ns > launch->end_ns ||
		    step->kind <= kind)
			continue;
		name = process(ctx, step->pid);
		if (name && !strcmp(name, launch->package))
			kind = step->kind;
	}
	return kind;
}

/* It was told from its begin to its end, by system_server. */
static bool is_told(const struct tracked *tracked, launch_process_name process, void *ctx)
{
	const struct launch *launch = &tracked->launch;

	return tracked->completed && launch->start_ns && launch->end_ns >= launch->start_ns &&
	       is_system_server(process, ctx, launch->teller);
}

static void give(const struct launches *launches, const struct tracked *tracked,
		 launch_process_name process, void *ctx, struct launch *out)
{
	*out = tracked->launch;
	if (out->kind == LAUNCH_UNKNOWN)
		out->kind = kind_by_steps(launches, out, process, ctx);
}

bool launches_next(const struct launches *launches, launch_process_name process, void *ctx,
		   size_t *at, struct launch *out)
{
	if (*at < oldest(launches))
		*at = oldest(launches);
	while (*at < launches->count) {
		const struct tracked *tracked = &launches->all[(*at)++ % MAX_LAUNCHES];

		if (!is_told(tracked, process, ctx))
			continue;
		give(launches, tracked, process, ctx, out);
		return true;
	}
	return false;
}

/* FNV-1a, 64 bits. */
static uint64_t hash_text(const char *text)
{
	uint64_t hash = 14695981039346656037ULL;

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * 1099511628211ULL;
	return hash;
}

static bool may_show(const struct tracked *tracked, int64_t present_ns)
{
	int64_t start_ns = tracked->launch.start_ns;

	return start_ns && !tracked->taken && present_ns >= start_ns &&
	       present_ns - start_ns <= FRAME_NS;
}

bool launches_want_frame(const struct launches *launches, int64_t present_ns)
{
	size_t used = launches->count < MAX_LAUNCHES ? launches->count : MAX_LAUNCHES;

	for (size_t i = 0; i < used; i++) {
		if (may_show(&launches->all[i], present_ns))
			return true;
	}
	return false;
}

static struct first *find_first(struct tracked *tracked, uint64_t package)
{
	for (size_t i = 0; i < tracked->first_count; i++) {
		if (tracked->firsts[i].package == package)
			return &tracked->firsts[i];
	}
	return NULL;
}

void launches_frame(struct launches *launches, const char *package, int64_t present_ns)
{
	size_t used = launches->count < MAX_LAUNCHES ? launches->count : MAX_LAUNCHES;
	uint64_t hash = hash_text(package);

	for (size_t i = 0; i < used; i++) {
		struct tracked *tracked = &launches->all[i];
		struct first *first;

		if (!may_show(tracked, present_ns) ||
		    (tracked->completed && strcmp(tracked->launch.package, package)))
			continue;
		first = find_first(tracked, hash);
		if (!first && tracked->first_count < MAX_FIRSTS) {
			first = &tracked->firsts[tracked->first_count++];
			*first = (struct first){hash, present_ns};
		}
		if (first && present_ns < first->present_ns)
			first->present_ns = present_ns;
	}
}

bool launches_take(struct launches *launches, launch_process_name process, void *ctx,
		   uint64_t now_ns, uint64_t window_ns, bool final, struct launch *out)
{
	for (size_t i = oldest(launches); i < launches->count; i++) {
		struct tracked *tracked = &launches->all[i % MAX_LAUNCHES];
		const struct first *first;

		if (tracked->taken || !is_told(tracked, process, ctx))
			continue;
		if (!tracked->asked_ns)
			tracked->asked_ns = now_ns;
		first = find_first(tracked, hash_text(tracked->launch.package));
		if (!final &&
		    now_ns < tracked->asked_ns + window_ns + (first ? 0 : LAUNCH_FRAME_NS))
			continue;
		tracked->taken = true;
		give(launches, tracked, process, ctx, out);
		out->first_frame_ns = first ? first->present_ns : 0;
		return true;
	}
	return false;
}

bool launches_focus(const struct launches *launches, launch_process_name process, void *ctx,
		    struct focus *out)
{
	*out = launches->focus;
	return out->since_ns && is_system_server(process, ctx, out->teller);
}

bool launches_take_focus(struct launches *launches, launch_process_name process, void *ctx,
			 struct focus *out)
{
	if (launches->focus_count - launches->focus_taken > MAX_FOCI) {
		launches->lost += launches->focus_count - launches->focus_taken - MAX_FOCI;
		launches->focus_taken = launches->focus_count - MAX_FOCI;
	}
	while (launches->focus_taken < launches->focus_count) {
		*out = launches->foci[launches->focus_taken++ % MAX_FOCI];
		if (is_system_server(process, ctx, out->teller))
			return true;
	}
	return false;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "verb/report_stacks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/art_frames.h"
#include "record/telling.h"
#include "sink/text.h"
#include "stack/symbol/mapping.h"
#include "summary/blocks.h"

struct report_stacks {
	bool native;
	struct mapping *mapping;
	struct block_groups *groups; /* NULL: those of the recording are shown */
	/* of the block that was taken last; behind its own stacks those of other threads */
	struct record_stack *stacks;
	size_t stack_count;
	struct block_link *links;
	uint64_t methods, found, folded;
};

/* ---- the file ---- */

/* The whole file, malloc'ed. 0 or -errno; -EFBIG: it is no mapping. */
static int read_all(int fd, char **text, size_t *length)
{
	size_t room = 1u << 20;
	struct stat status;
	char *more;
	ssize_t n;

	if (!fstat(fd, &status) && S_ISREG(status.st_mode) && status.st_size > 0) {
		if (status.st_size > MAPPING_MAX_BYTES)
			return -EFBIG;
		room = (size_t)status.st_size + 1;
	}
	*length = 0;
	*text = malloc(room);
	if (!*text)
		return -ENOMEM;
	while ((n = read(fd, *text + *length, room - *length)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		*length += (size_t)n;
		if (*length < room)
			continue;
		if (room > MAPPING_MAX_BYTES)
			return -EFBIG;
		more = realloc(*text, 2 * room);
		if (!more)
			return -ENOMEM;
		*text = more;
		room *= 2;
	}
	return 0;
}

static enum exit_code open_mapping(struct report_stacks *stacks, const char *file)
{
	struct mapping_error error;
	int fd = open(file, O_RDONLY | O_CLOEXEC), err;
	char *text = NULL, line[32] = "";
	size_t length = 0;

	err = fd < 0 ? -errno : read_all(fd, &text, &length);
	if (fd >= 0)
		close(fd);
	if (err) {
		free(text);
		fprintf(stderr, "jankscope: error: --mapping %s: %s\n", file,
			err == -EFBIG ? "larger than 1 GiB: this is no mapping" : strerror(-err));
		return err == -EFBIG ? EXIT_USAGE : EXIT_INTERNAL;
	}
	stacks->mapping = mapping_new(text, length, &error);
	if (stacks->mapping)
		return EXIT_FINE;
	err = errno;
	if (error.line)
		snprintf(line, sizeof(line), ":%" PRIu64, error.line);
	fprintf(stderr, "jankscope: error: --mapping %s%s: %s\n", file, line, error.why);
	return err == ENOMEM ? EXIT_INTERNAL : EXIT_USAGE;
}

struct report_stacks *report_stacks_new(const struct options *options, enum exit_code *code)
{
	struct report_stacks *stacks = calloc(1, sizeof(*stacks));

	*code = EXIT_FINE;
	if (stacks && (options->mapping || options->native))
		stacks->groups = block_groups_new(options->native);
	if (!stacks || ((options->mapping || options->native) && !stacks->groups)) {
		fprintf(stderr, "jankscope: error: report: %s\n", strerror(ENOMEM));
		free(stacks);
		*code = EXIT_INTERNAL;
		return NULL;
	}
	stacks->native = options->native;
	if (options->mapping)
		*code = open_mapping(stacks, options->mapping);
	if (!*code)
		return stacks;
	report_stacks_free(stacks);
	return NULL;
}

static void clear(struct report_stacks *stacks)
{
	for (size_t i = 0; i < stacks->stack_count; i++)
		free(stacks->stacks[i].frames);
	free(stacks->stacks);
	free(stacks->links);
	stacks->stacks = NULL;
	stacks->links = NULL;
	stacks->stack_count = 0;
}

void report_stacks_free(struct report_stacks *stacks)
{
	if (!stacks)
		return;
	clear(stacks);
	block_groups_free(stacks->groups);
	mapping_free(stacks->mapping);
	free(stacks);
}

int report_stacks_begin(struct report_stacks *stacks)
{
	struct block_groups *groups;

	if (!stacks->groups)
		return 0;
	groups = block_groups_new(stacks->native);
	if (!groups)
		return -ENOMEM;
	block_groups_free(stacks->groups);
	stacks->groups = groups;
	return 0;
}

/* ---- frames ---- */

struct frames {
	struct record_frame *frames;
	size_t count, room;
};

static int add_frame(struct frames *to, const struct record_frame *frame)
{
	size_t room = to->room ? 2 * to->room : 64;
	struct record_frame *more;

	if (to->count == to->room) {
		more = reallocarray(to->frames, room, sizeof(*more));
		if (!more)
			return -ENOMEM;
		to->frames = more;
		to->room = room;
	}
	to->frames[to->count++] = *frame;
	return 0;
}

/* Where in its method the frame is, as the mapping has it. ART has the place in the byte code for
 * the line of a method that has none (art/runtime/thread.cc, b/30183883), so that R8 leaves lines
 * out and writes these places into the mapping. Only of what was named by its DEX file it is known
 * that there are none. */
static uint32_t line_of(const struct mapping *mapping, const struct record_frame *frame)
{
	static const char shared[] = " (shared code)";
	size_t length = strlen(frame->symbol), end = sizeof(shared) - 1;
	struct opt_u64 place = frame->inlined ? frame->dex_pc : (struct opt_u64){0};

	if (frame->line)
		return frame->line;
	if (!mapping_has_places(mapping) ||
	    (length > end && !strcmp(frame->symbol + length - end, shared)))
		return MAPPING_NO_LINE;
	if (frame->kind == FRAME_DEX)
		place = SOME_U64(frame->offset);
	return place.present && place.value < MAPPING_NO_LINE ? (uint32_t)place.value
							      : MAPPING_NO_LINE;
}

/* A frame under its names of the source: those that were inlined into it, and itself. */
static int add_renamed(struct report_stacks *stacks, struct frames *to,
		       const struct record_frame *frame)
{
	const struct mapping_name *names = NULL;
	struct record_frame renamed = *frame;
	ssize_t count = 0;
	int err = 0;

	if (stacks->mapping && frame->symbol && !frame->shared && frame_is_java(frame)) {
		count = mapping_find(stacks->mapping, frame->symbol,
				     line_of(stacks->mapping, frame), &names);
		stacks->methods++;
		stacks->found += count > 0;
	}
	if (count < 0)
		return (int)count;
	if (!count)
		return add_frame(to, frame);
	for (ssize_t i = 0; i < count && !err; i++) {
		renamed.symbol = names[i].symbol;
		renamed.inlined = names[i].inlined || frame->inlined;
		err = add_frame(to, &renamed);
	}
	return err;
}

static int take_stack(struct report_stacks *stacks, const struct record_stack *stack,
		      struct record_stack *shown)
{
	struct frames frames = {0};
	int err = 0;

	for (size_t i = 0; i < stack->frame_count && !err; i++)
		err = add_renamed(stacks, &frames, &stack->frames[i]);
	shown->frames = frames.frames;
	shown->frame_count = frames.count;
	return err;
}

static int fold(struct report_stacks *stacks, struct record_stack *shown)
{
	bool *folded = calloc(shown->frame_count + 1, sizeof(*folded));
	size_t kept = 0;

	if (!folded)
		return -ENOMEM;
	stacks->folded += art_mark_folded(shown, folded);
	for (size_t i = 0; i < shown->frame_count; i++)
		if (!folded[i])
			shown->frames[kept++] = shown->frames[i];
	shown->frame_count = kept;
	free(folded);
	return 0;
}

static int take_next(struct report_stacks *stacks, const struct record_stack *from)
{
	struct record_stack *stack = &stacks->stacks[stacks->stack_count++];

	*stack = *from;
	return take_stack(stacks, from, stack);
}

/* The stack of another thread, if it was taken: *shown leads to what is to be shown of it. */
static int take_other(struct report_stacks *stacks, const struct record_stack *from,
		      const struct record_stack **shown)
{
	if (!from)
		return 0;
	*shown = &stacks->stacks[stacks->stack_count];
	return take_next(stacks, from);
}

int report_stacks_take(struct report_stacks *stacks, const struct record_block *block,
		       struct record_block *shown)
{
	int err = 0;

	clear(stacks);
	stacks->stacks =
		calloc(block->stack_count + block->chain_count + 2, sizeof(*stacks->stacks));
	stacks->links = calloc(block->chain_count + 1, sizeof(*stacks->links));
	if (!stacks->stacks || !stacks->links)
		return -ENOMEM;
	for (size_t i = 0; i < block->stack_count && !err; i++)
		err = take_next(stacks, &block->stacks[i]);
	for (size_t i = 0; i < block->chain_count && !err; i++) {
		stacks->links[i] = block->chain[i];
		err = take_other(stacks, block->chain[i].stack, &stacks->links[i].stack);
	}
	*shown = *block;
	if (!err)
		err = take_other(stacks, block->owner_stack, &shown->owner_stack);
	if (!err)
		err = take_other(stacks, block->waker.stack, &shown->waker.stack);
	shown->stacks = stacks->stacks;
	shown->chain = stacks->links;
	/* As the recorder does: an open period is told again when it ends. */
	if (!err && stacks->groups && block->state != BLOCK_OPEN)
		block_groups_add(stacks->groups, block->wall_ns, heaviest_stack(shown));
	for (size_t i = 0; i < stacks->stack_count && !err && !stacks->native; i++)
		err = fold(stacks, &stacks->stacks[i]);
	return err;
}

/* ---- the summary ---- */

static uint64_t total_of(const struct record_footer *footer, const char *key)
{
	for (size_t i = 0; i < footer->total_count; i++)
		if (!strcmp(footer->totals[i].key, key) && footer->totals[i].value > 0)
			return footer->totals[i].value < 1e18 ? (uint64_t)footer->totals[i].value
							      : 0;
	return 0;
}

int report_stacks_regroup(struct report_stacks *stacks, struct record_footer *footer)
{
	struct footer_block_path *rest = &footer->other_block_paths;
	uint64_t count = total_of(footer, "blocks.count"),
		 total_ns = total_of(footer, "blocks.total_ns");
	uint64_t told, told_ns;

	if (!stacks->groups)
		return 0;
	if (block_groups_take(stacks->groups, BLOCK_PATHS, footer))
		return -ENOMEM;
	/* Blocks whose records were lost are in the totals only. */
	told = rest->count;
	told_ns = rest->total_ns;
	for (size_t i = 0; i < footer->block_path_count; i++) {
		told += footer->block_paths[i].count;
		told_ns += footer->block_paths[i].total_ns;
	}
	rest->count += count > told ? count - told : 0;
	rest->total_ns += total_ns > told_ns ? total_ns - told_ns : 0;
	return 0;
}

void report_stacks_tell(const struct report_stacks *stacks, const struct options *options)
{
	char name[256];

	if (stacks->folded && options->folded)
		fprintf(stderr,
			"jankscope: info: %" PRIu64
			" frames of ART are left out; --native shows them\n",
			stacks->folded);
	if (!stacks->mapping)
		return;
	text_clean(name, sizeof(name), options->mapping);
	if (mapping_left_out(stacks->mapping))
		fprintf(stderr,
			"jankscope: warn: report: too many methods; %" PRIu64
			" frames keep their changed names\n",
			mapping_left_out(stacks->mapping));
	if (!stacks->methods)
		fprintf(stderr, "jankscope: warn: --mapping %s: no method of Java is recorded\n",
			name);
	else if (!stacks->found)
		fprintf(stderr,
			"jankscope: warn: --mapping %s: it has none of the %" PRIu64
			" recorded methods; is it of this build?\n",
			name, stacks->methods);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/outputs.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "core/loop.h"
#include "util/clock.h"

#define MAX_SINKS 8
/* Of the second that a run has to end. */
#define FINISH_NS (600 * NSEC_PER_MSEC)

struct output {
	struct outputs *outputs;
	struct sink *sink;
	uint64_t dropped_told, helper_cpu_ns;
	int fd; /* watched; -1: not */
};

struct outputs {
	struct output list[MAX_SINKS];
	size_t count;
	struct loop *loop;
	void (*ended)(void *ctx);
	void *ctx;
	int error;
	bool finished;
};

struct outputs *outputs_new(void (*ended)(void *ctx), void *ctx)
{
	struct outputs *outputs = calloc(1, sizeof(*outputs));

	if (!outputs)
		return NULL;
	outputs->ended = ended;
	outputs->ctx = ctx;
	return outputs;
}

void outputs_free(struct outputs *outputs)
{
	if (!outputs)
		return;
	outputs_finish(outputs);
	for (size_t i = 0; i < outputs->count; i++)
		outputs->list[i].sink->ops->close(outputs->list[i].sink);
	free(outputs);
}

int outputs_add(struct outputs *outputs, struct sink *sink)
{
	if (!sink || outputs->count == MAX_SINKS)
		return -ENOMEM;
	outputs->list[outputs->count++] =
		(struct output){.outputs = outputs, .sink = sink, .fd = -1};
	return 0;
}

bool outputs_any_left(const struct outputs *outputs)
{
	for (size_t i = 0; i < outputs->count; i++)
		if (!outputs->list[i].sink->done)
			return true;
	return !outputs->count;
}

/* A sink that fails is out. */
static void take_error(struct output *output, int err)
{
	struct outputs *outputs = output->outputs;

	if (!err)
		return;
	output->sink->done = true;
	if (output->fd >= 0)
		loop_remove_fd(outputs->loop, output->fd);
	output->fd = -1;
	if (err != -EPIPE)
		outputs->error = err;
	if (err != -EPIPE || !outputs_any_left(outputs))
		outputs->ended(outputs->ctx);
}

static int on_output(void *ctx, uint32_t events)
{
	struct output *output = ctx;

	take_error(output, output->sink->ops->check(output->sink));
	return 0;
}

int outputs_watch(struct outputs *outputs, struct loop *loop)
{
	outputs->loop = loop;
	for (size_t i = 0; i < outputs->count; i++) {
		struct output *output = &outputs->list[i];
		int fd = output->sink->ops->fd && !output->sink->done
				 ? output->sink->ops->fd(output->sink)
				 : -1;
		int err = fd >= 0 ? loop_add_fd(loop, fd, EPOLLIN, on_output, output) : 0;

		if (err)
			return err;
		output->fd = fd;
	}
	return 0;
}

void outputs_write(struct outputs *outputs, const struct record *record)
{
	/* Nothing comes behind the footer. */
	for (size_t i = 0; i < outputs->count && !outputs->finished; i++) {
		struct sink *sink = outputs->list[i].sink;

		if (!sink->done)
			take_error(&outputs->list[i], sink->ops->write(sink, record));
	}
}

void outputs_take_events(struct outputs *outputs,
			 void (*emit)(void *ctx, const struct record_event *event), void *ctx)
{
	for (size_t i = 0; i < outputs->count; i++) {
		struct sink *sink = outputs->list[i].sink;

		if (sink->ops->events && !sink->done)
			sink->ops->events(sink, emit, ctx);
	}
}

void outputs_hold(struct outputs *outputs, bool held)
{
	for (size_t i = 0; i < outputs->count; i++) {
		struct sink *sink = outputs->list[i].sink;

		if (sink->ops->hold && !sink->done)
			sink->ops->hold(sink, held);
	}
}

void outputs_finish(struct outputs *outputs)
{
	uint64_t deadline_ns = clock_now_ns(CLOCK_MONOTONIC) + FINISH_NS;

	for (size_t i = 0; i < outputs->count && !outputs->finished; i++) {
		struct sink *sink = outputs->list[i].sink;
		int err = sink->ops->finish ? sink->ops->finish(sink, deadline_ns) : 0;

		if (err && err != -EPIPE)
			outputs->error = err;
	}
	outputs->finished = true;
}

int outputs_error(const struct outputs *outputs)
{
	return outputs->error;
}

int outputs_count_dropped(struct outputs *outputs, struct counter_list *lost)
{
	int err = 0;

	for (size_t i = 0; i < outputs->count && !err; i++) {
		struct output *output = &outputs->list[i];

		if (!output->sink->keeps)
			continue;
		err = counter_list_add(lost, "records_dropped",
				       output->sink->dropped - output->dropped_told);
		output->dropped_told = output->sink->dropped;
	}
	return err;
}

uint64_t outputs_tables_dropped(const struct outputs *outputs)
{
	uint64_t dropped = 0;

	for (size_t i = 0; i < outputs->count; i++)
		if (!outputs->list[i].sink->keeps)
			dropped += outputs->list[i].sink->dropped;
	return dropped;
}

uint64_t outputs_take_cpu_ns(struct outputs *outputs)
{
	uint64_t sum_ns = 0;

	for (size_t i = 0; i < outputs->count; i++) {
		struct output *output = &outputs->list[i];
		uint64_t now_ns;

		if (!clock_process_cpu_ns(output->sink->helper, &now_ns) ||
		    now_ns <= output->helper_cpu_ns)
			continue;
		sum_ns += now_ns - output->helper_cpu_ns;
		output->helper_cpu_ns = now_ns;
	}
	return sum_ns;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/perfetto.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "record/telling.h"
#include "sink/perfetto_event.h"
#include "sink/perfetto_janks.h"

/* BuiltinClock of protos/perfetto/common/builtin_clock.proto. */
#define CLOCK_REALTIME_ID  1
#define CLOCK_MONOTONIC_ID 3
#define CLOCK_BOOTTIME_ID  6

struct perfetto {
	struct sink base;
	struct perfetto_tracks *tracks;
};

/* ---- header ---- */

static void take_header(struct perfetto *perfetto, const struct record_header *header)
{
	const struct {
		uint32_t id;
		uint64_t ns;
	} read[] = {{CLOCK_BOOTTIME_ID, header->clock.boot_ns},
		    {CLOCK_MONOTONIC_ID, header->clock.mono_ns},
		    {CLOCK_REALTIME_ID, header->clock.unix_ns}};
	PerfettoTrace__ClockSnapshot__Clock clocks[3], *pointers[3];
	PerfettoTrace__ClockSnapshot snapshot = PERFETTO_TRACE__CLOCK_SNAPSHOT__INIT;
	PerfettoTrace__TracePacket packet = PERFETTO_TRACE__TRACE_PACKET__INIT;

	for (size_t i = 0; i < 3; i++) {
		perfetto_trace__clock_snapshot__clock__init(&clocks[i]);
		clocks[i].has_clock_id = clocks[i].has_timestamp = 1;
		clocks[i].clock_id = read[i].id;
		clocks[i].timestamp = read[i].ns;
		pointers[i] = &clocks[i];
	}
	snapshot.n_clocks = 3;
	snapshot.clocks = pointers;
	snapshot.has_primary_trace_clock = 1;
	snapshot.primary_trace_clock = CLOCK_BOOTTIME_ID;
	packet.has_timestamp = 1;
	packet.timestamp = header->clock.boot_ns;
	packet.clock_snapshot = &snapshot;
	perfetto_put(perfetto->tracks, &packet);
}

/* ---- intervals ---- */

static void take_cpu(struct perfetto *perfetto, const struct record_cpu *cpu)
{
	struct perfetto_tracks *tracks = perfetto->tracks;

	perfetto_sum(tracks, 0, "CPU busy", COUNTER_NS, cpu->busy_ns);
	if (cpu->idle_ns.present)
		perfetto_sum(tracks, 0, "CPU idle", COUNTER_NS, cpu->idle_ns.value);
	perfetto_sum(tracks, 0, "CPU not listed", COUNTER_NS, cpu->other_ns + cpu->overflow_ns);
	for (size_t i = 0; i < cpu->process_count; i++) {
		const struct record_process_cpu *process = &cpu->processes[i];
		uint64_t track = perfetto_process(tracks, process->pid, process->start_boot_ns,
						  process->process);

		if (track)
			perfetto_sum(tracks, track, "CPU", COUNTER_NS, process->cpu_ns);
	}
	for (size_t i = 0; i < cpu->task_count; i++) {
		const struct record_task *task = &cpu->tasks[i];
		uint64_t track = perfetto_thread(tracks, task->pid, task->tid, task->start_boot_ns,
						 task->thread);

		if (!track)
			continue;
		perfetto_sum(tracks, track, "CPU", COUNTER_NS, task->cpu_ns);
		if (task->runnable_ns.present)
			perfetto_sum(tracks, track, "waits for a CPU", COUNTER_NS,
				     task->runnable_ns.value);
	}
}

static void take_bytes(struct perfetto *perfetto, const char *whose,
		       const struct record_bytes *bytes)
{
	char name[160];

	snprintf(name, sizeof(name), "%.120s received", whose);
	perfetto_sum(perfetto->tracks, 0, name, COUNTER_BYTES, bytes->rx_bytes);
	snprintf(name, sizeof(name), "%.120s sent", whose);
	perfetto_sum(perfetto->tracks, 0, name, COUNTER_BYTES, bytes->tx_bytes);
}

static void take_net(struct perfetto *perfetto, const struct record_net *net)
{
	char whose[120];

	for (size_t i = 0; i < net->uid_count; i++) {
		const struct record_uid_net *uid = &net->uids[i];

		snprintf(whose, sizeof(whose), "net uid %u%s%.80s", uid->uid,
			 uid->package ? " " : "", uid->package ? uid->package : "");
		take_bytes(perfetto, whose, &uid->bytes);
	}
	take_bytes(perfetto, "net loopback", &net->loopback);
	take_bytes(perfetto, "net of no uid", &net->unattributed);
}

static void take_frames(struct perfetto *perfetto, const struct record_frames *frames)
{
	for (size_t i = 0; i < frames->layer_count; i++) {
		const struct record_layer *layer = &frames->layers[i];
		const struct {
			const char *what;
			uint64_t count;
		} counts[] = {{"shown", layer->shown},
			      {"dropped", layer->dropped},
			      {"janky", layer->janky}};

		for (size_t k = 0; k < sizeof(counts) / sizeof(*counts); k++) {
			char name[160];

			snprintf(name, sizeof(name), "frames %s %.120s", counts[k].what,
				 layer->layer ? layer->layer : "unknown");
			perfetto_sum(perfetto->tracks, 0, name, COUNTER_COUNT, counts[k].count);
		}
	}
}

static void take_disk(struct perfetto *perfetto, const struct record_disk *disk)
{
	for (size_t i = 0; i < disk->process_count; i++) {
		const struct record_disk_process *process = &disk->processes[i];
		uint64_t track = perfetto_process(perfetto->tracks, process->pid,
						  process->start_boot_ns, process->process);

		if (!track)
			continue;
		perfetto_sum(perfetto->tracks, track, "read from storage", COUNTER_BYTES,
			     process->sums.read_bytes);
		perfetto_sum(perfetto->tracks, track, "written to storage", COUNTER_BYTES,
			     process->sums.write_bytes);
	}
}

static void take_tcp(struct perfetto *perfetto, const struct record_tcp *tcp)
{
	char name[80];

	for (size_t i = 0; i < tcp->uid_count; i++) {
		snprintf(name, sizeof(name), "TCP uid %u segments sent again", tcp->uids[i].uid);
		perfetto_sum(perfetto->tracks, 0, name, COUNTER_COUNT, tcp->uids[i].retransmits);
	}
}

static void take_memory(struct perfetto *perfetto, const struct record_memory *memory,
			uint64_t t_boot_ns)
{
	struct perfetto_tracks *tracks = perfetto->tracks;

	for (size_t i = 0; i < memory->process_count; i++) {
		const struct record_memory_process *process = &memory->processes[i];
		uint64_t track = perfetto_process(tracks, process->pid, process->start_boot_ns,
						  process->process);
		const struct {
			const char *name;
			counter_unit unit;
			struct opt_u64 value;
		} parts[] = {{"RSS", COUNTER_BYTES, process->rss_bytes},
			     {"PSS", COUNTER_BYTES, process->pss_bytes},
			     {"swap", COUNTER_BYTES, process->swap_bytes},
			     {"threads", COUNTER_COUNT, process->threads},
			     {"descriptors", COUNTER_COUNT, process->fds}};

		for (size_t k = 0; track && k < sizeof(parts) / sizeof(*parts); k++)
			if (parts[k].value.present)
				perfetto_count(tracks, track, parts[k].name, parts[k].unit,
					       t_boot_ns, (int64_t)parts[k].value.value);
	}
	if (memory->system.available_bytes.present)
		perfetto_count(tracks, 0, "memory available", COUNTER_BYTES, t_boot_ns,
			       (int64_t)memory->system.available_bytes.value);
}

static void take_power(struct perfetto *perfetto, const struct record_power *power,
		       uint64_t t_boot_ns)
{
	const struct record_supply *battery = &power->battery;
	const struct {
		const char *name;
		bool present;
		int64_t value;
	} parts[] = {
		{"battery current, uA", battery->current_ua.present, battery->current_ua.value},
		{"battery voltage, uV", battery->voltage_uv.present,
		 (int64_t)battery->voltage_uv.value},
		{"battery charge, %", battery->charge_pct.present,
		 (int64_t)battery->charge_pct.value},
	};
	struct perfetto_tracks *tracks = perfetto->tracks;
	char name[160];

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (parts[i].present)
			perfetto_count(tracks, 0, parts[i].name, COUNTER_OTHER, t_boot_ns,
				       parts[i].value);
	for (size_t i = 0; i < power->zone_count; i++) {
		const struct record_zone *zone = &power->zones[i];

		if (!zone->temperature_mc.present)
			continue;
		snprintf(name, sizeof(name), "temperature %" PRIu32 " %.100s, 0.001 C", zone->zone,
			 zone->type ? zone->type : "");
		perfetto_count(tracks, 0, name, COUNTER_OTHER, t_boot_ns,
			       zone->temperature_mc.value);
	}
	for (size_t i = 0; i < power->policy_count; i++) {
		snprintf(name, sizeof(name), "limit of policy%" PRIu32 ", kHz",
			 power->policies[i].policy);
		perfetto_count(tracks, 0, name, COUNTER_OTHER, t_boot_ns,
			       (int64_t)power->policies[i].limit_khz);
	}
}

static void take_losses(struct perfetto *perfetto, const struct record_interval *interval)
{
	char name[160];

	for (size_t i = 0; i < interval->lost.count; i++) {
		snprintf(name, sizeof(name), "lost %.120s", interval->lost.items[i].name);
		perfetto_sum(perfetto->tracks, 0, name, COUNTER_COUNT,
			     interval->lost.items[i].value);
	}
}

static void take_interval(struct perfetto *perfetto, const struct record_interval *interval,
			  uint64_t t_boot_ns)
{
	uint64_t begin_ns = t_boot_ns > interval->dur_ns ? t_boot_ns - interval->dur_ns : 0;

	if (interval->cpu.present)
		take_cpu(perfetto, &interval->cpu);
	if (interval->net.present)
		take_net(perfetto, &interval->net);
	if (interval->frames.present)
		take_frames(perfetto, &interval->frames);
	if (interval->disk.present)
		take_disk(perfetto, &interval->disk);
	if (interval->tcp.present)
		take_tcp(perfetto, &interval->tcp);
	perfetto_sum(perfetto->tracks, 0, "jankscope CPU", COUNTER_NS, interval->self.cpu_ns);
	take_losses(perfetto, interval);
	perfetto_end_sums(perfetto->tracks, begin_ns);
	/* What is true at the end of the interval. */
	take_memory(perfetto, &interval->memory, t_boot_ns);
	take_power(perfetto, &interval->power, t_boot_ns);
}

/* ---- blocks ---- */

static void take_block(struct perfetto *perfetto, const struct record_block *block)
{
	static const char *const classes[] = {"short", "long", "ANR"};
	const struct record_stack *stack = heaviest_stack(block);
	struct perfetto_arguments arguments = {.tracks = perfetto->tracks};
	char name[64 + TELLING_NAME], full[TELLING_NAME], telling[TELLING_NAME] = "";
	uint64_t track;

	if (stack && stack->frame_count)
		function_short(telling, sizeof(telling),
			       frame_name(full, sizeof(full),
					  &stack->frames[telling_frame(stack, false)]));
	snprintf(name, sizeof(name), "BLOCK %s%s%s", classes[block->class], *telling ? ": " : "",
		 telling);
	perfetto_add_number(&arguments, "wall_ns", block->wall_ns);
	perfetto_add_number(&arguments, "ledger.running_ns", block->ledger.running_ns);
	perfetto_add_number(&arguments, "ledger.runnable_ns", block->ledger.runnable_ns);
	perfetto_add_number(&arguments, "ledger.sleeping_ns", block->ledger.sleeping_ns);
	perfetto_add_number(&arguments, "ledger.uninterruptible_ns",
			    block->ledger.uninterruptible_ns);
	perfetto_add_number(&arguments, "ledger.stopped_ns", block->ledger.stopped_ns);
	if (block->reason_count)
		perfetto_add_text(&arguments, "reason", block->reasons[0].reason);
	if (block->waker.present)
		perfetto_add_thread(&arguments, "waker", block->waker.thread, block->waker.tid,
				    block->waker.process, block->waker.pid);
	if (block->owner.present)
		perfetto_add_thread(&arguments, "owner", block->owner.thread, block->owner.tid,
				    block->owner.process, block->owner.pid);
	perfetto_add_chain(&arguments, block->chain, block->chain_count);
	perfetto_add_stack(&arguments, "stack", stack);
	perfetto_add_stack(&arguments, "owner_stack", block->owner_stack);
	perfetto_add_stack(&arguments, "waker_stack", block->waker.stack);
	if (block->process)
		perfetto_process(perfetto->tracks, block->pid, 0, block->process);
	track = perfetto_thread(perfetto->tracks, block->pid, block->tid, 0, NULL);
	/* In one file with a trace of the app the thread's own track has the app's slices, with
	 * which blocks would have to nest. */
	if (track)
		track = perfetto_lane(perfetto->tracks, track, "blocks", block->start_boot_ns,
				      block->start_boot_ns + block->wall_ns);
	perfetto_put_event(perfetto->tracks, PERFETTO_BEGIN, track, block->start_boot_ns, name,
			   &arguments);
	perfetto_put_event(perfetto->tracks, PERFETTO_END, track,
			   block->start_boot_ns + block->wall_ns, NULL, NULL);
}

/* ---- events ---- */

static const char *key_text(const struct record_event *event, const char *name)
{
	for (size_t i = 0; i < event->key_count; i++)
		if (!strcmp(event->keys[i].name, name))
			return event->keys[i].text;
	return NULL;
}

static void take_mark(struct perfetto *perfetto, const struct record_event *event,
		      uint64_t t_boot_ns)
{
	const char *name = key_text(event, "name"), *state = key_text(event, "state");
	char track[160];

	if (!name || !state)
		return;
	snprintf(track, sizeof(track), "scene %.120s", name);
	perfetto_put_event(perfetto->tracks, strcmp(state, "end") ? PERFETTO_BEGIN : PERFETTO_END,
			   perfetto_track(perfetto->tracks, track), t_boot_ns,
			   strcmp(state, "end") ? name : NULL, NULL);
}

static void take_event(struct perfetto *perfetto, const struct record_event *event,
		       uint64_t t_boot_ns)
{
	struct perfetto_arguments arguments = {.tracks = perfetto->tracks};
	char number[40];

	if (!strcmp(event->event, "mark")) {
		take_mark(perfetto, event, t_boot_ns);
		return;
	}
	for (size_t i = 0; i < event->key_count; i++) {
		const struct event_key *key = &event->keys[i];

		if (!key->text && !key->real) {
			perfetto_add_number(&arguments, key->name, (uint64_t)key->value);
			continue;
		}
		if (!key->text)
			snprintf(number, sizeof(number), "%.17g", key->number);
		perfetto_add_text(&arguments, key->name, key->text ? key->text : number);
	}
	perfetto_put_event(perfetto->tracks, PERFETTO_INSTANT,
			   perfetto_track(perfetto->tracks, "jankscope events"), t_boot_ns,
			   event->event, &arguments);
}

/* ---- the sink ---- */

static int perfetto_write(struct sink *sink, const struct record *record)
{
	struct perfetto *perfetto = (struct perfetto *)sink;

	switch (record->type) {
	case RECORD_HEADER:
		take_header(perfetto, record->header);
		break;
	case RECORD_INTERVAL:
		take_interval(perfetto, record->interval, record->t_boot_ns);
		break;
	case RECORD_BLOCK:
		take_block(perfetto, record->block);
		break;
	case RECORD_JANK:
		perfetto_take_jank(perfetto->tracks, record->jank);
		break;
	case RECORD_EVENT:
		take_event(perfetto, record->event, record->t_boot_ns);
		break;
	default:
		break;
	}
	sink->dropped += perfetto_tracks_refused(perfetto->tracks) != 0;
	return perfetto_tracks_error(perfetto->tracks);
}

static void perfetto_close(struct sink *sink)
{
	perfetto_tracks_free(((struct perfetto *)sink)->tracks);
	free(sink);
}

struct sink *perfetto_sink_new(FILE *to)
{
	static const struct sink_ops ops = {
		.name = "perfetto", .write = perfetto_write, .close = perfetto_close};
	struct perfetto *perfetto = calloc(1, sizeof(*perfetto));

	if (!perfetto)
		return NULL;
	perfetto->base.ops = &ops;
	perfetto->tracks = perfetto_tracks_new(to, PERFETTO_TRACKS);
	if (perfetto->tracks)
		return &perfetto->base;
	free(perfetto);
	errno = ENOMEM;
	return NULL;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether the records lie in time, and the segments in the folder, as their writer put them there,
 * and whether the sums of an interval are those of its rows. */
#include "store/verify_private.h"

#include <string.h>

#include "util/clock.h"
#include "util/crc32c.h"

/* No machine is up for a hundred years. */
#define MAX_BOOT_NS (100ull * 365 * 86400 * NSEC_PER_SEC)

/* Records that a recorder had before its header was written may be as old as that took: 0.1 s was
 * seen, of a recorder that was started again on a busy machine. */
#define BEFORE_RUN_NS (60 * NSEC_PER_SEC)

static void add_untimely(struct verifier *v, uint64_t t_boot_ns, uint64_t bound_ns)
{
	struct finding *finding = verifier_add_finding(v, FINDING_UNTIMELY);

	finding->first = t_boot_ns;
	finding->last = bound_ns;
}

void verifier_end_segment(struct verifier *v)
{
	verifier_end_pending(v);
	if (v->segment && !v->line)
		verifier_add_finding(v, FINDING_NO_HEADER);
}

uint32_t verifier_header_crc(const char *line, size_t length)
{
	static const char key[] = ",\"segment\":{";
	const char *end = line + length, *at = end;

	for (const char *p = line; (p = memmem(p, (size_t)(end - p), key, sizeof(key) - 1)); p++)
		at = p;
	return crc32c(0, line, (size_t)(at - line));
}

void verifier_begin_time(struct verifier *v, uint64_t t_boot_ns)
{
	bool possible = t_boot_ns <= MAX_BOOT_NS;

	if (!possible)
		add_untimely(v, t_boot_ns, MAX_BOOT_NS);
	v->begin_ns = possible && t_boot_ns > BEFORE_RUN_NS ? t_boot_ns - BEFORE_RUN_NS : 0;
	v->end_ns = v->begin_ns;
}

/* The recorder takes the time when it emits a record, so seq and time go on together. Of other
 * types than these two, what others make of a recording need not. */
void verifier_check_time(struct verifier *v, const struct line_look *look)
{
	bool in_order = !strcmp(look->type, "interval") || !strcmp(look->type, "footer");
	uint64_t from_ns = in_order ? v->end_ns : v->begin_ns;

	if (!*look->type)
		return;
	if (look->t_boot_ns > MAX_BOOT_NS) {
		add_untimely(v, look->t_boot_ns, MAX_BOOT_NS);
		return;
	}
	if (look->t_boot_ns < from_ns)
		add_untimely(v, look->t_boot_ns, from_ns);
	/* What follows is held against this one: each step back is told once. */
	if (in_order)
		v->end_ns = look->t_boot_ns;
}

void verifier_check_number(struct verifier *v, const struct record_header *header)
{
	const struct header_segment *segment = &header->segment;
	bool begins = !v->run || strcmp(header->session, v->session);
	struct finding *finding;

	if (!v->segment || v->line > 1)
		return;
	if (segment->number != v->segment)
		verifier_add_finding(v, FINDING_MISNUMBERED)->first = segment->number;
	/* Within a run a gap in seq tells of segments that are not there. */
	if (!begins || segment->first_seq > 1 || v->segment <= v->last_segment + 1)
		return;
	finding = verifier_add_finding(v, FINDING_NO_SEGMENTS);
	finding->first = v->last_segment + 1;
	finding->last = v->segment - 1;
	finding->before = v->last_segment;
	finding->at_segment = true;
}

void verifier_check_last(struct verifier *v, uint64_t last_known)
{
	struct finding *finding;

	if (last_known <= v->segment)
		return;
	finding = verifier_add_finding(v, FINDING_NO_SEGMENTS);
	finding->first = v->segment + 1;
	finding->last = last_known;
}

static void add_contradictory(struct verifier *v, const char *key, uint64_t value,
			      const char *other, uint64_t other_value)
{
	struct finding *finding = verifier_add_finding(v, FINDING_CONTRADICTORY);

	finding->key = key;
	finding->other = other;
	finding->first = value;
	finding->last = other_value;
}

void verifier_check_length(struct verifier *v, const struct record *record, uint64_t length_ns)
{
	if (length_ns > record->t_boot_ns)
		add_contradictory(v, record->type == RECORD_BLOCK ? "wall_ns" : "dur_ns", length_ns,
				  "t_boot_ns", record->t_boot_ns);
}

void verifier_check_interval(struct verifier *v, const struct record *record)
{
	const struct record_cpu *cpu = &record->interval->cpu;
	uint64_t sum = cpu->other_ns;
	bool fits = !__builtin_add_overflow(sum, cpu->overflow_ns, &sum);

	verifier_check_length(v, record, record->interval->dur_ns);
	for (size_t i = 0; i < cpu->task_count && fits; i++)
		fits = !__builtin_add_overflow(sum, cpu->tasks[i].cpu_ns, &sum);
	if (cpu->present && (!fits || sum != cpu->busy_ns))
		add_contradictory(v, "cpu.busy_ns", cpu->busy_ns,
				  "the sum of its tasks, other_ns and overflow_ns",
				  fits ? sum : UINT64_MAX);
}

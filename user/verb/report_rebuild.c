/* SPDX-License-Identifier: BSD-2-Clause */
#include "verb/report_rebuild.h"

#include <errno.h>
#include <stdlib.h>

#include "jankscope/source.h"
#include "record/losses.h"
#include "source/power/totals.h"
#include "summary/summary.h"

/* What only the recorder knew: it is in no record. */
static const struct {
	const char *key, *reason;
} unknown[] = {
	{"captures", "only the footer of the run has them"},
	{"calls_held_up", "only the footer of the run has them"},
};

static const char no_footer[] = "the run has none: it was not written to its end, and this is the "
				"sum of the records that are there",
		  is_selected[] = "this is the sum of the records that were selected";

struct report_rebuild {
	struct loss_registry losses;
	struct summary *summary;
	bool selected;
	struct power_totals power;
	bool frames_known;
	uint64_t shown, dropped, janky, judged;
	uint64_t records;
	struct record_footer footer;
	struct missing_list missing;
	struct record record;
};

struct report_rebuild *report_rebuild_new(bool selected)
{
	struct report_rebuild *rebuild = calloc(1, sizeof(*rebuild));

	if (!rebuild)
		return NULL;
	rebuild->selected = selected;
	loss_registry_add(&rebuild->losses, &summary_losses);
	for (size_t i = 0; i < source_declaration_count; i++)
		if (source_declarations[i]->losses)
			loss_registry_add(&rebuild->losses, source_declarations[i]->losses);
	rebuild->summary = summary_new(&rebuild->losses);
	if (rebuild->summary)
		return rebuild;
	free(rebuild);
	return NULL;
}

void report_rebuild_free(struct report_rebuild *rebuild)
{
	if (!rebuild)
		return;
	summary_free(rebuild->summary);
	missing_list_free(&rebuild->missing);
	free(rebuild);
}

void report_rebuild_skip(struct report_rebuild *rebuild, uint64_t begin_boot_ns)
{
	summary_skip(rebuild->summary, begin_boot_ns);
}

uint64_t report_rebuild_records(const struct report_rebuild *rebuild)
{
	return rebuild->records;
}

/* Whether the recorder could not tell if power came from outside. */
static bool is_external_untold(const struct record_interval *interval)
{
	return !interval->power.external &&
	       missing_reason(&interval->missing, "power.discharge_mean_ua");
}

static void add_interval(struct report_rebuild *rebuild, const struct record_interval *interval)
{
	const struct record_frames *frames = &interval->frames;

	/* What its reading cost no record has. */
	if (interval->power.present)
		power_totals_add(&rebuild->power, &interval->power, is_external_untold(interval),
				 0);
	rebuild->frames_known |= frames->present;
	for (size_t i = 0; i < frames->layer_count; i++) {
		rebuild->shown += frames->layers[i].shown;
		rebuild->dropped += frames->layers[i].dropped;
		rebuild->janky += frames->layers[i].janky;
		if (frames->layers[i].judged.present)
			rebuild->judged += frames->layers[i].judged.value;
	}
}

int report_rebuild_add(struct report_rebuild *rebuild, const struct record *record)
{
	rebuild->records++;
	rebuild->record.seq = record->seq;
	rebuild->record.t_boot_ns = record->t_boot_ns;
	if (record->type == RECORD_INTERVAL)
		add_interval(rebuild, record->interval);
	return summary_add(rebuild->summary, record);
}

static int set_totals(struct report_rebuild *rebuild)
{
	struct summary *summary = rebuild->summary;
	int err = power_totals_tell(&rebuild->power, summary);

	if (!rebuild->frames_known)
		return err;
	if (!err)
		err = summary_set_total(summary, "frames.shown", (double)rebuild->shown);
	if (!err)
		err = summary_set_total(summary, "frames.dropped", (double)rebuild->dropped);
	if (!err)
		err = summary_set_total(summary, "frames.janky", (double)rebuild->janky);
	/* As the recorder has it; older ones did not tell of how many. */
	if (!err && rebuild->judged)
		err = summary_set_total(summary, "frames.jank_pct",
					100.0 * (double)rebuild->janky / (double)rebuild->judged);
	return err;
}

const struct record *report_rebuild_footer(struct report_rebuild *rebuild)
{
	int err = set_totals(rebuild);
	const struct record_footer *footer = err ? NULL : summary_footer(rebuild->summary);

	if (!footer)
		return NULL;
	rebuild->footer = *footer;
	for (size_t i = 0; i < footer->missing.count && !err; i++)
		err = missing_list_set(&rebuild->missing, footer->missing.items[i].key,
				       footer->missing.items[i].reason);
	if (!err)
		err = missing_list_set(&rebuild->missing, "footer",
				       rebuild->selected ? is_selected : no_footer);
	for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown) && !err; i++)
		err = missing_list_set(&rebuild->missing, unknown[i].key, unknown[i].reason);
	rebuild->footer.missing = rebuild->missing;
	rebuild->record.type = RECORD_FOOTER;
	rebuild->record.footer = &rebuild->footer;
	errno = -err;
	return err ? NULL : &rebuild->record;
}

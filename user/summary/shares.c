/* SPDX-License-Identifier: BSD-2-Clause */
/* How much of each whole was lost. */
#include <stdio.h>

#include "record/losses.h"
#include "summary/summary_private.h"

/* What was told of a whole, with those parts of the losses that it counts already. */
static double told(const struct summary *summary, enum loss_of of)
{
	switch (of) {
	case LOSS_OF_CPU_TIME:
		return summary_get(summary, "cpu.busy_ns") -
		       summary_get(summary, "cpu.overflow_ns");
	case LOSS_OF_TASKS:
		return (double)summary->exits;
	case LOSS_OF_BYTES:
		return summary_get(summary, "net.rx_bytes") + summary_get(summary, "net.tx_bytes") +
		       summary_get(summary, "net.unattributed.rx_bytes") +
		       summary_get(summary, "net.unattributed.tx_bytes");
	case LOSS_OF_PACKETS:
		return summary_get(summary, "net.rx_packets") +
		       summary_get(summary, "net.tx_packets") +
		       summary_get(summary, "net.unattributed.rx_packets") +
		       summary_get(summary, "net.unattributed.tx_packets");
	case LOSS_OF_BLOCKS:
		return (double)summary->blocks;
	case LOSS_OF_STACKS:
		return (double)(summary->blocks - summary->blocks_bare);
	case LOSS_OF_FRAMES:
		return (double)summary->frames;
	case LOSS_OF_RECORDS:
		return (double)summary->records;
	case LOSS_OF_NOTHING:
	case LOSS_OF_COUNT:
		break;
	}
	return 0;
}

double summary_lost_pct_of(const struct summary *summary, enum loss_of of)
{
	const struct counter_list *list = &summary->footer.lost;
	double whole = told(summary, of), lost = 0;

	for (size_t i = 0; i < list->count; i++)
		if (loss_registry_find(summary->registry, list->items[i].name).of == of)
			lost += (double)list->items[i].value;
	if (of == LOSS_OF_CPU_TIME)
		lost += summary_get(summary, "cpu.overflow_ns");
	if (of == LOSS_OF_STACKS)
		lost += (double)summary->blocks_bare;
	/* These lost bytes are in net.unattributed, lost tasks may be listed, and a record that was
	 * dropped was told to the summary. */
	if (of == LOSS_OF_BYTES || of == LOSS_OF_TASKS || of == LOSS_OF_RECORDS)
		whole = whole > lost ? whole - lost : 0;
	if (whole + lost <= 0)
		return -1;
	return 100 * lost / (whole + lost);
}

double summary_lost_pct(const struct summary *summary)
{
	double pct = 0;

	for (int of = LOSS_OF_NOTHING + 1; of < LOSS_OF_COUNT; of++) {
		double one = summary_lost_pct_of(summary, (enum loss_of)of);

		if (one > pct)
			pct = one;
	}
	return pct;
}

bool summary_describe_losses(const struct summary *summary, double limit_pct, char *text,
			     size_t size)
{
	size_t n = 0;

	*text = 0;
	for (int of = LOSS_OF_NOTHING + 1; of < LOSS_OF_COUNT; of++) {
		double pct = summary_lost_pct_of(summary, (enum loss_of)of);

		if (pct > limit_pct && n < size)
			n += (size_t)snprintf(text + n, size - n, "%s%.2f %% of %s", n ? ", " : "",
					      pct, loss_of_name((enum loss_of)of));
	}
	return n > 0;
}

/* Every share that there is a whole of, under its name; 0 is told too. */
int summary_set_shares(struct summary *summary)
{
	int err = 0;

	for (int of = LOSS_OF_NOTHING + 1; of < LOSS_OF_COUNT && !err; of++) {
		double pct = summary_lost_pct_of(summary, (enum loss_of)of);
		char key[64];

		if (pct < 0)
			continue;
		snprintf(key, sizeof(key), "lost_pct_of.%s", loss_of_name((enum loss_of)of));
		err = summary_set_total(summary, key, pct);
	}
	return err ? err : summary_set_total(summary, "lost_pct", summary_lost_pct(summary));
}

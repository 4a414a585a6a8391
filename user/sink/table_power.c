/* SPDX-License-Identifier: BSD-2-Clause */
/* What the table prints of batteries, heat and energy. */
#include <stdio.h>
#include <string.h>

#include "sink/table_private.h"

static const struct record_zone *hottest(const struct record_power *power)
{
	const struct record_zone *found = NULL;

	for (size_t i = 0; i < power->zone_count; i++)
		if (power->zones[i].temperature_mc.present &&
		    (!found || power->zones[i].temperature_mc.value > found->temperature_mc.value))
			found = &power->zones[i];
	return found;
}

void table_print_power(struct table_sink *table, const struct record_power *power)
{
	const struct record_supply *battery = &power->battery;
	const struct record_zone *zone = hottest(power);
	struct line line = table_line(table);
	char text[TABLE_NAME];
	bool any = false;

	line_put(&line, "  power");
	if (battery->current_ua.present) {
		line_put(&line, " %.1f mA", (double)battery->current_ua.value / 1e3);
		any = true;
	}
	if (battery->voltage_uv.present) {
		line_put(&line, " %.3f V", (double)battery->voltage_uv.value / 1e6);
		any = true;
	}
	if (battery->charge_pct.present) {
		line_put(&line, " %llu %%", (unsigned long long)battery->charge_pct.value);
		any = true;
	}
	if (battery->status) {
		line_put(&line, " %s", text_tail(text, sizeof(text), battery->status, 24));
		any = true;
	}
	if (battery->temperature_mc.present) {
		line_put(&line, " %.1f C", (double)battery->temperature_mc.value / 1e3);
		any = true;
	}
	if (power->external)
		line_put(&line, " (external power)");
	if (zone) {
		line_put(&line, "%s hottest %s", any || power->external ? "," : "",
			 text_tail(text, sizeof(text), zone->type, 24));
		line_put(&line, " %.1f C", (double)zone->temperature_mc.value / 1e3);
		any = true;
	}
	for (size_t i = 0; i < power->policy_count; i++) {
		const struct record_policy *policy = &power->policies[i];

		if (!policy->capped)
			continue;
		line_style(&line, LINE_WARN);
		line_put(&line, " capped policy%u", policy->policy);
		line_put(&line, " %llu", (unsigned long long)policy->limit_khz / 1000);
		line_put(&line, " of %llu MHz", (unsigned long long)policy->max_khz / 1000);
		line_style(&line, LINE_PLAIN);
		any = true;
	}
	if (!any && !power->external)
		line_put(&line, " -");
	line_end(&line);
}

/* "power.zones.NAME.max_mc": NAME, which has no dot. */
static bool name_of_total(const char *key, const char *prefix, const char *suffix, char *name,
			  size_t size)
{
	size_t before = strlen(prefix), after = strlen(suffix), length = strlen(key);

	if (length <= before + after || strncmp(key, prefix, before) ||
	    strcmp(key + length - after, suffix))
		return false;
	snprintf(name, size, "%.*s", (int)(length - before - after), key + before);
	return true;
}

/* The largest of the totals of that shape. */
static const struct summary_total *largest(const struct record_footer *footer, const char *prefix,
					   const char *suffix, char *name, size_t size)
{
	const struct summary_total *found = NULL;
	char other[TABLE_NAME];

	for (size_t i = 0; i < footer->total_count; i++) {
		const struct summary_total *total = &footer->totals[i];

		if (!name_of_total(total->key, prefix, suffix, other, sizeof(other)) ||
		    (found && found->value >= total->value))
			continue;
		found = total;
		snprintf(name, size, "%s", other);
	}
	return found;
}

void table_print_power_totals(struct table_sink *table, const struct record_footer *footer)
{
	double read_outs = table_total(footer, "power.read_outs");
	double external = table_total(footer, "power.external_read_outs");
	double discharge_s = table_total(footer, "power.discharge_ns") / 1e9;
	struct line line = table_line(table);
	char name[TABLE_NAME], text[TABLE_NAME];
	const struct summary_total *found;

	if (read_outs <= 0)
		return;
	line_put(&line, "  power: %.0f read-outs", read_outs);
	if (external > 0)
		line_put(&line, ", external power at %.0f of them: no discharge is told", external);
	if (discharge_s > 0) {
		line_put(&line, ", discharging: mean %.1f mA",
			 table_total(footer, "power.discharge_mean_ua") / 1e3);
		line_put(&line, ", %.0f uAh in", table_total(footer, "power.discharge_uah"));
		line_put(&line, " %.1f s", discharge_s);
	}
	found = largest(footer, "power.zones.", ".max_mc", name, sizeof(name));
	if (found) {
		line_put(&line, ", hottest %s", text_tail(text, sizeof(text), name, 24));
		line_put(&line, " %.1f C", found->value / 1e3);
	}
	found = largest(footer, "power.rails.", ".energy_uj", name, sizeof(name));
	if (found) {
		line_put(&line, ", energy of %s", text_tail(text, sizeof(text), name, 24));
		line_put(&line, " %.3f J", found->value / 1e6);
	}
	found = largest(footer, "power.policies.", ".capped_ns", name, sizeof(name));
	if (found) {
		line_put(&line, ", %s capped", text_tail(text, sizeof(text), name, 24));
		line_put(&line, " for %.1f s", found->value / 1e9);
	}
	line_end(&line);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* What is in a recording, from the table of fields. */
#include "cli/options_private.h"
#include "record/fields.h"

static int put_field(void *ctx, const struct field_visit *visit)
{
	const char *unit = field_unit_name(visit->field);
	bool list = visit->field->kind == FIELD_LIST;
	char term[192];

	snprintf(term, sizeof(term), "%s%s%s%s%s", visit->path, list ? "[]" : "",
		 unit[0] ? " (" : "", unit, unit[0] ? ")" : "");
	options_put_item(ctx, term, visit->field->meaning);
	return 0;
}

void options_print_records(FILE *out)
{
	fputs(".SH RECORDS\nOne JSON object a line. Each has type, seq (without a gap), t_boot_ns "
	      "(CLOCK_BOOTTIME, ns) and crc, the CRC\\-32C of the bytes before its own key. What "
	      "has no value has no key, and is never 0. jankscope record \\-\\-json\\-schema "
	      "prints the same as a JSON schema.\n",
	      out);
	for (int type = 0; type < RECORD_TYPES; type++) {
		fprintf(out, ".SS %s\n%s.\n", record_type_names[type], record_types[type]->meaning);
		field_each((enum record_type)type, put_field, out);
	}
}

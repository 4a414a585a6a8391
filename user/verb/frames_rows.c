/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/json_text.h"
#include "verb/frames_print.h"
#include <inttypes.h>
#include <string.h>

struct texts {
	const char *layer, *present, *jank, *tag, *prediction, *severity;
	char jank_buffer[512];
};

static void texts_of(struct texts *texts, const struct analysis *analysis,
		     const struct timeline_row *row)
{
	texts->layer = row->has_layer ? analysis_layer(analysis, row->layer)->name : "";
	if (!texts->layer[0])
		texts->layer = NULL;
	texts->present = timeline_present_text(row->present_type);
	texts->jank = timeline_jank_text(row->jank, texts->jank_buffer, sizeof(texts->jank_buffer));
	texts->tag = timeline_tag_text(row->jank, row->present_type, row->surface);
	texts->prediction = timeline_prediction_text(row->prediction_type);
	texts->severity = timeline_severity_text(row->has_severity, row->severity, row->jank);
}

void frames_print_row_json(FILE *out, const struct analysis *analysis,
			   const struct timeline_row *row)
{
	struct texts texts;

	texts_of(&texts, analysis, row);
	fprintf(out, "{\"ts_ns\":%" PRId64 ",\"dur_ns\":%" PRId64 ",\"pid\":%d", row->ts_ns,
		row->dur_ns, row->pid);
	if (row->machine)
		fprintf(out, ",\"machine_id\":%u", row->machine);
	if (texts.layer) {
		fputs(",\"layer\":", out);
		json_put_string(out, texts.layer, strlen(texts.layer));
	}
	fprintf(out, ",\"display_frame_token\":%" PRId64, row->display_token);
	if (row->surface)
		fprintf(out, ",\"surface_frame_token\":%" PRId64, row->token);
	fprintf(out,
		",\"present_type\":\"%s\",\"on_time_finish\":%d,\"gpu_composition\":%d,"
		"\"jank_type\":\"%s\",\"jank_tag\":\"%s\",\"prediction_type\":\"%s\","
		"\"severity\":\"%s\"}",
		texts.present, row->on_time, row->gpu, texts.jank, texts.tag, texts.prediction,
		texts.severity);
}

/* Somebody else's name: a control byte in it would break the row, or drive the terminal. */
static void put_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text, next = (unsigned char)text[1];

		if (c < 0x20 || c == 0x7f)
			fprintf(out, "\\x%02x", c);
		else if (c == 0xc2 && next >= 0x80 && next < 0xa0)
			fprintf(out, "\\xc2\\x%02x", (unsigned char)*++text);
		else
			putc(c, out);
	}
}

void frames_print_row_header(FILE *out)
{
	fputs("ts\tdur\tpid\tproc\tdisplay_frame_token\tsurface_frame_token\tlayer_name\t"
	      "present_type\ton_time_finish\tgpu_composition\tjank_type\tprediction_type\t"
	      "jank_tag\tjank_severity_type\n",
	      out);
}

void frames_print_row_text(FILE *out, const struct analysis *analysis,
			   const struct timeline_row *row)
{
	const char *process = row->machine ? NULL : analysis_process(analysis, row->pid);
	char token[24] = "NULL";
	struct texts texts;

	texts_of(&texts, analysis, row);
	if (row->surface)
		snprintf(token, sizeof(token), "%" PRId64, row->token);
	fprintf(out, "%" PRId64 "\t%" PRId64 "\t%d\t", row->ts_ns, row->dur_ns, row->pid);
	put_text(out, process ? process : "NULL");
	fprintf(out, "\t%" PRId64 "\t%s\t", row->display_token, token);
	put_text(out, texts.layer ? texts.layer : "NULL");
	fprintf(out, "\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", texts.present, row->on_time, row->gpu,
		texts.jank, texts.prediction, texts.tag, texts.severity);
}

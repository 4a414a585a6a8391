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
	texts->layer =
		row->has_layer && row->has_name ? analysis_layer(analysis, row->layer)->name : NULL;
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
	fprintf(out, "{\"ts_ns\":%" PRId64 ",\"dur_ns\":%" PRId64 ",\"pid\":%u", row->ts_ns,
		row->dur_ns, (uint32_t)row->pid); /* unsigned, as trace_processor has it */
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

/* Bytes of the UTF-8 sequence at p, or of what begins like one and is to be replaced as a whole
 * (Unicode 3.9, substitution of maximal subparts). */
static size_t utf8_step(const unsigned char *p, bool *whole)
{
	size_t n = p[0] < 0x80                    ? 1
		   : p[0] >= 0xc2 && p[0] <= 0xdf ? 2
		   : p[0] >= 0xe0 && p[0] <= 0xef ? 3
		   : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4
						  : 0;
	unsigned char low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
	unsigned char high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
	size_t at = 1;

	/* the text is terminated: the loop ends there */
	for (; at < n && p[at] >= low && p[at] <= high; at++) {
		low = 0x80;
		high = 0xbf;
	}
	*whole = n && at == n;
	return at;
}

/* Somebody else's name: a control byte in it would break the row, or drive the terminal. What is no
 * UTF-8 is replaced by U+FFFD. */
static void put_text(FILE *out, const char *text)
{
	const unsigned char *p = (const unsigned char *)text;

	while (*p) {
		bool whole;
		size_t n = utf8_step(p, &whole);

		if (!whole)
			fputs("\xef\xbf\xbd", out);
		else if (*p < 0x20 || *p == 0x7f)
			fprintf(out, "\\x%02x", *p);
		else if (*p == 0xc2 && p[1] < 0xa0)
			fprintf(out, "\\xc2\\x%02x", p[1]);
		else
			fwrite(p, 1, n, out);
		p += n;
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
	fprintf(out, "%" PRId64 "\t%" PRId64 "\t%u\t", row->ts_ns, row->dur_ns, (uint32_t)row->pid);
	put_text(out, process ? process : "NULL");
	fprintf(out, "\t%" PRId64 "\t%s\t", row->display_token, token);
	put_text(out, texts.layer ? texts.layer : "NULL");
	fprintf(out, "\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", texts.present, row->on_time, row->gpu,
		texts.jank, texts.prediction, texts.tag, texts.severity);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/folded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/telling.h"

/* A name inside a folded line: ';' separates names and a newline ends the line. */
static void put_name(FILE *out, const char *name)
{
	size_t plain;

	for (; *name; name += plain) {
		for (plain = 0; (unsigned char)name[plain] >= ' ' && name[plain] != ';';)
			plain++;
		if (plain)
			fwrite(name, 1, plain, out);
		else
			putc(name[plain++] == ';' ? ',' : '?', out);
	}
}

char *stack_folded_line(const struct record_stack *stack)
{
	char *line = NULL;
	size_t size;
	FILE *out = open_memstream(&line, &size);

	if (!out)
		return NULL;
	for (size_t i = stack->frame_count; i--;) {
		const struct record_frame *frame = &stack->frames[i];
		const char *module = frame->module ? strrchr(frame->module, '/') : NULL;

		if (frame->symbol && !frame->shared) {
			put_name(out, frame->symbol);
		} else {
			putc('[', out);
			put_name(out, module          ? module + 1
				      : frame->module ? frame->module
						      : "unknown");
			fprintf(out, "+0x%llx]", (unsigned long long)frame->offset);
		}
		if (frame_is_guess(frame->by))
			putc('?', out);
		if (frame->kind == FRAME_KERNEL)
			fputs("_[k]", out);
		else if (frame->inlined)
			fputs(FRAME_INLINED, out);
		if (i)
			putc(';', out);
	}
	if (!stack->frame_count)
		fputs("[no stack]", out);
	fprintf(out, " %llu\n", (unsigned long long)(stack->weight_ns + 500) / 1000);
	if (fclose(out)) {
		free(line);
		return NULL;
	}
	return line;
}

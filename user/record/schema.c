/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/schema.h"

/* Kept as a file, so that editors and validators can read it too. */
__asm__(".pushsection .rodata\n"
	".global record_schema_text\n"
	"record_schema_text:\n"
	".incbin \"include/jankscope/record.schema.json\"\n"
	".byte 0\n"
	".popsection\n");

extern const char record_schema_text[];

const char *record_schema(void)
{
	return record_schema_text;
}

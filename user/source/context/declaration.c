/* SPDX-License-Identifier: BSD-2-Clause */
/* How the context source is made; its fields are in fields.c. */
#include <errno.h>

#include "jankscope/target.h"
#include "source/context/context.h"
#include "source/context/screen.h"
#include "source/declarations.h"

static struct source *make(const void *flags, const struct source_wishes *wishes, bool *needed)
{
	struct screen screen;

	*needed = false;
	/* A machine that is no phone has no such context, and no line that says so. */
	if (screen_find(&screen, "") && !(wishes->targets && target_has_foreground(""))) {
		errno = 0;
		return NULL;
	}
	return context_source_new();
}

const struct source_declaration context_declaration = {
	.name = "context",
	.part = &context_part,
	.make = make,
};

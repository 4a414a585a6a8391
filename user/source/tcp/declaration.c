/* SPDX-License-Identifier: BSD-2-Clause */
/* The flag of the TCP source; its fields are in fields.c, its losses in tcp.c. */
#include <errno.h>

#include "source/declarations.h"
#include "source/tcp/tcp.h"

struct tcp_flags {
	bool asked;
};

_Static_assert(sizeof(struct tcp_flags) <= SOURCE_FLAGS_BYTES, "flags");

static const struct option_row rows[] = {
	{0, "tcp", NULL,
	 "retransmits, round trips and failed connections of each uid, by the tracepoints of TCP",
	 VERB_LIVE, OPTION_FLAG, offsetof(struct tcp_flags, asked)},
};

static struct source *make(const void *from, const struct source_wishes *wishes, bool *needed)
{
	const struct tcp_flags *flags = from;
	const struct tcp_options options = {.btf = wishes->btf_path};

	errno = 0;
	*needed = true; /* it was asked for by name */
	return flags->asked ? tcp_source_new(&options) : NULL;
}

const struct source_declaration tcp_declaration = {
	.name = "tcp",
	.part = &tcp_part,
	.losses = &tcp_losses,
	.options = rows,
	.option_count = sizeof(rows) / sizeof(*rows),
	.flags_size = sizeof(struct tcp_flags),
	.make = make,
};

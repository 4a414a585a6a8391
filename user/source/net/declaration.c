/* SPDX-License-Identifier: BSD-2-Clause */
/* The flags of the net source; its fields are in fields.c, its losses in net.c. */
#include <errno.h>

#include "kernel/load.h"
#include "source/declarations.h"
#include "source/net/net.h"

/* --net, in the order of its choices. */
enum net_mode { NET_AUTO = 0, NET_HOOKS = 1, NET_NETD = 2, NET_OFF = 3 };

struct net_flags {
	uint64_t flows;
	int mode; /* enum net_mode */
	int length;
	bool by_interface, check;
};

_Static_assert(sizeof(struct net_flags) <= SOURCE_FLAGS_BYTES, "flags");

#define PLACE(member) offsetof(struct net_flags, member)

static const struct option_row rows[] = {
	{0, "net", "MODE",
	 "where bytes per uid come from: netd's own map, or hooks on the tracepoints", VERB_LIVE,
	 OPTION_CHOICE, PLACE(mode), "auto hooks netd off"},
	{0, "net-length", "HOW", "count bytes as netd does, or as the wire carries them", VERB_LIVE,
	 OPTION_CHOICE, PLACE(length), "netd wire"},
	{0, "net-interfaces", NULL,
	 "bytes of each uid by interface, too; by hooks, because netd's map cannot tell", VERB_LIVE,
	 OPTION_FLAG, PLACE(by_interface)},
	{0, "net-check", NULL,
	 "count by hooks, and compare with what netd's own map has of each uid", VERB_LIVE,
	 OPTION_FLAG, PLACE(check)},
	{0, "net-flows", "N",
	 "connections of each IP family that are held at a time (default 16384: 8.0 MiB; 100000: "
	 "32 MiB)",
	 VERB_LIVE, OPTION_NUMBER, PLACE(flows), .min = 1024},
};

static const struct net_flags defaults = {.flows = 16384};

static enum net_variant variant(const struct net_flags *flags, const struct source_wishes *wishes)
{
	if (flags->mode == NET_NETD)
		return NET_VARIANT_NETD;
	if (wishes->variant == VARIANT_RAW_TP)
		return NET_VARIANT_RAW_TP;
	if (wishes->variant == VARIANT_TP_BTF)
		return NET_VARIANT_TP_BTF;
	return NET_VARIANT_AUTO;
}

static struct source *make(const void *from, const struct source_wishes *wishes, bool *needed)
{
	const struct net_flags *flags = from;
	const struct net_options options = {
		.variant = variant(flags, wishes),
		.wire = flags->length == 1,
		.flows = flags->flows < UINT32_MAX ? (uint32_t)flags->flows : UINT32_MAX,
		.btf = wishes->btf_path,
		.hooks_only = flags->mode == NET_HOOKS,
		.by_interface = flags->by_interface,
		.check = flags->check,
	};

	errno = 0;
	/* What was asked for by name must be there. */
	*needed = flags->mode != NET_AUTO || flags->by_interface || flags->check;
	return flags->mode == NET_OFF ? NULL : net_source_new(&options);
}

const struct source_declaration net_declaration = {
	.name = "net",
	.losses = &net_losses,
	.part = &net_part,
	.options = rows,
	.option_count = sizeof(rows) / sizeof(*rows),
	.flags_size = sizeof(struct net_flags),
	.defaults = &defaults,
	.make = make,
};

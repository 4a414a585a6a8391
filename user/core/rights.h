/* SPDX-License-Identifier: BSD-2-Clause */
/* What the recorder may still do once its sources are open. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* What a source does after its open (struct source_ops.rights), in bits. */
enum source_right {
	RIGHT_MAPS = 1,    /* bpf(2) on descriptors that it has: reads of maps, iterators */
	RIGHT_DUMPS = 2,   /* asks for the sockets of all network namespaces */
	RIGHT_FILES = 16,  /* opens files of other users again */
	RIGHT_EXEC = 4,    /* starts programs of the device, which have rights of their own */
	RIGHT_TARGETS = 8, /* opens, reads or probes processes itself: keeps everything */
};

/* Give up, for good, all capabilities (effective, permitted, inheritable, ambient, bounding) that
 * these needs do not name, and, without RIGHT_EXEC, every way to get new ones. Groups that the
 * files of /proc (mounted with hidepid) and Android's list of packages are readable by are added
 * before. For the calling thread and those that it makes later: call it while there is no other.
 * 0 or -errno. */
int rights_drop(unsigned needs);

struct right {
	int capability;
	unsigned needs;
	const char *reason;
};
/* The table behind rights_drop, NULL past its end. */
const struct right *rights_at(size_t n);
/* Whether these needs keep a capability on this kernel. */
bool rights_keep(unsigned needs, int capability);

/* The gid that may see all processes where /proc is mounted with hidepid; -1: none is needed; -2:
 * hidden without a gid. text is that of /proc/self/mounts. */
long rights_proc_gid(const char *text);

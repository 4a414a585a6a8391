/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the fields of struct task_struct lie, as far as the switch program without direct loads
 * copies several of them by one read. */
#include <limits.h>
#include <string.h>

#include "kernel/sched_private.h"

/* FAST_SPAN_BYTES and FAST_HEAD_BYTES of bpf/sched_fast.bpf.h */
#define SPAN_BYTES 640
#define HEAD_BYTES 320

/* Byte offset of a member in a type of this name; INT_MAX: there is none. */
static int offset_of(const struct btf *btf, const char *type_name, const char *member)
{
	int id = btf__find_by_name_kind(btf, type_name, BTF_KIND_STRUCT);
	const struct btf_type *type = id > 0 ? btf__type_by_id(btf, (unsigned)id) : NULL;

	for (unsigned i = 0; type && i < btf_vlen(type); i++)
		if (!strcmp(btf__name_by_offset(btf, btf_members(type)[i].name_off), member))
			return (int)(btf_member_bit_offset(type, i) / 8);
	return INT_MAX;
}

static bool lies_between(int first, int offset, int last)
{
	return first <= offset && offset <= last && last != INT_MAX;
}

bool sched_layout_is_fast(const struct btf *btf)
{
	int info, delay, entity, sum, last, state;

	if (!btf)
		return false;
	info = offset_of(btf, "task_struct", "sched_info");
	delay = offset_of(btf, "sched_info", "run_delay");
	entity = offset_of(btf, "task_struct", "se");
	sum = offset_of(btf, "sched_entity", "sum_exec_runtime");
	last = offset_of(btf, "task_struct", "start_boottime");
	state = offset_of(btf, "task_struct", "__state");
	if (state == INT_MAX)
		state = offset_of(btf, "task_struct", "state"); /* before 5.14 */
	if (info == INT_MAX || delay == INT_MAX || entity == INT_MAX || sum == INT_MAX)
		return false;
	delay += info;
	sum += entity;
	return lies_between(delay, offset_of(btf, "task_struct", "pid"), last) &&
	       lies_between(delay, offset_of(btf, "task_struct", "nvcsw"), last) &&
	       lies_between(delay, offset_of(btf, "task_struct", "nivcsw"), last) &&
	       last + 8 - delay <= SPAN_BYTES && lies_between(state, state, sum) &&
	       sum + 8 - state <= HEAD_BYTES;
}

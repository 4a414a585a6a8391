/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/atomics.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPCODE_FETCH 1 /* BPF_FETCH, linux/bpf.h of 5.12 */

static bool is_atomic(const struct bpf_insn *instruction)
{
	return instruction->code == (BPF_STX | BPF_ATOMIC | BPF_W) ||
	       instruction->code == (BPF_STX | BPF_ATOMIC | BPF_DW);
}

bool kernel_has_fetch(void)
{
	static const struct bpf_insn add[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1},
		{.code = BPF_STX | BPF_MEM | BPF_DW,
		 .dst_reg = BPF_REG_10,
		 .src_reg = BPF_REG_0,
		 .off = -8},
		{.code = BPF_STX | BPF_ATOMIC | BPF_DW,
		 .dst_reg = BPF_REG_10,
		 .src_reg = BPF_REG_0,
		 .off = -8,
		 .imm = BPF_ADD | OPCODE_FETCH},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, NULL, "GPL", add, 4, NULL);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

int kernel_make_atomics_plain(struct bpf_object *object)
{
	struct bpf_program *program;

	bpf_object__for_each_program (program, object) {
		size_t count = bpf_program__insn_cnt(program);
		struct bpf_insn *copy = malloc(count * sizeof(*copy));
		int err;

		if (!copy)
			return -ENOMEM;
		memcpy(copy, bpf_program__insns(program), count * sizeof(*copy));
		for (size_t i = 0; i < count; i++) {
			/* The second half of a 64-bit constant has code 0. */
			if (is_atomic(&copy[i]) && copy[i].imm == (BPF_ADD | OPCODE_FETCH))
				copy[i].imm = BPF_ADD;
		}
		err = bpf_program__set_insns(program, copy, count);
		free(copy);
		if (err)
			return err;
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Call frame information as rows: how to find the caller's registers from a given address. The
 * tables are libdw's (dwarf_cfi_addrframe over .eh_frame and .debug_frame); libdw is only ever
 * given an ELF image that was built here around checked copies of these sections, so that neither
 * a file that shrinks nor a malformed header can reach it. */
#pragma once
#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stack/elf_file.h"

enum cfi_rule_kind {
	RULE_AT_CFA = 0,   /* saved at CFA + offset */
	RULE_IS_CFA = 1,   /* is CFA + offset */
	RULE_REGISTER = 2, /* is in another register */
	RULE_EXPRESSION = 3,
};

struct cfi_rule {
	uint8_t reg, kind;
	uint16_t other; /* RULE_REGISTER: which; RULE_EXPRESSION: number of operations */
	union {
		int64_t offset;
		const Dwarf_Op *ops;
	};
};

/* The CFA is register + offset, or an expression. A register without a rule keeps its value. */
struct cfi_row {
	uint64_t undefined; /* registers that the caller cannot know */
	uint64_t function;  /* ELF address where the function starts; 0: the tables do not tell */
	const Dwarf_Op *cfa_ops;
	uint32_t cfa_op_count; /* 0: register + offset */
	int32_t cfa_offset;
	uint8_t cfa_register, return_register;
	bool signal;
	bool quick; /* of no table: ART's layout of its frames (code/quick_frame.h) */
	uint8_t rule_count;
	/* One more than the index of the rule whose value is the address of the byte code that an
	 * interpreter of ART runs; 0: there is none. */
	uint8_t dex_rule;
	Dwarf_Frame *frame; /* owns the operations of expressions; NULL: there are none */
	struct cfi_rule rules[];
};

struct cfi_tables;

/* Tables of elf, and of its MiniDebugInfo where mini is not NULL. Keeps no reference to either.
 * 0; -ENODATA: there are no tables; -EFBIG; -ENOMEM; -EIO. */
int cfi_tables_new(const struct elf_file *elf, const struct elf_file *mini,
		   struct cfi_tables **tables);
void cfi_tables_free(struct cfi_tables *tables);
/* Heap bytes that the tables hold, without what rows add to them. */
size_t cfi_tables_bytes(const struct cfi_tables *tables);

/* The row for an ELF address. 0 and a row that the caller frees before the tables; -ENODATA: no
 * entry covers it; -EBADMSG: the entry is malformed; -ENOMEM. */
int cfi_row_at(struct cfi_tables *tables, uint64_t address, struct cfi_row **row);
void cfi_row_free(struct cfi_row *row);
/* Heap bytes of a row; NULL: 0. */
size_t cfi_row_bytes(const struct cfi_row *row);
/* What libdw remembers of a look until the tables are freed, at most: a dwarf_fde, its node of a
 * tree, now and then a dwarf_cie (libdw 0.188). */
#define CFI_LOOK_BYTES 192

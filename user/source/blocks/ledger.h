/* SPDX-License-Identifier: BSD-2-Clause */
/* From the kernel's sums of a busy period to the ledger of a block record. */
#pragma once
#include "abi/looper.h"
#include "jankscope/record.h"

#define BLOCK_LONG_NS 2000000000ull
#define BLOCK_ANR_NS  5000000000ull
#define BLOCK_SLEEPS  8
/* Spells that are remembered of one period; those beyond are counted. */
#define BLOCK_SPELLS 4096

/* One time off the CPU, of LOOPER_SPELL_NS or more. */
struct block_spell {
	uint64_t spell, begin_ns, end_ns, wait_ns;
	uint32_t state, reason;
	int32_t syscall_nr;
	uint32_t waker_tid, waker_tgid;
	char waker[LOOPER_COMM_LEN];
};

struct block_spells {
	struct block_spell *items;
	size_t count, room;
	uint64_t dropped;
};

/* 0, -ENOMEM. */
int block_spells_add(struct block_spells *spells, const struct looper_spell_event *event);
const struct block_spell *block_spells_find(const struct block_spells *spells, uint64_t spell);
/* The longest sleep; NULL: none was told. */
const struct block_spell *block_spells_longest(const struct block_spells *spells);
void block_spells_free(struct block_spells *spells);

/* The text of a reason in records. */
const char *block_reason_text(uint32_t reason);

/* The period of a live slot as if it ended at now_ns, the present spell included. */
void block_period_now(const struct looper_slot *slot, uint64_t now_ns,
		      struct looper_period_event *period);

/* Fill ledger, class, reasons, preemptors, sleeps, waker and faults. Arrays are malloc'ed and owned
 * by the record until block_ledger_free. name: process of a pid, may return NULL. 0, -ENOMEM. */
int block_ledger_fill(struct record_block *block, const struct looper_period_event *period,
		      const struct block_spells *spells, int64_t boot_minus_mono_ns,
		      const char *(*name)(void *ctx, pid_t pid), void *ctx);
void block_ledger_free(struct record_block *block);

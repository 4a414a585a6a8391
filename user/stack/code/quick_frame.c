/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/quick_frame.h"

#define PIECE     256 /* bytes of code that are looked at, each way */
#define MAX_STUB  1024
#define MAX_MOVES 32 /* that take a frame of x86_64 down: four of xmm, one of rsp, 6 pops, ret */
#define MAX_FRAME (1 << 24) /* bytes */
#define SP        31        /* in arm64's instructions, where a base is meant */
#define SCRATCH   16
#define ZERO      31 /* and a register */
#define MAKES_RET 16 /* the number that ART gives x86_64's return address */

/* ART numbers registers as the instructions of x86_64 do. */
static const uint8_t dwarf_x86_64[] = {0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15, 16};

/* How far a frame has come. */
struct progress {
	const struct quick_frame *frame;
	int32_t cfa_offset;
	uint32_t saved;   /* registers that are in their places */
	uint64_t scratch; /* arm64: the number in x16 */
	int32_t base;     /* or what x16 is above sp */
};

/* Where a register is saved, relative to the CFA; 0: it is not. */
static int32_t place_of(const struct quick_frame *frame, unsigned reg)
{
	if (!(frame->core_spills >> reg & 1))
		return 0;
	return -8 * __builtin_popcount(frame->core_spills >> reg);
}

/* Whether sp + offset is where the register was saved. */
static bool is_place(const struct progress *p, unsigned reg, int32_t offset)
{
	return reg < 32 && place_of(p->frame, reg) &&
	       offset - p->cfa_offset == place_of(p->frame, reg);
}

/* A register was stored at sp + offset. */
static void store(struct progress *p, unsigned reg, int32_t offset)
{
	if (is_place(p, reg, offset))
		p->saved |= 1u << reg;
}

static int32_t sign_extend(uint32_t value, unsigned bits)
{
	return (int32_t)(value << (32 - bits)) >> (32 - bits);
}

/* ---- arm64 ---- */

/* Load or store of one or two registers at sp. */
struct access {
	bool load, pair, core;
	bool before, after; /* sp is changed before, or after it */
	int32_t offset;
	unsigned reg, other;
};

static bool decode_access(const struct progress *p, uint32_t word, struct access *access)
{
	unsigned at = word >> 5 & 31;
	int32_t base = at == SCRATCH ? p->base : 0;

	*access =
		(struct access){.reg = word & 31, .other = word >> 10 & 31, .load = word >> 22 & 1};
	if (at != SP && (at != SCRATCH || !base))
		return false;
	if ((word & 0xbe000000) == 0xa8000000 || (word & 0xfe000000) == 0x6c000000) {
		/* stp and ldp of x or d registers; bits 23 and 24 say which kind */
		access->pair = true;
		access->core = !(word >> 26 & 1);
		access->after = (word >> 23 & 3) == 1;
		access->before = (word >> 23 & 3) == 3;
		access->offset = base + 8 * sign_extend(word >> 15 & 127, 7);
		return (word >> 23 & 3) != 0 && (at == SP || !(access->before || access->after)) &&
		       (!access->core || (word >> 30) == 2);
	}
	if ((word & 0xff800000) == 0xf9000000 || (word & 0xff800000) == 0xfd000000) {
		access->core = !(word >> 26 & 1);
		access->offset = base + 8 * (int32_t)(word >> 10 & 0xfff);
		return true;
	}
	if ((word & 0xffa00000) == 0xf8000000 || (word & 0xffa00000) == 0xfc000000) {
		access->core = !(word >> 26 & 1);
		access->after = (word >> 10 & 3) == 1;
		access->before = (word >> 10 & 3) == 3;
		access->offset = base + sign_extend(word >> 12 & 511, 9);
		return (word >> 10 & 3) != 2 && (at == SP || !(word >> 10 & 3));
	}
	return false;
}

/* What an add or a sub changes sp by. False: the instruction is none of them. */
static bool decode_adjust(struct progress *p, uint32_t word, int32_t *by)
{
	uint32_t immediate = word >> 10 & 0xfff;

	/* movz, movk x16 */
	if ((word & 0xff80001f) == 0xd2800010 || (word & 0xff80001f) == 0xf2800010) {
		unsigned shift = (word >> 21 & 3) * 16;
		uint64_t part = (uint64_t)(word >> 5 & 0xffff) << shift;

		p->scratch = word >> 29 & 1 ? (p->scratch & ~(0xffffull << shift)) | part : part;
		*by = 0;
		return true;
	}
	if ((word & 0xffc003ff) == 0x910003f0) { /* add x16, sp, #n: for what is far from sp */
		p->base = (int32_t)immediate;
		*by = 0;
		return true;
	}
	if ((word & 0xbf8003ff) == 0x910003ff) {
		if (word >> 22 & 1)
			immediate <<= 12;
	} else if ((word & 0xbfffffff) == 0x8b3063ff) {
		immediate = p->scratch < MAX_FRAME ? (uint32_t)p->scratch : 0;
	} else {
		return false;
	}
	*by = word >> 30 & 1 ? -(int32_t)immediate : (int32_t)immediate;
	return true;
}

static bool is_made(const struct progress *p)
{
	uint32_t all = p->frame->core_spills;

	return p->cfa_offset == (int32_t)p->frame->frame_bytes && (p->saved & all) == all;
}

/* From the first instruction to `offset`, or to the last one that makes the frame. True: it was
 * made before. */
static int begin_arm64(struct progress *p, const uint8_t *code, uint32_t length, uint32_t offset,
		       bool *made, uint32_t *end)
{
	struct access access;
	uint32_t at;

	for (at = 0; at + 4 <= length && at < offset && !is_made(p); at += 4) {
		uint32_t word = load_le32(code + at);
		int32_t by;

		if (decode_adjust(p, word, &by)) {
			p->cfa_offset -= by;
		} else if (decode_access(p, word, &access) && !access.load) {
			if (access.before)
				p->cfa_offset -= access.offset;
			if (access.core) {
				int32_t place = access.before || access.after ? 0 : access.offset;

				store(p, access.reg, place);
				if (access.pair)
					store(p, access.other, place + 8);
			}
			if (access.after)
				p->cfa_offset -= access.offset;
		}
		if (p->cfa_offset < 0 || p->cfa_offset > MAX_FRAME)
			return -EBADMSG;
	}
	*made = is_made(p);
	*end = at;
	return *made || offset <= length ? 0 : -EBADMSG;
}

/* A register is loaded from sp + offset. xzr takes the word of the method away with its pair. */
static bool take_back(const struct progress *p, unsigned reg, int32_t offset, uint32_t *loaded)
{
	if (reg == ZERO)
		return true;
	*loaded |= 1u << reg;
	return is_place(p, reg, offset);
}

/* Whether only what takes the frame down stands between here and a return, and what of it. */
static bool end_arm64(struct progress *p, const uint8_t *code, uint32_t length)
{
	struct progress now = *p;
	struct access access;
	int32_t down = 0;
	uint32_t loaded = 0;

	for (uint32_t at = 0; at + 4 <= length; at += 4) {
		uint32_t word = load_le32(code + at);
		int32_t by;

		if (word == 0xd65f03c0) { /* ret */
			p->cfa_offset = down;
			p->saved = loaded;
			return true;
		}
		if (decode_adjust(&now, word, &by)) {
			if (by < 0)
				return false;
			down += by;
			now.cfa_offset -= by;
			continue;
		}
		/* A stub has its marking register renewed: ldr w20, [x19, #n]. */
		if ((word & 0xffc003ff) == 0xb9400274)
			continue;
		if (!decode_access(&now, word, &access) || !access.load || access.before)
			return false;
		if (access.core) {
			int32_t place = access.after ? 0 : access.offset;

			if (!take_back(&now, access.reg, place, &loaded) ||
			    (access.pair && !take_back(&now, access.other, place + 8, &loaded)))
				return false;
		}
		if (access.after) {
			down += access.offset;
			now.cfa_offset -= access.offset;
		}
	}
	return false;
}

/* ---- x86_64 ---- */

/* One of the instructions that make or take down a frame: its length, 0 for any other. */
struct move {
	int32_t by;   /* what the stack pointer changes by */
	int reg;      /* pushed or popped; -1: none */
	bool returns; /* ret */
};

static uint32_t decode_move(const uint8_t *at, uint32_t length, struct move *move)
{
	uint32_t rex = length > 1 && at[0] == 0x41, modrm;

	*move = (struct move){.reg = -1};
	if (length > rex && at[rex] >= 0x50 && at[rex] <= 0x5f) {
		move->reg = (at[rex] & 7) + (rex ? 8 : 0);
		move->by = at[rex] < 0x58 ? -8 : 8;
		return rex + 1;
	}
	if (length >= 1 && at[0] == 0xc3) {
		move->returns = true;
		return 1;
	}
	if (length >= 4 && at[0] == 0x48 && at[1] == 0x83 && (at[2] == 0xec || at[2] == 0xc4)) {
		move->by = at[2] == 0xec ? -(int8_t)at[3] : (int8_t)at[3];
		return 4;
	}
	if (length >= 7 && at[0] == 0x48 && at[1] == 0x81 && (at[2] == 0xec || at[2] == 0xc4)) {
		int32_t by = (int32_t)load_le32(at + 3);

		if (by < 0 || by > MAX_FRAME)
			return 0;
		move->by = at[2] == 0xec ? -by : by;
		return 7;
	}
	/* test of [rsp + n]: whether there is stack left */
	if (length >= 8 && at[0] == 0x48 && at[1] == 0x85 && at[2] == 0x84 && at[3] == 0x24)
		return 8;
	if (length >= 7 && at[0] == 0x85 && at[1] == 0x84 && at[2] == 0x24)
		return 7;
	/* movsd between an xmm register and [rsp + n] */
	if (length >= 7 && at[0] == 0xf2 && at[1] == 0x44 && at[2] == 0x0f && (at[3] | 1) == 0x11 &&
	    at[5] == 0x24) {
		modrm = at[4] & 0xc7;
		return modrm == 0x44 ? 7 : modrm == 0x84 && length >= 10 ? 10 : modrm == 4 ? 6 : 0;
	}
	return 0;
}

static int begin_x86_64(struct progress *p, const uint8_t *code, uint32_t length, uint32_t offset,
			bool *made, uint32_t *end)
{
	struct move move;
	uint32_t at = 0;

	while (at < offset && !is_made(p)) {
		uint32_t bytes = decode_move(code + at, length - at, &move);

		if (!bytes || move.by > 0 || move.returns)
			return -EBADMSG;
		p->cfa_offset -= move.by;
		if (move.reg >= 0)
			store(p, (unsigned)move.reg, 0);
		if (p->cfa_offset > MAX_FRAME)
			return -EBADMSG;
		at += bytes;
	}
	*made = is_made(p);
	*end = at;
	return 0;
}

/* What returning takes off the stack from here on; 0: more than that stands before it. */
static int32_t taken_down(const uint8_t *code, uint32_t length)
{
	int32_t down = 0;
	struct move move;

	for (uint32_t at = 0, bytes, moves = 0; moves < MAX_MOVES; at += bytes, moves++) {
		bytes = decode_move(code + at, length - at, &move);
		if (!bytes || move.by < 0)
			return 0;
		if (move.returns)
			return down + 8;
		down += move.by;
		if (down > MAX_FRAME)
			return 0;
	}
	return 0;
}

static bool end_x86_64(struct progress *p, const uint8_t *code, uint32_t length)
{
	struct progress now = *p;
	uint32_t saved = 1u << MAKES_RET;
	struct move move;
	int32_t down = taken_down(code, length);

	if (!down)
		return false;
	now.cfa_offset = down;
	for (uint32_t at = 0, bytes;; at += bytes) {
		bytes = decode_move(code + at, length - at, &move);
		if (move.returns)
			break;
		if (move.reg >= 0) {
			if (!is_place(&now, (unsigned)move.reg, 0))
				return false;
			saved |= 1u << move.reg;
		}
		now.cfa_offset -= move.by;
	}
	p->cfa_offset = down;
	p->saved = saved;
	return true;
}

/* ---- both ---- */

/* add $n, %rsp, and add $-n (x86_64_assembler's IncreaseFrameSize): n, and how long it is. */
static int32_t room_at(const uint8_t *at, uint32_t length, uint32_t *bytes)
{
	if (length >= 4 && !memcmp(at, "\x48\x83\xc4", 3)) {
		*bytes = 4;
		return (int8_t)at[3];
	}
	if (length >= 7 && !memcmp(at, "\x48\x81\xc4", 3)) {
		*bytes = 7;
		return (int32_t)load_le32(at + 3);
	}
	return 0;
}

/* The instructions of x86_64 are not all known here. So the room is looked for by the bytes that
 * make it, and must be made once and taken back once, before the frame is taken down. */
static int passed_by_x86_64(const struct progress *p, const uint8_t *code, uint32_t length,
			    uint32_t begin, uint32_t offset, int32_t *passed)
{
	uint32_t made = 0, back = 0, down = 0, bytes;
	int32_t room = 0;

	for (uint32_t at = begin; at < length; at++) {
		int32_t by = room_at(code + at, length - at, &bytes);

		if (at + 3 <= length && (!memcmp(code + at, "\x48\x83\xec", 3) ||
					 !memcmp(code + at, "\x48\x81\xec", 3)))
			return -EBADMSG;
		if (by < 0) {
			if (made || by < -MAX_STUB)
				return -EBADMSG;
			made = at + bytes;
			room = -by;
		} else if (room && by == room && !down) {
			if (back)
				return -EBADMSG;
			back = at + bytes;
		}
		if (!down && taken_down(code + at, length - at) == (int32_t)p->frame->frame_bytes)
			down = at;
	}
	if (!made)
		return 0;
	/* Behind what takes the frame down: slow paths, which are reached with and without it. */
	if (!back || !down || back > down ||
	    (offset > down && !taken_down(code + offset, length - offset)))
		return -EBADMSG;
	if (offset >= made && offset < back)
		*passed = room;
	return 0;
}

/* A stub that calls native code makes room for what it passes on the stack, and takes it back
 * before it takes its frame down: how much there is of it at `offset`. The slow paths behind its
 * return are reached with and without it. */
static int passed_by_stub(struct progress *p, const uint8_t *code, uint32_t length, uint32_t begin,
			  uint32_t offset, int32_t *passed)
{
	bool any = false, returned = false;
	int32_t by;

	*passed = 0;
	if (p->frame->arch == STACK_X86_64)
		return passed_by_x86_64(p, code, length, begin, offset, passed);
	for (uint32_t at = begin; at + 4 <= length && at < offset; at += 4) {
		uint32_t word = load_le32(code + at);

		returned |= word == 0xd65f03c0;
		if (decode_adjust(p, word, &by)) {
			any |= by < 0;
			*passed -= by > *passed ? *passed : by;
		}
	}
	return any && returned ? -EBADMSG : 0;
}

static void fill(const struct progress *p, struct quick_row *row)
{
	const struct quick_frame *frame = p->frame;

	row->cfa_offset = p->cfa_offset;
	row->rule_count = 0;
	for (unsigned reg = 32; reg-- > 0 && row->rule_count < QUICK_MAX_RULES;) {
		int32_t place = p->saved >> reg & 1 ? place_of(frame, reg) : 0;
		unsigned i = row->rule_count;

		if (!place || (frame->arch == STACK_X86_64 && reg >= sizeof(dwarf_x86_64)))
			continue;
		row->rules[i].reg = frame->arch == STACK_X86_64 ? dwarf_x86_64[reg] : reg;
		row->rules[i].offset = place;
		row->rule_count++;
	}
}

static int read_code(const struct quick_frame *frame, const struct byte_source *source,
		     uint64_t code, uint32_t offset, uint32_t most, uint8_t *to, uint32_t *length)
{
	*length = frame->code_bytes - offset < most ? frame->code_bytes - offset : most;
	return byte_source_read(source, code + offset, to, *length);
}

static int check(struct quick_frame *frame, uint32_t offset, bool exact)
{
	bool x86 = frame->arch == STACK_X86_64;

	/* A method without a frame saves nothing; what is kept is in units of 16 bytes. */
	if (!frame->frame_bytes) {
		frame->frame_bytes = x86 ? 8 : 0;
		frame->core_spills = 0;
	}
	if (x86)
		frame->core_spills |= 1u << MAKES_RET;
	if (frame->frame_bytes > MAX_FRAME ||
	    8u * (unsigned)__builtin_popcount(frame->core_spills) > frame->frame_bytes ||
	    (x86 && frame->core_spills >> (MAKES_RET + 1)) || frame->core_spills >> 31)
		return -EBADMSG;
	return offset > frame->code_bytes || (exact && offset == frame->code_bytes) ? -EBADMSG : 0;
}

int quick_frame_row(const struct quick_frame *given, const struct byte_source *source,
		    uint64_t code, uint32_t offset, bool exact, struct quick_row *row)
{
	struct quick_frame frame = *given;
	bool x86 = frame.arch == STACK_X86_64, made = true;
	struct progress p = {.frame = &frame};
	uint8_t bytes[MAX_STUB];
	uint32_t length, begin = 0;
	int32_t passed = 0;
	int err = check(&frame, offset, exact);

	if (err)
		return err;
	if (exact || frame.stub) {
		p.cfa_offset = x86 ? 8 : 0;
		p.saved = x86 ? 1u << MAKES_RET : 0;
		err = read_code(&frame, source, code, 0, frame.stub ? MAX_STUB : PIECE, bytes,
				&length);
		if (!err)
			err = x86 ? begin_x86_64(&p, bytes, length, offset, &made, &begin)
				  : begin_arm64(&p, bytes, length, offset, &made, &begin);
		if (!err && frame.stub && made)
			err = frame.code_bytes > MAX_STUB
				      ? -EBADMSG
				      : passed_by_stub(&p, bytes, length, begin, offset, &passed);
		if (err)
			return err;
	}
	if (made) {
		p.cfa_offset = (int32_t)frame.frame_bytes + passed;
		p.saved = frame.core_spills;
	}
	if (exact && made) {
		err = read_code(&frame, source, code, offset, PIECE, bytes, &length);
		if (err)
			return err;
		if (x86)
			end_x86_64(&p, bytes, length);
		else
			end_arm64(&p, bytes, length);
	}
	fill(&p, row);
	return 0;
}

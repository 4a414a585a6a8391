/* SPDX-License-Identifier: BSD-2-Clause */
/* One frame out without tables. */
#include <string.h>

#include "stack/unwind_step.h"

#define SCAN_BYTES 4096

static bool executable(const struct stepper *s, uint64_t address)
{
	return address && s->reader->executable(s->reader->ctx, address);
}

/* What the code before a return address says about who was called. */
enum call {
	CALL_NONE = 0,   /* no call stands there */
	CALL_OTHER = 1,  /* a call of another function (which may have jumped on to this one) */
	CALL_UNREAD = 2, /* the code cannot be read: no evidence */
	CALL_MAYBE = 3,  /* by register, by memory, or through a linkage table */
	CALL_OURS = 4,   /* a call of this very function */
};

/* Whom a direct call to target means, seen from the function that runs now. */
static enum call direct_call(struct stepper *s, uint64_t target)
{
	uint64_t function = s->trace->frames[s->trace->count - 1].function_pc;
	struct stack_frame other = {.pc = target};
	const struct cfi_row *row;

	if (!executable(s, target))
		return CALL_NONE;
	if (function && target == function)
		return CALL_OURS;
	s->reader->locate(s->reader->ctx, target, &other, &row);
	return function && other.function_pc == target ? CALL_OTHER : CALL_MAYBE;
}

static enum call call_before(struct stepper *s, uint64_t address)
{
	uint8_t code[7];

	if (s->now.arch == STACK_ARM64) {
		uint32_t word;

		if (s->reader->code(s->reader->ctx, address - 4, &word, sizeof(word)))
			return CALL_UNREAD;
		if (word >> 26 == 0x25) /* bl */
			return direct_call(
				s, address - 4 + (uint64_t)((int64_t)((uint64_t)word << 38) >> 36));
		/* blr, and blraa & co. */
		return (word & 0xfffffc1f) == 0xd63f0000 || (word & 0xfefff800) == 0xd63f0800
			       ? CALL_MAYBE
			       : CALL_NONE;
	}
	if (s->reader->code(s->reader->ctx, address - sizeof(code), code, sizeof(code)))
		return CALL_UNREAD;
	if (code[2] == 0xe8) {
		int32_t distance;

		memcpy(&distance, code + 3, sizeof(distance));
		return direct_call(s, address + (uint64_t)(int64_t)distance);
	}
	/* call *r/m: ff /2 of 2, 3, 4, 6 or 7 bytes */
	for (unsigned i = 0; i <= 5; i++) {
		if (code[i] == 0xff && (code[i + 1] >> 3 & 7) == 2)
			return CALL_MAYBE;
	}
	return CALL_NONE;
}

/* The innermost function has no tables and, if it calls nobody, no frame: its return address is
 * still where the call put it. */
bool unwind_step_by_link(struct stepper *s)
{
	uint64_t pc, fp_pc;
	enum call call;

	s->next = s->now;
	if (s->arch->lr) {
		struct stack_frame caller = {0};
		const struct cfi_row *row;

		if (!known(&s->now, s->arch->lr))
			return false;
		pc = code_address(s, s->now.value[s->arch->lr]);
		if (!executable(s, pc) || pc == s->now.value[s->arch->pc] || !call_before(s, pc))
			return false;
		/* It has set up its frame record when that holds the same address. */
		if (known(&s->now, s->arch->fp) &&
		    s->reader->word(s->reader->ctx,
				    unwind_data_address(s->now.arch, s->now.value[s->arch->fp] + 8),
				    &fp_pc) &&
		    code_address(s, fp_pc) == pc)
			return false;
		/* An address in the function itself is left from a call that it made. */
		caller.pc = pc;
		s->reader->locate(s->reader->ctx, pc - 1, &caller, &row);
		if (caller.function_pc &&
		    caller.function_pc == s->trace->frames[s->trace->count - 1].function_pc)
			return false;
	} else {
		uint64_t sp = s->now.value[s->arch->sp];

		if (!known(&s->now, s->arch->sp) || !s->reader->word(s->reader->ctx, sp, &pc) ||
		    !executable(s, pc))
			return false;
		call = call_before(s, pc);
		if (call == CALL_NONE || call == CALL_OTHER)
			return false;
		set(&s->next, s->arch->sp, sp + 8);
	}
	set(&s->next, s->arch->pc, pc);
	s->method = METHOD_LINK_REGISTER;
	return true;
}

/* The function begins by making a frame record. */
static bool makes_frame_record(struct stepper *s)
{
	uint64_t function = s->trace->frames[s->trace->count - 1].function_pc;
	uint8_t code[12];
	uint32_t words[3];

	if (!function || s->reader->code(s->reader->ctx, function, code, sizeof(code)))
		return false;
	if (s->now.arch == STACK_ARM64) {
		/* stp x29, x30, [sp, #-n]!, maybe behind bti, paciasp or a sub of sp */
		memcpy(words, code, sizeof(words));
		for (unsigned i = 0; i < 3; i++)
			if ((words[i] & 0xff407fff) == 0xa9007bfd)
				return true;
		return false;
	}
	/* endbr64; push %rbp; mov %rsp, %rbp in one of its two encodings */
	return !memcmp(code, "\x55\x48\x89\xe5", 4) || !memcmp(code, "\x55\x48\x8b\xec", 4) ||
	       !memcmp(code, "\xf3\x0f\x1e\xfa\x55\x48\x89\xe5", 8);
}

/* Both architectures keep {caller's frame pointer, return address} where the frame pointer is. */
static bool step_by_frame_pointer(struct stepper *s)
{
	uint64_t fp = unwind_data_address(s->now.arch, s->now.value[s->arch->fp]), next_fp, pc;

	if (!known(&s->now, s->arch->fp) || !known(&s->now, s->arch->sp) || fp & 7 ||
	    fp < s->now.value[s->arch->sp] || !s->reader->word(s->reader->ctx, fp, &next_fp) ||
	    !s->reader->word(s->reader->ctx, fp + 8, &pc))
		return false;
	pc = code_address(s, pc);
	if (!executable(s, pc) || !call_before(s, pc))
		return false;
	s->next = s->now;
	s->next.valid = 0;
	set(&s->next, s->arch->fp, next_fp);
	set(&s->next, s->arch->sp, fp + 16);
	set(&s->next, s->arch->pc, pc);
	s->method = METHOD_FRAME_POINTER;
	return true;
}

/* The next word of the stack, below `end`, to which a call can have returned. A function that
 * leaves the frame pointer alone (musl's, compiled without tables) has its return address there;
 * following the frame pointer would leave its caller out. */
static bool step_by_scan(struct stepper *s, uint64_t end)
{
	uint64_t sp = s->now.value[s->arch->sp];

	if (!known(&s->now, s->arch->sp) || sp & 7)
		return false;
	for (uint64_t at = sp; at < end && at - sp < SCAN_BYTES; at += 8) {
		uint64_t pc;

		if (!s->reader->word(s->reader->ctx, unwind_data_address(s->now.arch, at), &pc))
			return false;
		pc = code_address(s, pc);
		if (!executable(s, pc) || call_before(s, pc) < CALL_MAYBE)
			continue;
		s->next = s->now;
		s->next.valid = 0;
		/* Whether the frame pointer was saved is not known; if not, it is the caller's. */
		if (known(&s->now, s->arch->fp))
			set(&s->next, s->arch->fp, s->now.value[s->arch->fp]);
		set(&s->next, s->arch->sp, at + 8);
		set(&s->next, s->arch->pc, pc);
		s->method = METHOD_SCAN;
		return true;
	}
	return false;
}

/* No tables: a guess, by what the code says. */
bool unwind_step_by_guess(struct stepper *s, bool exact)
{
	uint64_t end = UINT64_MAX;
	struct stack_registers by_pointer;

	if (exact && unwind_step_by_link(s))
		return true;
	if (step_by_frame_pointer(s)) {
		if (makes_frame_record(s) ||
		    call_before(s, s->next.value[s->arch->pc]) == CALL_OURS)
			return true;
		by_pointer = s->next;
		end = s->next.value[s->arch->sp] - 8;
	} else {
		by_pointer.valid = 0;
	}
	if (step_by_scan(s, end))
		return true;
	s->next = by_pointer;
	s->method = METHOD_FRAME_POINTER;
	return by_pointer.valid;
}

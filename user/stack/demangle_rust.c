/* SPDX-License-Identifier: BSD-2-Clause */
/* Rust's v0 mangling, RFC 2603 (doc.rust-lang.org/rustc/symbol-mangling/v0.html): a grammar with
 * back references. Depth, length of the output and number of steps are bounded. Printed as
 * rustc-demangle does in its short form: without disambiguators and without types of constants. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "stack/demangle_rust_text.h"

static void print_path(struct rust *r, bool in_value);
static void print_type(struct rust *r);
static void print_const(struct rust *r);

static bool enter(struct rust *r)
{
	if (r->failed || r->depth >= MAX_DEPTH || r->steps >= MAX_STEPS) {
		r->failed = true;
		return false;
	}
	r->depth++;
	r->steps++;
	return true;
}

/* Print what an earlier byte begins, then go on here. */
static void follow(struct rust *r, size_t tag_at, void (*print)(struct rust *))
{
	uint64_t to = base_62(r);
	size_t back = r->at;

	if (r->failed || to >= tag_at) {
		r->failed = true;
		return;
	}
	if (r->quiet)
		return;
	r->at = to;
	print(r);
	r->at = back;
}

static void print_type_path(struct rust *r)
{
	print_path(r, false);
}

static void print_value_path(struct rust *r)
{
	print_path(r, true);
}

static void put_lifetime(struct rust *r, uint64_t index)
{
	uint64_t depth;
	char name[2] = "a";

	put(r, "'");
	if (!index) {
		put(r, "_");
		return;
	}
	if (index > r->bound_lifetimes) {
		r->failed = true;
		return;
	}
	depth = r->bound_lifetimes - index;
	if (depth < 26) {
		name[0] = (char)('a' + depth);
		put(r, name);
	} else {
		put(r, "_");
		put_number(r, depth);
	}
}

static void print_generic(struct rust *r)
{
	if (take(r, 'L'))
		put_lifetime(r, base_62(r));
	else if (take(r, 'K'))
		print_const(r);
	else
		print_type(r);
}

static void print_list(struct rust *r, void (*print)(struct rust *), const char *separator,
		       size_t *count)
{
	*count = 0;
	while (!r->failed && !take(r, 'E')) {
		if ((*count)++)
			put(r, separator);
		print(r);
	}
}

static void print_nested(struct rust *r, bool in_value)
{
	char space = next(r);
	struct identifier id;

	print_path(r, in_value);
	id = take_identifier(r);
	if (space >= 'A' && space <= 'Z') {
		put(r, "::{");
		if (space == 'C')
			put(r, "closure");
		else if (space == 'S')
			put(r, "shim");
		else
			put_bytes(r, &space, 1);
		if (id.len) {
			put(r, ":");
			put_identifier(r, &id);
		}
		put(r, "#");
		put_number(r, id.disambiguator);
		put(r, "}");
	} else if (id.len) {
		put(r, "::");
		put_identifier(r, &id);
	}
}

static void print_path(struct rust *r, bool in_value)
{
	size_t tag_at = r->at, count;
	struct identifier id;
	char tag;

	if (!enter(r))
		return;
	tag = next(r);
	switch (tag) {
	case 'C':
		id = take_identifier(r);
		put_identifier(r, &id);
		break;
	case 'N':
		print_nested(r, in_value);
		break;
	case 'M':
	case 'X':
	case 'Y':
		if (tag != 'Y') {
			/* where the impl block stands */
			optional_base_62(r, 's');
			r->quiet++;
			print_path(r, in_value);
			r->quiet--;
		}
		put(r, "<");
		print_type(r);
		if (tag != 'M') {
			put(r, " as ");
			print_path(r, false);
		}
		put(r, ">");
		break;
	case 'I':
		print_path(r, in_value);
		put(r, in_value ? "::<" : "<");
		print_list(r, print_generic, ", ", &count);
		put(r, ">");
		break;
	case 'B':
		follow(r, tag_at, in_value ? print_value_path : print_type_path);
		break;
	default:
		r->failed = true;
	}
	r->depth--;
}

static const char *basic_type(char tag)
{
	static const char *const names[26] = {
		['a' - 'a'] = "i8",   ['b' - 'a'] = "bool",  ['c' - 'a'] = "char",
		['d' - 'a'] = "f64",  ['e' - 'a'] = "str",   ['f' - 'a'] = "f32",
		['h' - 'a'] = "u8",   ['i' - 'a'] = "isize", ['j' - 'a'] = "usize",
		['l' - 'a'] = "i32",  ['m' - 'a'] = "u32",   ['n' - 'a'] = "i128",
		['o' - 'a'] = "u128", ['p' - 'a'] = "_",     ['s' - 'a'] = "i16",
		['t' - 'a'] = "u16",  ['u' - 'a'] = "()",    ['v' - 'a'] = "...",
		['x' - 'a'] = "i64",  ['y' - 'a'] = "u64",   ['z' - 'a'] = "!",
	};

	return tag >= 'a' && tag <= 'z' ? names[tag - 'a'] : NULL;
}

/* "for<'a, 'b> " of a function or a trait object; undone by its caller. */
static void bind_lifetimes(struct rust *r)
{
	uint64_t count = optional_base_62(r, 'G');

	if (!count)
		return;
	if (count > MAX_STEPS) {
		r->failed = true;
		return;
	}
	put(r, "for<");
	for (uint64_t i = 0; i < count && !r->failed; i++) {
		if (i)
			put(r, ", ");
		r->bound_lifetimes++;
		put_lifetime(r, 1);
	}
	put(r, "> ");
}

static void print_function(struct rust *r)
{
	uint64_t bound = r->bound_lifetimes;
	size_t count;

	bind_lifetimes(r);
	if (take(r, 'U'))
		put(r, "unsafe ");
	if (take(r, 'K')) {
		put(r, "extern \"");
		if (take(r, 'C')) {
			put(r, "C");
		} else {
			struct identifier abi = take_identifier(r);

			put_identifier(r, &abi);
		}
		put(r, "\" ");
	}
	put(r, "fn(");
	print_list(r, print_type, ", ", &count);
	put(r, ")");
	if (!take(r, 'u')) {
		put(r, " -> ");
		print_type(r);
	}
	r->bound_lifetimes = bound;
}

/* One trait of "dyn A + B", with its associated types inside the angle brackets. */
static void print_bound(struct rust *r)
{
	bool open = take(r, 'I');
	size_t count;

	print_path(r, false);
	if (open) {
		put(r, "<");
		print_list(r, print_generic, ", ", &count);
	}
	while (take(r, 'p')) {
		struct identifier id = take_identifier(r);

		put(r, open ? ", " : "<");
		open = true;
		put_identifier(r, &id);
		put(r, " = ");
		print_type(r);
	}
	if (open)
		put(r, ">");
}

static void print_dyn(struct rust *r)
{
	uint64_t bound = r->bound_lifetimes, lifetime;
	size_t count;

	put(r, "dyn ");
	bind_lifetimes(r);
	print_list(r, print_bound, " + ", &count);
	r->bound_lifetimes = bound;
	if (!take(r, 'L')) {
		r->failed = true;
		return;
	}
	lifetime = base_62(r);
	if (lifetime) {
		put(r, " + ");
		put_lifetime(r, lifetime);
	}
}

static void print_reference(struct rust *r, bool is_mutable)
{
	put(r, "&");
	if (take(r, 'L')) {
		uint64_t lifetime = base_62(r);

		if (lifetime) {
			put_lifetime(r, lifetime);
			put(r, " ");
		}
	}
	put(r, is_mutable ? "mut " : "");
	print_type(r);
}

static void print_type(struct rust *r)
{
	size_t tag_at = r->at, count;
	const char *basic = basic_type(peek(r));
	char tag;

	if (!enter(r))
		return;
	tag = next(r);
	if (basic) {
		put(r, basic);
		r->depth--;
		return;
	}
	switch (tag) {
	case 'R':
	case 'Q':
		print_reference(r, tag == 'Q');
		break;
	case 'P':
	case 'O':
		put(r, tag == 'P' ? "*const " : "*mut ");
		print_type(r);
		break;
	case 'A':
	case 'S':
		put(r, "[");
		print_type(r);
		if (tag == 'A') {
			put(r, "; ");
			print_const(r);
		}
		put(r, "]");
		break;
	case 'T':
		put(r, "(");
		print_list(r, print_type, ", ", &count);
		put(r, count == 1 ? ",)" : ")");
		break;
	case 'F':
		print_function(r);
		break;
	case 'D':
		print_dyn(r);
		break;
	case 'B':
		follow(r, tag_at, print_type);
		break;
	default:
		r->at = tag_at;
		print_path(r, false);
	}
	r->depth--;
}

/* Numbers, booleans and characters: hexadecimal digits, ended by '_'. */
static void print_const(struct rust *r)
{
	size_t tag_at = r->at, begin;
	uint64_t value = 0;
	char tag;

	if (!enter(r))
		return;
	tag = next(r);
	if (tag == 'B') {
		follow(r, tag_at, print_const);
	} else if (tag == 'p') {
		put(r, "_");
	} else if (strchr("abchijlmnostxy", tag) && tag) {
		if (take(r, 'n'))
			put(r, "-");
		begin = r->at;
		while (!r->failed && !take(r, '_')) {
			char c = next(r);

			if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
				r->failed = true;
			value = value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
		}
		if (tag == 'b') {
			put(r, value ? "true" : "false");
		} else if (r->at - begin > 17) {
			put(r, "0x");
			put_bytes(r, r->text + begin, r->at - begin - 1);
		} else {
			put_number(r, value);
		}
	} else {
		r->failed = true; /* structures and strings as constants: not stable yet */
	}
	r->depth--;
}

char *demangle_rust_v0(const char *name)
{
	struct rust r = {0};
	size_t size;

	if (strncmp(name, "_R", 2) || name[2] < 'A' || name[2] > 'Z')
		return NULL;
	size = strcspn(name + 2, ".$");
	r = (struct rust){.text = name + 2, .size = size, .out = malloc(DEMANGLE_MAX + 1)};
	if (!r.out)
		return NULL;
	print_path(&r, true);
	/* the crate that made this instance */
	if (!r.failed && r.at < r.size) {
		r.quiet++;
		print_path(&r, false);
	}
	if (r.failed || r.at != r.size) {
		free(r.out);
		return NULL;
	}
	r.out[r.used] = 0;
	return r.out;
}

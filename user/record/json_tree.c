/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/json_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "record/json_unescape.h"
#include "util/arena.h"

#define MAX_VALUES (4u << 20)
/* Records nest eight deep. */
#define MAX_DEPTH 64

enum json_type {
	JSON_IS_OBJECT,
	JSON_IS_LIST,
	JSON_IS_TEXT,
	JSON_IS_WORD,
	JSON_IS_WHOLE,
	JSON_IS_REAL
};

struct json_token {
	const char *start; /* of a text without its quotes */
	union {
		const char *end;
		uint64_t keys; /* of an object: key_bit() of each */
	};
	uint32_t next;      /* the token behind it and its parts */
	uint32_t size : 24; /* members or elements */
	uint32_t type : 8;
};

static const struct json_token *token_at(const struct json_tree *tree, uint32_t place)
{
	return &tree->tokens[place];
}

static uint32_t behind(const struct json_tree *tree, uint32_t place)
{
	return token_at(tree, place)->next;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)? up to end. *whole: without what is optional. */
static bool is_number(const char *p, const char *end, bool *whole)
{
	p += p < end && *p == '-';
	if (p == end || !is_digit(*p) || (*p == '0' && p + 1 < end && is_digit(p[1])))
		return false;
	while (p < end && is_digit(*p))
		p++;
	*whole = p == end;
	if (p < end && *p == '.') {
		if (++p == end || !is_digit(*p))
			return false;
		while (p < end && is_digit(*p))
			p++;
	}
	if (p < end && (*p == 'e' || *p == 'E')) {
		p++;
		p += p < end && (*p == '-' || *p == '+');
		if (p == end)
			return false;
		while (p < end && is_digit(*p))
			p++;
	}
	return p == end;
}

static bool is_text(const struct json_token *token, const char *text, size_t length)
{
	return (size_t)(token->end - token->start) == length && !memcmp(token->start, text, length);
}

static bool is_word(const struct json_token *token, const char *word)
{
	return is_text(token, word, strlen(word));
}

/* ---- reading ---- */

struct reader {
	struct json_tree *tree;
	const char *p, *end;
	size_t room;                     /* tokens */
	uint32_t open[MAX_DEPTH], depth; /* lists and objects that are not closed */
};

static int add_token(struct reader *reader, enum json_type type, const char *start, const char *end)
{
	struct json_tree *tree = reader->tree;
	struct json_token *more;

	if (tree->count == reader->room) {
		if (reader->room >= MAX_VALUES)
			return -EMSGSIZE;
		reader->room = 2 * reader->room < MAX_VALUES ? 2 * reader->room : MAX_VALUES;
		more = realloc(tree->tokens, reader->room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		tree->tokens = more;
	}
	tree->tokens[tree->count] = (struct json_token){
		.start = start, .end = end, .next = tree->count + 1, .type = type};
	tree->count++;
	return 0;
}

static void skip_space(struct reader *reader)
{
	while (reader->p < reader->end && (*reader->p == ' ' || *reader->p == '\n' ||
					   *reader->p == '\t' || *reader->p == '\r'))
		reader->p++;
}

/* Most keys that are looked for in vain are told by this from those that there are. */
static uint64_t key_bit(unsigned char first, unsigned char second)
{
	return 1ull << ((first * 5u ^ second) & 63);
}

/* How many of the next bytes end no text; what is left of less than eight is not looked at. */
static size_t plain_bytes(const char *p, const char *end)
{
	const uint64_t ones = UINT64_MAX / 255, tops = ones << 7;
	const char *start = p;
	uint64_t word, quote, escape, found;

	for (; end - p >= 8; p += 8) {
		memcpy(&word, p, sizeof(word));
		quote = word ^ (ones * '"');
		escape = word ^ (ones * '\\');
		found = (((word - ones * 0x20) & ~word) | ((quote - ones) & ~quote) |
			 ((escape - ones) & ~escape)) &
			tops;
		/* A borrow may mark bytes behind the first that is one, and none before it: the
		 * lowest mark is true, and of the first byte on a little-endian machine. */
		if (found)
			return (size_t)(p - start) + (size_t)__builtin_ctzll(found) / 8;
	}
	return (size_t)(p - start);
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "plain_bytes() reads words");

/* At a quote. What its escapes mean is looked at when somebody asks for the text. */
static int read_text(struct reader *reader)
{
	const char *start = reader->p + 1, *end = reader->end, *p = start;

	for (p += plain_bytes(p, end); p < end && *p != '"'; p++) {
		if ((unsigned char)*p < 0x20)
			return -EBADMSG;
		p += *p == '\\';
	}
	if (p >= end)
		return -EBADMSG;
	reader->p = p + 1;
	return add_token(reader, JSON_IS_TEXT, start, p);
}

static bool ends_word(char c)
{
	return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static int read_word(struct reader *reader)
{
	struct json_token word = {.start = reader->p};
	const char *p = reader->p, *end = reader->end;
	enum json_type type = JSON_IS_WORD;
	bool whole;

	/* Most words are the digits of a whole number. */
	while (p < end && is_digit(*p))
		p++;
	if (p > word.start && (*word.start != '0' || p == word.start + 1) &&
	    (p == end || ends_word(*p))) {
		reader->p = p;
		return add_token(reader, JSON_IS_WHOLE, word.start, p);
	}
	while (p < end && !ends_word(*p))
		p++;
	word.end = reader->p = p;
	if (is_number(word.start, word.end, &whole))
		type = whole ? JSON_IS_WHOLE : JSON_IS_REAL;
	else if (!is_word(&word, "true") && !is_word(&word, "false") && !is_word(&word, "null"))
		return -EBADMSG;
	return add_token(reader, type, word.start, word.end);
}

static int open_token(struct reader *reader, enum json_type type)
{
	if (reader->depth == MAX_DEPTH)
		return -EMSGSIZE;
	reader->open[reader->depth++] = reader->tree->count;
	return add_token(reader, type, reader->p++, NULL);
}

static int read_value(struct reader *reader)
{
	if (reader->p == reader->end)
		return -EBADMSG;
	switch (*reader->p) {
	case '{':
		return open_token(reader, JSON_IS_OBJECT);
	case '[':
		return open_token(reader, JSON_IS_LIST);
	case '"':
		return read_text(reader);
	default:
		return read_word(reader);
	}
}

/* The innermost one that is open has no part any more. */
static void close_token(struct reader *reader)
{
	struct json_token *token = &reader->tree->tokens[reader->open[--reader->depth]];

	reader->p++;
	token->next = reader->tree->count;
}

/* "key": before a value of an object. */
static int read_key(struct reader *reader)
{
	struct json_tree *tree = reader->tree;
	const char *key;
	int err;

	skip_space(reader);
	if (reader->p == reader->end || *reader->p != '"')
		return -EBADMSG;
	key = reader->p + 1;
	err = read_text(reader);
	if (!err && *key != '"')
		tree->tokens[reader->open[reader->depth - 1]].keys |=
			key_bit((unsigned char)key[0], (unsigned char)(key[1] == '"' ? 0 : key[1]));
	skip_space(reader);
	if (!err && (reader->p == reader->end || *reader->p++ != ':'))
		err = -EBADMSG;
	return err;
}

/* The next part of the innermost one that is open, or its end. */
static int read_part(struct reader *reader)
{
	uint32_t place = reader->open[reader->depth - 1];
	struct json_token *token = &reader->tree->tokens[place];
	bool object = token->type == JSON_IS_OBJECT;
	int err;

	skip_space(reader);
	if (reader->p == reader->end)
		return -EBADMSG;
	if (*reader->p == (object ? '}' : ']')) {
		close_token(reader);
		return 0;
	}
	if (token->size && *reader->p++ != ',')
		return -EBADMSG;
	token->size++;
	err = object ? read_key(reader) : 0;
	skip_space(reader);
	return err ? err : read_value(reader);
}

int json_tree_read(struct json_tree *tree, const char *text, size_t length)
{
	struct reader reader = {.tree = tree, .p = text, .end = text + length};
	int err;

	*tree = (struct json_tree){0};
	reader.room = length / 8 + 64 < MAX_VALUES ? length / 8 + 64 : MAX_VALUES;
	tree->tokens = malloc(reader.room * sizeof(*tree->tokens));
	if (!tree->tokens)
		return -ENOMEM;
	skip_space(&reader);
	err = reader.p < reader.end && *reader.p == '{' ? read_value(&reader) : -EBADMSG;
	while (!err && reader.depth)
		err = read_part(&reader);
	skip_space(&reader);
	return !err && reader.p != reader.end ? -EBADMSG : err;
}

void json_tree_free(struct json_tree *tree)
{
	free(tree->tokens);
	*tree = (struct json_tree){0};
}

/* ---- walks ---- */

bool json_tree_is_object(const struct json_tree *tree, uint32_t place)
{
	return token_at(tree, place)->type == JSON_IS_OBJECT;
}

bool json_tree_is_list(const struct json_tree *tree, uint32_t place)
{
	return token_at(tree, place)->type == JSON_IS_LIST;
}

bool json_tree_is_text(const struct json_tree *tree, uint32_t place)
{
	return token_at(tree, place)->type == JSON_IS_TEXT;
}

uint32_t json_tree_size(const struct json_tree *tree, uint32_t place)
{
	return token_at(tree, place)->size;
}

struct json_walk json_tree_walk(const struct json_tree *tree, uint32_t place)
{
	return (struct json_walk){.at = place + 1,
				  .end = behind(tree, place),
				  .key = json_tree_is_object(tree, place)};
}

bool json_walk_next(const struct json_tree *tree, struct json_walk *walk)
{
	if (walk->at >= walk->end)
		return false;
	/* An object's: its key was more than 0 from the begin. */
	if (walk->key)
		walk->key = walk->at++;
	walk->value = walk->at;
	walk->at = behind(tree, walk->value);
	return true;
}

bool json_tree_equals(const struct json_tree *tree, uint32_t place, const char *text)
{
	const struct json_token *token = token_at(tree, place);

	return token->type == JSON_IS_TEXT && is_text(token, text, strlen(text));
}

/* Most keys that are looked at are another one from their first byte on. */
static bool is_key(const struct json_token *token, const char *key)
{
	const char *p = token->start;

	while (p < token->end && *p == *key) {
		p++;
		key++;
	}
	return p == token->end && !*key;
}

uint32_t json_tree_get(const struct json_tree *tree, uint32_t object, const char *key,
		       uint32_t *hint)
{
	uint32_t end = behind(tree, object), begin = object + 1, at = *hint;

	if (!(token_at(tree, object)->keys & key_bit((unsigned char)key[0], (unsigned char)key[1])))
		return 0;
	if (at < begin || at >= end)
		at = begin;
	/* The members from the hint to the end, then those before it. */
	for (uint32_t first = at, round = 0; round < 2; round++) {
		uint32_t stop = round ? first : end;

		for (at = round ? begin : first; at < stop; at = behind(tree, at + 1))
			if (is_key(token_at(tree, at), key)) {
				*hint = behind(tree, at + 1);
				return at + 1;
			}
	}
	return 0;
}

/* ---- values ---- */

/* False: it does not fit. */
static bool take_whole(const struct json_token *token, int64_t *value)
{
	bool negative = *token->start == '-';
	uint64_t number = 0, most = (uint64_t)INT64_MAX + negative;

	/* So few digits always fit. */
	if (token->end - token->start <= 18) {
		for (const char *p = token->start + negative; p < token->end; p++)
			number = number * 10 + (uint64_t)(*p - '0');
		*value = (int64_t)(negative ? -number : number);
		return true;
	}
	for (const char *p = token->start + negative; p < token->end; p++) {
		uint64_t digit = (uint64_t)(*p - '0');

		if (number > (most - digit) / 10)
			return false;
		number = number * 10 + digit;
	}
	*value = (int64_t)(negative ? -number : number);
	return true;
}

bool json_tree_integer(const struct json_tree *tree, uint32_t place, int64_t *value)
{
	const struct json_token *token = token_at(tree, place);

	return token->type == JSON_IS_WHOLE && take_whole(token, value);
}

bool json_tree_number(const struct json_tree *tree, uint32_t place, double *value)
{
	const struct json_token *token = token_at(tree, place);
	int64_t number;

	if (token->type != JSON_IS_WHOLE && token->type != JSON_IS_REAL)
		return false;
	if (token->type == JSON_IS_WHOLE) {
		if (!take_whole(token, &number))
			return false;
		*value = (double)number;
		return true;
	}
	/* Behind a number stands a ',', a bracket or a space, which ends it. */
	*value = strtod(token->start, NULL);
	return *value - *value == 0; /* JSON has no infinity */
}

bool json_tree_bool(const struct json_tree *tree, uint32_t place, bool *value)
{
	const struct json_token *token = token_at(tree, place);

	*value = token->type == JSON_IS_WORD && is_word(token, "true");
	return *value || (token->type == JSON_IS_WORD && is_word(token, "false"));
}

/* ---- texts ---- */

int json_tree_text(const struct json_tree *tree, uint32_t place, struct arena *arena,
		   const char **text)
{
	const struct json_token *token = token_at(tree, place);
	char *copy;

	if (token->type != JSON_IS_TEXT)
		return -EBADMSG;
	copy = arena_take(arena, (size_t)(token->end - token->start) + 1);
	if (!copy)
		return -ENOMEM;
	*text = copy;
	return json_unescape(token->start, token->end, copy) ? 0 : -EBADMSG;
}

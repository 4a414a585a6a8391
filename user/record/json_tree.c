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
	JSON_IS_COUNT, /* a whole number of at least 0, of so few digits that it fits */
	JSON_IS_WHOLE, /* any other */
	JSON_IS_REAL
};

struct json_token {
	const char *start; /* of a text without its quotes */
	union {
		const char *end; /* of a text or a word */
		uint64_t keys;   /* of an object: key_bit() of each */
		uint64_t number; /* of a count */
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

/* Two tokens more; the address of the tokens may change. */
static int make_room(struct json_tree *tree)
{
	struct json_token *more;
	size_t room;

	if (tree->room - tree->count >= 2)
		return 0;
	if (tree->room >= MAX_VALUES)
		return -EMSGSIZE;
	room = 2 * tree->room < MAX_VALUES ? 2 * tree->room : MAX_VALUES;
	more = realloc(tree->tokens, room * sizeof(*more));
	if (!more)
		return -ENOMEM;
	tree->tokens = more;
	tree->room = room;
	return 0;
}

static const char *skip_space(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
		p++;
	return p;
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

/* A function that reads returns where it goes on behind what it read, NULL: that is no JSON. */

/* At a quote. What its escapes mean is looked at when somebody asks for the text. */
static const char *read_text(const char *p, const char *end, struct json_token *token)
{
	const char *start = ++p;

	for (p += plain_bytes(p, end); p < end && *p != '"'; p++) {
		if ((unsigned char)*p < 0x20)
			return NULL;
		p += *p == '\\';
	}
	if (p >= end)
		return NULL;
	token->start = start;
	token->end = p;
	token->type = JSON_IS_TEXT;
	return p + 1;
}

static bool ends_word(char c)
{
	return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static const char *read_word(const char *p, const char *end, struct json_token *token)
{
	uint64_t number = 0;
	bool whole;

	token->start = p;
	/* Most words are the digits of a whole number, and so few digits always fit. */
	while (p < end && is_digit(*p))
		number = number * 10 + (uint64_t)(*p++ - '0');
	if (p > token->start && p - token->start <= 18 &&
	    (*token->start != '0' || p == token->start + 1) && (p == end || ends_word(*p))) {
		token->number = number;
		token->type = JSON_IS_COUNT;
		return p;
	}
	while (p < end && !ends_word(*p))
		p++;
	token->end = p;
	if (is_number(token->start, p, &whole))
		token->type = whole ? JSON_IS_WHOLE : JSON_IS_REAL;
	else if (is_word(token, "true") || is_word(token, "false") || is_word(token, "null"))
		token->type = JSON_IS_WORD;
	else
		return NULL;
	return p;
}

/* "key": before a value of an object. */
static const char *read_key(const char *p, const char *end, struct json_token *token,
			    struct json_token *object)
{
	const char *key = p + 1;

	if (p == end || *p != '"')
		return NULL;
	p = read_text(p, end, token);
	if (!p)
		return NULL;
	if (*key != '"')
		object->keys |=
			key_bit((unsigned char)key[0], (unsigned char)(key[1] == '"' ? 0 : key[1]));
	p = skip_space(p, end);
	return p < end && *p == ':' ? p + 1 : NULL;
}

/* Lists and objects that are not closed, from the outermost on. */
struct open_tokens {
	uint32_t places[MAX_DEPTH], depth;
};

/* A text or a word, or the begin of a list or an object. */
static const char *read_value(struct json_tree *tree, const char *p, const char *end,
			      struct open_tokens *open)
{
	struct json_token *token = &tree->tokens[tree->count++];

	*token = (struct json_token){.next = tree->count};
	if (p == end)
		return NULL;
	if (*p == '"')
		return read_text(p, end, token);
	if (*p != '{' && *p != '[')
		return read_word(p, end, token);
	token->start = p;
	token->type = *p == '{' ? JSON_IS_OBJECT : JSON_IS_LIST;
	if (open->depth < MAX_DEPTH)
		open->places[open->depth] = tree->count - 1;
	open->depth++;
	return p + 1;
}

/* The next part of the innermost one that is open, or its end. There is room for two tokens. */
static const char *read_part(struct json_tree *tree, const char *p, const char *end,
			     struct open_tokens *open)
{
	struct json_token *outer = &tree->tokens[open->places[open->depth - 1]], *key;
	bool object = outer->type == JSON_IS_OBJECT;

	p = skip_space(p, end);
	if (p == end)
		return NULL;
	/* The innermost one has no part any more. */
	if (*p == (object ? '}' : ']')) {
		outer->next = tree->count;
		open->depth--;
		return p + 1;
	}
	if (outer->size && *p++ != ',')
		return NULL;
	outer->size++;
	p = skip_space(p, end);
	if (object) {
		key = &tree->tokens[tree->count++];
		*key = (struct json_token){.next = tree->count};
		p = read_key(p, end, key, outer);
		if (!p)
			return NULL;
		p = skip_space(p, end);
	}
	return read_value(tree, p, end, open);
}

int json_tree_read(struct json_tree *tree, const char *text, size_t length)
{
	*tree = (struct json_tree){0};
	return json_tree_read_again(tree, text, length);
}

int json_tree_read_again(struct json_tree *tree, const char *text, size_t length)
{
	const char *end = text + length, *p = skip_space(text, end);
	struct open_tokens open = {.depth = 0};
	size_t room = length / 8 + 64 < MAX_VALUES ? length / 8 + 64 : MAX_VALUES;
	int err = 0;

	if (tree->room < room) {
		json_tree_free(tree);
		tree->tokens = malloc(room * sizeof(*tree->tokens));
		if (!tree->tokens)
			return -ENOMEM;
		tree->room = room;
	}
	tree->count = 0;
	if (p == end || *p != '{')
		return -EBADMSG;
	p = read_value(tree, p, end, &open);
	while (p && open.depth) {
		err = open.depth > MAX_DEPTH ? -EMSGSIZE : make_room(tree);
		if (err)
			return err;
		p = read_part(tree, p, end, &open);
	}
	return p && skip_space(p, end) == end ? 0 : -EBADMSG;
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

const char *json_tree_key(const struct json_tree *tree, uint32_t key, uint16_t *length)
{
	const struct json_token *token = token_at(tree, key);

	*length = (uint16_t)(token->end - token->start);
	return token->end - token->start <= UINT16_MAX ? token->start : NULL;
}

bool json_tree_has_keys(const struct json_tree *tree, uint32_t object, const struct json_keys *keys,
			uint32_t *values)
{
	const char *text = keys->text;
	uint32_t at = object + 1;

	if (token_at(tree, object)->size != keys->count)
		return false;
	for (uint32_t i = 0; i < keys->count; at = behind(tree, at + 1), i++) {
		if (!is_text(token_at(tree, at), text, keys->lengths[i]))
			return false;
		text += keys->lengths[i];
		values[i] = at + 1;
	}
	return true;
}

uint64_t json_tree_keys_hash(const struct json_tree *tree, uint32_t object)
{
	const struct json_token *token = token_at(tree, object);

	return token->keys + token->size;
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

/* False: it is no whole number, or does not fit. */
static bool take_whole(const struct json_token *token, int64_t *value)
{
	bool negative = *token->start == '-';
	uint64_t number = 0, most = (uint64_t)INT64_MAX + negative;

	if (token->type == JSON_IS_COUNT) {
		*value = (int64_t)token->number;
		return true;
	}
	if (token->type != JSON_IS_WHOLE)
		return false;
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
	return take_whole(token_at(tree, place), value);
}

bool json_tree_number(const struct json_tree *tree, uint32_t place, double *value)
{
	const struct json_token *token = token_at(tree, place);
	int64_t number;

	if (take_whole(token, &number)) {
		*value = (double)number;
		return true;
	}
	if (token->type != JSON_IS_REAL)
		return false;
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

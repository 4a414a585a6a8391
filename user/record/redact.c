/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/redact.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "record/fields.h"
#include "util/arena.h"
#include "util/siphash.h"

#define HASH_BYTES 16 /* "#" and 12 digits: it fits where a thread's name does */
/* Names that are looked for in sentences: those that records had last (several times what one
 * holds); what was asked for stays besides. */
#define MAX_KNOWN      16384
#define KNOWN_REACH    256 /* bytes of a name that is looked for */
#define SENTENCE_BYTES 1024

struct known {
	UT_hash_handle hh;
	char name[];
};

struct redactor {
	unsigned char key[REDACT_KEY_BYTES];
	struct known *known; /* the one that was met longest ago first */
	struct known *asked; /* looked for inside of words, too */
	struct arena arena;  /* of the last record */
	struct record record;
	bool failed;
};

struct redactor *redactor_new(const unsigned char key[REDACT_KEY_BYTES])
{
	struct redactor *redactor = calloc(1, sizeof(*redactor));

	if (redactor)
		memcpy(redactor->key, key, REDACT_KEY_BYTES);
	return redactor;
}

static void free_all(struct known **set)
{
	struct known *known, *next;

	HASH_ITER (hh, *set, known, next) {
		HASH_DEL(*set, known);
		free(known);
	}
}

void redactor_free(struct redactor *redactor)
{
	if (!redactor)
		return;
	free_all(&redactor->known);
	free_all(&redactor->asked);
	arena_free(&redactor->arena);
	explicit_bzero(redactor->key, sizeof(redactor->key));
	free(redactor);
}

/* ---- names ---- */

static struct known *add(struct known **set, const char *name, size_t length)
{
	struct known *known = calloc(1, sizeof(*known) + length + 1);

	if (!known)
		return NULL;
	memcpy(known->name, name, length);
	HASH_ADD_KEYPTR(hh, *set, known->name, length, known);
	return known;
}

/* The names that came last are kept, of however many that come in a week. */
static void remember(struct redactor *redactor, const char *name, size_t length)
{
	struct known *known, *oldest = redactor->known;

	HASH_FIND(hh, redactor->known, name, length, known);
	if (known) {
		HASH_DEL(redactor->known, known);
		HASH_ADD_KEYPTR(hh, redactor->known, known->name, length, known);
		return;
	}
	if (HASH_COUNT(redactor->known) >= MAX_KNOWN) {
		HASH_DEL(redactor->known, oldest);
		free(oldest);
	}
	redactor->failed |= !add(&redactor->known, name, length);
}

static void hash(struct redactor *redactor, const char *name, size_t length, char to[HASH_BYTES])
{
	snprintf(to, HASH_BYTES, "#%012" PRIx64, siphash(redactor->key, name, length) >> 16);
}

/* An empty name tells nothing. */
static void hash_name(struct redactor *redactor, const char *name, size_t length,
		      char to[HASH_BYTES])
{
	to[0] = 0;
	if (!length)
		return;
	remember(redactor, name, length);
	hash(redactor, name, length, to);
}

int redactor_add_name(struct redactor *redactor, const char *name)
{
	struct known *known;

	HASH_FIND_STR(redactor->asked, name, known);
	return !*name || known || add(&redactor->asked, name, strlen(name)) ? 0 : -ENOMEM;
}

const char *redactor_name(struct redactor *redactor, const char *name, char *to, size_t size)
{
	char text[HASH_BYTES];

	hash_name(redactor, name, strlen(name), text);
	snprintf(to, size, "%s", text);
	return to;
}

/* ---- sentences ---- */

static const char breaks[] = " \t\n\"'(),;=<>[]{}|";

/* A word ends here, but for the end of a sentence. */
static bool word_ends(const char *text)
{
	text += strspn(text, ".:!?");
	return !*text || strchr(breaks, *text);
}

/* The length of the longest known name that begins here and ends where a word does; 0: none. Names
 * of threads hold blanks ("Jit thread pool"). */
static size_t known_from(const struct redactor *redactor, const char *text)
{
	size_t length = strnlen(text, KNOWN_REACH);
	struct known *known;

	for (; length; length--) {
		if (!word_ends(text + length))
			continue;
		HASH_FIND(hh, redactor->known, text, length, known);
		if (!known)
			HASH_FIND(hh, redactor->asked, text, length, known);
		if (known)
			return length;
	}
	return 0;
}

/* A file that is not the kernel's own. */
static bool is_path(const char *word, size_t length)
{
	return length > 1 && word[0] == '/' && strncmp(word, "/proc", 5) &&
	       strncmp(word, "/sys", 4) && strncmp(word, "/dev", 4);
}

/* What was asked for is a name wherever it stands: "com.example:push", "/data/com.example/x". */
static bool holds_asked(const struct redactor *redactor, const char *word, size_t length)
{
	for (const struct known *known = redactor->asked; known; known = known->hh.next)
		if (memmem(word, length, known->name, known->hh.keylen))
			return true;
	return false;
}

/* The asked names may hold blanks: they are hashed before the sentence is cut into words. */
static void hash_asked(struct redactor *redactor, char *text, size_t size)
{
	for (const struct known *known = redactor->asked; known; known = known->hh.next) {
		char digits[HASH_BYTES], *at = text;

		if (!memchr(known->name, ' ', known->hh.keylen))
			continue;
		hash(redactor, known->name, known->hh.keylen, digits);
		while ((at = strstr(at, known->name))) {
			size_t behind = strlen(at + known->hh.keylen) + 1, n = strlen(digits);

			if ((size_t)(at - text) + n + behind > size)
				break;
			memmove(at + n, at + known->hh.keylen, behind);
			memcpy(at, digits, n);
			at += n;
		}
	}
}

const char *redactor_sentence(struct redactor *redactor, const char *text, char *to, size_t size)
{
	char copy[SENTENCE_BYTES], digits[HASH_BYTES];
	const char *p = copy;
	size_t n = 0;

	snprintf(copy, sizeof(copy), "%s", text);
	hash_asked(redactor, copy, sizeof(copy));
	*to = 0;
	while (*p && n + 1 < size) {
		size_t gap = strspn(p, breaks), name, length, trail = 0;

		n += (size_t)snprintf(to + n, size - n, "%.*s", (int)gap, p);
		p += gap;
		name = known_from(redactor, p);
		length = name ? name : strcspn(p, breaks);
		/* The end of the sentence is none of the name. */
		while (!name && length > trail + 1 && strchr(".:!?", p[length - trail - 1]))
			trail++;
		if (!length || n >= size)
			continue;
		if (name || is_path(p, length - trail) ||
		    holds_asked(redactor, p, length - trail)) {
			hash(redactor, p, length - trail, digits);
			n += (size_t)snprintf(to + n, size - n, "%s%.*s", digits, (int)trail,
					      p + length - trail);
		} else {
			n += (size_t)snprintf(to + n, size - n, "%.*s", (int)length, p);
		}
		p += length;
	}
	return to;
}

/* ---- texts of a record ---- */

static void *take(struct redactor *redactor, size_t size)
{
	void *memory = arena_take(&redactor->arena, size ? size : 1);

	redactor->failed |= !memory;
	return memory;
}

static const char *new_name(struct redactor *redactor, const char *name)
{
	char *to = take(redactor, HASH_BYTES);

	if (to)
		hash_name(redactor, name, strlen(name), to);
	return to;
}

static const char *new_sentence(struct redactor *redactor, const char *text)
{
	char *to = take(redactor, SENTENCE_BYTES);

	return to ? redactor_sentence(redactor, text, to, SENTENCE_BYTES) : NULL;
}

/* "caller;...;function" */
static const char *new_folded(struct redactor *redactor, const char *text)
{
	size_t names = 1, n = 0;
	char *to, digits[HASH_BYTES];

	for (const char *p = text; (p = strchr(p, ';')); p++)
		names++;
	to = take(redactor, names * HASH_BYTES);
	while (to) {
		size_t length = strcspn(text, ";");

		hash_name(redactor, text, length, digits);
		n += (size_t)sprintf(to + n, "%s%s", digits, text[length] ? ";" : "");
		if (!text[length])
			break;
		text += length + 1;
	}
	return to;
}

static const char *new_text(struct redactor *redactor, const struct field *row, const char *text)
{
	const char *to;

	switch ((enum field_text)row->text) {
	case TEXT_NAME:
		to = new_name(redactor, text);
		/* Digits stay digits. */
		return to && row->unit == UNIT_HEX && *to ? to + 1 : to;
	case TEXT_SENTENCE:
		return new_sentence(redactor, text);
	case TEXT_FOLDED:
		return new_folded(redactor, text);
	case TEXT_WORD:
		break;
	}
	return text;
}

/* Of an event: keys that no table has. What is not listed here is a name. */
static const char *new_event_text(struct redactor *redactor, const struct event_key *key)
{
	static const char *const words[] = {"source", "state",  "loop",       "detector", "step",
					    "end",    "metric", "of_session", "kind"};
	static const char *const sentences[] = {"reason",         "why",           "rule",
						"no_first_frame", "no_first_idle", "no_ledger"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(key->name, words[i]))
			return key->text;
	for (size_t i = 0; i < sizeof(sentences) / sizeof(*sentences); i++)
		if (!strcmp(key->name, sentences[i]))
			return new_sentence(redactor, key->text);
	return new_name(redactor, key->text);
}

/* ---- a struct, by its rows ---- */

static void redact(struct redactor *redactor, const struct field_type *type, char *object);

/* A copy of `count` structs of a type, with hashes. */
static void *copy_rows(struct redactor *redactor, const struct field_type *type, const void *rows,
		       size_t count)
{
	char *copy = take(redactor, count * type->size);

	if (!copy || !count)
		return copy;
	memcpy(copy, rows, count * type->size);
	for (size_t i = 0; i < count; i++)
		redact(redactor, type, copy + i * type->size);
	return copy;
}

static void redact_missing(struct redactor *redactor, struct missing_list *list)
{
	struct missing *items = take(redactor, list->count * sizeof(*items));

	for (size_t i = 0; items && i < list->count; i++)
		items[i] = (struct missing){list->items[i].key,
					    (char *)new_sentence(redactor, list->items[i].reason)};
	list->items = items;
}

/* Scenes have the names that the user gave, and three of ours. */
static void redact_keys(struct redactor *redactor, const struct field_type *type, char *rows,
			size_t count)
{
	static const char *const ours[] = {"unknown", "mixed", "other"};

	for (size_t i = 0; rows && i < count; i++) {
		char *place = rows + i * type->size + type->name_offset;
		const char *name;
		bool word = false;

		memcpy(&name, place, sizeof(name));
		for (size_t k = 0; k < sizeof(ours) / sizeof(*ours); k++)
			word |= !strcmp(name, ours[k]);
		name = word ? name : new_name(redactor, name);
		memcpy(place, &name, sizeof(name));
	}
}

static bool is_zero(const char *place, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (place[i])
			return false;
	return true;
}

static void redact_row(struct redactor *redactor, const struct field *row, char *object)
{
	char *place = object + row->offset;
	void **pointer = (void **)(void *)place;
	size_t count = 0;

	if (row->kind == FIELD_OBJECT && row->more_size &&
	    is_zero(object + row->more_offset, row->more_size))
		return; /* it is absent */
	switch ((enum field_kind)row->kind) {
	case FIELD_TEXT:
		if (*pointer && !row->words)
			*pointer = (void *)new_text(redactor, row, *pointer);
		return;
	case FIELD_CHARS: {
		char digits[HASH_BYTES];

		if (row->text != TEXT_NAME || row->words)
			return;
		hash_name(redactor, place, strnlen(place, row->size), digits);
		memset(place, 0, row->size);
		memcpy(place, digits, strlen(digits) < row->size ? strlen(digits) : row->size - 1u);
		return;
	}
	case FIELD_OBJECT:
		redact(redactor, row->of, place);
		return;
	case FIELD_POINTER:
		if (*pointer)
			*pointer = copy_rows(redactor, row->of, *pointer, 1);
		return;
	case FIELD_LIST:
	case FIELD_NAMED:
		memcpy(&count, object + row->more_offset, sizeof(count));
		*pointer = copy_rows(redactor, row->of, *pointer, count);
		if (row->kind == FIELD_NAMED)
			redact_keys(redactor, row->of, *pointer, count);
		return;
	case FIELD_INLINE:
		redact(redactor, row->of, place);
		return;
	case FIELD_MISSING:
		redact_missing(redactor, (struct missing_list *)(void *)place);
		return;
	case FIELD_EVENT_KEYS: {
		struct record_event *event = (struct record_event *)(void *)object;

		for (size_t i = 0; i < event->key_count; i++)
			if (event->keys[i].text)
				event->keys[i].text = new_event_text(redactor, &event->keys[i]);
		return;
	}
	case FIELD_PARTS: {
		const struct field *part;

		for (size_t i = 0; (part = record_next_part(&i));)
			redact_row(redactor, part, object);
		return;
	}
	case FIELD_U64:
	case FIELD_U32:
	case FIELD_I32:
	case FIELD_I64:
	case FIELD_ADDRESS:
	case FIELD_DOUBLE:
	case FIELD_BOOL:
	case FIELD_CHOICE:
	case FIELD_OPT_U64:
	case FIELD_OPT_I64:
	case FIELD_FIXED:
	case FIELD_COUNTERS: /* names of losses */
	case FIELD_HISTOGRAM:
	case FIELD_TOTALS: /* key paths */
		return;
	}
}

static void redact(struct redactor *redactor, const struct field_type *type, char *object)
{
	for (size_t i = 0; i < type->count; i++)
		redact_row(redactor, &type->fields[i], object);
}

const struct record *redactor_record(struct redactor *redactor, const struct record *record)
{
	const struct field_type *type = record_types[record->type];
	struct record_interval *interval;
	void *body;

	arena_free(&redactor->arena);
	redactor->arena = (struct arena){0};
	redactor->failed = false;
	redactor->record = *record;
	body = take(redactor, type->size);
	if (!body)
		return NULL;
	memcpy(body, record->header, type->size); /* all members of the union are pointers */
	/* The rows that --top cut off stand behind those that the table of fields counts. */
	interval = record->type == RECORD_INTERVAL ? body : NULL;
	if (interval)
		interval->cpu.task_count += interval->cpu.cut_count;
	redact(redactor, type, body);
	if (interval)
		interval->cpu.task_count -= interval->cpu.cut_count;
	redactor->record.header = body;
	errno = ENOMEM;
	return redactor->failed ? NULL : &redactor->record;
}

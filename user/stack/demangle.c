/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/demangle.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LEGACY_HASH 19 /* "::h" and 16 hexadecimal digits */

/* From libsupc++, the C++ ABI's own: a NULL buffer is allocated; status 0 is success. */
char *__cxa_demangle(const char *mangled, char *buffer, size_t *length, int *status);

/* Rust's legacy mangling is C++'s with a hash as the last name. True: the hash was cut off. */
static bool cut_hash(char *text)
{
	size_t len = strlen(text);
	char *hash = text + len - LEGACY_HASH;

	if (len <= LEGACY_HASH || strncmp(hash, "::h", 3) ||
	    strspn(hash + 3, "0123456789abcdef") != 16)
		return false;
	*hash = 0;
	return true;
}

/* What that mangling writes for characters that C++ has none for. */
static void replace_escapes(char *text)
{
	static const struct {
		const char *from, *to;
	} escapes[] = {{"$LT$", "<"},  {"$GT$", ">"},  {"$RF$", "&"},   {"$BP$", "*"},
		       {"$LP$", "("},  {"$RP$", ")"},  {"$C$", ","},    {"$SP$", "@"},
		       {"..", "::"},   {"$u20$", " "}, {"$u27$", "'"},  {"$u5b$", "["},
		       {"$u5d$", "]"}, {"$u7b$", "{"}, {"$u7d$", "}"},  {"$u7e$", "~"},
		       {"$u3b$", ";"}, {"$u2b$", "+"}, {"$u22$", "\""}, {"$u3d$", "="}};
	char *to = text;

	for (const char *from = text; *from;) {
		size_t i = 0, count = sizeof(escapes) / sizeof(*escapes);

		/* A leading '_' keeps "$" from being the first character of a name. */
		if (*from == '_' && from[1] == '$' && (from == text || from[-1] == ':')) {
			from++;
			continue;
		}
		while (i < count && strncmp(from, escapes[i].from, strlen(escapes[i].from)))
			i++;
		if (i == count) {
			*to++ = *from++;
			continue;
		}
		from += strlen(escapes[i].from);
		memcpy(to, escapes[i].to, strlen(escapes[i].to));
		to += strlen(escapes[i].to);
	}
	*to = 0;
}

char *demangle(const char *name)
{
	char *text = NULL;
	int status = -1;

	if (name[0] == '_' && name[1] == 'R')
		text = demangle_rust_v0(name);
	if (text)
		return text;
	if (name[0] == '_' && name[1] == 'Z')
		text = __cxa_demangle(name, NULL, NULL, &status);
	if (status == 0 && text && strlen(text) <= DEMANGLE_MAX) {
		if (cut_hash(text))
			replace_escapes(text);
		return text;
	}
	free(text);
	return strndup(name, DEMANGLE_MAX);
}

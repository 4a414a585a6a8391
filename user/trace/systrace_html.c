/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace/systrace_html.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define OUT_BYTES 4096

enum html_state {
	HTML_SEARCH,    /* for either beginning */
	HTML_TAG,       /* behind class="trace-data", up to the '>' */
	HTML_ASSIGN,    /* behind linuxPerfData, up to the quote */
	HTML_TEXT,      /* inside the element, up to </script */
	HTML_STRING,    /* inside the string */
	HTML_ESCAPE,    /* behind a backslash */
	HTML_ESCAPE_CR, /* behind a backslash and a carriage return */
	HTML_HEX,       /* behind \x or \u */
};

static const char element[] = "trace-data", variable[] = "linuxPerfData", close_tag[] = "</script";

struct systrace_html {
	int (*text)(void *ctx, const char *data, size_t size);
	void *ctx;
	enum html_state state;
	size_t element_matched, variable_matched, close_matched;
	bool equals;
	char quote;
	unsigned hex_left, hex;
	char out[OUT_BYTES];
	size_t out_size;
	int err;
};

struct systrace_html *systrace_html_new(int (*text)(void *ctx, const char *data, size_t size),
					void *ctx)
{
	struct systrace_html *html = calloc(1, sizeof(*html));

	if (!html)
		return NULL;
	html->text = text;
	html->ctx = ctx;
	return html;
}

void systrace_html_free(struct systrace_html *html)
{
	free(html);
}

static void flush(struct systrace_html *html)
{
	if (html->out_size && !html->err)
		html->err = html->text(html->ctx, html->out, html->out_size);
	html->out_size = 0;
}

static void put(struct systrace_html *html, char c)
{
	if (html->out_size == OUT_BYTES)
		flush(html);
	html->out[html->out_size++] = c;
}

/* Advance a match of word by one character; true when it is complete. No word here has a prefix
 * that occurs in it again, so starting over at its first character is enough. */
static bool match(size_t *matched, const char *word, char c)
{
	if (c == word[*matched])
		++*matched;
	else
		*matched = c == word[0];
	if (word[*matched])
		return false;
	*matched = 0;
	return true;
}

static void end_section(struct systrace_html *html)
{
	put(html, '\n');
	flush(html);
	html->state = HTML_SEARCH;
}

static void text_char(struct systrace_html *html, char c)
{
	char lower = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
	size_t before = html->close_matched;

	if (match(&html->close_matched, close_tag, lower)) {
		end_section(html);
		return;
	}
	if (html->close_matched > before)
		return; /* held back: it may be the end */
	for (size_t i = 0; i < before; i++)
		put(html, close_tag[i]);
	if (!html->close_matched)
		put(html, c);
}

static void escape_char(struct systrace_html *html, char c)
{
	html->state = HTML_STRING;
	switch (c) {
	case 'n':
		put(html, '\n');
		break;
	case 't':
		put(html, '\t');
		break;
	case 'r':
	case '\n': /* the line goes on */
		break;
	case '\r':
		html->state = HTML_ESCAPE_CR;
		break;
	case 'x':
	case 'u':
		html->state = HTML_HEX;
		html->hex_left = c == 'x' ? 2 : 4;
		html->hex = 0;
		break;
	default:
		put(html, c);
	}
}

static void hex_char(struct systrace_html *html, char c)
{
	unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
			 : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
			 : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
						: 0;

	html->hex = html->hex << 4 | digit;
	if (--html->hex_left)
		return;
	put(html, html->hex < 0x80 ? (char)html->hex : '?');
	html->state = HTML_STRING;
}

static void feed_char(struct systrace_html *html, char c)
{
	switch (html->state) {
	case HTML_SEARCH:
		if (match(&html->element_matched, element, c))
			html->state = HTML_TAG;
		else if (match(&html->variable_matched, variable, c))
			html->state = HTML_ASSIGN;
		html->equals = false;
		break;
	case HTML_TAG:
		/* a script that only names the class has no tag end after the quote */
		if (c == '>') {
			html->state = HTML_TEXT;
			html->close_matched = 0;
		} else if (c == ')' || c == ';' || c == '\n' || c == '<') {
			html->state = HTML_SEARCH;
		}
		break;
	case HTML_ASSIGN:
		if (c == '=' && !html->equals) {
			html->equals = true;
		} else if ((c == '"' || c == '\'') && html->equals) {
			html->quote = c;
			html->state = HTML_STRING;
		} else if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
			html->state = HTML_SEARCH;
		}
		break;
	case HTML_TEXT:
		text_char(html, c);
		break;
	case HTML_ESCAPE_CR:
		html->state = HTML_STRING;
		if (c == '\n')
			break;
		/* fall through */
	case HTML_STRING:
		if (c == '\\')
			html->state = HTML_ESCAPE;
		else if (c == html->quote)
			end_section(html);
		else
			put(html, c);
		break;
	case HTML_ESCAPE:
		escape_char(html, c);
		break;
	case HTML_HEX:
		hex_char(html, c);
		break;
	}
}

int systrace_html_feed(struct systrace_html *html, const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size && !html->err; i++)
		feed_char(html, (char)data[i]);
	if (!html->err)
		flush(html);
	return html->err;
}

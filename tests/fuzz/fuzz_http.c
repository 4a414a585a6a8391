/* SPDX-License-Identifier: BSD-2-Clause */
/* libFuzzer target of what a client sends to --metrics, and of the addresses of it. However the
 * bytes are cut into pieces, the request is the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint/address.h"
#include "endpoint/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct http_request *take(const char *text, size_t size, size_t piece)
{
	struct http_request *request = calloc(1, sizeof(*request));

	if (!request)
		abort();
	for (size_t at = 0; at < size; at += piece)
		http_take(request, text + at, piece < size - at ? piece : size - at);
	return request;
}

static void check_request(const char *text, size_t size, size_t piece)
{
	struct http_request *whole = take(text, size, size ? size : 1);
	struct http_request *cut = take(text, size, piece);

	if (whole->state != cut->state || whole->status != cut->status || whole->get != cut->get ||
	    whole->body != cut->body || strcmp(whole->target, cut->target) ||
	    strcmp(whole->host, cut->host) ||
	    http_is_for_us(whole, 9101) != http_is_for_us(cut, 9101))
		abort();
	if (whole->state == HTTP_REFUSED && !*http_reason(whole->status))
		abort();
	if (whole->state == HTTP_WHOLE && *whole->target != '/')
		abort();
	free(whole);
	free(cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct endpoint_address address;
	char *text;

	if (!size)
		return 0;
	text = malloc(size);
	if (!text)
		abort();
	memcpy(text, data + 1, size - 1);
	text[size - 1] = 0;
	check_request(text, size - 1, *data % 64 + 1u);
	if (!endpoint_address_parse(text, &address) && address.kind == ENDPOINT_TCP &&
	    (!address.port || address.port > 65535))
		abort();
	free(text);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* libFuzzer target: a line with the name of a frame, and behind it any bytes as a mapping. */
#include <stdlib.h>
#include <string.h>

#include "stack/symbol/mapping.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t lines[] = {0, 1, 4, 27, 1014};
	const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
	size_t length = end ? (size_t)(end - data) : size, rest = size - length - (end != NULL);
	char *symbol = strndup((const char *)data, length), *text = malloc(rest ? rest : 1);
	const struct mapping_name *names;
	struct mapping_error error;
	struct mapping *mapping;
	size_t sum = 0;

	if (!symbol || !text)
		abort();
	if (rest)
		memcpy(text, end + 1, rest);
	mapping = mapping_new(text, rest, &error);
	for (size_t i = 0; mapping && i < sizeof(lines) / sizeof(*lines); i++) {
		ssize_t count = mapping_find(mapping, symbol, lines[i], &names);

		for (ssize_t k = 0; k < count; k++)
			sum += strlen(names[k].symbol);
	}
	if (!mapping)
		sum += strlen(error.why);
	mapping_free(mapping);
	free(symbol);
	return sum == SIZE_MAX;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/refused_files.h"

#include <string.h>

static struct refused_file *find(const struct refused_files *refused,
				 const struct stack_file_version *file)
{
	for (size_t i = 0; i < REFUSED_FILES; i++) {
		const struct refused_file *row = &refused->rows[i];

		if (row->file.inode && !memcmp(&row->file, file, sizeof(*file)))
			return (struct refused_file *)row;
	}
	return NULL;
}

void refused_files_add(struct refused_files *refused, const struct stack_file_version *file,
		       uint64_t now_ns)
{
	struct refused_file *row;

	if (!file->inode)
		return;
	row = find(refused, file);
	if (row) {
		row->since_ns = now_ns;
		row->for_ns = row->for_ns < REFUSED_MOST_NS / 2 ? row->for_ns * 2 : REFUSED_MOST_NS;
		return;
	}
	row = &refused->rows[0];
	for (size_t i = 1; i < REFUSED_FILES && row->file.inode; i++) {
		struct refused_file *other = &refused->rows[i];

		if (!other->file.inode || other->since_ns < row->since_ns)
			row = other;
	}
	*row = (struct refused_file){*file, now_ns, REFUSED_FIRST_NS};
}

bool refused_files_has(const struct refused_files *refused, const struct stack_file_version *file,
		       uint64_t now_ns)
{
	const struct refused_file *row = find(refused, file);

	return row && now_ns - row->since_ns < row->for_ns;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Which DEX file an oat file was compiled from, of those that the process has mapped. */
#pragma once
#include "stack/code/dex.h"
#include "stack/code/dex_file.h"
#include "stack/code/oat_file.h"

/* The DEX file that `oat_dex` describes and that has so many classes. entry: the mapping of the oat
 * file. What is found is valid until DEX files are asked for again. 0; -ENOENT: no such file is
 * mapped, or it is another one by now. */
int oat_dex_open(struct dex_code *code, const struct module_scope *scope,
		 const struct map_entry *entry, const struct oat_dex *oat_dex, uint32_t classes,
		 struct dex_file *dex);

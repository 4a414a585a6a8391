/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the table share. */
#pragma once
#include <stdint.h>

#include "sink/line.h"
#include "sink/table.h"

#define TABLE_TIME 32

struct writer;

struct table_sink {
	struct sink base;
	FILE *out; /* with a writer: of the record that is being printed */
	struct writer *writer;
	bool told;            /* the writer's error */
	bool is_terminal;     /* a writer that hangs on one is not left behind */
	uint64_t not_printed; /* records since the last that was */
	uint64_t intervals_not_printed;
	struct table_options options;
	uint64_t first_boot_ns;
	uint64_t unix_minus_boot_ns;
};

double table_ms(uint64_t ns);
struct line table_line(const struct table_sink *table);
/* A moment as the table shows it: of the wall, or seconds since the first record. */
const char *table_time(const struct table_sink *table, uint64_t boot_ns, char text[TABLE_TIME]);
/* A line that begins with its time. */
struct line table_line_at(const struct table_sink *table, uint64_t boot_ns);
/* "  title: name=value name=value", nothing for an empty list. */
void table_put_counters(struct line *line, const char *title, const struct counter_list *list);

void table_print_block(struct table_sink *table, const struct record *record);
void table_print_addition(struct table_sink *table, const struct record_addition *addition);
void table_print_footer(struct table_sink *table, const struct record_footer *footer);

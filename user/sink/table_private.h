/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the table share. */
#pragma once
#include <stdint.h>

#include "sink/line.h"
#include "sink/table.h"

#define TABLE_TIME 32
#define TABLE_NAME 300 /* bytes of a name that a row shows */

struct writer;

struct table_sink {
	struct sink base;
	FILE *out; /* with a writer: of the record that is being printed */
	struct writer *writer;
	bool told;            /* the writer's error */
	bool is_terminal;     /* a writer that hangs on one is not left behind */
	bool has_targets;     /* of the header */
	uint64_t not_printed; /* records since the last that was */
	uint64_t intervals_not_printed;
	struct table_options options;
	uint64_t first_boot_ns;
	uint64_t unix_minus_boot_ns;
};

double table_ms(uint64_t ns);
/* Of one core, over so long. */
double table_core_pct(uint64_t cpu_ns, double dur_ns);
struct line table_line(const struct table_sink *table);
/* A moment as the table shows it: of the wall, or seconds since the first record. */
const char *table_time(const struct table_sink *table, uint64_t boot_ns, char text[TABLE_TIME]);
/* A line that begins with its time. */
struct line table_line_at(const struct table_sink *table, uint64_t boot_ns);
/* "  title: name=value name=value", nothing for an empty list. */
void table_put_counters(struct line *line, const char *title, const struct counter_list *list);
/* What a process is called in a row: its name without its folders; where /proc did not tell it, its
 * package or the name of its thread. Clean and whole. Returns buffer. */
const char *table_process(char buffer[TABLE_NAME], const char *process, const char *package,
			  const char *thread);
/* A function in short (record/telling.h), in so many columns at most: what is cut off is where a
 * script's function stands, else what the name begins with, at a "::" or a "." where that is
 * enough. Returns buffer. */
const char *table_function(char buffer[TABLE_NAME], const char *symbol, int columns);
void table_print_cpu(struct table_sink *table, const struct record *record);
void table_print_net(struct table_sink *table, const struct record_net *net);
void table_print_frames(struct table_sink *table, const struct record_frames *frames);
void table_print_clusters(struct table_sink *table, const struct record_cpu *cpu);
void table_print_cluster_totals(struct table_sink *table, const struct record_footer *footer);
void table_print_power(struct table_sink *table, const struct record_power *power);
void table_print_power_totals(struct table_sink *table, const struct record_footer *footer);
void table_print_memory(struct table_sink *table, const struct record_memory *memory);
void table_print_disk(struct table_sink *table, const struct record_disk *disk);
void table_print_block(struct table_sink *table, const struct record *record);
void table_print_addition(struct table_sink *table, const struct record_addition *addition);
void table_print_footer(struct table_sink *table, const struct record_footer *footer);
void table_print_scenes(struct table_sink *table, const struct record_footer *footer);
/* Of the footer: memory by process, and of the machine. */
void table_print_memory_runs(struct table_sink *table, const struct record_footer *footer);
/* Of the footer: who read and wrote, where that was asked for. */
void table_print_disk_run(struct table_sink *table, const struct record_footer *footer);
/* A total of the footer, 0 where there is none. */
double table_total(const struct record_footer *footer, const char *key);
/* NULL: it was not measured. */
const struct summary_total *table_find_total(const struct record_footer *footer, const char *key);
/* Of the footer: who used what, frames by layer; blocks by what they did. */
void table_print_usage(struct table_sink *table, const struct record_footer *footer, double dur_ns);
void table_print_block_paths(struct table_sink *table, const struct record_footer *footer);

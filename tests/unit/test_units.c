/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "util/units.h"

Test(units, durations)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
		{"1ns", 1},
		{"0s", 0},
		{"50us", 50000},
		{"500ms", 500000000},
		{"0.5s", 500000000},
		{"1.5m", 90000000000},
		{"72h", 259200000000000},
		{"7d", 604800000000000},
		{"100000d", 8640000000000000000ull},
	};
	static const char *const bad[] = {
		"",      "5",    "s",    "-1s",  "+1s",  " 1s",  "1 s", "1s ",
		"0x10s", "0X1s", "infs", "nans", "1sec", "1S",   "1M",  ".5s",
		"1,5s",  "1e",   "\xff", "1\n",  "1ms5", "--1s", "1e3",
	};
	uint64_t ns;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		ns = 42;
		cr_expect_eq(parse_duration(good[i].text, &ns), 0, "%s", good[i].text);
		cr_expect_eq(ns, good[i].ns, "%s gave %llu", good[i].text, (unsigned long long)ns);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		ns = 42;
		cr_expect_eq(parse_duration(bad[i], &ns), -EINVAL, "'%s'", bad[i]);
		cr_expect_eq(ns, 42, "'%s' touched the value", bad[i]);
	}
	cr_expect_eq(parse_duration("1000000d", &ns), -ERANGE);
	cr_expect_eq(parse_duration("1e300s", &ns), -ERANGE);
	cr_expect_eq(parse_duration("1e999s", &ns), -ERANGE);
}

Test(units, sizes)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{"100B", 100},        {"1K", 1024},       {"1KB", 1024},     {"1KiB", 1024},
		{"64M", 64ull << 20}, {"2G", 2147483648}, {"1.5M", 1572864}, {"0B", 0},
	};
	static const char *const bad[] = {"64", "64k", "1T", "-1M", "M", "0x1M", "1M1", "1ms"};
	uint64_t bytes;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		cr_expect_eq(parse_size(good[i].text, &bytes), 0, "%s", good[i].text);
		cr_expect_eq(bytes, good[i].bytes, "%s", good[i].text);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		cr_expect_eq(parse_size(bad[i], &bytes), -EINVAL, "%s", bad[i]);
	cr_expect_eq(parse_size("99999999999G", &bytes), -ERANGE);
}

Test(units, bytes_written)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{0, "0 B"},
		{1023, "1023 B"},
		{1024, "1.0 KiB"},
		{1048524, "1023.9 KiB"},
		{1048525, "1.0 MiB"},
		{1ull << 40, "1.0 TiB"},
		{UINT64_MAX, "16.0 EiB"},
	};
	char text[32];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		cr_expect_str_eq(format_bytes(text, sizeof(text), cases[i].bytes), cases[i].text);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Contents of files of /sys become numbers. Pure. No unit is guessed by magnitude: a number is in
 * the unit of its file, or it is refused. */
#pragma once
#include <stddef.h>

#include "source/power/board.h"

/* A decimal number, with white space around it, from lowest to highest. */
struct power_value power_parse_number(const char *text, size_t length, int64_t lowest,
				      int64_t highest);

/* A word of a file (a type, a status), cut to its room: its first line, with '?' for what no such
 * file has. Empty where there is none. */
void power_parse_word(const char *text, size_t length, char word[POWER_NAME]);

/* One line of an energy meter's energy_value, "CH3(T=12345)[VSYS_PWR_MMWAVE], 761330": energy in
 * uWs since boot (hardware/google/pixel, IioEnergyMeterDataProvider). False: the line is none, as
 * the first one with the time of the reading. */
bool power_parse_rail(const char *line, size_t length, char rail[POWER_NAME], uint64_t *energy_uj);

/* Of a meter's enabled_rails, "CH3[VSYS_PWR_MMWAVE]:Modem": whose rail it is. False: it does not
 * tell. */
bool power_parse_subsystem(const char *text, size_t length, const char *rail,
			   char subsystem[POWER_NAME]);

/* Why there is no value. */
const char *power_value_reason(int32_t error);

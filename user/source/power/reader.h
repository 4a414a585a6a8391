/* SPDX-License-Identifier: BSD-2-Clause */
/* The recorder's side of the process that reads /sys: it asks and never waits for a driver. What
 * one device holds up for two seconds costs that process; a new one leaves the device alone for a
 * while. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "source/power/board.h"

struct power_reader;
struct warden;

/* The warden forks the process, with all the rights that there were at the start. NULL with errno.
 */
struct power_reader *power_reader_new(struct warden *warden);
void power_reader_free(struct power_reader *reader);

/* Have everything read at due_mono_ns (CLOCK_MONOTONIC). Up to two requests may be under way. 0;
 * -EBUSY: two are; -EPIPE: there is no process and none can be made. */
int power_reader_ask(struct power_reader *reader, uint64_t due_mono_ns);
/* What is to be read later is read now. */
void power_reader_hurry(struct power_reader *reader);
/* The next answer, if it is there within timeout_ns (0: do not wait). 0 with *reading, which is
 * valid until the next call; -EAGAIN: not yet; -EPIPE: the process died or hung, and its requests
 * are lost: another one is made, and has nothing to do. */
int power_reader_take(struct power_reader *reader, uint64_t timeout_ns,
		      const struct power_reading **reading);

/* Devices that are left alone now: their paths below /sys, up to POWER_LEFT. */
size_t power_reader_left(const struct power_reader *reader, const char *paths[POWER_LEFT]);
/* How often the process was replaced. */
uint64_t power_reader_replaced(const struct power_reader *reader);
/* Of the last request. */
uint64_t power_reader_serial(const struct power_reader *reader);

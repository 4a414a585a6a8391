/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the supplies, thermal zones, cooling devices, frequency limits and energy meters of /sys. A
 * driver behind such a file may take long or never answer (a fuel gauge on a bus that hangs), so
 * this runs in a process of its own; the recorder does not call it. */
#pragma once
#include "source/power/board.h"

struct power_sysfs;

/* `root` is "" on a device, or the folder of a fixture that holds sys/. NULL with errno ENOMEM. */
struct power_sysfs *power_sysfs_new(const char *root);
void power_sysfs_free(struct power_sysfs *sysfs);

/* Read everything into a reading of the board; board->at names the device that is being read. Files
 * stay open from one call to the next, and devices are looked for anew once a minute. */
void power_sysfs_read(struct power_sysfs *sysfs, struct power_board *board,
		      struct power_reading *reading);

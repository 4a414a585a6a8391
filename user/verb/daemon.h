/* SPDX-License-Identifier: BSD-2-Clause */
/* record --daemon: what a recorder with a keeper does otherwise. */
#pragma once
#include "control/keeper.h"
#include "verb/verb.h"

/* Check the flags, open the folder, start a keeper, and wait until the recording has begun. record
 * is the life of each recorder, which gets its own output by its seat. */
enum exit_code daemon_start(const struct options *options,
			    enum exit_code (*record)(const struct options *options,
						     const struct keeper_seat *seat));
/* What the seat adds to a session: its end, its place after one that died, and the word that it has
 * begun. The seat must outlive the session. */
void daemon_take_seat(const struct keeper_seat *seat, struct session_options *session);

/* SPDX-License-Identifier: BSD-2-Clause */
/* What recorder and warden say to each other. */
#pragma once
#include <stdint.h>

enum warden_operation {
	WARDEN_SPAWN = 1,    /* key: serial, number: helper kind; fd: its socket */
	WARDEN_ADOPT = 2,    /* key: serial; fd: pidfd of a helper that an earlier warden forked */
	WARDEN_KILL = 3,     /* key: serial; fd: pidfd, if it is known */
	WARDEN_KEEP = 4,     /* key, fds */
	WARDEN_RELEASE = 5,  /* key */
	WARDEN_PING = 11,    /* answered by the same */
	WARDEN_EXITED = 10,  /* from the warden. key: serial, cpu_ns: of its whole life */
	WARDEN_LOCKS = 12,   /* fd: the program looper_mm_locks */
	WARDEN_HOLD = 13,    /* fds: the file of trace_state.h, the root of trace_settings.h */
	WARDEN_RESTORE = 14, /* what that file keeps; answered by the same */
};

struct warden_message {
	uint32_t operation; /* enum warden_operation; never HELPER_HELLO */
	uint32_t number;
	uint64_t key;
	uint64_t cpu_ns;
};

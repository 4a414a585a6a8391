#!/usr/bin/env bash
# record --daemon, status and stop where somebody works against them: hostile clients, kills in every
# order, a recorder that hangs, odd and foreign folders. Prints TAP.
# Runs beside others (12 s, 1 s of CPU)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - daemon # SKIP needs root"; exit 0; fi
# `make check-fault` and FULL=1 take all of them.
cases="clients odd_folders taken_folders one_that_hangs"
[ -n "${ALL_FAULTS:-}${FULL:-}" ] && cases=
exec python3 "$(dirname "$0")/daemon_hostile.py" "$BUILD/jankscope" $cases

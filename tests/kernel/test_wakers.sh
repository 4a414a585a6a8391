#!/usr/bin/env bash
# Who ended a wait that has no owner, with its stack in the wake-up. Prints TAP.
# Runs beside others (16 s)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - wakers # SKIP needs root"; exit 0; fi
exec timeout -k 5 "${PART_TIMEOUT:-300}" python3 "$(dirname "$0")/wakers_truth.py" "$@"

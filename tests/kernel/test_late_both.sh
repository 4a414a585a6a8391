#!/usr/bin/env bash
# Late frames told while they are recorded, and from a trace of the scheduler's events: the same. Prints TAP.
# Not beside others: the app's helpers take whole CPUs.
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - late_both # SKIP needs root"; exit 0; fi
exec timeout -k 5 "${PART_TIMEOUT:-120}" python3 "$(dirname "$0")/late_both_truth.py" "$@"

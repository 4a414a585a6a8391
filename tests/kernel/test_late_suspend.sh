#!/usr/bin/env bash
# Late frames around a suspend, and amid one. Prints TAP.
# Not beside others: a frame that the machine holds up has the machine's cause.
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - late_suspend # SKIP needs root"; exit 0; fi
exec timeout -k 5 "${PART_TIMEOUT:-120}" python3 "$(dirname "$0")/late_suspend_truth.py" "$@"

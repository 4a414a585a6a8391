#!/usr/bin/env bash
# Rows of frames that come half a minute behind their frames, and rows whose clock is told wrong. Prints TAP.
# Not beside others: a frame that the machine holds up has the machine's cause.
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - late_behind # SKIP needs root"; exit 0; fi
exec timeout -k 5 "${PART_TIMEOUT:-120}" python3 "$(dirname "$0")/late_behind_truth.py" "$@"

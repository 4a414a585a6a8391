#!/usr/bin/env bash
# Late frames and their causes while they are recorded, against a program that plants them. Prints TAP.
# Not beside others: a frame that the machine holds up has the machine's cause.
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - janks # SKIP needs root"; exit 0; fi
exec timeout -k 5 "${PART_TIMEOUT:-120}" python3 "$(dirname "$0")/janks_truth.py" "$@"

#!/usr/bin/env bash
# Stacks and chains of late frames while they are recorded. Prints TAP.
# Not beside others: a frame that the machine holds up has the machine's cause.
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - frame stacks # SKIP needs root"; exit 0; fi
exec timeout -k 5 "${PART_TIMEOUT:-120}" python3 "$(dirname "$0")/frame_stacks_truth.py" "$@"

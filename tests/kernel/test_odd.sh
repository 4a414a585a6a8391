#!/usr/bin/env bash
# Blocks in odd calls, on odd stacks, in odd places (tests/apps/block_odd.c). Prints TAP.
# Runs beside others (6 s)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - odd # SKIP needs root"; exit 0; fi
exec timeout -k 5 "${PART_TIMEOUT:-120}" python3 "$(dirname "$0")/odd_truth.py" "$@"

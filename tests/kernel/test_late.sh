#!/usr/bin/env bash
# Late frames of known causes while they are recorded: 150 of them, or 1,000 with FULL=1. Prints TAP.
# Not beside others: the app's helpers take whole CPUs, and others would take them from its frames.
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - late # SKIP needs root"; exit 0; fi
exec timeout -k 5 "${PART_TIMEOUT:-400}" python3 "$(dirname "$0")/late_truth.py" "$@"

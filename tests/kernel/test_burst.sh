#!/usr/bin/env bash
# Blocks at moments that are hard to tell right. All parts: FULL=1. Prints TAP.
# Runs beside others (25 s)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - burst # SKIP needs root"; exit 0; fi
exec timeout -k 5 "${PART_TIMEOUT:-300}" python3 "$(dirname "$0")/burst_truth.py" "$@"

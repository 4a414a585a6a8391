#!/usr/bin/env bash
# --block 8ms with 60 blocks a second. Prints TAP.
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - lowblock # SKIP needs root"; exit 0; fi
exec timeout -k 5 "${PART_TIMEOUT:-300}" python3 "$(dirname "$0")/lowblock_truth.py" "$@"

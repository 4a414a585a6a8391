#!/usr/bin/env bash
# Locks and waits of odd kinds: who holds them, who ends them, and what says nobody. Prints TAP.
# Runs beside others (30 s)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - lock_odd # SKIP needs root"; exit 0; fi
exec timeout -k 5 "${PART_TIMEOUT:-300}" python3 "$(dirname "$0")/lock_odd_truth.py" "$@"

#!/usr/bin/env bash
# Targets that are frozen by their cgroup, as Android freezes cached apps. Prints TAP.
# Runs beside others (30 s)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - freeze # SKIP needs root"; exit 0; fi
exec timeout -k 5 "${PART_TIMEOUT:-300}" python3 "$(dirname "$0")/freeze_truth.py" "$@"

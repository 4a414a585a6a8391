#!/usr/bin/env bash
# Which threads `record --frames` keeps the last seconds of: those of a program that names its threads
# as an app does, and of one that is called surfaceflinger. Prints TAP.
# Runs beside others (15 s)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - flight_record # SKIP needs root"; exit 0; fi
exec timeout -k 5 "${PART_TIMEOUT:-120}" python3 "$(dirname "$0")/flight_truth.py" "$@"

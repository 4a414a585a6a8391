#!/usr/bin/env bash
# How long a target took to start (--startup), of a program that knows it (tests/apps/startup_load.c).
# Prints TAP.
# Runs beside others (24 s)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - startup # SKIP needs root"; exit 0; fi
[ -x "$BUILD/tests/apps/startup_load" ] || make -s "${BUILD#"$PWD"/}/tests/apps/startup_load" >/dev/null 2>&1
exec timeout -k 5 "${PART_TIMEOUT:-120}" python3 "$(dirname "$0")/startup_truth.py" "$@"

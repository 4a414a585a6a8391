#!/usr/bin/env bash
# Bytes read and written, and fsync, of a program that knows its own (tests/apps/disk_load.c).
# Prints TAP.
# Runs beside others (8 s)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - disk # SKIP needs root"; exit 0; fi
[ -x "$BUILD/tests/apps/disk_load" ] || make -s "${BUILD#"$PWD"/}/tests/apps/disk_load" >/dev/null 2>&1
exec timeout -k 5 "${PART_TIMEOUT:-120}" python3 "$(dirname "$0")/disk_truth.py" "$@"

#!/usr/bin/env bash
# Memory and disk of a program that uses known bytes (tests/apps/memory_load.c). Prints TAP.
# Runs beside others (30 s)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - memory # SKIP needs root"; exit 0; fi
[ -x "$BUILD/tests/apps/memory_load" ] || make -s "${BUILD#"$PWD"/}/tests/apps/memory_load" >/dev/null 2>&1
exec timeout -k 5 "${PART_TIMEOUT:-200}" python3 "$(dirname "$0")/memory_truth.py" "$@"

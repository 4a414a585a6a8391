#!/usr/bin/env bash
# Limits, dying helpers, threads that end, targets that come and go. Prints TAP.
# Runs beside others (30 s)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - attack # SKIP needs root"; exit 0; fi
[ -x "$BUILD/tests/apps/looper" ] || make -s "${BUILD#"$PWD"/}/tests/apps/looper" >/dev/null 2>&1
exec timeout -k 5 "${PART_TIMEOUT:-200}" python3 "$(dirname "$0")/attack_truth.py" "$@"

#!/usr/bin/env bash
# 300 watched processes, 60 of them killed at once, few descriptors. Prints TAP.
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - scale # SKIP needs root"; exit 0; fi
[ -x "$BUILD/tests/apps/looper" ] || make -s "${BUILD#"$PWD"/}/tests/apps/looper" >/dev/null 2>&1
exec timeout -k 5 "${PART_TIMEOUT:-550}" python3 "$(dirname "$0")/scale_truth.py" "$@"

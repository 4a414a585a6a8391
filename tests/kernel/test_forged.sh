#!/usr/bin/env bash
# What others wrote: a slot whose counters disagree, files that another user planted. Prints TAP.
# Runs beside others (30 s)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - forged # SKIP needs root"; exit 0; fi
[ -x "$BUILD/tests/apps/looper" ] || make -s "${BUILD#"$PWD"/}/tests/apps/looper" >/dev/null 2>&1
exec timeout -k 5 "${PART_TIMEOUT:-300}" unshare --mount --propagation private \
	python3 "$(dirname "$0")/forged_truth.py" "$@"

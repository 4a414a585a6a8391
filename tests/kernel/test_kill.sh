#!/usr/bin/env bash
# SIGKILL of the recorder and its helpers in any order while captures are in flight. Prints TAP.
# Runs beside others (150 s, 36 s of CPU)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - kill_helpers # SKIP needs root"; exit 0; fi
exec timeout -k 5 "${PART_TIMEOUT:-$([ -n "${FULL:-}" ] && echo 3000 || echo 500)}" \
	python3 "$(dirname "$0")/kill_truth.py" "$@"

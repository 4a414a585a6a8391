#!/usr/bin/env bash
# Nobody sees EINTR from a recording: one process in each interruptible system call. Prints TAP.
# Runs beside others (50 s, 6 s of CPU)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - eintr # SKIP needs root"; exit 0; fi
exec timeout -k 5 "${PART_TIMEOUT:-500}" python3 "$(dirname "$0")/eintr_truth.py" "$@"

#!/usr/bin/env bash
# Outputs that nobody reads, disks that hang, files that others planted, signals. Prints TAP.
# Runs beside others (135 s, 27 s of CPU)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - outputs # SKIP needs root"; exit 0; fi
exec python3 "$(dirname "$0")/outputs.py" "$BUILD/jankscope" "$BUILD/tests/apps/hang_fs"

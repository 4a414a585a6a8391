#!/usr/bin/env bash
# Recordings in folders: killed recorders, full and broken disks, files that others take. Prints TAP.
# FULL=1: 300 kills instead of a dozen; with it and in check-fault a minute of a file that is not kept.
# Runs beside others (65 s, 24 s of CPU)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - store # SKIP needs root"; exit 0; fi
exec python3 "$(dirname "$0")/store.py" "$BUILD/jankscope" "$BUILD/tests/apps/hang_fs"

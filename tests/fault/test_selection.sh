#!/usr/bin/env bash
# report --since, --until, --scene, --target. Prints TAP.
# Runs beside others (5 s)
set -u
exec python3 "$(dirname "$0")/selection.py" "$BUILD/jankscope"

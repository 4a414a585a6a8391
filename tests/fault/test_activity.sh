#!/usr/bin/env bash
# report --by-activity on recordings whose every figure is known. Prints TAP.
# Runs beside others (3 s)
set -u
cd "$(dirname "$0")" && exec python3 activity.py "$BUILD/jankscope"

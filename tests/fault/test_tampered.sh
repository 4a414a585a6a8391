#!/usr/bin/env bash
# Folders put together out of whole lines: every reader ends with 3 and names the place. Prints TAP.
# Runs beside others (60 s, 33 s of CPU)
set -u
exec python3 "$(dirname "$0")/tampered.py" "$BUILD/jankscope"

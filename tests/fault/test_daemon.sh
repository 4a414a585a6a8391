#!/usr/bin/env bash
# record --daemon, status and stop: a recording with nobody watching, whose shell goes away, whose
# recorder and keeper are killed, and which ends by itself, by stop, or not at all. Prints TAP.
# Runs beside others (24 s, 2 s of CPU)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - daemon # SKIP needs root"; exit 0; fi
exec python3 "$(dirname "$0")/daemon.py" "$BUILD/jankscope"

#!/usr/bin/env bash
# What strangers broke in earlier versions, judged by the recording alone, so that each version can be
# asked: JANKSCOPE=/path/to/another/jankscope. Prints TAP.
# Runs beside others (39 s)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - rows # SKIP needs root"; exit 0; fi
exec timeout -k 5 "${PART_TIMEOUT:-550}" python3 "$(dirname "$0")/rows_truth.py" "$@"

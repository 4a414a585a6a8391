#!/usr/bin/env bash
# report NEW --baseline OLD: the table against figures that Python works out of the same records, and
# verdicts against differences that were put into them. Prints TAP.
# Runs beside others (8 s)
here=$(cd "$(dirname "$0")" && pwd)
exec python3 "$here/compare_truth.py" "$BUILD/jankscope"

#!/usr/bin/env bash
# report --html without a browser (with one: make check-html). Prints TAP.
# Runs beside others (8 s)
set -u
exec python3 "$(dirname "$0")/html_report.py" "$BUILD/jankscope"

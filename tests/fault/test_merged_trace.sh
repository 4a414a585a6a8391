#!/usr/bin/env bash
# report --perfetto beside a trace of Perfetto's own of the same minutes: both in one file are one
# timeline for Perfetto's trace_processor. Prints TAP. FULL=1: each trace that there is.
# Runs beside others (25 s)
set -u
here=$(cd "$(dirname "$0")" && pwd)
exec python3 "$here/merged_trace.py" "$BUILD/jankscope" "${SHARED:-/nowhere}"

#!/usr/bin/env bash
# Late frames by cause in the outputs of report: OpenMetrics, CSV, Perfetto, HTML, against the records.
# Prints TAP.
# Runs beside others (10 s)
set -u
here=$(cd "$(dirname "$0")" && pwd)
exec python3 "$here/late_reports.py" "$BUILD/jankscope" "${SHARED:-/nowhere}/tools/trace-oracle"

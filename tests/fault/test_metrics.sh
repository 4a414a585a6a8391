#!/usr/bin/env bash
# record --metrics: what a scraper reads is what the records say, over restarts of both, by Prometheus
# itself; and what clients cannot do that ask wrongly, slowly, or much. Prints TAP. FULL=1: 5 minutes.
# Runs beside others (55 s, 9 s of CPU)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - metrics # SKIP needs root"; exit 0; fi
here=$(dirname "$0")
python3 "$here/metrics.py" "$BUILD/jankscope"; hostile=$?
python3 "$here/metrics_prometheus.py" "$BUILD/jankscope" && exit $hostile

#!/usr/bin/env bash
# Foreground, background, cached and frozen processes in real cpusets and cgroups with real
# oom_score_adj, a screen in a made-up /sys, a pid that is given to another process, and a process that
# changes within an interval; in a cgroup namespace and a mount namespace. Prints TAP.
# Runs beside others (11 s)
set -u
cd "$(dirname "$0")/../.." || exit 1
if [ "$(id -u)" != 0 ]; then echo "ok - context # SKIP needs root"; exit 0; fi
exec python3 tests/fault/context.py

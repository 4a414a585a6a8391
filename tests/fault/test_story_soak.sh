#!/usr/bin/env bash
# A soak that nobody watches, step by step (story 3 of users-and-reliability.md §7). Prints TAP.
# Runs beside others (50 s)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - story 3 # SKIP needs root"; exit 0; fi
here=$(cd "$(dirname "$0")" && pwd)
exec python3 "$here/story_soak.py" "$BUILD/jankscope" "$BUILD/tests/apps"

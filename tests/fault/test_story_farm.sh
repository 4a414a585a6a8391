#!/usr/bin/env bash
# A night of a farm, step by step (story 2 of users-and-reliability.md §7). Prints TAP.
# Runs beside others (30 s)
here=$(cd "$(dirname "$0")" && pwd)
exec python3 "$here/story_farm.py" "$BUILD/jankscope"

#!/usr/bin/env bash
# One recording whose names are all hostile, through every output: each is read back by a parser of its
# format that nobody here wrote, and nothing that a terminal obeys comes out. Prints TAP.
# Runs beside others (4 s)
exec python3 "$(dirname "$0")/hostile_names.py" "$BUILD/jankscope"

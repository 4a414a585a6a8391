#!/usr/bin/env bash
# The verdicts of `make soak` about memory, of looks that are made up. Prints TAP.
# Runs beside others (5 s)
exec python3 "$(dirname "$0")/test_soak_judge.py"

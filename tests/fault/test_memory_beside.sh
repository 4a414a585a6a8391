#!/usr/bin/env bash
# The parts of test_memory.sh that wait more than they compute. Prints TAP.
# Runs beside others (75 s, 12 s of CPU)
exec bash "$(dirname "$0")/test_memory.sh" odd_loads memory_bytes

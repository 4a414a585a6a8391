#!/usr/bin/env bash
# Faults that only the whole tool can meet: kills at a rename, quotas, targets that die or come back
# with the same pid, storms of threads, full maps and rings, suspends, steps of the wall clock, many
# rotations, a hidden /proc, want of memory, a power cut. Prints TAP.
# `make check` makes the quick ones; `make check-fault` all of them; FULL=1 as long as the table asks.
# Runs beside others (25 s)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - faults # SKIP needs root"; exit 0; fi
faults=$(dirname "$0")/faults.py
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
lane() { python3 "$faults" "$BUILD" "$@" >"$work/$1" 2>&1; }
if [ -n "${ALL_FAULTS:-}${FULL:-}" ]; then
	# One after the other: some burn all the CPU there is.
	exec python3 "$faults" "$BUILD"
fi
lane renames power &
lane dying wall_clock &
lane same_pid memory suspend &
wait
cat "$work"/*

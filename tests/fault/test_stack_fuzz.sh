#!/usr/bin/env bash
# A few seconds of fuzz targets of the stack readers, from real files, two at a time; `make fuzz` does minutes
# of all of them.
# Runs beside others (36 s)
set -u
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
fuzz() { # KIND
	if [ ! -x "$BUILD/tests/fuzz/fuzz_stack_$1" ]; then
		echo "not ok - fuzz stack $1: not built (make check builds it)"
	elif tests/fuzz/run_stack.sh "$BUILD" "$1" 4 >"$logs/$1" 2>&1; then
		echo "ok - fuzz stack $1: $(sed -n 's/^stat::number_of_executed_units: *//p' "$BUILD/tests/fuzz/stack_$1.log") inputs"
	else
		echo "not ok - fuzz stack $1"
		tail -30 "$logs/$1" | sed 's/^/# /'
	fi
}
export -f fuzz
export logs
printf '%s\n' maps elf unwind wire names jit dex oat zip told | xargs -P 2 -I KIND bash -c 'fuzz KIND'

#!/usr/bin/env bash
# A few seconds of each fuzz target of the stack readers, from real files; `make fuzz` does minutes.
set -u
for kind in maps elf unwind wire names; do
	if [ ! -x "$BUILD/tests/fuzz/fuzz_stack_$kind" ]; then
		echo "not ok - fuzz stack $kind: not built (make check builds it)"
		continue
	fi
	log=$(mktemp)
	if tests/fuzz/run_stack.sh "$BUILD" "$kind" 4 >"$log" 2>&1; then
		echo "ok - fuzz stack $kind: $(sed -n 's/^stat::number_of_executed_units: *//p' "$BUILD/tests/fuzz/stack_$kind.log") inputs"
	else
		echo "not ok - fuzz stack $kind"
		sed 's/^/# /' "$log" | tail -30
	fi
	rm -f "$log"
done

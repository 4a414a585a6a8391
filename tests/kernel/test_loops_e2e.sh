#!/usr/bin/env bash
# Blocks of event loops that nobody here wrote, and main threads that are no loop. Prints TAP.
# Runs beside others (240 s, 16 s of CPU)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - loops # SKIP needs root"; exit 0; fi
for program in loop_qt loop_go loop_cgo LoopJava.class; do
	[ -e "$BUILD/tests/apps/$program" ] ||
		make -s "${BUILD#"$PWD"/}/tests/apps/$program" >/dev/null 2>&1
done
exec timeout -k 5 "${PART_TIMEOUT:-550}" python3 "$(dirname "$0")/loops_truth.py" "$@"

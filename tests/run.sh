#!/usr/bin/env bash
# Run the tests of the named rooms (default: all of them), print each result as TAP, count, and end
# with "N passed, N failed, N skipped".  usage: run.sh BUILD [unit|kernel|trace|fault|vm ...]
#
# A test is a program (BUILD/tests/kernel/*, or tests/ROOM/test_*.sh) that prints TAP lines:
#   ok - name     not ok - name     ok - name # SKIP reason
# A program that ends non-zero without a "not ok" line, or prints no result, counts as one failure.
set -u
cd "$(dirname "$0")/.."
build=$1; shift
export BUILD=$PWD/$build
export SHARED=${SHARED:-$(cd .. && pwd)/shared}
rooms=${*:-unit kernel trace fault vm}
passed=0 failed=0 skipped=0
out=$(mktemp); trap 'rm -f "$out"' EXIT

count() { # name exit-status
	local p f s
	s=$(grep -ciE '^ok .*# *skip' "$out"); p=$(($(grep -cE '^ok\b' "$out") - s)); f=$(grep -cE '^not ok\b' "$out")
	if [ "$2" != 0 ] && [ "$f" = 0 ]; then echo "not ok - $1: exit status $2"; f=1; fi
	if [ $((p + f + s)) = 0 ]; then echo "not ok - $1: printed no result"; f=1; fi
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}
run() { # name command...
	local name=$1 status start=$SECONDS; shift
	echo "# $name"
	timeout --kill-after=10 "${TEST_TIMEOUT:-$([ $room = vm ] && echo 1800 || echo 600)}" "$@" </dev/null 2>&1 | tee "$out"
	status=${PIPESTATUS[0]}
	count "$name" "$status"
	echo "# $name: $((SECONDS - start)) s"
}
for room in $rooms; do
	case $room in
	unit)
		run unit "$BUILD/tests/unit/all" --tap ;;
	kernel)
		if [ "$(id -u)" != 0 ]; then
			echo "ok - kernel tests # SKIP need root"; skipped=$((skipped + 1)); continue
		fi
		for src in tests/kernel/test_*.c; do
			[ -f "$src" ] || continue
			t=$BUILD/tests/kernel/$(basename "$src" .c)
			run "$(basename "$t")" "$t"
		done ;;
	esac
	for t in tests/"$room"/test_*.sh; do
		[ -f "$t" ] && run "$room/$(basename "$t" .sh)" bash "$t"
	done
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

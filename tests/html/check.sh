#!/usr/bin/env bash
# make check-html: the page of report --html in headless Chromium. Prints TAP, and "N passed, N failed".
# usage: check.sh BUILD [SCREENSHOTS]
set -u
cd "$(dirname "$0")/../.."
build=$PWD/$1 work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 tests/html/browser.py "$build/jankscope" "$build/tests/bench/bench_report" "$work" "${2:-$build/html}" 2>&1 | tee "$work/out"
status=${PIPESTATUS[0]} failed=$(grep -c '^not ok' "$work/out") passed=$(grep -c '^ok' "$work/out")
[ "$status" = 0 ] || { echo "not ok - html: exit status $status"; failed=$((failed + 1)); }
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ] && [ "$passed" != 0 ]

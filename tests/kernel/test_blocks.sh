#!/usr/bin/env bash
# Blocks of main threads on the real android::Looper and on Node.js, against the truth that the
# targets write. Prints TAP.
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - blocks # SKIP needs root"; exit 0; fi
if ! command -v python3 >/dev/null; then echo "ok - blocks # SKIP no python3"; exit 0; fi
[ -x "$BUILD/tests/apps/looper" ] || make -s "${BUILD#"$PWD"/}/tests/apps/looper" >/dev/null 2>&1
[ -x "$BUILD/tests/apps/looper" ] || {
	echo "ok - blocks # SKIP NO android::Looper HERE: apt-get install android-libutils-dev"; exit 0; }
exec python3 "$(dirname "$0")/blocks_truth.py" "$BUILD" "$@"

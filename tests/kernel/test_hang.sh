#!/usr/bin/env bash
# The recorder never waits for a target, a disk, a reader or its own helpers. Prints TAP.
# Not beside others: an app that holds its mmap_lock stalls fork() and uprobes of the whole machine.
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - hang # SKIP needs root"; exit 0; fi
[ -x "$BUILD/tests/apps/looper" ] || make -s "${BUILD#"$PWD"/}/tests/apps/looper" >/dev/null 2>&1
# A mount namespace of its own: a FUSE mount that hangs is seen by nobody else, and goes with it.
exec timeout -k 5 "${PART_TIMEOUT:-550}" unshare --mount --propagation private \
	python3 "$(dirname "$0")/hang_truth.py" "$@"

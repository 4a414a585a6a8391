#!/usr/bin/env bash
# The fuzz target of recordings and of the index of a folder over what it starts from, and over each
# input that once crashed.
# `make fuzz` goes on from there for five minutes.
# Runs beside others (1 s)
set -u
shopt -s nullglob
here=$(cd "$(dirname "$0")/../fuzz" && pwd)
target=$BUILD/tests/fuzz/fuzz_recording
if [ ! -x "$target" ]; then echo "not ok - fuzz_recording: $target is not built (make check builds it)"; exit 0; fi
inputs=("$here"/recordings/* "$here"/crashes/recording_*)
if "$target" -timeout=60 "${inputs[@]}" >"$target.log" 2>&1; then
	echo "ok - fuzz_recording: ${#inputs[@]} inputs under ASan and UBSan"
else
	echo "not ok - fuzz_recording"; tail -20 "$target.log" | sed 's/^/# /'
fi

#!/usr/bin/env bash
# Fuzz the readers of recordings.  usage: run_recording.sh BUILD SECONDS
# It starts from tests/fuzz/recordings and from the inputs that once crashed; what is found stays in
# BUILD/tests/fuzz.
set -u
shopt -s nullglob
here=$(cd "$(dirname "$0")" && pwd) out=$1/tests/fuzz seconds=$2
mkdir -p "$out/corpus_recording"
cp "$here"/recordings/* "$here"/crashes/recording_* "$out/corpus_recording/"
exec "$out/fuzz_recording" -max_total_time="$seconds" -max_len=20000 -timeout=20 -rss_limit_mb=1024 \
	-print_final_stats=1 -artifact_prefix="$out/recording_" "$out/corpus_recording" 2>"$out/recording.log" ||
	{ tail -40 "$out/recording.log"; exit 1; }

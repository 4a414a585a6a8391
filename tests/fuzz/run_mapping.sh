#!/usr/bin/env bash
# Fuzz the reader of mappings.  usage: run_mapping.sh BUILD SECONDS
# It starts from tests/fuzz/mappings and from the inputs that once crashed; what is found stays in
# BUILD/tests/fuzz.
set -u
here=$(cd "$(dirname "$0")" && pwd) out=$1/tests/fuzz seconds=$2
mkdir -p "$out/corpus_mapping"
cp "$here"/mappings/* "$here"/crashes/mapping_* "$out/corpus_mapping/"
exec "$out/fuzz_mapping" -max_total_time="$seconds" -max_len=4000 -timeout=20 -rss_limit_mb=2048 \
	-print_final_stats=1 -artifact_prefix="$out/mapping_" "$out/corpus_mapping" 2>"$out/mapping.log" ||
	{ tail -40 "$out/mapping.log"; exit 1; }

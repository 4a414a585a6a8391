#!/usr/bin/env bash
# Fuzz one of the trace readers.  usage: run_trace.sh BUILD container|proto|text|html SECONDS
# The corpus starts from the synthetic traces, from pieces of the real ones and from the inputs that
# once crashed (tests/fuzz/crashes/); what is found stays in BUILD/tests/fuzz.
set -u
build=$1 kind=$2 seconds=$3
shared=${SHARED:-$(cd "$(dirname "$0")/../../.." && pwd)/shared}
out=$build/tests/fuzz corpus=$build/tests/fuzz/corpus_$kind
mkdir -p "$corpus"
cp "$(dirname "$0")"/crashes/* "$corpus/" 2>/dev/null
cp "$shared"/traces/synthetic/* "$corpus/" 2>/dev/null
for trace in "$shared"/traces/*; do
	[ -f "$trace" ] || continue
	head -c 20000 "$trace" >"$corpus/head_$(basename "$trace")"
	tail -c 20000 "$trace" >"$corpus/tail_$(basename "$trace")"
done
chmod -R u+w "$corpus"
exec "$out/fuzz_trace_$kind" -max_total_time="$seconds" -max_len=40000 -timeout=20 -rss_limit_mb=2048 \
	-print_final_stats=1 -artifact_prefix="$out/${kind}_" "$corpus" 2>"$out/$kind.log" ||
	{ tail -40 "$out/$kind.log"; exit 1; }

#!/usr/bin/env bash
# Fuzz one of the readers of words.  usage: run_words.sh BUILD proc|options|control|http SECONDS
# It starts from tests/fuzz/KIND and from the inputs that once crashed; what is found stays in
# BUILD/tests/fuzz.
set -u
shopt -s nullglob
here=$(cd "$(dirname "$0")" && pwd) out=$1/tests/fuzz kind=$2 seconds=$3
mkdir -p "$out/corpus_$kind"
cp "$here/$kind"/* "$here"/crashes/"${kind}"_* "$out/corpus_$kind/"
# What the parsers say of a wrong word goes to stderr, and a state to stdout: neither is wanted here.
exec "$out/fuzz_$kind" -close_fd_mask=3 -max_total_time="$seconds" -max_len=8000 -timeout=20 \
	-rss_limit_mb=1024 -print_final_stats=1 -artifact_prefix="$out/${kind}_" "$out/corpus_$kind" \
	2>"$out/$kind.log" || { tail -40 "$out/$kind.log"; exit 1; }

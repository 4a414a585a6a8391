#!/usr/bin/env bash
# The fuzz targets over what they start from, and over each input that once crashed. `make fuzz`
# goes on from there for five minutes each.
# Runs beside others (20 s)
set -u
here=$(cd "$(dirname "$0")/../fuzz" && pwd)
made=$(mktemp -d); trap 'rm -rf "$made"' EXIT
python3 "$(dirname "$0")/make_traces.py" "$made" || { echo "not ok - make_traces.py"; exit 1; }
for kind in container proto text html; do
	target=$BUILD/tests/fuzz/fuzz_trace_$kind
	if [ ! -x "$target" ]; then
		echo "not ok - fuzz_trace_$kind: $target is not built (make check builds it)"; continue
	fi
	inputs=()
	for f in "$here"/crashes/* "$made"/* "$SHARED"/traces/synthetic/*; do [ -f "$f" ] && inputs+=("$f"); done
	if "$target" -timeout=60 "${inputs[@]}" >"$BUILD/tests/fuzz/$kind.corpus.log" 2>&1; then
		echo "ok - fuzz_trace_$kind: ${#inputs[@]} inputs under ASan and UBSan"
	else
		echo "not ok - fuzz_trace_$kind"; tail -20 "$BUILD/tests/fuzz/$kind.corpus.log" | sed 's/^/# /'
	fi
done

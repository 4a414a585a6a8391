#!/usr/bin/env bash
# The fuzz targets of /proc, the command line, the control socket and --metrics over what they start from, and
# over each input that once crashed. `make fuzz` goes on from there for five minutes each.
# Runs beside others (2 s)
set -u
shopt -s nullglob
here=$(cd "$(dirname "$0")/../fuzz" && pwd)
for kind in proc options control http; do
	target=$BUILD/tests/fuzz/fuzz_$kind
	if [ ! -x "$target" ]; then echo "not ok - fuzz_$kind: $target is not built (make check builds it)"; continue; fi
	inputs=("$here/$kind"/* "$here"/crashes/"${kind}"_*)
	if "$target" -close_fd_mask=3 -timeout=60 "${inputs[@]}" >"$target.log" 2>&1; then
		echo "ok - fuzz_$kind: ${#inputs[@]} inputs under ASan and UBSan"
	else
		echo "not ok - fuzz_$kind"; tail -20 "$target.log" | sed 's/^/# /'
	fi
done

#!/usr/bin/env bash
# `jankscope frames` on traces of 1 GB: MB/s and peak memory, beside trace_processor where that can
# load the file. FRAMES_BENCH_BYTES makes them smaller.
set -u
traces=$SHARED/traces bytes=${FRAMES_BENCH_BYTES:-1000000000}
[ -d "$traces" ] || { echo "bench_frames: $traces is not there"; exit 0; }
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT

measure() { # name command...: seconds, peak and exit status of a command
	python3 - "$@" <<'PYTHON'
import os, resource, subprocess, sys, time
start = time.monotonic()
status = subprocess.run(sys.argv[2:], stdout=open(sys.argv[1], 'w'), stderr=subprocess.DEVNULL).returncode
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f'{time.monotonic() - start:.2f} {usage.ru_utime + usage.ru_stime:.2f} {usage.ru_maxrss} {status}')
PYTHON
}

rate() { awk -v b="$1" -v s="$2" 'BEGIN { printf "%.0f", b / s / 1e6 }'; } # bytes seconds

printf '%-34s %8s %8s %8s %10s %9s\n' "frames: trace" "MB/s" "CPU MB/s" "peak KiB" "limit KiB" "frames"
row() { # label input kind
	local file=$work/trace seconds cpu peak status size frames
	"$BUILD/tests/bench/trace_repeat" "$2" "$file" "$bytes" "$3" >/dev/null || return
	size=$(stat -c %s "$file")
	cat "$file" >/dev/null # both read from the page cache
	read -r seconds cpu peak status < <(measure "$work/out" "$BUILD/jankscope" frames --json "$file")
	frames=$(jq .timeline.actual "$work/out")
	printf '%-34s %8.0f %8.0f %8d %10d %9d\n' "$1" "$(rate "$size" "$seconds")" \
		"$(rate "$size" "$cpu")" "$peak" $((24 * 1024 + frames * 40 / 1024)) "$frames"
	if [ -x "$SHARED/tools/trace-oracle" ] && command -v node >/dev/null; then
		read -r seconds cpu peak status < <(measure "$work/out" timeout 600 "$SHARED/tools/trace-oracle" \
			"$file" 'select count(*) from actual_frame_timeline_slice')
		if [ "$status" = 0 ] && [ "$(sed -n 2p "$work/out")" = "$frames" ]; then
			printf '%-34s %8.0f %8.0f %8d\n' "  trace_processor (wasm) on it" \
				"$(rate "$size" "$seconds")" "$(rate "$size" "$cpu")" "$peak"
		else
			echo "  trace_processor (wasm) cannot load it"
		fi
	fi
	rm -f "$file"
}
row "FrameTimeline only, 120 Hz" "$traces/pixel7pro_a13_120hz_nowinandroid.perfetto-trace" timeline
row "mostly ftrace (sched)" "$traces/emulator_a12_cpuschedstack.pftrace" ftrace
row "markers and FrameTimeline, 60 Hz" "$traces/pixel6a_a13_startup_warm.perfetto-trace" all

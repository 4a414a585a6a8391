#!/usr/bin/env bash
# `jankscope frames` on traces of 1 GB: MB/s by the clock and by CPU time (medians), peak memory and
# what it may be, beside trace_processor where that can load the file. MB/s by the clock is what is
# to be reached; where it is much less than by CPU time, somebody else had the CPU (steal, load).
# FRAMES_BENCH_BYTES makes the traces smaller, FRAMES_BENCH_RUNS says how often (3),
# FRAMES_BENCH_ORACLE=0 leaves trace_processor out.
set -u
traces=$SHARED/traces bytes=${FRAMES_BENCH_BYTES:-1000000000} runs=${FRAMES_BENCH_RUNS:-3}
target=300 # MB/s
[ -d "$traces" ] || { echo "bench_frames: $traces is not there"; exit 0; }
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT

# Medians of the seconds by the clock and by CPU time, the largest peak in KiB, the CPU time that the
# hypervisor kept in percent, and the last exit status.
measure() { # output runs command...
	python3 - "$@" <<'PYTHON'
import resource, statistics, subprocess, sys, time

def stolen():
    with open('/proc/stat') as stat:
        ticks = [int(x) for x in stat.readline().split()[1:9]]
    return ticks[7], sum(ticks)

def cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime

walls, cpus, before = [], [], stolen()
for _ in range(int(sys.argv[2])):
    start, used = time.monotonic(), cpu()
    with open(sys.argv[1], 'w') as out:
        status = subprocess.run(sys.argv[3:], stdout=out, stderr=subprocess.DEVNULL).returncode
    walls.append(time.monotonic() - start)
    cpus.append(cpu() - used)
after = stolen()
steal = 100 * (after[0] - before[0]) / max(1, after[1] - before[1])
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(f'{statistics.median(walls):.3f} {statistics.median(cpus):.3f} {peak} {steal:.1f} {status}')
PYTHON
}

rate() { awk -v b="$1" -v s="$2" 'BEGIN { printf "%.0f", b / s / 1e6 }'; } # bytes seconds

line='%-32s %6s %8s %8s %8s %9s %7s  %s\n'
echo "frames: $bytes bytes, medians of $runs runs, MB/s; to reach: $target by the clock, peak <= 24 MiB + 40 bytes a frame"
printf "$line" "trace" "MB/s" "CPU MB/s" "peak KiB" "limit" "frames" "steal %" ""
row() { # label input kind target|-
	local file=$work/trace seconds cpu peak steal status size frames limit verdict=
	"$BUILD/tests/bench/trace_repeat" "$2" "$file" "$bytes" "$3" >/dev/null || return
	size=$(stat -c %s "$file")
	cat "$file" >/dev/null # both read from the page cache
	read -r seconds cpu peak steal status < <(measure "$work/out" "$runs" "$BUILD/jankscope" frames --json "$file")
	# those that were shown: the ones that are kept until the end
	frames=$(jq '([.layers[].shown] | add) + .timeline.duplicates' "$work/out")
	limit=$((24 * 1024 + frames * 40 / 1024))
	if [ "$status" != 0 ]; then
		verdict="FAILED: exit status $status"
	elif [ "$peak" -gt "$limit" ]; then
		verdict="FAILED: memory"
	elif [ "$4" != - ]; then
		verdict=reached
		[ "$(rate "$size" "$seconds")" -ge "$4" ] || verdict="NOT reached"
	fi
	printf "$line" "$1" "$(rate "$size" "$seconds")" "$(rate "$size" "$cpu")" "$peak" "$limit" "$frames" "$steal" "$verdict"
	if [ "${FRAMES_BENCH_ORACLE:-1}" = 1 ] && [ -x "$SHARED/tools/trace-oracle" ] && command -v node >/dev/null; then
		read -r seconds cpu peak steal status < <(measure "$work/oracle" 1 timeout 600 "$SHARED/tools/trace-oracle" \
			"$file" 'select count(*) from actual_frame_timeline_slice')
		if [ "$status" = 0 ] && [ "$(sed -n 2p "$work/oracle")" = "$(jq .timeline.actual "$work/out")" ]; then
			printf "$line" "  trace_processor (wasm) on it" "$(rate "$size" "$seconds")" "$(rate "$size" "$cpu")" \
				"$peak" "" "" "$steal" "the same rows"
		else
			echo "  trace_processor (wasm) cannot load it"
		fi
	fi
	rm -f "$file"
}
row "FrameTimeline only, 120 Hz" "$traces/pixel7pro_a13_120hz_nowinandroid.perfetto-trace" timeline $target
row "mostly ftrace (sched)" "$traces/emulator_a12_cpuschedstack.pftrace" ftrace $target
row "markers and FrameTimeline, 60 Hz" "$traces/pixel6a_a13_startup_warm.perfetto-trace" all -

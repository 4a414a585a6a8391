#!/usr/bin/env bash
# record --frames FILE: a file may grow, be there before, be replaced, truncated, written anew, or be a
# pipe: no frame is lost in silence, and no interval grows because of it.
# Runs beside others (30 s)
set -u
jankscope=$BUILD/jankscope here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d); trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT
# Where a recording goes that is not there yet.
fresh() { rm -f "$work/records"; echo "$work/records"; }
ok() { if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2"; fi; }

if [ "$(id -u)" != 0 ]; then echo "ok - following a file # SKIP need root"; exit 0; fi
if ! "$jankscope" record --max-lost 100 -d 100ms -q 2>"$work/talk"; then
	echo "not ok - record does not run here: $(head -1 "$work/talk")"; exit 1
fi
python3 "$here/make_traces.py" "$work" || { echo "not ok - make_traces.py"; exit 1; }
app='TX - com.example.app/com.example.app.Main#10' other=L
whole() { # trace layer: [shown, dropped, janky] of the whole trace
	"$jankscope" frames --json "$work/$1" 2>/dev/null | jq -c --arg l "$2" '[.layers[] | select(.layer == $l)][0] | [.shown, .dropped, .janky // 0]'
}
sums() { # layer: the same over all intervals of $work/records
	jq -s -c --arg l "$1" '[.[] | select(.type == "interval") | .frames.layers[]? | select(.layer == $l)] |
		[(map(.shown) | add // 0), (map(.dropped) | add // 0), (map(.janky) | add // 0)]' "$work/records"
}
losses() { jq -s -c '[.[] | select(.type == "interval") | ((.lost // {}) + (.late // {}) + (.repaired // {})) | to_entries[] | select(.key | startswith("frames."))] | group_by(.key) | map({(.[0].key): (map(.value) | add)}) | add // {}' "$work/records"; }
start() { # trace-argument [flags]
	rm -f "$work/records"
	"$jankscope" record --max-lost 100 -i 200ms -a --top 1 -q -o "$(fresh)" --frames "$@" 2>"$work/talk" &
	pid=$!
	for _ in $(seq 100); do grep -q '"type":"header"' "$work/records" 2>/dev/null && break; sleep 0.05; done
}
finish() { kill -INT $pid; wait $pid; status=$?; }
timeline=$(whole timeline.pb "$app") dropped=$(whole dropped.pb $other) game='SurfaceView - com.example.game/com.example.game.Play#0'

# --- grows, in pieces of any size
: >"$work/growing"
start "$work/growing" -d 20s
python3 - "$work/timeline.pb" "$work/growing" <<'PYTHON'
import random, sys, time
data = open(sys.argv[1], 'rb').read()
at = 0
random.seed(4)
with open(sys.argv[2], 'ab', buffering=0) as f:
    while at < len(data):
        n = random.choice((1, 7, 4096, 30000))
        f.write(data[at:at + n])
        at += n
        time.sleep(0.002 if n < 1000 else 0.02)
PYTHON
finish
[ "$(sums "$app")" = "$timeline" ]; ok $? "a file that grows: $(sums "$app"), the whole trace $timeline"

# --- was there before
start "$work/timeline.pb" -d 3s
wait $pid
[ "$(sums "$app")" = "$timeline" ]; ok $? "a file that was there before: $(sums "$app"), the whole trace $timeline"
got=$(jq -s -c '[.[] | select(.type == "interval" and .frames.layers[0]) | .frames.history]' "$work/records")
[ "$(jq -c unique <<<"$got")" = "[true]" ]; ok $? "what it held before the run is marked: $got"
start "$work/dropped.pb" -d 3s
wait $pid
got=$(jq -c 'select(.type == "footer") | [.summary.frames.janky, .summary.frames.jank_pct]' "$work/records")
[ "$(jq -c '[.[0], (.[1] | round)]' <<<"$got")" = "[270,90]" ]; ok $? "the footer's jank is a share of the frames that were to be shown: $got"

# --- replaced before it was read to its end, by a trace of an older clock
head -c 300000 "$work/timeline.pb" >"$work/file"
start "$work/file" -d 20s
sleep 0.5
tail -c +300001 "$work/timeline.pb" >>"$work/file"
cp "$work/late_clock.pb" "$work/next"; cat "$work/dropped.pb" >"$work/next"; mv "$work/next" "$work/file"
sleep 1
finish
[ "$(sums "$app") $(sums $other)" = "$timeline $dropped" ]; ok $? "a file that is replaced: $(sums "$app") $(sums $other), whole: $timeline $dropped, $(losses)"
[ "$(losses | jq -c 'keys')" = '["frames.trace_files_restarted"]' ]; ok $? "and nothing else is lost: $(losses)"

# --- truncated and written anew, shorter; then anew, longer than what was read, at once
cp "$work/timeline.pb" "$work/file"
start "$work/file" -d 20s
sleep 1
cat "$work/dropped.pb" >"$work/file"
sleep 1
cat "$work/systrace.txt" >"$work/file"
sleep 1
finish
want="$timeline $dropped $(whole systrace.txt "$game")"
[ "$(sums "$app") $(sums $other) $(sums "$game")" = "$want" ]; ok $? "a file that is written anew: $(sums "$app") $(sums $other) $(sums "$game"), whole: $want"
[ "$(losses)" = '{"frames.trace_files_restarted":2}' ]; ok $? "each time is counted, and nothing else: $(losses)"

# --- pipes
mkfifo "$work/fifo"
start "$work/fifo" -d 20s
cat "$work/timeline.pb" >"$work/fifo"
sleep 0.5
finish
[ "$(sums "$app")" = "$timeline" ]; ok $? "a FIFO: $(sums "$app"), the whole trace $timeline"
start "$work/fifo" -d 20s
for ((at = 0; at < $(stat -c %s "$work/timeline.pb"); at += 100000)); do tail -c +$((at + 1)) "$work/timeline.pb" | head -c 100000 >"$work/fifo"; done
sleep 0.5
finish
[ "$(sums "$app")" = "$timeline" ] && [ "$(losses)" = '{}' ]; ok $? "a FIFO with one writer after the other: $(sums "$app"), lost $(losses)"
cat "$work/timeline.pb" | "$jankscope" record --max-lost 100 -i 200ms -d 2s -a --top 1 -q -o "$(fresh)" --frames - 2>"$work/talk"; status=$?
[ "$(sums "$app")" = "$timeline" ] && [ $status = 0 ]; ok $? "stdin: $(sums "$app"), status $status"
"$jankscope" record --max-lost 100 -i 200ms -d 3s -a --top 1 -q -o "$(fresh)" --frames - <"$work/timeline.pb" 2>"$work/talk"; status=$?
[ "$(sums "$app")" = "$timeline" ] && [ $status = 0 ]; ok $? "stdin from a file: $(sums "$app"), status $status"

# --- one turn of the loop has a budget: 64 GiB of holes, and the intervals stay what they are
PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 python3 - "$work" <<'PYTHON'
import sys
from make_traces import varint
with open(sys.argv[1] + '/holes.pb', 'wb') as f:
    f.write(open(sys.argv[1] + '/small.pb', 'rb').read())
    f.write(varint(1 << 3 | 2) + varint((1 << 36) - 1))
    f.truncate(64 << 30)
PYTHON
rm -f "$work/records"
timeout 100 "$jankscope" record --max-lost 100 -i 100ms -d 3s -a --top 1 -q -o "$(fresh)" --frames "$work/holes.pb" 2>"$work/talk"; status=$?
# in one piece they take ten seconds and more; on a busy machine a sample comes late by itself
got=$(jq -s '[.[] | select(.type == "interval") | .dur_ns][0:-1] | max / 1e6 | round' "$work/records")
[ "$got" -le 3000 ]; ok $? "64 GiB of holes: the longest interval of 100 ms took $got ms (status $status)"
exit 0

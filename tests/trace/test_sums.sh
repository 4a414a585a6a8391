#!/usr/bin/env bash
# One code for `frames` and `record --frames`: the same sums on the same data, whole or in pieces of
# any size, and what made traces say that was shown.
# Runs beside others (40 s, 4 s of CPU)
set -u
jankscope=$BUILD/jankscope here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
ok() { if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2"; fi; }

python3 "$here/make_traces.py" "$work" || { echo "not ok - make_traces.py"; exit 1; }
# what each layer showed, by how the trace was made
python3 - "$jankscope" "$work" <<'PYTHON'
import json, subprocess, sys
tool, work = sys.argv[1:]
for name, layers in json.load(open(work + '/truth.json')).items():
    run = subprocess.run([tool, 'frames', '--json', f'{work}/{name}'], capture_output=True, text=True)
    got = json.loads(run.stdout or '{"layers":[]}')
    wrong = []
    for layer, truth in layers.items():
        found = [l for l in got['layers'] if l['layer'] == layer and l.get('pid') == truth['pid']]
        if len(found) != 1:
            wrong.append(f'{layer}: {len(found)} times')
        else:
            wrong += [f'{layer}: {key} {found[0].get(key)}, not {value}' for key, value in truth.items() if found[0].get(key) != value]
    known = len(layers) + sum(l['layer'].startswith('Task=') for l in got['layers'])
    others = [l['layer'] for l in got['layers'] if l['layer'] not in layers and l['layer'] != 'Choreographer#doFrame' and not l['layer'].startswith('Task=')]
    if others:
        wrong.append(f'no layers: {others}')
    if next(iter(got['layers']), {}).get('layer', '').startswith('Task='):
        wrong.append('the busiest layer is a container')
    print('not ok' if wrong else 'ok', f'- {name}: {len(layers)} layers as they were made', '; '.join(wrong)[:300])
PYTHON

compare=$BUILD/tests/trace/compare_sums
if [ ! -x "$compare" ]; then echo "not ok - $compare is not built (make check builds it)"; exit 1; fi
traces=("$work"/*.{pb,txt,html,gz,zip})
[ -d "$SHARED/traces" ] && traces+=("$SHARED"/traces/*.* "$SHARED"/traces/synthetic/*)
for trace in "${traces[@]}"; do
	bad=
	for piece in 1 7 4096 1048576 0; do
		# a byte at a time is the same as seven, and slow
		[ $piece = 1 ] && [ "$(stat -c %s "$trace")" -gt 1000000 ] && continue
		flag=
		# its buffers were written one behind the other when the trace ended: it never grew
		[[ $trace = */cuttlefish_a16_app_startup.pftrace ]] && flag=at-once
		[[ $trace = */disorder.pb ]] && flag=disorder
		timeout 120 "$compare" "$trace" $piece $flag >"$work/out" 2>&1 || bad="$bad pieces of $piece: $(head -2 "$work/out" | xargs -0 | tr '\n' ' ')"
	done
	[ -z "$bad" ]; ok $? "$(basename "$trace"): $(tail -1 "$work/out")$bad"
done
[ "$(ls "$work"/*.pb | wc -l)" -ge 9 ]; ok $? "the traces were made"

# --- nothing was drawn
"$jankscope" frames "$work/nothing_drawn.txt" >"$work/out" 2>"$work/talk"; status=$?
[ $status = 4 ] && grep -q 'nothing was drawn' "$work/talk"; ok $? "nothing drawn: exit $status, $(head -1 "$work/talk" | sed "s|$work/||")"
cat >"$work/gfxinfo.txt" <<'DUMP'
** Graphics info for pid 2599 [com.example] **

Stats since: 558712350232182ns
Total frames rendered: 21
Janky frames: 4 (19.05%)
Janky frames (legacy): 16 (76.19%)
50th percentile: 19ms
99th percentile: 200ms
Number Missed Vsync: 1
HISTOGRAM: 5ms=0 6ms=0 16ms=2
50th gpu percentile: 4ms
** Graphics info for pid 2600 [com.example:two] **
Total frames rendered: 0
DUMP
"$jankscope" frames --json "$work/gfxinfo.txt" >"$work/out" 2>"$work/talk"; status=$?
got=$(jq -c '[.gfxinfo[] | [.pid, .package, .total, .janky, .janky_legacy, .p50_ms, .p99_ms, .missed_vsync, .slow_ui]]' "$work/out")
[ $status = 0 ] && [ "$got" = '[[2599,"com.example",21,4,16,19,200,1,null],[2600,"com.example:two",0,null,null,null,null,null,null]]' ]
ok $? "the table of gfxinfo: $got"
"$jankscope" frames "$work/gfxinfo.txt" 2>/dev/null | grep -q '21 drawn, janky 4 (19.05 %)'; ok $? "and as text"

# --- names of layers, and what rows tell
"$jankscope" frames --json --layer 'SurfaceView[com.example.other/com.example.other.Play](BLAST)#12' "$work/timeline.pb" >"$work/out" 2>/dev/null; status=$?
[ $status = 0 ] && [ "$(jq '.layers | length' "$work/out")" = 1 ]; ok $? "--layer with the name to the letter, brackets and all (status $status)"
got=$("$jankscope" frames --json "$work/long_names.pb" 2>/dev/null | jq -c '[.layers[].shown]')
[ "$got" = "[60,60]" ]; ok $? "names that differ behind 1024 bytes are two layers: $got"
got=$("$jankscope" frames --rows "$work/late_clock.pb" 2>/dev/null | sed 1d | cut -f1 | sort -n | sed -n '1p;$p' | xargs)
want=$(python3 -c '
V = 16666667; S = 10**9; start = 20 * S - 4 * V + 1000
last = 20 * S + 119 * V - 2 * V
# MONOTONIC is 10 s behind; from its second snapshot on 7 ns more
print(*[t + 10 * S + (7 if t >= 21 * S else 0) for t in (start, last)])')
[ "$got" = "$want" ]; ok $? "clock snapshots behind the data: the nearest before each event ($got)"
"$jankscope" frames "$work/timeline.pb" >"$work/out" 2>/dev/null
row=$("$jankscope" frames --json "$work/timeline.pb" 2>/dev/null | jq -r '.worst[0] | "\(.ts_ns) \(.surface_frame_token) \(.pid)"')
read -r ts token pid <<<"$row"
"$jankscope" frames --rows "$work/timeline.pb" 2>/dev/null | awk -F'\t' -v ts="$ts" -v token="$token" '$1 == ts && $6 == token {found = 1} END {exit !found}' &&
	grep -q "ts $ts, token $token, pid $pid" "$work/out"; ok $? "the worst frame has the ts and the token of its row: $row"
got=$("$jankscope" frames --json "$work/worst.pb" 2>/dev/null | jq -c '[.worst[] | .do_frame_ns == .surface_frame_token * 1000]')
[ "$got" = "[true,true,true,true,true]" ]; ok $? "each of the worst frames has its own doFrame: $got"
awk '/PID SHOWN/ {getline; exit !($1 == 100)}' "$work/out"; ok $? "the table has the pid"
got=$("$jankscope" frames "$work/timeline_and_slices.pb" 2>/dev/null | grep 'Choreo' | head -1)
[[ $got = *example.drawn ]]; ok $? "a row of doFrames has its process: $got"
got=$("$jankscope" frames --json "$work/timeline.pb" 2>/dev/null | jq -c '[.layers[] | .jank_pct <= 100, (.visible_jank | .total > 0 and .app + .dropped >= .total)] | unique')
[ "$("$jankscope" frames --json "$work/dropped.pb" 2>/dev/null | jq '.layers[0].jank_pct')" = 89.701 ]; ok $? "jank is a share of the frames that were to be shown"
# SM: 60 Hz and then 120 Hz; nobody runs at a rate that the display does not have
got=$("$jankscope" frames --json "$work/timeline.pb" 2>/dev/null | jq -c '.layers[0].sm | [.estimated, .mean < 100, .mean > 60]')
[ "$got" = "[true,true,true]" ]; ok $? "GT SM follows the rate of the display: $("$jankscope" frames --json "$work/timeline.pb" 2>/dev/null | jq -c '.layers[0].sm | [.mean, .min]')"
# a text of newlines is no work
python3 -c "
import gzip, sys
with gzip.open('$work/newlines.gz', 'wb', 9) as f:
    f.write(b'# tracer: nop\n')
    for _ in range(200):
        f.write(b'\n' * (1 << 20))"
timeout 20 "$jankscope" frames "$work/newlines.gz" >/dev/null 2>"$work/talk"; status=$?
[ $status = 4 ]; ok $? "200 MiB of empty lines in $(($(stat -c %s "$work/newlines.gz") / 1024)) KiB: exit $status"
python3 -c "
import gzip
with gzip.open('$work/rows.gz', 'wb', 9) as f:
    for _ in range(200):
        f.write(b'1 2 3\n' * 200000)"
timeout 30 "$jankscope" frames --json "$work/rows.gz" >"$work/out" 2>"$work/talk"; status=$?
[ "$(jq .lost.dump_rows_over_limit "$work/out")" = 39000000 ]; ok $? "40 million rows of a dump: one million are kept (status $status)"
